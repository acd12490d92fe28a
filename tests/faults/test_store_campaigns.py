"""Many processes on one file, and two hundred kills: one chain, and nothing acknowledged is lost.

What counts is what a process had told before it died, against what the live check and the verifier find
in the file afterwards.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from faults import fleet

from governance.bundle import export, verify_bundle
from governance.ids import Digest, Micros, RunId
from governance.ledger.checkpoint import parse_verifier_key
from governance.livecheck import Outcome, check
from governance.store.checkpoints import KeptCheckpoint
from governance.store.inspection import Subject
from governance.store.sqlite import SqliteStore
from governance.store.stands import KeptStand

pytestmark = pytest.mark.crash

KILLS, BATCHES = 200, 5
PIN = parse_verifier_key(fleet.SIGNER.verifier_key)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    SqliteStore.create(
        path,
        origin=fleet.ORIGIN,
        signer=fleet.SIGNER,
        clock=lambda: Micros(1),
        salts=os.urandom,
        kept_checkpoint=tmp_path / "checkpoint",
    ).close()
    return path


def run_fleet(*words: object) -> dict[int, Digest]:
    """Let it happen; gives the hash of every acknowledged entry by its position."""
    done = subprocess.run(
        [sys.executable, fleet.__file__, *map(str, words)],
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    told = {int(seq): Digest(bytes.fromhex(hash)) for seq, hash in lines}
    assert len(told) == len(lines), "one position was given to two"
    return told


def look(ledger: Path) -> Outcome:
    kept = KeptCheckpoint(ledger.with_name("checkpoint"))
    keys = ledger.with_suffix(".keyring")
    subject = Subject(ledger, keys, fleet.ORIGIN, fleet.SIGNER.verifier_key, kept)
    outcome = check(
        subject, KeptStand(ledger.with_name("verified"), fleet.SIGNER), lambda: Micros(1)
    )
    assert outcome.ok, outcome.inspection.findings[:5]
    assert not outcome.kept_refused
    return outcome


def hashes(store: SqliteStore) -> list[Digest]:
    """The hash of every entry, after the store itself has compared bytes, links and index."""
    records = store.read(lambda reader: reader.records(limit=1_000_000))
    assert all(record.content("message") == "x" * 200 for record in records[1:])
    return [record.entry.hash for record in records]


def test_eight_processes_with_two_hundred_appends_each_write_one_chain(ledger, tmp_path) -> None:
    told = run_fleet("writers", ledger, 8, 200)
    assert sorted(told) == list(range(1, 1601))
    assert look(ledger).inspection.size == 1601
    store = fleet.open_store(ledger)
    try:
        found = hashes(store)
        assert {seq: found[seq] for seq in told} == told
        runs = [store.read(lambda r, n=n: r.run_records(RunId(f"run-{n}"))) for n in range(5)]
        assert Counter(map(len, runs)) == {320: 5}
        head = store.checkpoint()
        store.read(lambda reader: export(reader, head, tmp_path / "bundle", fleet.SIGNER))
    finally:
        store.close()
    report = verify_bundle(tmp_path / "bundle", [PIN])
    assert report.ok, report.findings[:5]
    assert report.summary.entries == 1601


def test_two_hundred_kills_at_random_lose_nothing_that_was_acknowledged(ledger, tmp_path) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    told: dict[int, Digest] = {}
    for batch in range(BATCHES):
        now = run_fleet("killed", ledger, KILLS // BATCHES, seed + batch)
        assert not told.keys() & now.keys(), f"seed {seed}: a position was given twice"
        told |= now
        size = look(ledger).inspection.size
        assert max(told, default=0) < size, f"seed {seed}: an acknowledged entry is gone"
    assert len(told) > KILLS, f"seed {seed}: only {len(told)} appends"
    store = fleet.open_store(ledger)
    try:
        found = hashes(store)
        assert {seq: found[seq] for seq in told} == told, f"seed {seed}"
        head = store.checkpoint()
        store.read(lambda reader: export(reader, head, tmp_path / "bundle", fleet.SIGNER))
    finally:
        store.close()
    report = verify_bundle(tmp_path / "bundle", [PIN])
    assert report.ok, report.findings[:5]
