"""What the documents are held to: a history with an entry of every kind that is written."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from agents import Plays, call, calls, person, say, vote
from witnesses import running

from agent import DurableAgent, tool
from agent.models import ModelError
from agent.tools import ToolResult
from governance import Governance, Principal, assemble, keys, people, queue, recovery
from governance.anchors.file import FileSink
from governance.anchors.rounds import anchor
from governance.anchors.settings import Settings
from governance.anchors.troubles import Troubles
from governance.anchors.witness import WitnessSink
from governance.approval.model import Verdict
from governance.assemble import KeySigner
from governance.cli import main
from governance.config import Home
from governance.erasure import erase
from governance.errors import RefusedError
from governance.ids import Micros, Origin, SubjectId
from governance.ledger.checkpoint import Checkpoint, sign_checkpoint, sign_note
from governance.ledger.entry import Draft, Kind, Record
from governance.ledger.erasure import Erasure
from governance.ledger.merkle import EMPTY_ROOT
from governance.policy.document import load_policies
from governance.policy.signature import Signed
from governance.retention import archive
from governance.retention_plan import Order

RULES = """
policy: desk
version: 1
rules:
  - {id: free, match: {tools: [look, fail, put]}, effect: allow, allow_tier: critical}
  - {id: wrong, match: {tools: [look]}, when: int(args.id) == 1, effect: allow}
  - {id: tried, match: {tools: [look]}, mode: shadow, effect: deny}
  - {id: busy, match: {tools: [look]}, when: size(window.hour) > 9, mode: shadow, effect: deny}
  - id: payments
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver}], decide_by: 4h, use_by: 1h}
    message: "'pay ' + string(args.cents)"
"""
OLD = "policy: old\nversion: 4\nrules: [{id: none, match: {tools: [fax]}, effect: deny}]\n"
PAY = calls(call("pay", cents=900))


class Killed(BaseException):
    """The process is gone."""


class Clock:
    def __init__(self) -> None:
        self.now = Micros(1_800_000_000_000_000)

    def __call__(self) -> Micros:
        self.now = Micros(self.now + 1)
        return self.now


@tool(verb="READ", untrusted_output=True)
def look(id: str) -> ToolResult:
    """Look."""
    return ToolResult({"id": id}, {"count": 1})


@tool(verb="READ")
def fail() -> str:
    """Fail."""
    raise RuntimeError


@tool(verb="WRITE", side_effect=True, scopes=["disk"])
def put(text: str) -> str:
    """Put."""
    return text


@tool(verb="FINANCIAL", side_effect=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(name="put", verb="WRITE", side_effect=True)
def other_put(text: str) -> str:
    """Put it elsewhere."""
    return text


TOOLS = (look, fail, put, pay)


def desk(gov: Governance, *turns, tools=TOOLS, **options) -> DurableAgent:
    return DurableAgent(Plays(*turns), tools, governance=gov, name="desk", **options)


def put_outside(gov: Governance, folder: Path) -> None:
    """Anchor the head, at a witness too, and let nothing happen for an hour."""
    key = gov.signer.verifier_key
    with running(folder / "witness", "bank.example/w", key, clock=gov.clock) as witness:
        sinks = (
            FileSink("vault", folder / "vault.jsonl"),
            WitnessSink("bank", witness.url, witness.key),
        )
        settings, troubles = Settings(sinks), Troubles(folder / "troubles")
        for _ in range(2):
            done = anchor(gov.store, settings, troubles, gov.clock)
            assert [outcome.error for outcome in done] == ["", ""]
            gov.clock.now += 2 * 3600 * 1_000_000


def tell(gov: Governance) -> None:
    """Let everything happen that entries are written of."""
    ann, eve = person(gov), person(gov, "eve", "intern")
    customer = Principal(SubjectId("user:u1"), ("customer",), "acme")

    # Allowed, failed, refused and held calls; a yes; the rest.
    first = calls(call("look", id="a"), call("fail"), call("nobody"), call("pay", cents=900))
    agent = desk(gov, first, say())
    (held,) = agent.run("go", run_id="r1", principal=customer).pending_approvals
    with pytest.raises(RefusedError):
        vote(gov, eve, held.request)
    vote(gov, ann, held.request)
    assert agent.resume("r1").status == "completed"

    # A no, the same call again, and the limit.
    agent = desk(gov, PAY, PAY, max_iterations=2)
    (held,) = agent.run("go", run_id="r2").pending_approvals
    vote(gov, ann, held.request, Verdict.REJECT)
    assert agent.resume("r2").status == "limit_reached"

    # A cancelled run, one whose answer came too late, one whose model failed.
    agent = desk(gov, PAY, say())
    agent.run("go", run_id="r3")
    agent.cancel("r3", note="enough")
    desk(gov, PAY, say()).run("go", run_id="r4")
    gov.clock.now += 5 * 3600 * 1_000_000
    assert queue.expire(gov.store, gov.clock) == 1
    with pytest.raises(ModelError):
        desk(gov, ModelError("model is down", code="unreachable")).run("go", run_id="r5")

    # A driver that died in a call, and a person's word on it; then the tool was changed.
    def die(name: str) -> None:
        if name == "after-effect":
            raise Killed

    with pytest.raises(Killed):
        desk(gov, calls(call("put", text="x")), failpoint=die).run("go", run_id="r6")
    agent = desk(gov, say())
    assert agent.resume("r6").status == "suspended"
    op = person(gov, "op", "operator")
    said = recovery.Resolution(recovery.How.HAPPENED, "put", "looked it up")
    recovery.resolve(gov.store, gov.clock, ("r6", "r6/1.0"), said, op)
    assert agent.resume("r6").status == "completed"
    desk(gov, say(), tools=(other_put,)).run("go", run_id="r7")
    erase(gov.store, gov.clock, Erasure(eve.subject, op.subject, "left the company"), tuple)


def signed(texts: dict[str, str], signer: KeySigner) -> dict[str, str]:
    note = sign_note(Signed.of(load_policies(texts)).to_text(), signer)
    return {**texts, "policies.sig": note}


@pytest.fixture(scope="session")
def history(tmp_path_factory) -> Sequence[Record]:
    """Every entry of a log in which all this happened."""
    signer = KeySigner.from_seed(Origin("test/policies"), b"p" * 32)
    texts = signed({"desk.yaml": RULES, "old.yaml": OLD}, signer)
    gov = Governance.in_memory(policies=texts, policy_key=signer.verifier_key)
    gov = replace(gov, clock=Clock(), lease_us=1)
    tell(gov)

    # A policy less, while everything runs.
    del texts["old.yaml"]
    texts |= signed({"desk.yaml": RULES}, signer)
    gov.reload()

    put_outside(gov, tmp_path_factory.mktemp("outside"))
    return gov.store.read(lambda reader: reader.records())


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Sequence[Record]:
    """Every entry of a log that succeeds another, whose keys change, and that is exported."""
    folder = tmp_path_factory.mktemp("home")
    home = Home(folder, folder / "checkpoint")
    old = KeySigner.from_seed(Origin("test/before"), b"o" * 32)
    head = sign_checkpoint(Checkpoint(old.origin, 1, EMPTY_ROOT), old)
    assemble.init(home, Origin("test/docs"), head)
    by, other = SubjectId("user:op"), KeySigner.from_seed(Origin("test/docs"), b"n" * 32)
    with Governance.open(folder) as gov:
        keys.add(gov.store, gov.clock, by, other)
        for change in (
            keys.retire(by, other.verifier_key, "yearly"),
            keys.declare_compromised(by, other.verifier_key, since=1, reason="lost"),
        ):
            keys.change(gov.store, gov.clock, change)
    assert main(["export", str(folder / "bundle"), "--home", str(folder)]) == 0
    with Governance.open(folder) as gov:
        return gov.store.read(lambda reader: reader.records())


@pytest.fixture(scope="session")
def archived(tmp_path_factory) -> Record:
    """The entry that an archive leaves in the log."""
    folder = tmp_path_factory.mktemp("home")
    assemble.init(Home(folder, folder / "checkpoint"), Origin("test/docs"))
    beat = Draft(Kind.LOG_BEAT, SubjectId("system:docs"), {})
    with Governance.open(folder) as gov:
        gov.store.write(lambda tx: [tx.append(beat, gov.clock()) for _ in range(300)])
        olga, _ = people.add(gov.store, gov.new_id, secrets.token_bytes, "Olga", ["operator"])
        now = Micros(gov.clock() + 400 * 86_400 * 1_000_000)
        order = Order(folder / "archive", Micros(now - 200 * 86_400 * 1_000_000), olga)
        archive(gov.store, gov.signer, lambda: now, order, tuple)
        return gov.store.read(lambda reader: reader.latest((Kind.LOG_ARCHIVED,)))
