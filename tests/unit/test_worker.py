"""The worker goes on with runs once their answers are in, looks cheaply, and survives whatever a run does."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from agents import Plays, call, calls, kinds, person, say, vote

from agent import DurableAgent, tool
from agent.models import ModelError
from agent.worker import BACKOFF_MAX_S, Failure, Worker, backoff_s
from governance import Governance
from governance.approval.model import Verdict
from governance.errors import UnavailableError
from governance.ids import Micros, RunId, parse_run_id
from governance.ports import Lease

RULES = """
policy: desk
version: 1
rules:
  - {id: mails, match: {tools: [mail]}, effect: allow, allow_tier: critical}
  - id: pays
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
"""
SECOND = 1_000_000
HOUR = 3600 * SECOND


class Clock:
    """Stands still until it is moved, but for the microsecond that each look takes."""

    def __init__(self) -> None:
        self.now = Micros(1_800_000_000_000_000)

    def __call__(self) -> Micros:
        self.now = Micros(self.now + 1)
        return self.now


class CountingStore:
    """Counts how often runs are replayed, and fails on demand."""

    def __init__(self, store) -> None:
        self.store = store
        self.replays: list[str] = []
        self.broken = False

    def __getattr__(self, name):
        return getattr(self.store, name)

    def read(self, work):
        if self.broken:
            raise UnavailableError("the disk is away")
        return self.store.read(lambda reader: work(CountingReader(reader, self.replays)))


class CountingReader:
    def __init__(self, reader, replays) -> None:
        self.reader, self.replays = reader, replays

    def __getattr__(self, name):
        return getattr(self.reader, name)

    def run_records(self, run, *, start=0):
        self.replays.append(run)
        return self.reader.run_records(run, start=start)


@pytest.fixture
def gov():
    made = Governance.in_memory(policies={"desk.yaml": RULES})
    with replace(made, clock=Clock(), store=CountingStore(made.store)) as governance:
        yield governance


@pytest.fixture
def paid() -> list:
    return []


@pytest.fixture
def pay(paid):
    @tool(verb="FINANCIAL", side_effect=True, name="pay")
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    return pay


def held(gov, pay, *turns, name: str = "agent") -> DurableAgent:
    return DurableAgent(
        Plays(calls(call("pay", to="bob")), *(turns or (say(),))),
        [pay],
        governance=gov,
        name=name,
    )


def settle(worker: Worker) -> None:
    """Wait until no run is in hand."""
    until(lambda: not worker._in_hand())


def until(holds: Callable[[], bool], within_s: float = 5.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def status(gov, run: str) -> str:
    head = gov.store.read(lambda reader: reader.run_head(parse_run_id(run)))
    return head.status


def test_an_approved_run_goes_on_within_a_second(gov, pay, paid):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    ann = person(gov)
    with Worker(agent):
        time.sleep(0.1)
        assert paid == []
        vote(gov, ann, waiting.request)
        until(lambda: status(gov, "r1") == "completed", within_s=2.0)
    assert paid == ["bob"]


def test_a_rejected_run_goes_on_without_the_call(gov, pay, paid):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request, Verdict.REJECT)
    worker = Worker(agent)
    assert worker.sweep() == 1
    settle(worker)
    assert status(gov, "r1") == "completed"
    assert paid == []


def test_a_waiting_run_is_replayed_once_and_not_again_until_something_changes(gov, pay):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    gov.store.replays.clear()
    worker = Worker(agent)
    for _ in range(20):
        assert worker.sweep() == 0
    assert gov.store.replays == ["r1"]
    vote(gov, person(gov), waiting.request)
    assert worker.sweep() == 1
    settle(worker)


def test_a_request_whose_time_runs_out_is_recorded_and_the_run_goes_on(gov, pay, paid):
    agent = held(gov, pay)
    agent.run("pay bob", run_id="r1")
    worker = Worker(agent)
    assert worker.sweep() == 0
    gov.clock.now = Micros(gov.clock.now + 5 * HOUR)
    assert worker.sweep() == 1
    settle(worker)
    assert "approval.expired" in kinds(gov, "r1")
    assert status(gov, "r1") == "completed"
    assert paid == []


def test_runs_of_other_agents_are_left_alone(gov, pay, paid):
    waiting = held(gov, pay, name="other").run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    worker = Worker(held(gov, pay, name="agent"))
    assert worker.sweep() == 0
    assert status(gov, "r1") == "suspended"


def test_a_run_that_a_live_driver_holds_is_left_to_it_until_its_lease_runs_out(gov, pay):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    lease = Lease(RunId("r1"), "somebody", Micros(gov.clock.now + 10 * SECOND))
    gov.store.write(lambda tx: tx.leases.put(lease))
    worker = Worker(agent)
    assert worker.sweep() == 0
    gov.clock.now = Micros(gov.clock.now + 11 * SECOND)
    assert worker.sweep() == 1
    settle(worker)
    assert status(gov, "r1") == "completed"


def test_a_model_that_fails_is_asked_again_ever_more_rarely(gov, pay):
    away = ModelError("model away", code="unreachable")
    agent = held(gov, pay, away)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    told: list[Failure] = []
    worker = Worker(agent, report=told.append)
    for wait in (1.0, 2.0, 4.0):
        assert worker.sweep() == 1
        settle(worker)
        assert told[-1] == Failure(RunId("r1"), str(away), wait)
        gov.clock.now = Micros(gov.clock.now + int((wait - 0.5) * SECOND))
        assert worker.sweep() == 0
        gov.clock.now = Micros(gov.clock.now + SECOND)
    agent._model.turns = [say()]
    assert worker.sweep() == 1
    settle(worker)
    assert status(gov, "r1") == "completed"


def test_the_wait_doubles_and_has_an_end():
    waits = [backoff_s(n) for n in range(1, 40)]
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF_MAX_S


def test_one_run_that_breaks_holds_up_no_other(gov, pay, paid):
    broken, agent = held(gov, pay, RuntimeError("a bug")), held(gov, pay)
    ann = person(gov)
    for name, whose in (("r1", broken), ("r2", agent)):
        vote(gov, ann, whose.run("pay bob", run_id=name).pending_approvals[0].request)
    told: list[Failure] = []
    agent._model.turns = [say()]
    agent._model.respond = _breaks_once_for(agent._model.respond)
    with Worker(agent, pause_s=0.01, report=told.append):
        until(lambda: len(paid) == 2 and len(told) == 1)
        until(lambda: "completed" in {status(gov, run) for run in ("r1", "r2")})
    assert "a bug" in told[0].text
    assert sorted(status(gov, run) for run in ("r1", "r2")) == ["completed", "running"]


def _breaks_once_for(respond):
    seen: list = []

    async def respond_or_break(messages, tools):
        seen.append(1)
        if len(seen) == 1:
            raise RuntimeError("a bug")
        return await respond(messages, tools)

    return respond_or_break


def test_a_store_that_cannot_be_read_is_tried_again(gov, pay):
    told: list[Failure] = []
    gov.store.broken = True
    with Worker(held(gov, pay), pause_s=0.01, report=told.append):
        until(lambda: len(told) >= 1)
    assert told[0].text == "the disk is away"
    assert told[0].run == "all"


def test_a_slow_tool_holds_up_no_other_run(gov):
    going = threading.Event()

    @tool(verb="FINANCIAL", side_effect=True, name="pay")
    def pay(to: str) -> str:
        """Pay."""
        assert to == "fast" or going.wait(10)
        return "paid"

    ann = person(gov)
    for run, to in (("slow", "slow"), ("fast", "fast")):
        agent = DurableAgent(Plays(calls(call("pay", to=to)), say()), [pay], governance=gov)
        vote(gov, ann, agent.run("pay", run_id=run).pending_approvals[0].request)
    agent._model.turns = [say()]
    with Worker(agent, pause_s=0.01):
        until(lambda: status(gov, "fast") == "completed")
        until(lambda: status(gov, "slow") == "running")
        going.set()
        until(lambda: status(gov, "slow") == "completed")


def test_stopping_waits_for_the_turn_in_hand_and_begins_no_other(gov):
    begun, may_end = threading.Event(), threading.Event()

    @tool(verb="FINANCIAL", side_effect=True, name="pay")
    def pay(to: str) -> str:
        """Pay."""
        begun.set()
        assert may_end.wait(10)
        return "paid"

    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    worker = Worker(agent, pause_s=0.01)
    worker.start()
    assert begun.wait(5)
    threading.Timer(0.2, may_end.set).start()
    worker.stop()
    assert kinds(gov, "r1")[-2:] == ["call.finished", "model.requested"]
    assert len(agent._model.asked) == 1
    assert gov.store.read(lambda reader: reader.leases.get(RunId("r1"))) is None


def test_a_run_that_a_stopped_worker_left_is_taken_up_by_the_next(gov, pay, paid):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    stopped = Worker(agent)
    stopped.sweep()
    stopped.stop()
    settle(stopped)
    worker = Worker(agent)
    worker.sweep()
    settle(worker)
    assert status(gov, "r1") == "completed"
    assert paid == ["bob"]


def test_two_workers_do_nothing_twice(gov, pay, paid):
    brief = replace(gov, lease_us=SECOND // 10)
    agents = [held(brief, pay, say()) for _ in range(2)]
    waiting = agents[0].run("pay bob", run_id="r1").pending_approvals[0]
    agents[1]._model.turns = [say()]
    with Worker(agents[0], pause_s=0.001), Worker(agents[1], pause_s=0.001):
        vote(gov, person(gov), waiting.request)
        until(lambda: status(gov, "r1") == "completed")
    assert paid == ["bob"]


def test_ended_runs_are_forgotten(gov, pay):
    agent = held(gov, pay)
    waiting = agent.run("pay bob", run_id="r1").pending_approvals[0]
    vote(gov, person(gov), waiting.request)
    worker = Worker(agent)
    worker.sweep()
    settle(worker)
    worker.sweep()
    assert worker._watches == {}
