"""What holds for the SQLite store alone: its file, its settings, other processes, altered rows."""

import itertools
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from governance.canonical import entry_bytes, parse_entry
from governance.errors import (
    ConflictError,
    GovernanceError,
    InvalidInputError,
    RefusedError,
    TamperedError,
    UnavailableError,
)
from governance.ids import Micros, Origin, RunId
from governance.ledger.checkpoint import note_text, parse_checkpoint
from governance.ledger.entry import Kind, leaf_hash
from governance.store import connection, writer
from governance.store.checkpoints import KeptCheckpoint
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("acme.example/agents")
T0 = Micros(1_764_000_000_000_000)
RUN = RunId("run-1")

APPEND_IN_ANOTHER_PROCESS = """
import os, sys
from pathlib import Path
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.store.sqlite import SqliteStore

path, name = sys.argv[1:]
store = SqliteStore.open(
    Path(path), origin=Origin("acme.example/agents"), signer=None, salts=os.urandom, busy_timeout_s=60
)
def work(tx):
    run = RunId("run-%d" % (int(name) % 3))
    draft = Draft(Kind.INPUT_RECEIVED, SubjectId("agent:" + name), {}, {"message": name}, run)
    return tx.append(draft, Micros(1))
for _ in range(100):
    store.write(work)
store.close()
"""


@pytest.fixture
def reopen(signer):
    opened = []

    def open_again(path: Path, **given: object) -> SqliteStore:
        settings = {"origin": ORIGIN, "signer": signer, "salts": os.urandom}
        opened.append(SqliteStore.open(path, **(settings | given)))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def filled(create, draft, tmp_path):
    """A closed log of ten entries of one run, each with a payload."""
    path = tmp_path / "filled.db"
    store = create(path=path)
    for n in range(10):
        store.write(
            lambda tx, n=n: tx.append(draft(payloads={"message": n}, uid=f"run-1/{n}.0"), T0)
        )
    store.close()
    return path


def alter(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()


def test_the_file_is_private_whatever_the_umask(create, tmp_path) -> None:
    old = os.umask(0)
    try:
        create(path=tmp_path / "open.db")
        os.umask(0o277)
        create(path=tmp_path / "shut.db")
    finally:
        os.umask(old)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("*.db*")}
    assert set(modes.values()) == {0o600}
    assert {"open.db", "open.db-wal", "shut.db", "shut.db-wal"} <= set(modes)


def test_every_connection_syncs_a_write_ahead_log(create, tmp_path) -> None:
    create(path=tmp_path / "a.db")
    for read_only in (False, True):
        raw = connection.connect(tmp_path / "a.db", busy_timeout_s=1, read_only=read_only)
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA synchronous").fetchone() == (2,)
        assert raw.execute("PRAGMA foreign_keys").fetchone() == (1,)
        raw.close()
    raw = connection.connect(tmp_path / "a.db", busy_timeout_s=1, read_only=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        raw.execute("DELETE FROM entry")
    raw.close()


def test_a_journal_that_is_no_write_ahead_log_is_refused(create, tmp_path) -> None:
    create(path=tmp_path / "a.db").close()
    alter(tmp_path / "a.db", "PRAGMA journal_mode = DELETE")
    with pytest.raises(UnavailableError, match="keeps its journal as `delete`"):
        connection.connect(tmp_path / "a.db", busy_timeout_s=1, read_only=True)


def test_a_new_log_takes_no_existing_file(create, tmp_path) -> None:
    (tmp_path / "there.db").write_text("mine")
    with pytest.raises(ConflictError, match="exists already"):
        create(path=tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text() == "mine"


def test_a_creation_that_fails_leaves_no_file(create, tmp_path) -> None:
    def no_salt(_: int) -> bytes:
        raise AssertionError

    def no_time() -> Micros:
        raise OSError

    with pytest.raises(OSError):
        create(path=tmp_path / "new.db", clock=no_time, salts=no_salt)
    assert list(tmp_path.iterdir()) == []


def test_opening_refuses_what_is_not_this_log(create, reopen, signer, tmp_path) -> None:
    path = tmp_path / "a.db"
    with pytest.raises(InvalidInputError, match=r"no log at .*; run `governance init`"):
        reopen(path)
    create(path=path).close()
    with pytest.raises(InvalidInputError, match=r"is `acme\.example/agents`, not `acme"):
        reopen(path, origin=Origin("acme.example/other"), signer=None)
    with pytest.raises(InvalidInputError, match="key is of log"):
        reopen(path, origin=Origin("acme.example/other"))
    path.chmod(0o640)
    with pytest.raises(RefusedError, match="open to others: mode `0640`; run `chmod 600"):
        reopen(path)
    path.chmod(0o600)
    alter(path, "UPDATE meta SET schema_version = 99")
    with pytest.raises(InvalidInputError, match="schema `99`"):
        reopen(path)


@pytest.mark.parametrize("content", [b"", b"not a database" * 100], ids=["empty", "garbage"])
def test_opening_refuses_another_file(reopen, tmp_path, content) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises((InvalidInputError, TamperedError)):
        reopen(path)
    with pytest.raises(InvalidInputError, match="is not a file"):
        reopen(tmp_path)


def test_reopening_goes_on_where_the_log_ended(create, reopen, draft, tmp_path) -> None:
    store = create(path=tmp_path / "a.db")
    before = store.write(lambda tx: tx.append(draft(payloads={"m": 1}), T0))
    store.close()
    again = reopen(tmp_path / "a.db")
    after = again.write(lambda tx: tx.append(draft(), Micros(0)))
    assert (after.entry.prev, after.entry.rprev) == (before.entry.hash, before.entry.hash)
    assert (after.entry.seq, after.entry.rseq, after.entry.ts) == (2, 1, T0)
    found = again.read(lambda reader: reader.records())
    assert [record.entry.seq for record in found] == [0, 1, 2]
    assert found[1].content("m") == 1


def test_closing_signs_the_head_and_folds_the_journal(create, draft, reopen, tmp_path) -> None:
    store = create(path=tmp_path / "a.db")
    store.write(lambda tx: tx.append(draft(), T0))
    store.read(lambda reader: reader.head())
    store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "a.keyring"]
    sizes = [size for size, _ in reopen(tmp_path / "a.db").read(lambda r: r.checkpoints())]
    assert sizes == [1, 2]


def test_new_entries_are_signed_after_a_while(create, draft, monkeypatch) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_AFTER_S", 0.05)
    store = create()
    store.write(lambda tx: tx.append(draft(), T0))
    deadline = time.monotonic() + 5
    while [size for size, _ in store.read(lambda r: r.checkpoints())] != [1, 2]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_log_whose_key_fails_stops(create, draft, signer, monkeypatch) -> None:
    store = create()
    monkeypatch.setattr(writer, "CHECKPOINT_AFTER_S", 0.0)
    monkeypatch.setattr(type(signer), "sign", lambda self, message: bytes(64))
    store.write(lambda tx: tx.append(draft(), T0))
    with pytest.raises(GovernanceError, match="signature"):
        store.write(lambda tx: tx.append(draft(), T0))
    assert store.read(lambda reader: reader.head()).size == 2


def test_a_log_without_a_key_signs_nothing(create, draft) -> None:
    store = create(signer=None)
    store.write(lambda tx: tx.append(draft(), T0))
    with pytest.raises(UnavailableError, match="no key to sign with"):
        store.checkpoint()
    assert store.read(lambda reader: reader.checkpoints()) == []
    assert store.read(lambda reader: reader.records())[0].entry.body == {"keys": []}


def test_a_work_cancelled_in_the_queue_never_runs(create, draft) -> None:
    store = create()
    entered, release = threading.Event(), threading.Event()
    held = store.submit(lambda tx: (entered.set(), release.wait(10)))
    assert entered.wait(10)
    doomed = store.submit(lambda tx: tx.append(draft(id="doomed"), T0))
    after = store.submit(lambda tx: tx.append(draft(id="after"), T0))
    assert doomed.cancel()
    assert not held.cancel()
    release.set()
    assert after.result(10).entry.seq == 1


def test_eight_processes_make_one_chain(create, tmp_path) -> None:
    path = tmp_path / "a.db"
    store = create(path=path)
    command = [sys.executable, "-c", APPEND_IN_ANOTHER_PROCESS, str(path)]
    children = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in range(8)]
    for child in children:
        _, problem = child.communicate(timeout=60)
        assert child.returncode == 0, problem.decode()
    found = store.read(lambda reader: reader.records())
    assert [record.entry.seq for record in found] == list(range(801))
    for before, after in itertools.pairwise(found):
        assert after.entry.prev == before.entry.hash
    of_runs = [store.read(lambda r, n=n: r.run_records(RunId(f"run-{n}"))) for n in range(3)]
    assert sum(map(len, of_runs)) == 800
    assert store.write(lambda tx: tx.head().size) == 801


def reads(store):
    """Every way to read the entry at position 5 of the log."""
    return {
        "records": lambda: store.read(lambda r: r.records()),
        "run_records": lambda: store.read(lambda r: r.run_records(RUN)),
        "run_records from": lambda: store.read(lambda r: r.run_records(RUN, start=4)),
        "about": lambda: store.read(lambda r: r.about(RUN, "run-1/4.0")),
    }


FLIPPED = "UPDATE entry SET raw = CAST(replace(CAST(raw AS TEXT), 'refund', 'REFUND') AS BLOB)"


@pytest.mark.attack
@pytest.mark.parametrize("way", ["records", "run_records", "run_records from", "about"])
@pytest.mark.parametrize(
    "attack",
    [
        f"{FLIPPED} WHERE seq = 5",
        "UPDATE entry SET raw = x'00' WHERE seq = 5",
        "UPDATE entry SET raw = (SELECT raw FROM entry WHERE seq = 4) WHERE seq = 5",
        "UPDATE entry SET prev = zeroblob(32) WHERE seq = 5",
        "UPDATE entry SET prev = zeroblob(32) WHERE seq = 6",
        "UPDATE entry SET request = 'req-1' WHERE seq = 5",
    ],
)
def test_an_altered_entry_is_named_whichever_way_it_is_read(filled, reopen, way, attack) -> None:
    alter(filled, attack)
    with pytest.raises(TamperedError) as caught:
        reads(reopen(filled))[way]()
    # `prev` of 5 is also the stored hash of 4, which is read first where it is read at all.
    first = (
        4 if "seq = 5" in attack and "prev" in attack and way in {"records", "run_records"} else 5
    )
    assert caught.value.seq == first


@pytest.mark.attack
@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (["DELETE FROM entry WHERE seq = 5"], 5),
        (["DELETE FROM entry WHERE seq = 10"], 10),
        (["DELETE FROM entry WHERE seq = 0"], 0),
        (["DELETE FROM entry WHERE seq > 7"], 8),
        (["UPDATE entry SET rseq = 90 WHERE seq = 5"], 5),
        (["UPDATE entry SET uid = '/9.9' WHERE seq = 5"], 5),
        (["UPDATE run SET run = 'run-2'"], 1),
        (["UPDATE head SET last = zeroblob(32)"], 10),
        (["UPDATE head SET size = 9"], 9),
        (["UPDATE head SET edge = x'00'"], 11),
        (["DELETE FROM head"], None),
    ],
)
def test_what_is_missing_or_moved_is_named(filled, reopen, attack, named) -> None:
    alter(filled, *attack)
    with pytest.raises(TamperedError) as caught:
        reopen(filled).read(lambda reader: reader.records())
    assert caught.value.seq == named


@pytest.mark.attack
@pytest.mark.parametrize(
    "attack",
    [
        "DELETE FROM entry WHERE seq = 5",
        "DELETE FROM entry WHERE seq = 10",
        "UPDATE entry SET run = NULL, rseq = NULL WHERE seq = 10",
        "UPDATE run SET rseq = 9",
        "UPDATE run SET last = zeroblob(32)",
        "UPDATE entry SET rseq = rseq + 100",
    ],
)
def test_a_run_that_is_not_whole_is_never_given_out(filled, reopen, attack) -> None:
    alter(filled, attack)
    with pytest.raises(TamperedError):
        reopen(filled).read(lambda reader: reader.run_records(RUN))


@pytest.mark.attack
@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        ("UPDATE payload SET content = x'3432' WHERE place = 80", "is not what was recorded"),
        (
            "UPDATE payload SET content = zeroblob(length(content)) WHERE place = 80",
            "is not what was",
        ),
        (
            "UPDATE payload SET content = (SELECT content FROM payload WHERE place = 64) WHERE place = 80",
            "is not what was",
        ),
        ("UPDATE payload SET key = NULL WHERE place = 80", "is not what was recorded"),
        ("UPDATE payload SET key = 99 WHERE place = 80", "is missing"),
        ("UPDATE payload SET name = 'other' WHERE place = 80", "is missing"),
        ("DELETE FROM payload WHERE place = 80", "is missing"),
    ],
)
def test_an_altered_payload_is_found_when_it_is_read(filled, reopen, attack, problem) -> None:
    alter(filled, attack)
    found = reopen(filled).read(lambda reader: reader.records())
    assert found[4].content("message") == 3
    with pytest.raises(TamperedError, match=f"payload `message` of entry 5 {problem}") as caught:
        found[5].content("message")
    assert caught.value.seq == 5


@pytest.mark.attack
def test_an_entry_of_another_log_is_refused(filled, reopen, create, draft) -> None:
    """Even one that hashes and links: its `log` is not this one."""
    store = reopen(filled)
    last = store.read(lambda reader: reader.records())[-1].entry
    store.close()
    foreign = entry_bytes(parse_entry(last.raw) | {"log": "acme.example/other"})
    with sqlite3.connect(filled) as raw:
        raw.execute("UPDATE entry SET raw = ? WHERE seq = 10", (foreign,))
        raw.execute("UPDATE head SET last = ?", (leaf_hash(foreign),))
    raw.close()
    with pytest.raises(TamperedError, match="entry 10 differs from its index"):
        reopen(filled).read(lambda reader: reader.records())


@pytest.mark.attack
def test_a_newest_entry_of_another_kind_is_refused(filled, reopen) -> None:
    alter(filled, "UPDATE latest SET seq = 0 WHERE key = 'input.received'")
    with pytest.raises(TamperedError, match="not of the kind"):
        reopen(filled).read(lambda reader: reader.latest([Kind.INPUT_RECEIVED]))


@pytest.mark.attack
def test_writing_behind_a_head_that_was_set_back_is_refused(filled, reopen, draft) -> None:
    with sqlite3.connect(filled) as raw:
        first = leaf_hash(raw.execute("SELECT raw FROM entry WHERE seq = 0").fetchone()[0])
    raw.close()
    edge = (1).to_bytes(8, "big") + first
    alter(filled, f"UPDATE head SET size = 1, last = x'{first.hex()}', edge = x'{edge.hex()}'")
    store = reopen(filled, signer=None)
    with pytest.raises(TamperedError, match="log does not end before entry 1"):
        store.write(lambda tx: tx.append(draft(run="run-9"), T0))


class TestKeptCheckpoint:
    @pytest.fixture
    def kept(self, tmp_path) -> Path:
        return tmp_path / "elsewhere" / "checkpoint"

    @pytest.fixture
    def store(self, create, kept, tmp_path, draft):
        kept.parent.mkdir()
        store = create(path=tmp_path / "a.db", kept_checkpoint=kept)
        store.write(lambda tx: tx.append(draft(), T0))
        store.checkpoint()
        return store

    @pytest.fixture
    def backup(self, store, tmp_path) -> tuple[Path, bytes]:
        path = tmp_path / "a.db"
        with sqlite3.connect(path) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw.close()
        return path, path.read_bytes()

    def test_it_is_the_last_one_signed_and_private(self, store, kept, draft) -> None:
        assert kept.read_text() == store.checkpoint()[1]
        store.write(lambda tx: tx.append(draft(), T0))
        size, note = store.checkpoint()
        assert kept.read_text() == note
        assert parse_checkpoint(note_text(note)).size == size == 3
        assert kept.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in kept.parent.iterdir()] == ["checkpoint"]

    def test_it_survives_closing_and_opening(self, store, kept, reopen, draft, tmp_path) -> None:
        store.write(lambda tx: tx.append(draft(), T0))
        store.close()
        again = reopen(tmp_path / "a.db", kept_checkpoint=kept)
        assert kept.read_text() == again.checkpoint()[1]

    @pytest.mark.attack
    def test_a_restored_backup_does_not_go_on(self, store, kept, backup, reopen, draft) -> None:
        path, content = backup
        store.write(lambda tx: tx.append(draft(), T0))
        store.close()
        path.write_bytes(content)
        with pytest.raises(
            TamperedError, match="ends at 2 entries, the kept checkpoint covers `3`"
        ):
            reopen(path, kept_checkpoint=kept)

    @pytest.mark.attack
    def test_nor_does_one_that_grew_past_it(self, store, kept, backup, reopen, draft) -> None:
        path, content = backup
        store.write(lambda tx: tx.append(draft(id="true"), T0))
        store.close()
        path.write_bytes(content)
        fork = reopen(path)  # without the kept file nothing can be noticed
        for _ in range(3):
            fork.write(lambda tx: tx.append(draft(id="false"), T0))
            fork.checkpoint()
        fork.close()
        with pytest.raises(
            TamperedError, match="not consistent with the kept checkpoint of size `3`"
        ):
            reopen(path, kept_checkpoint=kept)

    @pytest.mark.attack
    def test_a_running_store_signs_nothing_that_belies_it(self, store, kept, draft) -> None:
        alter_to = kept.read_text().replace("\n2\n", "\n9\n")
        kept.write_text(alter_to)
        store.write(lambda tx: tx.append(draft(), T0))
        with pytest.raises(TamperedError, match="the kept checkpoint covers `9`"):
            store.checkpoint()
        with pytest.raises(TamperedError):
            store.close()

    @pytest.mark.attack
    @pytest.mark.parametrize("content", ["", "garbage\n", "acme.example/agents\n1\nAAAA\n"])
    def test_a_malformed_one_is_refused(self, store, kept, reopen, tmp_path, content) -> None:
        store.close()
        kept.write_text(content)
        with pytest.raises(TamperedError, match="is malformed"):
            reopen(tmp_path / "a.db", kept_checkpoint=kept)

    @pytest.mark.attack
    def test_a_missing_one_is_refused_once_something_was_signed(
        self, store, kept, reopen, tmp_path
    ) -> None:
        store.close()
        kept.unlink()
        with pytest.raises(TamperedError, match=r"kept checkpoint .* is gone"):
            reopen(tmp_path / "a.db", kept_checkpoint=kept)

    def test_a_log_that_cannot_keep_it_stops(self, store, kept, draft) -> None:
        kept.unlink()
        kept.parent.rmdir()
        store.write(lambda tx: tx.append(draft(), T0))
        with pytest.raises(UnavailableError, match="checkpoint cannot be kept in"):
            store.checkpoint()
        with pytest.raises(UnavailableError, match="checkpoint cannot be kept in"):
            store.write(lambda tx: tx.append(draft(), T0))

    def test_an_older_one_never_replaces_it(self, store, kept, draft, tmp_path) -> None:
        old = kept.read_text()
        store.write(lambda tx: tx.append(draft(), T0))
        _, new = store.checkpoint()
        KeptCheckpoint(kept).replace(old)
        assert kept.read_text() == new
        kept.with_name("checkpoint.new").write_text("what a crash left")
        store.write(lambda tx: tx.append(draft(), T0))
        _, newer = store.checkpoint()
        assert kept.read_text() == newer
