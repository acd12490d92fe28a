"""The live check beside writers: it sees one moment, stops nobody, is loud, and knows its own age."""

import logging
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from contract.conftest import ORIGIN, T0, Key
from fastapi import FastAPI
from starlette.testclient import TestClient

from governance import livecheck
from governance.ids import Micros, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.livecheck import LiveCheck, check
from governance.store import inspection
from governance.store.checkpoints import KeptCheckpoint
from governance.store.inspection import Subject
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore
from governance.store.stands import KeptStand
from governance.web.health import watch

SIGNER = Key()


def draft(n: int) -> Draft:
    run = RunId(f"run-{n % 7}")
    body = {"uid": f"{run}/{n}.0", "request": f"apr-{n // 2}"}
    kind = Kind.APPROVAL_REJECTED if n % 2 else Kind.APPROVAL_REQUESTED
    return Draft(kind, SubjectId("agent:a"), body, {"args": {"n": n}}, RunId(f"run-{n // 2 % 7}"))


class Log:
    """A log with a clock to turn, and whoever checks it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.now = T0
        self.kept = KeptStand(folder / "verified", SIGNER)
        self.subject = Subject(
            self.path,
            self.path.with_suffix(".keyring"),
            ORIGIN,
            SIGNER.verifier_key,
            KeptCheckpoint(folder / "checkpoint"),
        )
        self.store = SqliteStore.create(
            self.path,
            origin=ORIGIN,
            signer=SIGNER,
            clock=self.clock,
            salts=os.urandom,
            kept_checkpoint=folder / "checkpoint",
        )

    def clock(self) -> Micros:
        return self.now

    def append(self, n: int) -> None:
        self.store.write(lambda tx: tx.append(draft(n), T0))

    def alter(self, statement: str) -> None:
        with sqlite3.connect(self.path) as raw:
            assert raw.execute(statement).rowcount
        raw.close()


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path)
    yield made
    made.store.close()


def until(holds, within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_beside_writers_that_never_stop_every_check_finds_nothing(log, monkeypatch) -> None:
    monkeypatch.setattr(inspection, "SLICE_ENTRIES", 3)
    done, counts = threading.Event(), iter(range(1_000_000))
    failed: list[BaseException] = []

    def write() -> None:
        try:
            while not done.is_set():
                n = next(counts)
                log.store.write(
                    lambda tx, n=n: [tx.append(draft(m), T0) for m in (2 * n, 2 * n + 1)]
                )
                if n % 3 == 0:
                    log.store.checkpoint()
        except BaseException as exc:  # noqa: BLE001 - told by the test
            failed.append(exc)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    sizes, begins = [], set()
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end or len(sizes) < 8:
            outcome = check(log.subject, log.kept, log.clock, whole=len(sizes) % 2 == 0)
            assert outcome.ok, outcome.inspection.findings[:3]
            sizes.append(outcome.inspection.size)
            begins.add(outcome.inspection.begin > 0)
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert failed == []
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0] + 20
    assert begins == {False, True}


def test_a_reader_that_rests_between_slices_holds_up_no_writer_and_no_journal(
    log, monkeypatch
) -> None:
    monkeypatch.setattr(inspection, "SLICE_ENTRIES", 10)
    for n in range(100):
        log.append(n)
    folded: list[tuple[int, int, int]] = []

    def rest() -> None:
        log.append(100 + len(folded))
        raw = sqlite3.connect(log.path)
        folded.append(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        raw.close()

    assert check(log.subject, log.kept, log.clock, pause=rest).ok
    assert len(folded) >= 9
    assert set(folded) == {(0, 0, 0)}  # not busy: the whole write-ahead log was folded back


def test_the_last_look_is_as_young_as_its_end_not_as_its_beginning(log, monkeypatch) -> None:
    monkeypatch.setattr(inspection, "SLICE_ENTRIES", 10)
    for n in range(50):
        log.append(n)
    attacks = ["UPDATE run SET status = 'failed'"]

    def rest() -> None:
        if attacks:
            log.alter(attacks.pop())

    outcome = check(log.subject, log.kept, log.clock, pause=rest)
    assert {item.where.file for item in outcome.inspection.findings} == {"run.status"}


@pytest.fixture
def patient(monkeypatch) -> None:
    """However busy this machine is, nothing is overdue."""
    monkeypatch.setattr(livecheck, "OVERDUE_AFTER", 10_000)


# --- as a service -----------------------------------------------------------------------------------


def test_it_checks_again_and_again_and_alarms_until_a_whole_check_finds_nothing(
    log, caplog, patient
) -> None:
    caplog.set_level(logging.WARNING, "governance.check")
    live = LiveCheck(log.subject, log.kept, log.clock, every_s=0.02)
    assert live.health().outcome is None
    with live:
        until(lambda: (known := live.health().outcome) is not None and not known.whole)
        assert live.health().ok
        assert caplog.records == []
        log.append(0)
        log.alter("UPDATE head SET ts = ts + 1")
        until(lambda: not live.health().ok)
        assert not live.health().is_overdue
        until(lambda: (known := live.health().outcome) is not None and known.whole)
        # Appending goes on: nothing here can be used to stop it.
        log.alter("UPDATE head SET ts = ts - 1")
        log.append(1)
        until(lambda: live.health().ok)
    told = [record.getMessage() for record in caplog.records]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
    assert told[0].startswith("index-differs: head.ts (entry 1): ")
    assert "export a bundle and run `governance verify`" in told[0]
    assert "governance check --full" in told[1]


def test_a_check_that_cannot_be_made_is_overdue_in_time(log, caplog) -> None:
    caplog.set_level(logging.ERROR, "governance.check")
    away = log.path.with_name("away")
    live = LiveCheck(log.subject, log.kept, log.clock, every_s=0.05)
    with live:
        until(lambda: live.health().outcome is not None)
        log.path.rename(away)
        until(lambda: live.health().is_overdue)
        assert not live.health().ok
        assert live.health().failure.startswith("no log at ")
        away.rename(log.path)
        until(lambda: live.health().ok)
    assert "could not be checked" in caplog.records[0].getMessage()


def test_a_long_check_is_not_overdue_while_it_moves_and_ends_when_asked(log, monkeypatch) -> None:
    monkeypatch.setattr(inspection, "SLICE_ENTRIES", 1)
    monkeypatch.setattr(livecheck, "REST", 50)
    monkeypatch.setattr(livecheck, "OVERDUE_AFTER", 1)
    log.store.write(lambda tx: [tx.append(draft(n), T0) for n in range(1000)])
    with LiveCheck(log.subject, log.kept, log.clock, every_s=0.5) as live:
        end = time.monotonic() + 0.9
        while time.monotonic() < end:
            assert not live.health().is_overdue
            time.sleep(0.02)
        assert live.health().outcome is None
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert live.health().outcome is None
    assert not log.kept.path.exists()


# --- what a machine may ask -------------------------------------------------------------------------


def served(log: Log, live: LiveCheck, store=None) -> TestClient:
    app = FastAPI()
    watch(app, store or log.store, live)
    return TestClient(app)


def metrics(client: TestClient) -> dict[str, float]:
    text = client.get("/metrics").text
    values = [line.split() for line in text.splitlines() if not line.startswith("#")]
    described = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert described == {name for name, _ in values}
    return {name.removeprefix("governance_"): float(value) for name, value in values}


def test_metrics_and_health_tell_counts_ages_and_nothing_else(log, patient) -> None:
    live = LiveCheck(log.subject, log.kept, log.clock, every_s=0.02)
    client = served(log, live)
    log.now = Micros(T0 + 5_000_000)
    assert metrics(client) == {"ledger_size": 1, "check_age_seconds": 5}
    assert client.get("/health").json() == {
        "ok": True, "log": "checking", "age_s": 5, "findings": 0, "verified": 0, "failing": False,
    }  # fmt: skip
    with live:
        for n in range(5):
            log.append(n)
        until(
            lambda: live.health().outcome is not None and live.health().outcome.inspection.size == 6
        )
        assert metrics(client) == {
            "ledger_size": 6, "check_age_seconds": 0, "check_ok": 1,
            "check_verified_size": 6, "check_findings": 0,
        }  # fmt: skip
        log.alter("UPDATE head SET ts = ts + 1")
        until(lambda: not live.health().ok)
        found = metrics(client)
        assert (found["check_ok"], found["check_findings"], found["check_verified_size"]) == (
            0,
            1,
            0,
        )
        answer = client.get("/health")
        assert (answer.status_code, answer.json()["log"]) == (503, "does-not-hold")
        log.alter("UPDATE head SET edge = x'00'")
        until(lambda: "ledger_size" not in metrics(client))
        log.alter("UPDATE head SET ts = ts - 1")
    for path in ("/health", "/metrics"):
        assert (
            client.get(path).headers["content-type"].startswith(("application/json", "text/plain"))
        )
        assert not any(
            word in client.get(path).text for word in ("run-", "agent:", "apr-", str(log.path))
        )


def test_an_overdue_check_makes_health_fail(log) -> None:
    live = LiveCheck(log.subject, log.kept, log.clock, every_s=0.001)
    client = served(log, live, MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom))
    time.sleep(0.05)
    assert (client.get("/health").status_code, client.get("/health").json()["log"]) == (
        503,
        "overdue",
    )
