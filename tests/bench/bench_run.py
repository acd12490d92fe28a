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

RULES = """
policy: bench
version: 1
rules:
  - {id: reads, match: {tools: [look]}, effect: allow}
"""
TURN_BYTES = 700
CALLS = 300
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
    rules = assemble.load({"bench.yaml": RULES})
    return Governance(store, signer, rules, assemble.Environment())


def _turns(turns: int) -> Plays:
    return Plays(*(calls(call("look", n=n)) for n in range(turns)), say())


def governed_call() -> float:
    """Median time to decide, start, run and finish a call that does nothing, over two bare commits.

    The bare commits carry the bytes that the ledger took for the call, half each.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        governance, watch = _open(folder), Stopwatch()
        bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, raw BLOB NOT NULL)")
        theirs: list[float] = []

        class Between(Plays):
            async def respond(self, messages, tools):
                began = time.perf_counter()
                for _ in range(2):
                    bare.execute("BEGIN IMMEDIATE")
                    bare.execute("INSERT INTO entry (raw) VALUES (?)", (b"x" * 1500,))
                    bare.execute("COMMIT")
                theirs.append(time.perf_counter() - began)
                self.asked.append(())
                return self.turns[min(len(self.asked) - 1, len(self.turns) - 1)]

        model = Between(*_turns(CALLS).turns)
        agent = DurableAgent(
            model,
            [look],
            governance=governance,
            name="b",
            max_iterations=CALLS + 1,
            failpoint=watch,
        )
        agent.run("go")
        governance.close()
        bare.close()
    return statistics.median(watch.taken[20:]) / statistics.median(theirs[20:])


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
