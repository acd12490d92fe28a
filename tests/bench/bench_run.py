"""What does governing a run cost: a tool call, the bytes it leaves, the time to pick it up again?"""

import functools
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import Governance, assemble
from governance.config import Home
from governance.ids import Origin
from governance.rulebook import Rulebook

RULES = """
policy: bench
version: 1
rules:
  - {id: reads, match: {tools: [look]}, effect: allow}
"""
TURN_BYTES = 700
TURNS = 20
RUNS = 20
TEXT = "x" * TURN_BYTES


@tool(verb="READ", side_effect=False)
async def look(n: int) -> str:
    """Do nothing, and say so at length."""
    return TEXT


class Stopwatch:
    """Takes the time between the driver's failpoints around one governed call."""

    def __init__(self) -> None:
        self.began = 0.0
        self.taken: list[float] = []

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        if name == "after-responded":
            self.began = now
        elif name == "before-model" and self.began:
            self.taken.append(now - self.began)
            self.began = 0.0


def _open(folder: Path) -> Governance:
    home = Home(folder / "home", folder / "kept")
    assemble.init(home, Origin("bench.example/runs"))
    return _again(home)


def _again(home: Home) -> Governance:
    import os

    signer = assemble.KeySigner.load(home.key)
    store = assemble.SqliteStore.open(
        home.ledger,
        origin=signer.origin,
        signer=signer,
        salts=os.urandom,
        kept_checkpoint=home.checkpoint,
    )
    rules = Rulebook.of(assemble.load({"bench.yaml": RULES}))
    return Governance(store, signer, rules, assemble.Environment())


def _turns(turns: int) -> Plays:
    return Plays(*(calls(call("look", n=n)) for n in range(turns)), say())


class _Bare:
    """Commits the bytes that one governed call left, in two transactions of a database of their own."""

    def __init__(self, folder: Path, left: list[list[bytes]]) -> None:
        self.left = left
        self.taken: list[float] = []
        self.database = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("CREATE TABLE kept (seq INTEGER PRIMARY KEY, raw BLOB NOT NULL)")

    def __call__(self) -> None:
        began = time.perf_counter()
        for rows in self.left:
            self.database.execute("BEGIN IMMEDIATE")
            for row in rows:
                self.database.execute("INSERT INTO kept (raw) VALUES (?)", (row,))
            self.database.execute("COMMIT")
        self.taken.append(time.perf_counter() - began)


class _Between(Plays):
    """A model that, before it answers, lets the bare commits take their turn: outside any governed call."""

    def __init__(self, bare: _Bare) -> None:
        super().__init__(*_turns(TURNS).turns)
        self.bare = bare

    async def respond(self, messages, tools):
        self.bare()
        self.asked.append(())
        return self.turns[len(self.asked) - 1]


def governed_call() -> float:
    """Median time to decide, start, run and finish a call that does nothing, over two bare commits.

    From the moment the model's answer is kept to the moment the model is asked again, in runs of
    `TURNS` calls. The bare commits carry the very bytes that such a call left, on the same disk, in turns.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        governance, watch = _open(folder), Stopwatch()
        bare = _Bare(folder, _left_by_a_call(governance))
        for _ in range(RUNS):
            agent = DurableAgent(
                _Between(bare),
                [look],
                governance=governance,
                name="b",
                max_iterations=TURNS + 1,
                failpoint=watch,
            )
            agent.run("go")
        governance.close()
        bare.database.close()
    warm = 2 * TURNS
    return statistics.median(watch.taken[warm:]) / statistics.median(bare.taken[warm:])


def _left_by_a_call(governance: Governance) -> list[list[bytes]]:
    """What one call leaves in each of its two commits: the rows of entries and payloads."""
    agent = DurableAgent(_turns(2), [look], governance=governance, name="b", max_iterations=3)
    run = agent.run("go").run_id
    left: dict[str, list[bytes]] = {}
    for record in governance.store.read(lambda reader: reader.run_records(run)):
        payloads = [p.salt + p.content for p in record.payloads.values()]
        left[record.entry.kind.value] = [record.entry.raw, *payloads]
    return [
        left["call.decided"] + left["call.started"],
        left["call.finished"] + left["model.requested"],
    ]


@functools.cache
def _stored(turns: int) -> int:
    """Bytes of the whole database after a run of `turns` turns, evidence and indexes included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        governance = _open(folder)
        agent = DurableAgent(
            _turns(turns), [look], governance=governance, name="b", max_iterations=turns + 1
        )
        agent.run("go")
        governance.close()
        return (folder / "home" / "ledger.db").stat().st_size


def stored_growth() -> float:
    return _stored(400) / _stored(10)


def stored_megabytes() -> float:
    return _stored(400) / 1_000_000


@functools.cache
def _resume_s(turns: int) -> float:
    """Median seconds to pick a run of `turns` turns up in a fresh store: read, check, replay."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        governance = _open(folder)
        agent = DurableAgent(
            _turns(turns), [look], governance=governance, name="b", max_iterations=turns + 1
        )
        agent.run("go", run_id="r")
        governance.close()
        taken: list[float] = []
        for _ in range(7):
            again = _again(Home(folder / "home", folder / "kept"))
            agent = DurableAgent(Plays(say()), [look], governance=again, name="b")
            began = time.perf_counter()
            agent.resume("r")
            taken.append(time.perf_counter() - began)
            again.close()
    return statistics.median(taken)


def resume_growth() -> float:
    return (_resume_s(400) / 400) / (_resume_s(100) / 100)


def resume_milliseconds() -> float:
    return _resume_s(400) * 1000
