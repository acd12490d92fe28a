"""A real history is lawful; one in which a single rule was broken is not, and the place is named.

The forger here holds the log's key and rewrites everything that follows from a change: links, heads,
cards, subjects, signatures. So integrity holds, and only the law can tell.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import AIMessage, Approve, Approver, DurableAgent, create_agent, tool
from agent.messages import ToolCall, Usage
from governance import Governance
from governance.approval.model import Verdict
from governance.assemble import KeySigner
from governance.canonical import payload_bytes
from governance.errors import GovernanceError
from governance.gate import Environment
from governance.ids import Micros, Origin, RequestId, RunId, SubjectId
from governance.lawful.approvals import subject_digest, subject_of, vote_message
from governance.lawful.cards import card_of
from governance.lawful.check import Fault, LawfulReport, check
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    seal,
)
from governance.ledger.report import FINDINGS_MAX, Status
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import Principal
from governance.policy.working import working
from governance.ports import Person
from governance.queue import Ballot, card, pending, vote
from governance.rulebook import Rulebook
from governance.store.memory import MemoryStore

pytestmark = pytest.mark.attack

ORIGIN = Origin("acme.example/agents")
SIGNER = KeySigner.from_seed(ORIGIN, b"s" * 32)
STRANGER = KeySigner.from_seed(ORIGIN, b"x" * 32)
RUN = RunId("run-1")
CUSTOMER = "user:customer"
HOUR = 3_600_000_000
TEXT = """
policy: desk
version: 2
rules:
  - {id: reads, match: {verbs: [READ]}, effect: allow}
  - id: small
    match: {tools: [refund, mail]}
    when: args.cents <= 5000
    effect: allow
    allow_tier: critical
  - id: large
    match: {tools: [refund, mail]}
    when: args.cents > 5000
    effect: require_approval
    approval: {quorum: [{role: finance, count: 2}], decide_by: 4h, use_by: 1h}
    message: "'refund of ' + string(args.cents)"
  - {id: never, match: {tools: [wipe]}, effect: deny}
"""
LAX = TEXT.replace("effect: deny", "effect: allow").replace("5000", "5000000")
POLICIES = load_policies({"desk.yaml": TEXT})


@tool(verb="READ", side_effect=False, untrusted_output=True)
def lookup(order: int) -> str:
    """Look an order up."""
    return "a lamp for eve"


@tool(verb="FINANCIAL", side_effect=True)
def refund(cents: int, to: str) -> str:
    """Pay money back."""
    if cents == 13:
        raise ValueError(cents)
    return "paid"


@tool(verb="NETWORK", side_effect=True, idempotent=True)
def mail(cents: int) -> str:
    """Send a confirmation."""
    return "sent"


@tool(verb="DELETE", side_effect=True)
def wipe(customer: str) -> str:
    """Delete a customer."""
    return "wiped"


class Script:
    name = "scripted"

    def __init__(self, *turns: AIMessage) -> None:
        self.turns = list(turns)

    async def respond(self, messages: object, tools: object) -> AIMessage:
        return self.turns.pop(0)


class Died(BaseException):
    pass


def die(point: str) -> None:
    if point == "after-effect":
        raise Died


def nothing(point: str) -> None: ...


def proposes(*calls: tuple[str, str]) -> AIMessage:
    made = tuple(ToolCall(id="x", name=name, arguments=text) for name, text in calls)
    return AIMessage(tool_calls=made, stop="tool_calls", usage=Usage(input=10, output=3))


BYE = AIMessage(content="bye")


def installation(text: str = TEXT) -> Governance:
    """An installation with a clock and ids of its own, and two people in finance."""
    moments = iter(range(1_000_000_000_000, 2_000_000_000_000, 1000))
    ids, salts = iter(range(10_000)), iter(range(1, 100_000))

    def clock() -> Micros:
        return Micros(next(moments))

    store = MemoryStore(ORIGIN, SIGNER, clock, lambda size: next(salts).to_bytes(size, "big"))
    for name in ("ann", "bob"):
        person = Person(SubjectId(f"user:{name}"), name, frozenset({"finance"}), active=True)
        store.write(lambda tx, person=person: tx.people.put(person))
    return Governance(
        store=store,
        signer=SIGNER,
        rulebook=Rulebook.of(load_policies({"desk.yaml": text})),
        environment=Environment(),
        clock=clock,
        new_id=lambda prefix: f"{prefix}-{next(ids)}",
    )


def agent(governance: Governance, *turns: AIMessage, **options: Any) -> DurableAgent:
    model = Script(*turns, BYE)
    tools = [lookup, refund, mail, wipe]
    return DurableAgent(model, tools, governance=governance, name="desk", **options)


def answer(governance: Governance, request: RequestId, name: str, verdict: Verdict) -> None:
    shown = card(governance.store, request).digest
    who = SubjectId(f"user:{name}")
    ballot = Ballot(request, who, verdict, verdict.value, "seen", shown)
    vote(governance.store, governance.clock, governance.signer, ballot)


def records(governance: Governance) -> list[Record]:
    return list(governance.store.read(lambda reader: reader.records()))


@functools.cache
def desk() -> tuple[Record, ...]:
    """One run: refusals, allowed calls, a failure, one call granted by two people, one rejected."""
    governance = installation()
    driver = agent(
        governance,
        proposes(
            ("lookup", '{"order":7}'),
            ("nope", "{}"),
            ("refund", "[]"),
            ("wipe", '{"customer":"eve"}'),
        ),
        proposes(
            ("refund", '{"cents":100,"to":"ada"}'),
            ("refund", '{"cents":13,"to":"eve"}'),
            ("refund", '{"cents":9900,"to":"ada"}'),
            ("refund", '{"cents":9901,"to":"bob"}'),
        ),
        proposes(("refund", '{"cents":9901,"to":"bob"}'), ("refund", '{"cents":5,"to":"ada"}')),
    )
    driver.run("please refund ada", run_id=RUN, principal=Principal(SubjectId(CUSTOMER)))
    first, second = [line.request for line in pending(governance.store, governance.clock())]
    answer(governance, first, "ann", Verdict.APPROVE)
    answer(governance, first, "bob", Verdict.APPROVE)
    answer(governance, second, "bob", Verdict.REJECT)
    assert driver.resume(RUN).status == "completed"
    return tuple(records(governance))


@functools.cache
def crashed(name: str = "mail", cents: int = 5) -> tuple[Record, ...]:
    """One run whose driver dies during a call, and that is resumed."""
    governance = installation()
    arguments = {"mail": '{"cents":%d}', "refund": '{"cents":%d,"to":"ada"}'}[name] % cents
    doomed = agent(governance, proposes((name, arguments)), failpoint=die)
    with pytest.raises(Died):
        doomed.run("mail ada", run_id=RUN)
    agent(governance).resume(RUN)
    return tuple(records(governance))


# --- honest histories -------------------------------------------------------------------------------


def found(report: LawfulReport) -> list[tuple[str, int | None]]:
    return [(finding.kind.value, finding.seq) for finding in report.findings]


def test_a_real_run_is_lawful() -> None:
    report = check(desk())
    assert (found(report), report.verdict) == ([], "ok")
    assert (report.decisions_checked, report.starts_checked, report.votes_checked) == (13, 5, 3)
    assert report.skipped == 0
    assert report.ok


def test_a_repeated_idempotent_call_is_lawful() -> None:
    history = crashed()
    assert [r.entry.kind for r in history].count(Kind.CALL_STARTED) == 2
    assert found(check(history)) == []


def test_a_call_of_unknown_outcome_that_waits_is_lawful() -> None:
    history = crashed("refund")
    assert history[-1].entry.body["unknown"] == [f"{RUN}/1.0"]
    assert found(check(history)) == []


def test_a_repeated_idempotent_call_goes_on_under_the_yes_it_has() -> None:
    governance = installation()
    agent(governance, proposes(("mail", '{"cents":9900}'))).run("pay", run_id=RUN)
    (held,) = pending(governance.store, governance.clock())
    answer(governance, held.request, "ann", Verdict.APPROVE)
    answer(governance, held.request, "bob", Verdict.APPROVE)
    with contextlib.suppress(Died):
        agent(governance, failpoint=die).resume(RUN)
    agent(governance).resume(RUN)
    history = records(governance)
    assert history[-1].entry.kind is Kind.RUN_COMPLETED
    report = check(history)
    assert (found(report), report.starts_checked, report.votes_checked) == ([], 2, 2)


def test_runs_that_interleave_are_lawful() -> None:
    governance = installation()
    for run in ("a", "b"):
        agent(governance, proposes(("refund", '{"cents":9900,"to":"ada"}'))).run("pay", run_id=run)
    for held in pending(governance.store, governance.clock()):
        answer(governance, held.request, "ann", Verdict.APPROVE)
    for held in pending(governance.store, governance.clock()):
        answer(governance, held.request, "bob", Verdict.APPROVE)
    assert {agent(governance).resume(run).status for run in ("b", "a")} == {"completed"}
    assert found(check(records(governance))) == []


def test_two_runs_with_rules_changed_between_them_are_lawful() -> None:
    governance = installation()
    agent(governance, proposes(("lookup", '{"order":1}'))).run("look", run_id="a")
    stricter = replace(
        governance,
        rulebook=Rulebook.of(load_policies({"d": TEXT.replace("version: 2", "version: 3")})),
    )
    agent(stricter, proposes(("lookup", '{"order":1}'))).run("look", run_id="b")
    report = check(records(governance))
    assert (found(report), report.decisions_checked) == ([], 2)


def test_a_cancelled_run_and_an_expired_request_are_lawful() -> None:
    governance = installation()
    driver = agent(governance, proposes(("refund", '{"cents":9900,"to":"ada"}')))
    driver.run("pay", run_id="a")
    driver.cancel("a")
    driver = agent(governance, proposes(("refund", '{"cents":9900,"to":"ada"}')))
    driver.run("pay", run_id="b")
    late = replace(governance, clock=lambda: Micros(governance.clock() + 5 * HOUR))
    assert agent(late).resume("b").status == "completed"
    kinds = [record.entry.kind for record in records(governance)]
    assert {Kind.APPROVAL_WITHDRAWN, Kind.APPROVAL_EXPIRED} <= set(kinds)
    assert found(check(records(governance))) == []


def test_an_approver_at_hand_votes_lawfully() -> None:
    governance = installation()
    inline = Approver(lambda _asked: Approve("fine"), roles=frozenset({"finance"}))
    weaker = load_policies({"d": TEXT.replace("count: 2", "count: 1")})
    one = replace(governance, rulebook=Rulebook.of(weaker))
    model = Script(proposes(("refund", '{"cents":9900,"to":"ada"}')), BYE)
    create_agent(model, [refund], governance=one, approver=inline)("pay ada")
    report = check(records(governance))
    assert (found(report), report.votes_checked, report.starts_checked) == ([], 1, 1)


def test_progress_is_told_and_nothing_proves_nothing() -> None:
    told: list[int] = []
    check(desk(), told.append)
    assert told == [len(desk())]
    assert check([]).verdict is Status.NOT_CHECKED
    partial = check(desk()[3:])
    assert (found(partial), partial.verdict) == ([("log-partial", 3)], "not-checked")


# --- a forger ---------------------------------------------------------------------------------------


@dataclass
class Step:
    """An entry before it is sealed again. `was` names it to others; `pinned` fields are not repaired."""

    was: int
    kind: Kind
    actor: str
    body: dict[str, Any]
    payloads: dict[str, tuple[bytes, Any]]
    ts: int
    run: str | None = RUN
    behalf: str | None = CUSTOMER
    pinned: set[str] = field(default_factory=set)

    @property
    def input(self) -> dict[str, Any]:
        return self.payloads["input"][1]


class Story:
    """A history to tamper with."""

    def __init__(self, history: Iterable[Record]) -> None:
        self.steps = [self._step(record) for record in history]
        self._next = 1000

    @staticmethod
    def _step(record: Record) -> Step:
        entry = record.entry
        payloads = {name: (p.salt, record.content(name)) for name, p in record.payloads.items()}
        body = copy.deepcopy(dict(entry.body))
        return Step(
            entry.seq,
            entry.kind,
            entry.actor,
            body,
            payloads,
            entry.ts,
            entry.run,
            entry.on_behalf_of,
        )

    def find(self, kind: Kind, call: str = "", nth: int = 0) -> Step:
        """The `nth` step of `kind`; with `call` (`2.2`) about that call or about its request."""
        asked = {
            s.body["request"]: s.body["uid"] for s in self.steps if s.kind == "approval.requested"
        }
        uid = f"{RUN}/{call}"

        def is_about(step: Step) -> bool:
            about = step.body.get("uid") or asked.get(step.body.get("request", ""))
            return step.kind is kind and (not call or about == uid)

        return [step for step in self.steps if is_about(step)][nth]

    def after(self, place: Step, kind: Kind, body: dict[str, Any], **payloads: Any) -> Step:
        salted = {name: (b"n" * 32, value) for name, value in payloads.items()}
        step = Step(self._next, kind, "agent:desk", body, salted, place.ts, place.run, place.behalf)
        self._next += 1
        self.steps.insert(self.steps.index(place) + 1, step)
        return step

    def drop(self, *steps: Step) -> None:
        self.steps = [step for step in self.steps if step not in steps]

    def later(self, since: Step, us: int) -> None:
        for step in self.steps[self.steps.index(since) :]:
            step.ts += us
            if step.kind is Kind.APPROVAL_GRANTED and since.kind is not Kind.APPROVAL_USED:
                step.body["use_by"] += us

    def seq(self, step: Step) -> int:
        return self.steps.index(step)

    def seal(self) -> list[Record]:
        sealed: list[Record] = []
        rlinks: dict[str, RunLink] = {}
        prev = genesis(ORIGIN)
        for seq, original in enumerate(self.steps):
            step = replace(original, body=copy.deepcopy(original.body))
            self._repair(step, sealed)
            payloads = {
                n: Payload(n, salt, payload_bytes(v)) for n, (salt, v) in step.payloads.items()
            }
            run = RunId(step.run) if step.run else None
            behalf = SubjectId(step.behalf) if step.behalf else None
            draft = Draft(step.kind, SubjectId(step.actor), step.body, {}, run, behalf)
            rlink = rlinks.get(step.run, RunLink(0, RUN_START)) if step.run else None
            commitments = {name: payload.commitment for name, payload in payloads.items()}
            entry = seal(draft, ORIGIN, Link(seq, prev, Micros(step.ts)), rlink, commitments)
            prev = entry.hash
            if rlink is not None and step.run:
                rlinks[step.run] = RunLink(rlink.rseq + 1, entry.hash)
            sealed.append(Record(entry, payloads))
        return sealed

    def _repair(self, step: Step, sealed: list[Record]) -> None:
        """Make `step` agree with what now stands before it, as a forger with the log's key would."""
        seqs = {step.was: seq for seq, step in enumerate(self.steps)}
        for name in {"decision", "first"} & step.body.keys() - step.pinned:
            step.body[name] = seqs.get(step.body[name], 0)
        if "votes" in step.body:
            step.body["votes"] = [seqs[seq] for seq in step.body["votes"] if seq in seqs]
        of_run = [record for record in sealed if record.entry.run == step.run]
        if step.kind is Kind.APPROVAL_REQUESTED and "subject" not in step.pinned:
            decided = sealed[step.body["decision"]].entry
            with contextlib.suppress(GovernanceError):  # where there is none, the old one stays
                subject = subject_of(of_run[0].entry, decided)
                step.body["subject"] = subject_digest(subject).hex()
        if step.kind is Kind.APPROVAL_VOTED:
            self._sign(step, sealed[-1], of_run)

    @staticmethod
    def _sign(step: Step, before: Record, of_run: list[Record]) -> None:
        repaired: dict[str, Any] = {
            "at": step.ts,
            "voter": step.actor,
            "head": {"seq": before.entry.seq, "hash": before.entry.hash.hex()},
        }
        with contextlib.suppress(GovernanceError):  # where there is none, the old one stays
            repaired["card"] = card_of(of_run, step.body["request"]).digest.hex()
        step.body |= {name: value for name, value in repaired.items() if name not in step.pinned}
        signature = SIGNER.sign(vote_message(step.body)).hex()
        if "signatures" not in step.pinned:
            step.body["signatures"] = [{"key": SIGNER.verifier_key, "signature": signature}]


def redecide(step: Step, args: Any = None) -> None:
    """Make the decision that policy makes of the input as it now stands."""
    asked = {**step.input, "args": args or step.payloads["args"][1]}
    decision = decide(POLICIES, asked)
    step.body = {n: v for n, v in step.body.items() if n in {"uid", "tool", "definition", "first"}}
    step.body |= decision.to_json()
    told = {"message": decision.message, "working": working(POLICIES, asked, decision)}
    for name, content in told.items():
        step.payloads.pop(name, None)
        if content is not None:
            step.payloads[name] = (name[:1].encode() * 32, content)


def test_a_forger_who_changes_nothing_gets_the_same_log() -> None:
    for history in (desk(), crashed()):
        again = Story(history).seal()
        assert [r.entry.hash for r in again] == [r.entry.hash for r in history]


# --- what is forged ---------------------------------------------------------------------------------

Forgery = Callable[[Story], tuple[Fault, Step]]
FORGERIES: list[Forgery] = []


def forgery(forge: Forgery) -> Forgery:
    FORGERIES.append(forge)
    return forge


# decisions


@forgery
def policy_is_activated_by_nobody(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.0")
    decided.body["policy"] = "ab" * 32
    return Fault.POLICY_UNKNOWN, decided


@forgery
def policy_is_activated_too_late(story: Story) -> tuple[Fault, Step]:
    activated = story.find(Kind.POLICY_ACTIVATED)
    decided = story.find(Kind.CALL_DECIDED, "1.0")
    story.drop(activated)
    story.steps.insert(story.steps.index(decided) + 1, activated)
    activated.ts = decided.ts
    return Fault.POLICY_UNKNOWN, decided


@forgery
def policy_text_is_another(story: Story) -> tuple[Fault, Step]:
    activated = story.find(Kind.POLICY_ACTIVATED)
    activated.payloads["text"] = (b"t" * 32, {"desk.yaml": LAX})
    return Fault.POLICY_DIFFERS, activated


@forgery
def policy_version_is_another(story: Story) -> tuple[Fault, Step]:
    activated = story.find(Kind.POLICY_ACTIVATED)
    activated.body["versions"] = {"desk": 9}
    return Fault.POLICY_DIFFERS, activated


@forgery
def policy_text_is_none(story: Story) -> tuple[Fault, Step]:
    activated = story.find(Kind.POLICY_ACTIVATED)
    activated.payloads["text"] = (b"t" * 32, {"desk.yaml": "policy: ["})
    return Fault.POLICY_DIFFERS, activated


def activate(story: Story, version: int, after: Step) -> Step:
    policies = load_policies({"d": TEXT.replace("version: 2", f"version: {version}")})
    body = {
        "policy": policies.digest.hex(),
        "versions": dict(policies.versions),
        "engine": policies.engine,
    }
    step = story.after(after, Kind.POLICY_ACTIVATED, body, text=dict(policies.files))
    step.run, step.actor, step.behalf = None, "system:gate", None
    return step


@forgery
def policy_was_superseded(story: Story) -> tuple[Fault, Step]:
    activate(story, 3, story.find(Kind.POLICY_ACTIVATED))
    return Fault.POLICY_SUPERSEDED, story.find(Kind.CALL_DECIDED, "1.0")


@forgery
def policy_goes_back(story: Story) -> tuple[Fault, Step]:
    return Fault.POLICY_ROLLED_BACK, activate(story, 1, story.find(Kind.POLICY_ACTIVATED))


@forgery
def denial_is_flipped(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.3")
    decided.body["effect"] = "allow"
    return Fault.DECISION_DIFFERS, decided


@forgery
def rule_is_blamed_falsely(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.3")
    decided.body["rules"] = ["desk/other"]
    return Fault.DECISION_DIFFERS, decided


@forgery
def demands_of_a_decision_are_lowered(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2")
    decided.body["demands"]["quorum"][0]["count"] = 1
    return Fault.DECISION_DIFFERS, decided


@forgery
def people_are_told_another_message(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2")
    decided.payloads["message"] = (b"m" * 32, "refund of 9 cents")
    return Fault.DECISION_DIFFERS, decided


@forgery
def clause_is_said_to_have_failed(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2")
    clauses = decided.payloads["working"][1]["clauses"]
    next(said for said in clauses.values() if said)[0][1] = False
    return Fault.DECISION_DIFFERS, decided


@forgery
def tier_is_put_down_to_something_else(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2")
    decided.payloads["working"][1]["tier"][0][0] = "declared"
    return Fault.DECISION_DIFFERS, decided


@forgery
def working_is_left_out(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2")
    del decided.payloads["working"]
    return Fault.DECISION_DIFFERS, decided


def input_edit(name: str, call: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    def forge(story: Story) -> tuple[Fault, Step]:
        decided = story.find(Kind.CALL_DECIDED, call)
        edit(decided.input)
        redecide(decided)
        return Fault.INPUT_DIFFERS, decided

    forge.__name__ = f"input_{name}"
    FORGERIES.append(forge)


input_edit("tool_looks_harmless", "2.2", lambda i: i["tool"].update(verb="READ", risk_tier="low"))
input_edit("tool_is_another", "1.3", lambda i: i["tool"].update(name="lookup"))
input_edit("principal_has_a_role", "1.3", lambda i: i["principal"].update(roles=["admin"]))
input_edit("agent_is_another", "1.3", lambda i: i["agent"].update(id="agent:root"))
input_edit("run_is_untainted", "2.0", lambda i: i["run"].update(untrusted=False))
input_edit("run_flag_is_a_number", "2.0", lambda i: i["run"].update(untrusted=1))
input_edit("run_has_no_taint_at_all", "2.0", lambda i: i["run"].pop("untrusted"))
input_edit("calls_are_uncounted", "2.2", lambda i: i["run"].update(calls={}))
input_edit("sums_are_uncounted", "2.2", lambda i: i["run"].update(sums={}))
input_edit("tokens_are_uncounted", "2.2", lambda i: i["run"].update(tokens=0))
input_edit("failures_are_uncounted", "3.1", lambda i: i["run"].update(failures=0))
input_edit("refusals_are_uncounted", "3.1", lambda i: i["run"].update(turn_refused=0))
input_edit("moment_is_earlier", "2.2", lambda i: i.update(now=i["now"] - HOUR))
input_edit("text_is_the_users", "2.3", lambda i: i["args_origin"].update(to="user"))


@forgery
def allowance_without_input(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.0")
    del decided.payloads["input"]
    return Fault.DECISION_UNFOUNDED, decided


@forgery
def refusal_for_no_known_reason(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.1")
    decided.body["reasons"] = ["mood"]
    return Fault.DECISION_UNFOUNDED, decided


@forgery
def refusal_by_a_rejection_that_never_was(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.1")
    decided.body["reasons"] = ["rejected-before"]
    return Fault.DECISION_UNFOUNDED, decided


@forgery
def tool_was_never_registered(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.TOOL_REGISTERED))
    return Fault.TOOL_UNKNOWN, story.find(Kind.CALL_DECIDED, "1.0")


@forgery
def call_was_never_proposed(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "1.1")
    decided.body["uid"] = f"{RUN}/1.9"
    return Fault.CALL_UNPROPOSED, decided


@forgery
def model_proposed_another_tool(story: Story) -> tuple[Fault, Step]:
    responded = story.find(Kind.MODEL_RESPONDED)
    responded.payloads["message"][1]["tool_calls"][0]["name"] = "wipe"
    return Fault.CALL_UNPROPOSED, story.find(Kind.CALL_DECIDED, "1.0")


@forgery
def turn_repeats_the_calls_of_another(story: Story) -> tuple[Fault, Step]:
    responded = story.find(Kind.MODEL_RESPONDED, nth=2)
    responded.body["turn"] = 2
    return Fault.CALL_UNPROPOSED, responded


@forgery
def refused_call_is_decided_again(story: Story) -> tuple[Fault, Step]:
    denied = story.find(Kind.CALL_DECIDED, "1.3")
    again = story.after(denied, Kind.CALL_DECIDED, {**denied.body, "first": denied.was})
    again.payloads = {name: denied.payloads[name] for name in ("input",)}
    return Fault.DECISION_REPEATED, again


@forgery
def other_arguments_are_decided_once_people_agreed(story: Story) -> tuple[Fault, Step]:
    decided = story.find(Kind.CALL_DECIDED, "2.2", nth=1)
    del decided.body["first"]
    decided.payloads["args"] = (b"a" * 32, {"cents": 999_999, "to": "eve"})
    redecide(decided)
    return Fault.DECISION_UNFOUNDED, decided


# starts and outcomes


def started(uid: str, decision: int, **more: Any) -> dict[str, Any]:
    return {"uid": f"{RUN}/{uid}", "attempt": 1, "key": "k", "decision": decision, **more}


@forgery
def start_without_decision(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.CALL_DECIDED, "3.1"))
    return Fault.START_UNDECIDED, story.find(Kind.CALL_STARTED, "3.1")


@forgery
def start_names_another_decision(story: Story) -> tuple[Fault, Step]:
    start = story.find(Kind.CALL_STARTED, "2.2")
    start.body["decision"] = story.find(Kind.CALL_DECIDED, "2.2").was
    return Fault.START_UNDECIDED, start


@forgery
def start_of_a_denied_call(story: Story) -> tuple[Fault, Step]:
    denied = story.find(Kind.CALL_DECIDED, "1.3")
    return Fault.START_DENIED, story.after(denied, Kind.CALL_STARTED, started("1.3", denied.was))


@forgery
def start_of_a_rejected_call(story: Story) -> tuple[Fault, Step]:
    rejected = story.find(Kind.APPROVAL_REJECTED)
    decided = story.find(Kind.CALL_DECIDED, "2.3")
    return Fault.START_DENIED, story.after(rejected, Kind.CALL_STARTED, started("2.3", decided.was))


@forgery
def start_of_a_held_call(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.3")
    decided = story.find(Kind.CALL_DECIDED, "2.3")
    return Fault.START_UNAPPROVED, story.after(
        asked, Kind.CALL_STARTED, started("2.3", decided.was)
    )


@forgery
def start_before_anybody_answered(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.3")
    decided = story.find(Kind.CALL_DECIDED, "2.3")
    body = started("2.3", decided.was, request=asked.body["request"])
    return Fault.START_UNAPPROVED, story.after(asked, Kind.CALL_STARTED, body)


@forgery
def start_under_the_approval_of_another_call(story: Story) -> tuple[Fault, Step]:
    used, granted = story.find(Kind.APPROVAL_USED), story.find(Kind.APPROVAL_GRANTED)
    again = story.after(granted, Kind.APPROVAL_USED, dict(used.body))
    decided = story.find(Kind.CALL_DECIDED, "2.3")
    body = started("2.3", decided.was, request=used.body["request"])
    return Fault.START_UNAPPROVED, story.after(again, Kind.CALL_STARTED, body)


@forgery
def start_without_using_its_approval(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.APPROVAL_USED))
    return Fault.START_UNAPPROVED, story.find(Kind.CALL_STARTED, "2.2")


@forgery
def start_after_its_outcome(story: Story) -> tuple[Fault, Step]:
    start = story.find(Kind.CALL_STARTED, "1.0")
    finished = story.find(Kind.CALL_FINISHED, "1.0")
    body = {**start.body, "attempt": 2}
    return Fault.START_REPEATED, story.after(finished, Kind.CALL_STARTED, body)


@forgery
def start_while_running(story: Story) -> tuple[Fault, Step]:
    start = story.find(Kind.CALL_STARTED, "1.0")
    return Fault.START_REPEATED, story.after(start, Kind.CALL_STARTED, dict(start.body))


@forgery
def start_skips_an_attempt(story: Story) -> tuple[Fault, Step]:
    start = story.find(Kind.CALL_STARTED, "1.0")
    start.body["attempt"] = story.find(Kind.CALL_FINISHED, "1.0").body["attempt"] = 2
    return Fault.START_REPEATED, start


@forgery
def start_after_the_end(story: Story) -> tuple[Fault, Step]:
    start, end = story.find(Kind.CALL_STARTED, "3.1"), story.find(Kind.RUN_COMPLETED)
    end.kind, end.body = Kind.RUN_CANCELLED, {"iterations": 3, "calls": 1}
    story.drop(end)
    end.ts = start.ts
    # Somebody else's call is in flight, so that the run is not closed yet.
    running = story.after(story.find(Kind.CALL_DECIDED, "3.1"), Kind.CALL_STARTED, {**start.body})
    story.steps.insert(story.steps.index(start), end)
    assert story.seq(running) < story.seq(end) < story.seq(start)
    return Fault.START_AFTER_END, start


@forgery
def run_goes_on_after_its_end(story: Story) -> tuple[Fault, Step]:
    end = story.find(Kind.RUN_COMPLETED)
    return Fault.RUN_UNSTARTED, story.after(end, Kind.MODEL_REQUESTED, {"turn": 9, "messages": 1})


@forgery
def run_resumes_after_its_end(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.RUN_SUSPENDED)
    story.after(asked, Kind.RUN_FAILED, {"reason": "x", "iterations": 2, "calls": 7})
    return Fault.RUN_CONTINUED, story.find(Kind.RUN_RESUMED)


@forgery
def run_never_started(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.RUN_STARTED))
    return Fault.RUN_UNSTARTED, story.find(Kind.MODEL_REQUESTED)


@forgery
def run_starts_twice(story: Story) -> tuple[Fault, Step]:
    begun = story.find(Kind.RUN_STARTED)
    again = story.after(begun, Kind.RUN_STARTED, dict(begun.body))
    return Fault.RUN_CONTINUED, again


@forgery
def run_is_for_somebody_else(story: Story) -> tuple[Fault, Step]:
    begun = story.find(Kind.RUN_STARTED)
    begun.behalf = "user:eve"
    return Fault.RUN_MISATTRIBUTED, begun


@forgery
def outcome_without_start(story: Story) -> tuple[Fault, Step]:
    start = story.find(Kind.CALL_STARTED, "1.0")
    story.drop(start)
    return Fault.OUTCOME_UNFOUNDED, story.find(Kind.CALL_FINISHED, "1.0")


@forgery
def second_outcome(story: Story) -> tuple[Fault, Step]:
    finished = story.find(Kind.CALL_FINISHED, "1.0")
    return Fault.OUTCOME_UNFOUNDED, story.after(finished, Kind.CALL_FINISHED, dict(finished.body))


@forgery
def outcome_of_another_attempt(story: Story) -> tuple[Fault, Step]:
    finished = story.find(Kind.CALL_FINISHED, "1.0")
    finished.body["attempt"] = 2
    return Fault.OUTCOME_UNFOUNDED, finished


@forgery
def resolution_of_what_is_known(story: Story) -> tuple[Fault, Step]:
    finished = story.find(Kind.CALL_FINISHED, "1.0")
    body = {"uid": f"{RUN}/1.0", "attempt": 1, "how": "again"}
    return Fault.OUTCOME_UNFOUNDED, story.after(finished, Kind.CALL_RESOLVED, body)


@forgery
def outcome_is_left_out(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.CALL_FINISHED, "1.0"))
    return Fault.CALL_UNANSWERED, story.find(Kind.MODEL_REQUESTED, nth=1)


# approvals


@forgery
def request_takes_fewer_people(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.2")
    asked.body["demands"]["quorum"][0]["count"] = 1
    story.drop(story.find(Kind.APPROVAL_VOTED, "2.2", nth=1))
    return Fault.DEMANDS_LOWERED, asked


@forgery
def request_is_for_other_arguments(story: Story) -> tuple[Fault, Step]:
    decided, asked = (
        story.find(Kind.CALL_DECIDED, "2.2"),
        story.find(Kind.APPROVAL_REQUESTED, "2.2"),
    )
    decided.payloads["args"] = (
        b"a" * 32,
        {"cents": 9900, "to": "ada"},
    )  # the same, under another salt
    asked.pinned.add("subject")
    return Fault.SUBJECT_DIFFERS, asked


@forgery
def request_names_another_decision(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.2")
    asked.body["decision"] = story.find(Kind.CALL_DECIDED, "2.3").was
    return Fault.REQUEST_UNFOUNDED, asked


@forgery
def request_hides_the_principal(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.2")
    asked.behalf = None
    return Fault.REQUEST_UNFOUNDED, asked


@forgery
def request_for_a_call_that_needs_none(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.3")
    body = {**asked.body, "request": "apr-x", "uid": f"{RUN}/2.0"}
    body["decision"] = story.find(Kind.CALL_DECIDED, "2.0").was
    return Fault.REQUEST_UNFOUNDED, story.after(asked, Kind.APPROVAL_REQUESTED, body)


@forgery
def request_stays_open_too_long(story: Story) -> tuple[Fault, Step]:
    asked = story.find(Kind.APPROVAL_REQUESTED, "2.2")
    asked.body["decide_by"] += HOUR
    return Fault.REQUEST_UNFOUNDED, asked


def vote_edit(name: str, fault: Fault, edit: Callable[[Step], Any]) -> None:
    def forge(story: Story) -> tuple[Fault, Step]:
        voted = story.find(Kind.APPROVAL_VOTED, "2.2", nth=1)
        edit(voted)
        return fault, voted

    forge.__name__ = f"vote_{name}"
    FORGERIES.append(forge)


def pin(**fields: Any) -> Callable[[Step], None]:
    def edit(step: Step) -> None:
        step.body |= fields
        step.pinned |= fields.keys()

    return edit


def by(key: KeySigner, name: KeySigner) -> Callable[[Step], None]:
    """Sign with one key in the name of another."""

    def edit(step: Step) -> None:
        signature = key.sign(vote_message(step.body)).hex()
        pin(signatures=[{"key": name.verifier_key, "signature": signature}])(step)

    return edit


def altered(step: Step) -> None:
    step.body["meaning"] = "responsibility"
    step.pinned.add("signatures")


vote_edit("by_the_principal", Fault.VOTE_UNLAWFUL, lambda s: setattr(s, "actor", CUSTOMER))
vote_edit(
    "by_another_spelling", Fault.VOTE_UNLAWFUL, lambda s: setattr(s, "actor", "User:Customer")
)
vote_edit("by_the_agent", Fault.VOTE_UNLAWFUL, lambda s: setattr(s, "actor", "agent:desk"))
vote_edit("by_one_person_twice", Fault.VOTE_UNLAWFUL, lambda s: setattr(s, "actor", "user:ann"))
vote_edit("in_somebodys_name", Fault.VOTE_UNLAWFUL, pin(voter="user:cleo"))
vote_edit("without_the_role", Fault.VOTE_UNLAWFUL, lambda s: s.body.update(roles=["audit"]))
vote_edit("over_another_head", Fault.VOTE_UNLAWFUL, pin(head={"seq": 3, "hash": "ab" * 32}))
vote_edit("dated_back", Fault.VOTE_UNLAWFUL, pin(at=1))
vote_edit("unsigned", Fault.SIGNATURE_WRONG, pin(signatures=[{"key": "k", "signature": "00"}]))
vote_edit("signed_by_a_stranger", Fault.SIGNATURE_WRONG, by(STRANGER, STRANGER))
vote_edit("signed_falsely", Fault.SIGNATURE_WRONG, by(STRANGER, SIGNER))
vote_edit("changed_after_signing", Fault.SIGNATURE_WRONG, altered)
vote_edit("on_another_card", Fault.CARD_DIFFERS, pin(card="cd" * 32))


@forgery
def vote_comes_late(story: Story) -> tuple[Fault, Step]:
    voted = story.find(Kind.APPROVAL_VOTED, "2.2")
    story.later(voted, 5 * HOUR)
    return Fault.VOTE_UNLAWFUL, voted


@forgery
def approval_is_used_late(story: Story) -> tuple[Fault, Step]:
    used = story.find(Kind.APPROVAL_USED)
    story.later(used, 2 * HOUR)
    return Fault.APPROVAL_UNLAWFUL, used


@forgery
def approval_is_granted_by_one_of_two(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.APPROVAL_VOTED, "2.2", nth=1))
    return Fault.APPROVAL_UNLAWFUL, story.find(Kind.APPROVAL_GRANTED)


@forgery
def rejection_is_turned_into_a_grant(story: Story) -> tuple[Fault, Step]:
    rejected = story.find(Kind.APPROVAL_REJECTED)
    rejected.kind = Kind.APPROVAL_GRANTED
    rejected.body["use_by"] = rejected.ts + HOUR
    return Fault.APPROVAL_UNLAWFUL, rejected


@forgery
def approval_is_used_for_another_call(story: Story) -> tuple[Fault, Step]:
    used = story.find(Kind.APPROVAL_USED)
    used.body["uid"] = f"{RUN}/2.3"
    return Fault.APPROVAL_UNLAWFUL, used


@forgery
def approval_is_used_twice(story: Story) -> tuple[Fault, Step]:
    used, finished = story.find(Kind.APPROVAL_USED), story.find(Kind.CALL_FINISHED, "2.2")
    return Fault.APPROVAL_UNLAWFUL, story.after(finished, Kind.APPROVAL_USED, dict(used.body))


@forgery
def approval_was_never_requested(story: Story) -> tuple[Fault, Step]:
    story.drop(story.find(Kind.APPROVAL_REQUESTED, "2.2"))
    return Fault.APPROVAL_UNLAWFUL, story.find(Kind.APPROVAL_VOTED)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_run_is_unlawful_and_the_place_is_named(forge: Forgery) -> None:
    story = Story(desk())
    fault, step = forge(story)
    report = check(story.seal())
    assert found(report)[0] == (fault, story.seq(step))
    assert report.verdict is Status.FAILED
    first = report.findings[0]
    assert first.message
    assert first.next_step
    assert first.run == step.run


def test_a_yes_under_lower_demands_does_not_carry_a_start_under_higher_ones() -> None:
    governance = installation(TEXT.replace("count: 2", "count: 1"))
    agent(governance, proposes(("refund", '{"cents":9900,"to":"ada"}'))).run("pay", run_id=RUN)
    (held,) = pending(governance.store, governance.clock())
    answer(governance, held.request, "ann", Verdict.APPROVE)
    text = TEXT.replace("version: 2", "version: 3")
    agent(replace(governance, rulebook=Rulebook.of(load_policies({"d": text})))).resume(RUN)
    assert found(check(records(governance))) == []
    # The honest driver asks afresh. This one starts the call under the old yes.
    story = Story(records(governance))
    superseded, decided = story.find(Kind.APPROVAL_WITHDRAWN), story.find(Kind.CALL_DECIDED, nth=1)
    story.drop(superseded, *story.steps[story.seq(decided) + 1 :])
    body = {"request": held.request, "uid": held.uid}
    used = story.after(decided, Kind.APPROVAL_USED, body)
    body = started("1.0", decided.was, request=held.request)
    start = story.after(used, Kind.CALL_STARTED, body)
    assert found(check(story.seal())) == [("demands-lowered", story.seq(start))]


# --- repeated calls ---------------------------------------------------------------------------------


def test_a_call_repeated_while_it_may_still_run_is_unlawful() -> None:
    story = Story(crashed())
    story.drop(story.find(Kind.CALL_UNKNOWN))
    again, start = story.find(Kind.CALL_DECIDED, nth=1), story.find(Kind.CALL_STARTED, nth=1)
    report = found(check(story.seal()))
    assert ("decision-repeated", story.seq(again)) in report
    assert ("start-repeated", story.seq(start)) in report


def test_a_call_repeated_without_a_new_decision_is_unlawful() -> None:
    story = Story(crashed())
    story.drop(story.find(Kind.CALL_DECIDED, nth=1))
    start = story.find(Kind.CALL_STARTED, nth=1)
    start.body["decision"] = story.find(Kind.CALL_DECIDED).was
    assert found(check(story.seal())) == [("start-undecided", story.seq(start))]


def test_a_repeated_call_keeps_its_idempotency_key() -> None:
    story = Story(crashed())
    start = story.find(Kind.CALL_STARTED, nth=1)
    start.body["key"] = "other"
    assert found(check(story.seal())) == [("start-repeated", story.seq(start))]


def test_a_call_that_is_not_idempotent_is_repeated_only_on_a_persons_word() -> None:
    story = Story(crashed("refund"))
    decided, unknown = story.find(Kind.CALL_DECIDED), story.find(Kind.CALL_UNKNOWN)
    again = story.after(unknown, Kind.CALL_DECIDED, {**decided.body, "first": decided.was})
    again.payloads["input"] = copy.deepcopy(decided.payloads["input"])
    again.ts = again.input["now"] = unknown.ts
    again.input["run"].update(calls={"refund": 1}, sums={"refund.cents": 5}, last={"refund": 0})
    redecide(again, decided.payloads["args"][1])
    start = story.after(again, Kind.CALL_STARTED, dict(story.find(Kind.CALL_STARTED).body))
    start.body |= {"attempt": 2, "decision": again.was}
    report = found(check(story.seal()))
    assert report[0] == ("decision-repeated", story.seq(again))
    assert ("start-undecided", story.seq(start)) in report
    # The same with a person's word in between is lawful.
    word = {"uid": f"{RUN}/1.0", "attempt": 1, "how": "again"}
    story.after(unknown, Kind.CALL_RESOLVED, word)
    del again.body["first"]
    again.payloads["args"] = decided.payloads["args"]
    assert found(check(story.seal())) == []


# --- what cannot be judged --------------------------------------------------------------------------


def without(history: Iterable[Record], *lost: tuple[Kind, str]) -> list[Record]:
    def strip(record: Record) -> Record:
        gone = {name for kind, name in lost if kind is record.entry.kind}
        return replace(record, payloads={n: p for n, p in record.payloads.items() if n not in gone})

    return [strip(record) for record in history]


def erased(
    history: Iterable[Record], *lost: tuple[Kind, str], subject: str = "user:customer"
) -> list[Record]:
    """Erase payloads as the law wants it: gone, and an entry that says so."""
    story = Story(history)
    for step in list(story.steps):
        for kind, name in lost:
            if step.kind is kind and name in step.payloads:
                body = {"subject": subject, "targets": [[story.seq(step), [name]]]}
                entry = story.after(story.steps[-1], Kind.PAYLOAD_ERASED, body)
                entry.run = None
    return without(story.seal(), *lost)


LOST = [
    (Kind.CALL_DECIDED, "input"),
    (Kind.CALL_DECIDED, "args"),
    (Kind.RUN_STARTED, "input"),
]


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_what_was_erased_is_told_and_what_is_missing_is_a_failure(lost: tuple[Kind, str]) -> None:
    gone, missing = check(erased(desk(), lost)), check(without(desk(), lost))
    assert set(missing.counts) == {"not-derivable"}
    assert set(gone.counts) == {"not-derivable", "content-erased"}
    assert (gone.verdict, missing.verdict) == ("ok", "failed")
    assert gone.skipped == missing.skipped > 0
    assert "was erased" in gone.findings[0].message
    assert "is missing" in missing.findings[0].message


def test_an_erasure_excuses_only_what_came_before_it() -> None:
    """What is decided after the arguments are gone cannot have been decided of them."""
    story = Story(desk())
    first = story.find(Kind.CALL_DECIDED, "2.2")
    again = story.find(Kind.CALL_DECIDED, "2.2", nth=1)
    body = {"subject": "user:7f3k9q", "targets": [[first.was, ["args"]]]}
    story.after(first, Kind.PAYLOAD_ERASED, body).run = None
    history = [
        replace(r, payloads={n: p for n, p in r.payloads.items() if n != "args"})
        if r.entry.seq == story.seq(first)
        else r
        for r in story.seal()
    ]
    told = {f.seq: f.status for f in check(history).findings if f.kind == "not-derivable"}
    assert told.pop(story.seq(first)) is Status.OK
    assert told.keys() >= {story.seq(again)}
    assert set(told.values()) == {Status.FAILED}


@pytest.mark.parametrize("bound", ["WAITING_MAX", "NAMES_MAX", "ERASED_MAX"])
def test_beyond_what_can_be_remembered_nothing_is_excused(monkeypatch, bound) -> None:
    monkeypatch.setattr(f"governance.lawful.absences.{bound}", 0)
    report = check(erased(desk(), LOST[0]))
    assert report.verdict is Status.FAILED
    assert report.skipped > 0


@pytest.mark.attack
@pytest.mark.parametrize("lost", LOST, ids=str)
def test_nobody_s_content_goes_under_the_name_of_somebody_else(lost: tuple[Kind, str]) -> None:
    history = erased(desk(), lost, subject="user:bystander")
    report = check(history)
    told = [f for f in report.findings if f.kind == "erasure-misdirected"]
    assert report.verdict is Status.FAILED
    assert len(told) == len([r for r in history if r.entry.kind is Kind.PAYLOAD_ERASED])
    about = history[told[0].seq or 0].entry.body["targets"][0][0]
    assert told[0].message == (
        f"in the name of `user:bystander` went payload `{lost[1]}` of entry {about},"
        " which belongs to `user:customer`"
    )


def test_a_note_belongs_to_who_wrote_it_and_to_whom_it_is_about() -> None:
    voted = (Kind.APPROVAL_VOTED, "note")
    voters = [r.entry.actor for r in desk() if "note" in r.payloads]

    def misdirected(subject: str) -> list[str]:
        found = check(erased(desk(), voted, subject=subject)).findings
        return [f.message for f in found if f.kind == "erasure-misdirected"]

    assert misdirected("user:customer") == []
    assert len(misdirected("user:bystander")) == len(voters) > 1
    for voter in voters:
        others = [other for other in voters if other != voter]
        told = misdirected(voter)
        assert len(told) == len(others)
        assert all(f"`{other}`" in line for line, other in zip(told, others, strict=True))


@pytest.mark.attack
def test_what_goes_among_somebody_s_own_content_is_counted_and_the_first_of_it_named() -> None:
    story = Story(desk())
    mine, others = story.find(Kind.RUN_STARTED), story.find(Kind.POLICY_ACTIVATED)
    tool = story.find(Kind.TOOL_REGISTERED)
    targets = [
        [step.was, [name]] for step, name in ((tool, "schema"), (mine, "input"), (others, "text"))
    ]
    body = {"subject": "user:customer", "targets": targets}
    story.after(story.steps[-1], Kind.PAYLOAD_ERASED, body).run = None
    gone = {(seq, name) for seq, (name,) in targets}
    history = [
        replace(r, payloads={n: p for n, p in r.payloads.items() if (r.entry.seq, n) not in gone})
        for r in story.seal()
    ]
    (told,) = [f for f in check(history).findings if f.kind == "erasure-misdirected"]
    assert told.message == (
        f"in the name of `user:customer` went payload `schema` of entry {tool.was},"
        " which belongs to nobody, and 1 more of others"
    )


@pytest.mark.parametrize("bound", ["lawful.erasures.OWNERS_MAX", "ledger.absent.ABSENT_MAX"])
def test_whose_content_it_was_is_not_judged_beyond_what_can_be_remembered(
    monkeypatch, bound
) -> None:
    monkeypatch.setattr(f"governance.{bound}", 0)
    monkeypatch.setattr("governance.ledger.absent.ODD_MAX", 0)
    report = check(erased(desk(), LOST[2]))
    (told,) = [f for f in report.findings if f.kind == "erasure-misdirected"]
    assert (told.status, report.verdict) == (Status.NOT_CHECKED, Status.NOT_CHECKED)
    results = (Kind.CALL_FINISHED, "result")
    assert check(without(desk(), results)).verdict is Status.OK  # absent, and nothing was erased


@pytest.mark.attack
def test_what_belongs_to_nobody_is_nobody_s_to_erase() -> None:
    report = check(erased(desk(), (Kind.TOOL_REGISTERED, "schema")))
    assert "which belongs to nobody" in next(
        f.message for f in report.findings if f.kind == "erasure-misdirected"
    )


def test_nobody_can_have_the_rules_erased() -> None:
    """Their text is nobody's content: an entry that claims to have erased it excuses nothing."""
    report = check(erased(desk(), (Kind.POLICY_ACTIVATED, "text")))
    assert report.verdict is Status.FAILED
    assert "is missing" in report.findings[0].message


def test_an_erasure_is_told_with_who_and_why() -> None:
    story = Story(desk())
    body = {"subject": "user:7f3k9q", "targets": [[3, ["input"]]]}
    entry = story.after(story.steps[-1], Kind.PAYLOAD_ERASED, body)
    entry.run, entry.actor, entry.payloads = (
        None,
        SubjectId("user:dpo"),
        {"reason": (bytes(32), "asked on 5 May")},
    )
    (told,) = check(story.seal()).findings
    assert (told.kind, told.seq, told.status) == ("content-erased", story.seq(entry), Status.OK)
    assert told.message == ("`user:dpo` erased 1 payload of `user:7f3k9q`: asked on 5 May")


def test_another_engine_is_never_silently_fine() -> None:
    story = Story(desk())
    activated = story.find(Kind.POLICY_ACTIVATED)
    activated.body["engine"] = "celpy 0.0.1"
    report = check(story.seal())
    assert report.verdict is Status.NOT_CHECKED
    assert report.counts == {"engine-absent": 11}
    assert report.skipped == 10
    assert not report.ok


def test_an_input_nobody_here_knows_is_never_silently_fine() -> None:
    story = Story(desk())
    decided = story.find(Kind.CALL_DECIDED, "1.0")
    decided.input["horoscope"] = {"calls": 0}
    redecide(decided)
    report = check(story.seal())
    assert (found(report), report.verdict) == (
        [("input-unknown", story.seq(decided))],
        "not-checked",
    )


def test_a_clock_behind_the_log_is_told() -> None:
    story = Story(desk())
    decided = story.find(Kind.CALL_DECIDED, "3.1")
    decided.input["now"] -= 5
    redecide(decided)
    report = check(story.seal())
    assert (found(report), report.verdict) == ([("clock-behind", story.seq(decided))], "ok")


def test_findings_are_bounded_and_the_rest_is_counted() -> None:
    story = Story(desk())
    last = story.steps[-1]
    for _ in range(FINDINGS_MAX + 5):
        last = story.after(last, Kind.RUN_RESUMED, {})
    report = check(story.seal())
    assert len(report.findings) == FINDINGS_MAX
    assert report.counts == {"run-unstarted": FINDINGS_MAX + 5}
    assert report.uncounted == 5


JUNK = st.sampled_from([None, [], {}, -1, 2**52, True, "x", "", ["x"], {"id": 1}, [[]], "\u0430"])


@settings(derandomize=True, max_examples=50, deadline=None)
@given(data=st.data())
def test_no_record_makes_the_check_raise(data: st.DataObject) -> None:
    story = Story(desk())
    step = data.draw(st.sampled_from([s for s in story.steps if s.body]))
    if step.payloads and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(step.payloads)))
        step.payloads[name] = (b"j" * 32, data.draw(JUNK))
    else:
        step.body[data.draw(st.sampled_from(sorted(step.body)))] = data.draw(JUNK)
    try:
        forged = story.seal()
    except (TypeError, KeyError, IndexError, AttributeError, GovernanceError):
        return  # the forger's own tools could not work with it
    assert check(forged).verdict in set(Status)


def test_altered_and_unreadable_payloads_are_findings() -> None:
    history = list(desk())
    at = next(
        i for i, r in enumerate(history) if "input" in r.payloads and r.entry.kind == "call.decided"
    )
    payload = history[at].payloads["input"]
    for broken in (replace(payload, content=b"{}"), replace(payload, content=b"\xff")):
        changed = {**history[at].payloads, "input": broken}
        report = check([*history[:at], replace(history[at], payloads=changed), *history[at + 1 :]])
        assert ("unreadable", at) in found(report)
        assert report.verdict is Status.FAILED
