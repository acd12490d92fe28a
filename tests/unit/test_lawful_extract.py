"""A decision in a receipt that its own rules do not make is an accusation; what is missing is not."""

from dataclasses import replace

import pytest

from agent import AIMessage, DurableAgent, tool
from agent.messages import ToolCall
from governance import Governance
from governance.canonical import payload_bytes
from governance.lawful.check import Fault
from governance.lawful.extract import check_extract
from governance.ledger.checkpoint import parse_verifier_key
from governance.ledger.entry import Kind, Payload
from governance.ledger.receipt_check import verify_receipt
from governance.ledger.report import Status
from governance.receipts import make_receipt

POLICY = """
policy: desk
version: 1
rules:
  - id: small
    match: {tools: [pay]}
    when: args.cents <= 5000
    effect: allow
    allow_tier: critical
  - {id: large, match: {tools: [pay]}, when: args.cents > 5000, effect: deny}
"""


class Model:
    name = "fake"

    async def respond(self, messages, tools):
        if messages[-1].role == "tool":
            return AIMessage(content="done", stop="stop")
        calls = tuple(
            ToolCall(id=str(n), name="pay", arguments=f'{{"cents":{cents}}}')
            for n, cents in enumerate((4000, 9000))
        )
        return AIMessage(tool_calls=calls, stop="tool_calls")


@tool(verb="FINANCIAL", side_effect=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@pytest.fixture(scope="module")
def records():
    """What receipts of an allowed and of a denied call hold, with their rules."""
    with Governance.in_memory(policies={"desk.yaml": POLICY}) as governance:
        DurableAgent(Model(), [pay], governance=governance, name="desk").run("pay", run_id="run-1")
        governance.store.checkpoint()
        key = parse_verifier_key(governance.signer.verifier_key)
        found = []
        for uid in ("run-1/1.0", "run-1/1.1"):
            made = governance.store.read(
                lambda reader, uid=uid: make_receipt(reader, uid, key, rules=True)
            )
            found.append(verify_receipt(made.to_bytes(), [key]).records)
    return found


def kinds(report) -> list[str]:
    return [finding.kind for finding in report.findings]


def rewritten(records, kind, **body):
    """The records as somebody with the log's key might have written them."""
    return [
        replace(r, entry=replace(r.entry, body={**r.entry.body, **body}))
        if r.entry.kind is kind
        else r
        for r in records
    ]


def without(records, kind, name):
    return [
        replace(r, payloads={n: p for n, p in r.payloads.items() if n != name})
        if r.entry.kind is kind
        else r
        for r in records
    ]


def test_honest_decisions_are_made_again_and_the_rest_stays_open(records):
    for of_call in records:
        report = check_extract(of_call)
        assert report.decisions_checked >= 1
        assert report.skipped == 0
        assert report.findings == ()
        assert report.verdict is Status.NOT_CHECKED


@pytest.mark.attack
@pytest.mark.parametrize(
    "body",
    [
        {"effect": "allow"},
        {"effect": "require_approval"},
        {"rules": ["desk/small"]},
        {"tier": "low"},
        {"steps": 1},
        {"reasons": ["no-rule"]},
        {"effect": None},
    ],
)
def test_a_decision_its_rules_do_not_make_is_an_accusation(records, body):
    report = check_extract(rewritten(records[1], Kind.CALL_DECIDED, **body))
    assert report.verdict is Status.FAILED
    assert kinds(report) == [Fault.DECISION_DIFFERS]


@pytest.mark.attack
def test_other_rules_than_were_activated_are_an_accusation(records):
    def lax(record):
        text = record.content("text")
        other = {name: body.replace("5000", "50000") for name, body in text.items()}
        payload = Payload("text", bytes(32), payload_bytes(other))
        entry = replace(record.entry, payloads={"text": payload.commitment})
        return replace(record, entry=entry, payloads={"text": payload})

    of_call = [lax(r) if r.entry.kind is Kind.POLICY_ACTIVATED else r for r in records[1]]
    report = check_extract(of_call)
    assert report.verdict is Status.FAILED
    assert kinds(report) == [Fault.POLICY_DIFFERS]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.CALL_DECIDED, "args"),
        (Kind.CALL_DECIDED, "input"),
        (Kind.POLICY_ACTIVATED, "text"),
    ],
)
def test_what_is_withheld_accuses_nobody(records, kind, name):
    report = check_extract(without(records[0], kind, name))
    assert report.verdict is Status.NOT_CHECKED
    assert report.findings == ()
    assert report.decisions_checked == 0
    assert report.skipped >= 1


def test_rules_that_come_after_the_decision_do_not_count(records):
    report = check_extract(records[0][::-1])
    assert report.decisions_checked == 0


@pytest.mark.attack
@pytest.mark.parametrize("body", [{"policy": []}, {"first": {}}, {"policy": {"a": 1}}])
def test_hostile_bodies_are_findings(records, body):
    report = check_extract(rewritten(records[0], Kind.CALL_DECIDED, **body))
    assert set(kinds(report)) == {Fault.UNREADABLE}
    assert report.verdict is Status.FAILED


def test_nothing_is_judged_in_nothing():
    assert check_extract([]).verdict is Status.NOT_CHECKED
