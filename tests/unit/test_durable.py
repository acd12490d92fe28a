"""Runs that suspend and resume: what holds over any number of processes, people and changes of mind."""

import asyncio
import itertools
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from agents import Plays, call, calls, kinds, person, say, vote

from agent import DurableAgent, tool
from agent.journal import replay
from agent.models import ModelError
from governance import (
    ConflictError,
    Governance,
    InvalidInputError,
    Principal,
    TamperedError,
    assemble,
    people,
    queue,
)
from governance.approval.model import Verdict
from governance.config import Home
from governance.errors import RefusedError
from governance.ids import Micros, Origin, SubjectId
from governance.ports import Lease
from governance.rulebook import Rulebook
from governance.store.keyring import Keyring

HOUR = 3600 * 1_000_000
ran: list = []

RULES = """
policy: desk
version: 1
rules:
  - {id: reads, match: {tools: [look]}, effect: allow}
  - {id: mails, match: {tools: [mail]}, effect: allow, allow_tier: critical}
  - id: pays
    match: {tools: [pay, wire]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
"""


@pytest.fixture(autouse=True)
def fresh():
    ran.clear()


@tool(verb="READ")
def look(id: str) -> str:
    """Look."""
    ran.append(("look", id))
    return f"{id} is fine"


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str, cents: int) -> str:
    """Pay."""
    ran.append(("pay", to, cents))
    return "paid"


@tool(verb="FINANCIAL", side_effect=True)
def wire(to: str) -> str:
    """Wire."""
    ran.append(("wire", to))
    return "wired"


@tool(verb="WRITE", side_effect=True)
def mail(to: str) -> str:
    """Mail."""
    ran.append(("mail", to))
    return "mailed"


TOOLS = [look, pay, wire, mail]


class Clock:
    def __init__(self) -> None:
        self.now = Micros(1_800_000_000_000_000)

    def __call__(self) -> Micros:
        self.now = Micros(self.now + 1)
        return self.now


@pytest.fixture
def gov():
    clock = Clock()
    made = Governance.in_memory(policies={"desk.yaml": RULES})
    return replace(made, clock=clock)


def durable(gov: Governance, model, tools=TOOLS, **options) -> DurableAgent:
    return DurableAgent(model, tools, governance=gov, name="desk", **options)


PAY = calls(call("pay", to="ann", cents=900))


def test_it_suspends_shows_exactly_the_call_and_goes_on_after_a_yes(gov):
    model = Plays(calls(call("look", id="a")), PAY, say("all done"))
    agent = durable(gov, model)
    result = agent.run("go", run_id="r")
    assert result.status == "suspended"
    (open_call,) = result.pending_approvals
    assert (open_call.tool, open_call.args) == ("pay", {"to": "ann", "cents": 900})
    assert agent.pending("r") == (open_call,)
    assert agent.resume("r").status == "suspended"  # nobody has answered
    size = gov.store.read(lambda r: r.head()).size
    agent.resume("r")
    assert gov.store.read(lambda r: r.head()).size == size  # and asking leaves no trace
    vote(gov, person(gov), open_call.request)
    (line,) = queue.granted(gov.store, gov.clock())
    assert line.run == "r"  # approved and not yet run is seen as such
    done = agent.resume("r")
    assert (done.status, done.response.text) == ("completed", "all done")
    assert ran == [("look", "a"), ("pay", "ann", 900)]
    for _ in range(3):
        assert agent.resume("r").status == "completed"
    assert len(ran) == 2
    assert done.tool_calls_made == 2
    assert done.iterations == 3


def test_all_held_calls_of_a_turn_are_asked_at_once_and_only_they(gov):
    model = Plays(
        calls(
            call("look", id="a"),
            call("pay", to="ann", cents=1),
            call("wire", to="bob"),
            call("mail", to="ann"),
        ),
        say(),
    )
    agent = durable(gov, model)
    result = agent.run("go", run_id="r")
    assert [p.tool for p in result.pending_approvals] == ["pay", "wire"]
    # Without a side effect the sibling has run; with one it waits for the people.
    assert ran == [("look", "a")]
    ann = person(gov)
    vote(gov, ann, result.pending_approvals[1].request)
    assert agent.resume("r").status == "suspended"
    assert ran == [("look", "a")]
    vote(gov, ann, result.pending_approvals[0].request, Verdict.REJECT, "too much")
    assert agent.resume("r").status == "completed"
    # Rejecting one skips nobody else, and nothing runs twice; the rest runs in the model's order.
    assert ran == [("look", "a"), ("wire", "bob"), ("mail", "ann")]
    assert model.results() == [
        "a is fine",
        "not run: a person rejected it: too much",
        "wired",
        "mailed",
    ]
    assert kinds(gov, "r").count("run.resumed") == 1


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(["yes", "no", "late", "cancel"], repeat=2))
)
def test_every_mix_of_answers_leaves_exactly_one_result_a_call(gov, first, second):
    model = Plays(calls(call("pay", to="ann", cents=1), call("wire", to="bob")), say())
    agent = durable(gov, model)
    result = agent.run("go", run_id="r")
    ann = person(gov)
    for open_call, answer in zip(result.pending_approvals, (first, second), strict=True):
        if answer == "yes":
            vote(gov, ann, open_call.request)
        elif answer == "no":
            vote(gov, ann, open_call.request, Verdict.REJECT)
    if "cancel" in (first, second):
        result = agent.cancel("r", note="enough")
        assert result.status == "cancelled"
        assert agent.resume("r").status == "cancelled"
        assert ran == []
        tool_messages = [m for m in result.messages if m.role == "tool"]
        assert len(tool_messages) == 2
        assert queue.pending(gov.store, gov.clock()) == ()
        return
    if "late" in (first, second):
        gov.clock.now += 5 * HOUR
    result = agent.resume("r")
    assert result.status == "completed"  # the strict model has seen exactly one result a call
    expired_yes = "late" in (first, second)
    wanted = [] if expired_yes else [n for n, a in (("pay", first), ("wire", second)) if a == "yes"]
    assert [name for name, *_ in ran] == wanted


def test_an_expired_request_is_expired_though_nothing_swept_it(gov):
    agent = durable(gov, Plays(PAY, say()))
    (open_call,) = agent.run("go", run_id="r").pending_approvals
    gov.clock.now += 4 * HOUR + 1_000_000
    with pytest.raises(RefusedError, match="expired"):
        vote(gov, person(gov), open_call.request)
    result = agent.resume("r")
    assert result.status == "completed"
    assert ran == []
    assert "nobody answered in time" in result.messages[-2].content


def test_a_yes_that_is_not_used_in_time_is_void(gov):
    agent = durable(gov, Plays(PAY, say()))
    (open_call,) = agent.run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    gov.clock.now += HOUR + 1_000_000
    result = agent.resume("r")
    assert ran == []
    assert "ran out" in result.messages[-2].content


def other_rules(gov: Governance, text: str) -> Governance:
    return replace(gov, rulebook=Rulebook.of(assemble.load({"desk.yaml": text})))


def test_rules_that_changed_while_the_call_waited_are_asked_again_now_denied(gov):
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    stricter = RULES.replace("version: 1", "version: 2") + (
        "  - {id: no-pay, match: {tools: [pay]}, effect: deny}\n"
    )
    result = durable(other_rules(gov, stricter), model).resume("r")
    assert ran == []
    assert result.status == "completed"
    assert "desk/no-pay" in model.results()[0]
    assert "approval.withdrawn" in kinds(gov, "r")


def test_demands_that_grew_take_a_fresh_approval(gov):
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    ann, bob = person(gov), person(gov, "bob")
    vote(gov, ann, open_call.request)
    two = RULES.replace("version: 1", "version: 2").replace("count: 1", "count: 2")
    gov = other_rules(gov, two)
    result = durable(gov, model).resume("r")
    assert (result.status, ran) == ("suspended", [])
    (fresh_call,) = result.pending_approvals
    assert fresh_call.request != open_call.request
    vote(gov, ann, fresh_call.request)
    vote(gov, bob, fresh_call.request)
    assert durable(gov, model).resume("r").status == "completed"
    assert ran == [("pay", "ann", 900)]


def test_an_approver_who_lost_the_role_meanwhile_does_not_count(gov):
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    ann = person(gov)
    vote(gov, ann, open_call.request)
    people.deactivate(gov.store, ann.subject)
    result = durable(gov, model).resume("r")
    assert (result.status, ran) == ("suspended", [])
    assert result.pending_approvals[0].request != open_call.request


def test_a_tool_that_changed_while_the_call_waited_does_not_run(gov):
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)

    @tool(name="pay", verb="FINANCIAL", side_effect=True)
    def other(to: str, cents: int) -> str:
        """Pay, and tell everybody."""
        ran.append("other")
        return "paid"

    durable(gov, model, [look, other]).resume("r")
    assert ran == []
    assert "changed or removed" in model.results()[0]


def test_one_yes_covers_one_call(gov):
    """Neither the same call later in the run, nor one in a later run with the same arguments."""
    model = Plays(PAY, PAY, say())
    agent = durable(gov, model)
    (open_call,) = agent.run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    again = agent.resume("r")
    assert (again.status, len(ran)) == ("suspended", 1)
    assert again.pending_approvals[0].request != open_call.request
    assert durable(gov, Plays(PAY, say())).run("go", run_id="r2").status == "suspended"
    assert len(ran) == 1


def test_nobody_approves_their_own_run(gov):
    ann = person(gov)
    agent = durable(gov, Plays(PAY, say()))
    result = agent.run("go", run_id="r", principal=Principal(ann.subject, ("customer",)))
    with pytest.raises(RefusedError):
        vote(gov, ann, result.pending_approvals[0].request)
    vote(gov, person(gov, "bob"), result.pending_approvals[0].request)
    assert agent.resume("r").status == "completed"


def test_the_iteration_limit_holds_over_resumes(gov):
    model = Plays(*(calls(call("pay", to=f"p{n}", cents=n)) for n in range(9)))
    agent = durable(gov, model, max_iterations=3)
    ann = person(gov)
    result = agent.run("go", run_id="r")
    rounds = 0
    while result.status == "suspended":
        vote(gov, ann, result.pending_approvals[0].request)
        result = agent.resume("r")
        rounds += 1
    assert (result.status, rounds, len(ran), result.iterations) == ("limit_reached", 3, 3, 3)
    assert agent.resume("r").status == "limit_reached"


def test_a_model_that_fails_leaves_the_run_waiting_for_it(gov):
    down = ModelError("model is down", code="unreachable")
    model = Plays(calls(call("look", id="a")), down, down, say("at last"))
    agent = durable(gov, model)
    with pytest.raises(ModelError):
        agent.run("go", run_id="r")
    assert gov.store.read(lambda r: r.run_head("r")).status == "suspended"
    with pytest.raises(ModelError):
        agent.resume("r")
    assert agent.resume("r").response.text == "at last"
    assert ran == [("look", "a")]


def test_a_question_asked_again_is_the_same_turn(gov):
    down = ModelError("model is down", code="unreachable")
    agent = durable(gov, Plays(down, down, down, say("at last")), max_iterations=1)
    with pytest.raises(ModelError):
        agent.run("go", run_id="r")
    for _ in range(2):
        with pytest.raises(ModelError):
            agent.resume("r")
    result = agent.resume("r")
    assert (result.status, result.iterations) == ("completed", 1)


def test_a_run_id_is_used_once(gov):
    agent = durable(gov, Plays(PAY, say()))
    agent.run("go", run_id="r")
    with pytest.raises(ConflictError, match="exists already"):
        agent.run("other", run_id="r")
    assert len(agent.pending("r")) == 1


@pytest.mark.parametrize("run_id", ["", "a b", "../x", "é", "x" * 129])
def test_a_run_id_that_is_none_is_refused(gov, run_id):
    with pytest.raises(InvalidInputError, match="malformed run id"):
        durable(gov, Plays(say())).run("go", run_id=run_id)


def test_an_unknown_run_says_so(gov):
    agent = durable(gov, Plays(say()))
    for ask in (agent.resume, agent.pending, agent.cancel):
        with pytest.raises(InvalidInputError, match="no run `nobody`"):
            ask("nobody")


def test_a_run_is_resumed_by_the_agent_that_began_it(gov):
    durable(gov, Plays(PAY, say())).run("go", run_id="r")
    other = DurableAgent(Plays(say()), TOOLS, governance=gov, name="other")
    with pytest.raises(InvalidInputError, match="is of `agent:desk`, not of `agent:other`"):
        other.resume("r")
    assert "run.resumed" not in kinds(gov, "r")


def test_a_driver_that_overslept_takes_the_lease_from_nobody(gov):
    log = durable(gov, Plays(PAY, say()))._log()
    theirs = Lease("r", "driver-new", Micros(gov.clock() + HOUR))
    gov.store.write(lambda tx: tx.leases.put(theirs))
    asyncio.run(log.renew("r"))
    assert gov.store.read(lambda r: r.leases.get("r")) == theirs


def test_a_cancelled_run_starts_nothing_any_more(gov):
    model = Plays(PAY, say())
    agent = durable(gov, model)
    (open_call,) = agent.run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    agent.cancel("r")
    assert agent.resume("r").status == "cancelled"
    assert ran == []
    assert queue.granted(gov.store, gov.clock()) == ()


def test_a_run_cancelled_while_driven_keeps_the_outcome_and_goes_no_further(gov):
    agent: DurableAgent

    @tool(verb="READ")
    async def slow() -> str:
        """Be slow; meanwhile the run is cancelled."""
        await agent.acancel("r", note="stop it")
        return "finished after all"

    rules = RULES.replace("tools: [look]", "tools: [look, slow]")
    agent = durable(other_rules(gov, rules), Plays(calls(call("slow")), say()), [slow])
    result = agent.run("go", run_id="r")
    assert result.status == "cancelled"
    assert kinds(gov, "r")[-2:] == ["run.cancelled", "call.finished"]


def test_async_and_sync_forms_are_one(gov):
    agent = durable(gov, Plays(PAY, say()))

    async def whole():
        result = await agent.arun("go", run_id="r")
        assert [p.tool for p in await agent.apending("r")] == ["pay"]
        vote(gov, person(gov), result.pending_approvals[0].request)
        return await agent.aresume("r")

    assert asyncio.run(whole()).status == "completed"
    assert ran == [("pay", "ann", 900)]


def test_what_is_audited_is_what_is_resumed(gov):
    """Replaying any prefix of a run and folding the rest gives the state that replaying all gives."""
    model = Plays(calls(call("look", id="a"), call("pay", to="ann", cents=1)), say())
    agent = durable(gov, model)
    (open_call,) = agent.run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    agent.resume("r")
    records = gov.store.read(lambda r: r.run_records("r"))
    whole = replay("r", records)
    assert whole.rseq == len(records)
    assert [m.role for m in whole.messages] == ["user", "assistant", "tool", "tool", "assistant"]


def on_disk(tmp_path: Path) -> tuple[Home, Governance]:
    home = Home(tmp_path / "home", tmp_path / "kept")
    assemble.init(home, Origin("test/durable"))
    return home, reopen(home)


def reopen(home: Home) -> Governance:
    signer = assemble.KeySigner.load(home.key)
    store = assemble.SqliteStore.open(
        home.ledger,
        origin=signer.origin,
        signer=signer,
        salts=assemble.secrets.token_bytes,
        kept_checkpoint=home.checkpoint,
    )
    return Governance(
        store,
        signer,
        Rulebook.of(assemble.load({"desk.yaml": RULES})),
        assemble.Environment("test"),
    )


def test_arguments_altered_in_the_store_after_the_yes_do_not_run(tmp_path):
    home, gov = on_disk(tmp_path)
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    gov.close()
    keyring = Keyring.open(home.keyring, gov.store.origin, assemble.secrets.token_bytes)
    with sqlite3.connect(home.ledger) as database:
        find = "SELECT place, key, content FROM payload WHERE name = 'args'"
        ((place, number, stored),) = database.execute(find)
        key = keyring.key(number)
        altered = key.decrypt(place, "args", stored).replace(b"900", b"999")
        forged = key.encrypt(place, "args", altered, bytes(8))
        assert len(forged) == len(stored)
        database.execute("UPDATE payload SET content = ? WHERE place = ?", (forged, place))
    database.close()
    keyring.close()
    gov = reopen(home)
    with pytest.raises(TamperedError, match="args"):
        durable(gov, model).resume("r")
    gov.close()
    assert ran == []


def test_an_older_version_of_a_policy_is_refused(gov):
    newer = RULES.replace("version: 1", "version: 2")
    durable(other_rules(gov, newer), Plays(say())).run("go")
    with pytest.raises(RefusedError, match="version 2"):
        durable(gov, Plays(say())).run("go")


def test_the_ledger_names_no_content(gov):
    """Arguments, results and texts are payloads; an envelope holds none of them."""
    model = Plays(calls(call("look", id="canary-args")), say("canary-answer"))
    result = durable(gov, model).run(
        "canary-question", principal=Principal(SubjectId("user:u1"), ("customer",))
    )
    assert result.status == "completed"
    for record in gov.store.read(lambda r: r.records()):
        assert b"canary" not in record.entry.raw


def test_rules_that_were_relaxed_let_the_call_run_and_withdraw_the_request(gov):
    model = Plays(PAY, say())
    (open_call,) = durable(gov, model).run("go", run_id="r").pending_approvals
    vote(gov, person(gov), open_call.request)
    relaxed = RULES.replace("version: 1", "version: 2").replace(
        "tools: [mail]", "tools: [mail, pay]"
    )
    relaxed = relaxed.replace("tools: [pay, wire]", "tools: [wire]")
    result = durable(other_rules(gov, relaxed), model).resume("r")
    assert (result.status, ran) == ("completed", [("pay", "ann", 900)])
    assert "approval.withdrawn" in kinds(gov, "r")
    assert queue.granted(gov.store, gov.clock()) == ()
