"""How much does an append cost, beside a bare commit of the same bytes and beside many callers?

Each figure is a ratio of two things done in turns in the same run, on the same disk.
"""

import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import verifier_key
from governance.ledger.entry import Draft, Kind
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("bench.example/agents")
CALLERS = 64
WARM = 100
APPENDS = 600
APPENDS_PER_CALLER = 20
SLOW_COMMIT_S = 0.002


class _Key:
    def __init__(self) -> None:
        self.origin = ORIGIN
        self._key = Ed25519PrivateKey.generate()
        self.verifier_key = verifier_key(ORIGIN, self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def durable_append_one() -> float:
    """Median time of one caller's durable append, over that of a bare WAL/FULL commit of its bytes.

    The bare one inserts the same bytes as rows of one table without an index, in a database of its own on
    the same disk. They take turns, one for one, so that neither has the quieter minute.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder))
        record = store.write(_work(0))
        stored = [record.entry.raw, *(p.salt + p.content for p in record.payloads.values())]
        bare = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, raw BLOB NOT NULL)")

        def commit() -> None:
            bare.execute("BEGIN IMMEDIATE")
            for raw in stored:
                bare.execute("INSERT INTO entry (raw) VALUES (?)", (raw,))
            bare.execute("COMMIT")

        work = _work(0)
        turns = [(_timed(commit), _timed(lambda: store.write(work))) for _ in range(APPENDS)]
        bare.close()
        store.close()
    theirs, ours = zip(*turns[WARM:], strict=True)
    return statistics.median(ours) / statistics.median(theirs)


def durable_append_many() -> float:
    """Durable appends per second of 64 callers, a thread each, over those of one caller.

    They share commits, so what it can reach is the price of a commit over that of an append's own work:
    on a disk that syncs fast, less.
    """
    return _many_over_one(commit_s=0)


def durable_append_many_slow_disk() -> float:
    """The same where a commit takes `SLOW_COMMIT_S` at least, as on a network volume."""
    return _many_over_one(commit_s=SLOW_COMMIT_S)


class _SlowDisk:
    """A connection whose commits take a while, in which, as in a sync, other threads run."""

    def __init__(self, connection: sqlite3.Connection, commit_s: float) -> None:
        self._connection = connection
        self._commit_s = commit_s

    def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        if statement == "COMMIT":
            time.sleep(self._commit_s)
        return self._connection.execute(statement, *parameters)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def _many_over_one(commit_s: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder))
        if commit_s:
            writer = store._writer
            writer._connection = _SlowDisk(writer._connection, commit_s)
        ratios: list[float] = []
        for round_ in range(7):
            alone = _timed(lambda: _caller(store, 0, 100)) / 100
            together = _timed(lambda: _callers(store)) / (CALLERS * APPENDS_PER_CALLER)
            if round_:
                ratios.append(alone / together)
        store.close()
    return statistics.median(ratios)


def _store(folder: Path) -> SqliteStore:
    return SqliteStore.create(
        folder / "ledger.db",
        origin=ORIGIN,
        signer=_Key(),
        clock=lambda: Micros(time.time_ns() // 1000),
        salts=os.urandom,
        kept_checkpoint=folder / "kept",
    )


def _work(caller: int) -> Callable[..., object]:
    run = RunId(f"run-{caller}")
    body = {"uid": f"{run}/1.0", "attempt": 1, "duration_us": 1200}
    result = {"content": "the refund was booked. " * 20, "metadata": {"count": 1}}
    draft = Draft(Kind.CALL_FINISHED, SubjectId("agent:bench"), body, {"result": result}, run)
    return lambda tx: tx.append(draft, Micros(time.time_ns() // 1000))


def _caller(store: SqliteStore, caller: int, appends: int) -> None:
    work = _work(caller)
    for _ in range(appends):
        store.write(work)


def _callers(store: SqliteStore) -> None:
    threads = [
        threading.Thread(target=_caller, args=(store, caller, APPENDS_PER_CALLER))
        for caller in range(CALLERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
