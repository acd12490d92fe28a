"""How many calls were started for somebody of late: what every store counts, and what it costs."""

import threading

import pytest
from contract.conftest import AGENT, T0

from governance.ids import Micros, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.store.memory import MemoryStore

ANN, BOB = SubjectId("user:ann"), SubjectId("user:bob")
HOUR = 3_600_000_000


def begin(tx, tool="refund", run="run-1", at=T0, behalf=ANN):
    """Decide about a call and start it."""
    uid = f"{run}/{tx.head().size}.0"
    told = {"uid": uid, "tool": tool}
    decided = tx.append(Draft(Kind.CALL_DECIDED, AGENT, told, {}, RunId(run), behalf), Micros(at))
    return start(tx, decided.entry.seq, run, at, behalf)


def start(tx, decision, run="run-1", at=T0, behalf=ANN):
    body = {"uid": f"{run}/1.0", "attempt": 1, "key": "k", "decision": decision}
    in_run = None if run is None else RunId(run)
    return tx.append(Draft(Kind.CALL_STARTED, AGENT, body, {}, in_run, behalf), Micros(at))


def counted(store, who=ANN, since=0):
    return dict(store.read(lambda reader: reader.starts(who, Micros(since))))


def test_starts_are_counted_by_tool_whatever_the_run(store) -> None:
    assert counted(store) == {}
    for tool, run in [("refund", "run-1"), ("mail", "run-1"), ("refund", "run-2")]:
        store.write(lambda tx, tool=tool, run=run: begin(tx, tool, run))
    store.write(lambda tx: begin(tx, "refund", "run-3", behalf=BOB))
    assert counted(store) == {"refund": 2, "mail": 1}
    assert counted(store, BOB) == {"refund": 1}
    assert counted(store, SubjectId("user:eve")) == counted(store, SubjectId("user:Ann")) == {}


def test_a_decision_or_an_outcome_is_no_start(store, draft) -> None:
    store.write(lambda tx: tx.append(draft(Kind.CALL_DECIDED, uid="u", tool="refund"), T0))
    store.write(lambda tx: tx.append(draft(Kind.CALL_FINISHED, uid="u", decision=1), T0))
    assert counted(store, AGENT) == {}


def test_who_acts_for_nobody_else_acts_for_itself(store) -> None:
    store.write(lambda tx: begin(tx, behalf=None))
    store.write(lambda tx: begin(tx, behalf=AGENT))
    assert counted(store, AGENT) == {"refund": 2}


def test_a_start_at_the_moment_itself_is_out_and_a_microsecond_later_is_in(store) -> None:
    for ago in (HOUR + 1, HOUR, HOUR - 1, 0):
        store.write(lambda tx, ago=ago: begin(tx, at=T0 + 2 * HOUR - ago))
    now = T0 + 2 * HOUR
    assert counted(store, since=now - HOUR) == {"refund": 2}
    assert counted(store, since=now - HOUR - 1) == {"refund": 3}
    assert counted(store, since=now - 1) == {"refund": 1}
    assert counted(store, since=now) == counted(store, since=now + HOUR) == {}
    assert counted(store, since=-HOUR) == {"refund": 4}


def test_starts_of_one_moment_are_all_counted(store) -> None:
    """A clock that stands still, or goes back, is set to the log's own time."""
    store.write(lambda tx: [begin(tx, at=T0 + HOUR), begin(tx, at=T0), begin(tx, at=5)])
    assert counted(store, since=T0 + HOUR - 1) == {"refund": 3}


def test_a_work_counts_its_own_starts_and_nobody_elses_that_failed(store) -> None:
    def doomed(tx):
        begin(tx)
        assert tx.starts(ANN, Micros(0)) == {"refund": 1}
        raise KeyError

    with pytest.raises(KeyError):
        store.write(doomed)
    assert counted(store) == {}
    assert store.write(lambda tx: (begin(tx), dict(tx.starts(ANN, Micros(0))))[1]) == {"refund": 1}


def test_works_of_one_commit_see_each_other(store) -> None:
    entered, release = threading.Event(), threading.Event()
    if isinstance(store, MemoryStore):  # which runs a work in the thread that submits it
        release.set()
    held = store.submit(lambda tx: (entered.set(), release.wait(10)))
    assert entered.wait(10)

    def take_one_of_three(tx):
        left = 3 - tx.starts(ANN, Micros(0)).get("refund", 0)
        return bool(left and begin(tx, run=f"run-{tx.head().size}"))

    taken = [store.submit(take_one_of_three) for _ in range(8)]
    release.set()
    assert held.result(10)
    assert sum(one.result(10) for one in taken) == 3
    assert counted(store) == {"refund": 3}


@pytest.mark.attack
@pytest.mark.parametrize("decision", [-1, -2, 0, 3, 4, 99, True, "1", None, 1 << 50])
def test_a_start_that_names_no_decision_of_its_run_counts_for_no_tool(store, decision) -> None:
    def work(tx):
        tx.append(Draft(Kind.CALL_DECIDED, AGENT, {"tool": "a"}, {}, RunId("run-1"), ANN), T0)
        tx.append(Draft(Kind.TOOL_REGISTERED, AGENT, {"tool": "b"}), T0)
        tx.append(Draft(Kind.CALL_DECIDED, AGENT, {"tool": "c"}, {}, RunId("run-2"), ANN), T0)
        return start(tx, decision).entry.seq

    assert store.write(work) == 4
    assert counted(store) == {}


@pytest.mark.attack
def test_a_start_outside_any_run_and_a_tool_that_is_no_text_count_for_nothing(store) -> None:
    def work(tx):
        for tool in (7, None, ["refund"], {"refund": 1}, True):
            told = Draft(Kind.CALL_DECIDED, AGENT, {"tool": tool}, {}, RunId("run-1"), ANN)
            start(tx, tx.append(told, T0).entry.seq)
        start(tx, 1, run=None)

    store.write(work)
    assert counted(store) == {}


@pytest.mark.attack
@pytest.mark.parametrize(
    "tool",
    ["", "a.b", "'; DROP TABLE start; --", "$.body", "Überweisung", "a\nb", "%", "1", "x" * 64],
)
def test_a_tool_may_have_any_name(store, tool) -> None:
    for _ in range(2):
        store.write(lambda tx: begin(tx, tool))
    store.write(lambda tx: begin(tx, tool + "x"))
    assert counted(store) == {tool: 2, tool + "x": 1}


def test_a_count_takes_no_longer_when_there_is_more_to_count(create) -> None:
    """Measured in steps of the database's machine, which no other process can change."""
    store = create()

    def steps(tx):
        taken = 0

        def step():
            nonlocal taken
            taken += 1
            return 0

        tx._connection.set_progress_handler(step, 1)
        counts = dict(tx.starts(ANN, Micros(T0 + 5)))
        tx._connection.set_progress_handler(None, 1)
        return taken, counts

    def grow(tx, count):
        at = tx.head().ts
        for n in range(1, count + 1):
            begin(tx, f"tool-{n % 3}", at=at + n)
            begin(tx, f"tool-{n % 7}", at=at + n, behalf=BOB)

    store.write(lambda tx: grow(tx, 30))
    few, _ = store.write(steps)
    store.write(lambda tx: grow(tx, 3000))
    many, counts = store.write(steps)
    assert sum(counts.values()) == 3030 - 5
    assert many <= few + 20  # the tree is a level deeper, that is all
