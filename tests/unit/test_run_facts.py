"""What rules are told of the past: the last start, what people approved, and how much of late for one person."""

import sqlite3
from dataclasses import replace

import pytest
from agents import Plays, call, calls, person, say, vote

from agent import CallContext, DurableAgent, Injected, tool
from governance import Governance, InvalidInputError, Principal, assemble, recovery
from governance.config import Home
from governance.ids import Micros, Origin, SubjectId
from governance.lawful.check import check
from governance.ledger.entry import Kind
from governance.rulebook import Rulebook

SECOND = 1_000_000
HOUR = 3600 * SECOND
ANN = Principal(SubjectId("user:ann"), ("clerk",), "acme")
BOB = Principal(SubjectId("user:bob"))
ran: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    ran.clear()


@tool(verb="FINANCIAL", side_effect=True)
def refund(cents: int = 1) -> str:
    """Pay back."""
    ran.append("refund")
    return "paid"


@tool(verb="WRITE", side_effect=True)
def deploy() -> str:
    """Deploy."""
    ran.append("deploy")
    return "deployed"


@tool(verb="WRITE", side_effect=True, idempotent=True)
def put(context: Injected[CallContext]) -> str:
    """Put."""
    ran.append(f"put {context.attempt}")
    return "put"


@tool(verb="READ")
def look() -> str:
    """Look."""
    ran.append("look")
    return "looked"


TOOLS = (refund, deploy, put, look)


class Clock:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> Micros:
        return Micros(self.now)

    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND


def allowing(when: str, tools: str = "refund, deploy, put") -> str:
    return f"""
policy: p
version: 1
rules:
  - {{id: reads, match: {{tools: [look]}}, effect: allow}}
  - id: within
    match: {{tools: [{tools}]}}
    when: "{when}"
    effect: allow
    allow_tier: critical
"""


FEW = "('refund' in window.hour ? window.hour.refund : 0) < 2"
WAITING = allowing(FEW, "refund") + (
    "  - {id: asked, match: {tools: [deploy]}, effect: require_approval}\n"
)


def installation(text: str) -> Governance:
    made = Governance.in_memory(policies={"p.yaml": text})
    return replace(made, clock=Clock(), lease_us=1)


def agent(gov: Governance, *turns, name: str = "desk", **options) -> DurableAgent:
    return DurableAgent(Plays(*turns, say()), TOOLS, governance=gov, name=name, **options)


def inputs(gov: Governance, name: str = "") -> list[dict]:
    records = gov.store.read(lambda reader: reader.records(limit=10_000))
    decisions = [r for r in records if r.entry.kind is Kind.CALL_DECIDED and "input" in r.payloads]
    return [r.content("input") for r in decisions if name in ("", r.entry.body["tool"])]


def lawful(gov: Governance) -> bool:
    report = check(gov.store.read(lambda reader: reader.records(limit=10_000)))
    assert [str(finding.message) for finding in report.findings] == []
    return report.ok


REFUND = calls(call("refund"))


# --- how many of late -------------------------------------------------------------------------------


def test_a_window_counts_over_all_runs_of_one_person_and_slides():
    gov = installation(allowing(FEW))
    for run in "ab":
        agent(gov, REFUND).run("go", run_id=run, principal=ANN)
    gov.clock.wait(1800)
    agent(gov, REFUND).run("go", run_id="c", principal=ANN)
    assert ran == ["refund"] * 2  # the third is denied
    agent(gov, REFUND, name="other").run("go", run_id="d", principal=ANN)
    assert ran == ["refund"] * 2  # by another agent too
    agent(gov, REFUND).run("go", run_id="e", principal=BOB)
    assert ran == ["refund"] * 3
    gov.clock.wait(1800 - 1)
    agent(gov, REFUND).run("go", run_id="f", principal=ANN)
    assert ran == ["refund"] * 3
    gov.clock.wait(1)  # now the first two are an hour old
    agent(gov, REFUND).run("go", run_id="g", principal=ANN)
    assert ran == ["refund"] * 4
    seen = [one["window"] for one in inputs(gov)]
    assert [one["hour"].get("refund", 0) for one in seen] == [0, 1, 2, 2, 0, 2, 0]
    assert [one["day"].get("refund", 0) for one in seen] == [0, 1, 2, 2, 0, 2, 2]
    assert lawful(gov)


def test_a_day_has_24_hours():
    gov = installation(allowing("!('deploy' in window.day)"))
    for wait in (0, 24 * 3600 - 1, 1):
        gov.clock.wait(wait)
        agent(gov, calls(call("deploy"))).run("go", principal=ANN)
    assert ran == ["deploy"] * 2
    assert [one["window"]["day"] for one in inputs(gov)] == [{}, {"deploy": 1}, {}]
    assert lawful(gov)


@pytest.mark.attack
@pytest.mark.parametrize("parallel", [True, False])
def test_siblings_of_one_turn_cannot_both_take_the_last_place(parallel):
    gov = installation(allowing(FEW))
    agent(gov, REFUND).run("go", principal=ANN)
    three = calls(*[call("refund", cents=n) for n in range(3)])
    agent(gov, three, parallel_tools=parallel).run("go", principal=ANN)
    assert ran == ["refund"] * 2
    assert [one["window"]["hour"] for one in inputs(gov)][:3] == [{}, {"refund": 1}, {"refund": 2}]
    assert lawful(gov)


@pytest.mark.attack
@pytest.mark.parametrize(
    "twin", [replace(ANN, roles=("boss",)), replace(ANN, tenant=None), replace(ANN, tenant="x")]
)
def test_other_roles_or_another_tenant_make_no_other_person(twin):
    gov = installation(allowing(FEW))
    for who in (ANN, ANN, twin):
        agent(gov, REFUND).run("go", principal=who)
    assert ran == ["refund"] * 2
    assert lawful(gov)


@pytest.mark.attack
@pytest.mark.parametrize("spelled", ["user:ann ", " user:ann", "user:ann\u200b", "user:ａnn", ""])
def test_a_person_spelled_otherwise_gets_no_window_of_their_own(spelled):
    gov = installation(allowing(FEW))
    with pytest.raises(InvalidInputError, match="malformed subject id"):
        agent(gov, REFUND).run("go", principal=Principal(SubjectId(spelled)))
    assert ran == []


def test_nobody_in_particular_is_one_person():
    gov = installation(allowing(FEW))
    for _ in range(3):
        agent(gov, REFUND).run("go")
    assert ran == ["refund"] * 2
    assert lawful(gov)


@pytest.mark.attack
def test_a_call_that_waited_for_people_is_counted_when_it_starts():
    """Its decision and its yes are from a time when there was room."""
    gov = installation(WAITING)
    voter = person(gov, "op")
    waits = agent(gov, calls(call("deploy"), call("refund")))
    (asked,) = waits.run("go", run_id="w", principal=ANN).pending_approvals
    for _ in range(2):
        agent(gov, REFUND).run("go", principal=ANN)
    vote(gov, voter, asked.request)
    assert waits.resume("w").status == "completed"
    assert ran == ["refund", "refund", "deploy"]  # and not the refund that was allowed before
    assert lawful(gov)


@pytest.mark.attack
def test_a_yes_makes_no_room_in_a_window():
    text = WAITING + (
        "  - id: full\n    match: {tools: [deploy]}\n"
        "    when: \"'refund' in window.hour && window.hour.refund >= 2\"\n    effect: deny\n"
    )
    gov = installation(text)
    voter = person(gov, "op")
    waits = agent(gov, calls(call("deploy")))
    (asked,) = waits.run("go", run_id="w", principal=ANN).pending_approvals
    vote(gov, voter, asked.request)
    for _ in range(2):
        agent(gov, REFUND).run("go", principal=ANN)
    assert waits.resume("w").status == "completed"
    assert ran == ["refund", "refund"]
    assert lawful(gov)


def test_a_call_that_is_repeated_after_a_crash_counts_each_time_it_starts():
    gov = installation(allowing("window.day.size() < 9"))

    class Killed(BaseException):
        pass

    def die(point: str) -> None:
        if point == "after-effect":
            raise Killed

    with pytest.raises(Killed):
        agent(gov, calls(call("put")), failpoint=die).run("go", run_id="r", principal=ANN)
    gov.clock.wait(5)
    assert agent(gov).resume("r").status == "completed"
    assert ran == ["put 1", "put 2"]
    first, again = inputs(gov)
    assert (first["window"]["hour"], again["window"]["hour"]) == ({}, {"put": 1})
    assert (first["run"]["last"], again["run"]["last"]) == ({}, {"put": 5})
    assert lawful(gov)


def test_a_call_that_people_say_did_not_happen_counts_all_the_same():
    gov = installation(allowing(FEW))

    def die(point: str) -> None:
        if point == "before-effect":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent(gov, REFUND, failpoint=die).run("go", run_id="r", principal=ANN)
    assert agent(gov).resume("r").status == "suspended"
    again = recovery.Resolution(recovery.How.AGAIN, None, "it did not")
    operator = person(gov, "op", "operator")
    recovery.resolve(gov.store, gov.clock, ("r", "r/1.0"), again, operator)
    assert agent(gov).resume("r").status == "completed"
    agent(gov, REFUND).run("go", principal=ANN)
    assert ran == ["refund"]
    assert [one["window"]["hour"].get("refund", 0) for one in inputs(gov)] == [0, 1, 2]
    assert lawful(gov)


@pytest.mark.attack
def test_a_clock_that_goes_back_opens_no_window():
    gov = installation(allowing(FEW))
    for _ in range(2):
        agent(gov, REFUND).run("go", principal=ANN)
    for back in (10 * HOUR, 48 * HOUR):
        gov.clock.now -= back
        agent(gov, REFUND).run("go", principal=ANN)
    assert ran == ["refund"] * 2
    assert inputs(gov)[-1]["window"]["hour"] == {"refund": 2}
    assert lawful(gov)


def test_a_window_is_told_only_where_a_rule_asks_for_it():
    gov = installation(allowing("true"))
    agent(gov, REFUND).run("go", principal=ANN)
    asks = allowing("true").replace("version: 1", "version: 2") + (
        "  - {id: tried, mode: shadow, when: size(window.day) > 3, effect: deny}\n"
    )
    gov = replace(gov, rulebook=Rulebook.of(assemble.load({"p.yaml": asks})))
    agent(gov, REFUND).run("go", principal=ANN)
    unasked, asked = inputs(gov)
    assert "window" not in unasked
    assert asked["window"] == {"hour": {"refund": 1}, "day": {"refund": 1}}
    assert lawful(gov)


def test_windows_are_kept_in_the_file(tmp_path):
    home = Home(tmp_path, tmp_path / "checkpoint")
    assemble.init(home, Origin("test/facts"))
    for _ in range(3):
        with Governance.open(tmp_path, policies={"p.yaml": allowing(FEW)}) as gov:
            agent(gov, REFUND).run("go", principal=ANN)
    assert ran == ["refund"] * 2
    with Governance.open(tmp_path) as gov:
        assert lawful(gov)


@pytest.mark.attack
def test_an_index_of_starts_that_was_cut_is_found_by_the_count(tmp_path):
    """Whoever can write to the file makes room in it, and the entries tell."""
    home = Home(tmp_path, tmp_path / "checkpoint")
    assemble.init(home, Origin("test/facts"))
    for _ in range(3):
        with Governance.open(tmp_path, policies={"p.yaml": allowing(FEW)}) as gov:
            agent(gov, REFUND).run("go", principal=ANN)
        with sqlite3.connect(home.ledger) as database:
            database.execute("DELETE FROM start")
        database.close()
    assert ran == ["refund"] * 3
    with Governance.open(tmp_path) as gov:
        report = check(gov.store.read(lambda reader: reader.records()))
    assert {finding.kind for finding in report.findings} == {"input-differs"}
    assert "comes to `{'refund': 2}`" in report.findings[-1].message


# --- the last start, and what people approved -------------------------------------------------------


def test_a_cool_down_counts_from_the_last_start_over_resumes():
    gov = installation(allowing("!('deploy' in run.last) || run.last['deploy'] >= 60"))
    waits = iter([0, 59, 1, 59, 1])

    def turn(messages):
        wait = next(waits, None)
        if wait is None:
            return say()
        gov.clock.wait(wait)
        return calls(call("deploy"))

    agent(gov, *[turn] * 6).run("go", run_id="r")
    assert ran == ["deploy"] * 3
    assert [one["run"]["last"] for one in inputs(gov)] == [
        {},
        {"deploy": 59},
        {"deploy": 60},
        {"deploy": 59},
        {"deploy": 60},
    ]
    assert lawful(gov)


@pytest.mark.attack
def test_siblings_of_one_turn_cannot_pass_a_cool_down_together():
    gov = installation(allowing("!('refund' in run.last) || run.last['refund'] >= 60"))
    agent(gov, calls(*[call("refund", cents=n) for n in range(3)])).run("go")
    assert ran == ["refund"]
    assert [one["run"]["last"] for one in inputs(gov)][:3] == [{}, {"refund": 0}, {"refund": 0}]
    assert lawful(gov)


APPROVED_FIRST = """
policy: p
version: 1
rules:
  - {id: asked, match: {tools: [refund]}, effect: require_approval}
  - id: then
    match: {tools: [deploy]}
    when: "'refund' in run.approved"
    effect: allow
    allow_tier: critical
  - {id: free, match: {tools: [put, look]}, effect: allow, allow_tier: critical}
"""


def test_an_action_waits_for_an_approved_one():
    gov = installation(APPROVED_FIRST)
    voter = person(gov, "op")
    first = agent(
        gov, calls(call("deploy"), call("put")), REFUND, calls(call("deploy")), calls(call("look"))
    )
    (asked,) = first.run("go", run_id="r").pending_approvals
    assert ran == ["put 1"]
    vote(gov, voter, asked.request)
    assert first.resume("r").status == "completed"
    assert ran == ["put 1", "refund", "deploy", "look"]
    assert [one["run"]["approved"] for one in inputs(gov, "look")] == [{"refund": 1}]
    assert lawful(gov)


@pytest.mark.attack
def test_a_yes_that_nobody_has_used_gives_no_leave_to_a_sibling():
    """It may still expire, or be refused at the start."""
    gov = installation(APPROVED_FIRST)
    voter = person(gov, "op")
    both = agent(gov, calls(call("refund"), call("deploy")))
    (asked,) = both.run("go", run_id="r").pending_approvals
    vote(gov, voter, asked.request)
    assert both.resume("r").status == "completed"
    assert ran == ["refund"]
    assert lawful(gov)
