"""The same works on both stores leave the same bytes: the twin may stand in for the file anywhere."""

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.errors import GovernanceError
from governance.ids import Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.ledger.erasure import Erasure
from governance.ledger.merkle import Node
from governance.ports import Lease, Person
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("acme.example/agents")
KINDS = [
    Kind.RUN_STARTED,
    Kind.RUN_SUSPENDED,
    Kind.RUN_RESUMED,
    Kind.CALL_DECIDED,
    Kind.CALL_STARTED,
    Kind.APPROVAL_REQUESTED,
    Kind.APPROVAL_GRANTED,
    Kind.APPROVAL_USED,
    Kind.TOOL_REGISTERED,
]
RUNS = [RunId("run-1"), RunId("run-2")]
SUBJECTS = [SubjectId("user:1"), SubjectId("user:2")]
REQUESTS = [RequestId("req-1"), RequestId("req-2")]

drafts = st.builds(
    Draft,
    kind=st.sampled_from(KINDS),
    actor=st.sampled_from([SubjectId("agent:a"), SubjectId("agent:b"), SubjectId("user:1")]),
    body=st.fixed_dictionaries(
        {},
        optional={
            "uid": st.sampled_from(["run-1/1.0", "run-2/1.0"]),
            "request": st.sampled_from([str(request) for request in REQUESTS]),
            "tool": st.sampled_from(["refund", "deploy"]),
            "agent": st.just("agent:b"),
            "decision": st.integers(-1, 9),
        },
    ),
    payloads=st.dictionaries(st.sampled_from(["args", "input"]), st.integers(0, 9), max_size=2),
    run=st.sampled_from([None, *RUNS]),
    on_behalf_of=st.sampled_from([None, *SUBJECTS]),
)
people = st.builds(
    Person,
    subject=st.sampled_from(SUBJECTS),
    name=st.sampled_from(["Ann", "Bob"]),
    roles=st.frozensets(st.sampled_from(["finance", "security"])),
    active=st.booleans(),
)
leases = st.builds(
    Lease,
    run=st.sampled_from(RUNS),
    holder=st.sampled_from(["w1", "w2"]),
    until=st.integers(0, 9).map(Micros),
)
begun = st.tuples(st.sampled_from(RUNS), st.sampled_from(["refund", "deploy"]))
plain = st.sampled_from(["look", "raise"])
erasures = st.builds(
    Erasure, subject=st.sampled_from(SUBJECTS), by=st.sampled_from(SUBJECTS), reason=st.just("r")
)
steps = st.one_of(drafts, drafts, drafts, begun, people, leases, erasures, plain)
works = st.lists(st.lists(steps, min_size=1, max_size=5), max_size=12)


def everything(reader):
    """All that a reader can tell."""
    kinds = [[kind] for kind in KINDS]
    return {
        "head": reader.head(),
        "tree": list(
            reader.tree.nodes([Node(n, 0) for n in range(reader.head().size.bit_length())])
        ),
        "records": list(reader.records()),
        "runs": list(reader.runs()),
        "running": list(reader.runs(status=["running"])),
        "run heads": [reader.run_head(run) for run in RUNS],
        "of runs": [list(reader.run_records(run)) for run in RUNS],
        "about": [list(reader.about(run, key)) for run in RUNS for key in ("run-1/1.0", *REQUESTS)],
        "open": list(reader.open_requests()),
        "where": [reader.find_request(request) for request in REQUESTS],
        "starts": [
            dict(reader.starts(SubjectId(who), Micros(since)))
            for who in ("user:1", "agent:a")
            for since in (-1, 4)
        ],
        "latest": [reader.latest(kind) for kind in kinds],
        "of tools": [reader.latest(kind, tool="refund") for kind in kinds],
        "people": list(reader.people.everybody()),
        "leases": [reader.leases.get(run) for run in RUNS],
    }


def begin(tx, run, tool, at):
    """Decide about a call and start it, so that there is something to count."""
    who = SubjectId("agent:a"), SubjectId("user:1")
    decided = tx.append(Draft(Kind.CALL_DECIDED, who[0], {"tool": tool}, {}, run, who[1]), at)
    started = {"decision": decided.entry.seq}
    return decided, tx.append(Draft(Kind.CALL_STARTED, who[0], started, {}, run, who[1]), at)


def perform(work, at):
    def do(tx):
        seen = []
        for step in work:
            match step:
                case Draft():
                    seen.append(tx.append(step, Micros(at)))
                case Person():
                    tx.people.put(step)
                case Lease():
                    tx.leases.put(step)
                case (run, tool):
                    seen += begin(tx, run, tool, Micros(at))
                case Erasure():
                    seen.append(list(tx.erase(step, Micros(at))))
                    seen.append(tx.people.drop(step.subject))
                case "look":
                    seen.append(everything(tx))
                    seen.append([list(tx.belongings(subject)) for subject in SUBJECTS])
                case _:
                    raise KeyError(step)
        return seen

    return do


def told(future):
    try:
        return future.result(10)
    except (GovernanceError, KeyError) as failure:
        return str(failure)


def in_one_commit(store, planned):
    """Submit works while the writer is held, so that they share the commit that follows."""
    entered, release = threading.Event(), threading.Event()
    held = store.submit(lambda tx: (entered.set(), release.wait(10)))
    assert entered.wait(10)
    futures = [store.submit(perform(work, at)) for at, work in enumerate(planned)]
    release.set()
    assert held.result(10)
    return [told(future) for future in futures]


def one_by_one(store, planned):
    return [told(store.submit(perform(work, at))) for at, work in enumerate(planned)]


@pytest.mark.parametrize("way", [one_by_one, in_one_commit])
@settings(derandomize=True, max_examples=20, deadline=None)
@given(planned=works)
def test_both_stores_do_the_same(way, planned) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settled = {"signer": None, "clock": lambda: Micros(3), "salts": bytes}
        ours = SqliteStore.create(Path(folder) / "a.db", origin=ORIGIN, **settled)
        twin = MemoryStore(ORIGIN, None, lambda: Micros(3), bytes)
        try:
            assert way(ours, planned) == one_by_one(twin, planned)
            assert ours.read(everything) == twin.read(everything)
            assert ours.write(everything) == twin.write(everything)
        finally:
            ours.close()
