"""What a store does when the disk is full, a sync fails, a lock is held, or its process is killed.

Each fault is real: a full file system, an error injected into the system call, SIGKILL. The child
prints the position of every entry that was acknowledged; afterwards all of them must be there.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from governance.errors import TamperedError, UnavailableError
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.entry import Draft, Kind, genesis
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("acme.example/agents")
DRAFT = Draft(
    Kind.INPUT_RECEIVED, SubjectId("agent:a"), {}, {"message": "x" * 2000}, run=RunId("run-1")
)

CHILD = textwrap.dedent(
    """
    import os, resource, sys, threading
    from pathlib import Path
    from governance.errors import UnavailableError
    from governance.ids import Micros, Origin, RunId, SubjectId
    from governance.ledger.entry import Draft, Kind
    from governance.store.sqlite import SqliteStore

    path, callers, file_size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    store = SqliteStore.open(path, origin=Origin("acme.example/agents"), signer=None, salts=os.urandom)
    if file_size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    os.write(1, b"open\\n")

    def work(tx):
        draft = Draft(
            Kind.INPUT_RECEIVED, SubjectId("agent:a"), {}, {"message": "x" * 2000}, RunId("run-1")
        )
        return tx.append(draft, Micros(1)).entry.seq

    def call():
        try:
            for _ in range(3000):
                os.write(1, b"%d\\n" % store.write(work))
        except UnavailableError as failure:
            os.write(1, b"failed: %s\\n" % str(failure).encode())

    threads = [threading.Thread(target=call, daemon=True) for _ in range(callers)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    try:
        store.write(work)
    except UnavailableError:
        os.write(1, b"refused afterwards\\n")
    os._exit(0)
    """
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


def create(path: Path) -> None:
    SqliteStore.create(
        path, origin=ORIGIN, signer=None, clock=lambda: Micros(1), salts=os.urandom
    ).close()


def reopen(path: Path, **given: float) -> SqliteStore:
    return SqliteStore.open(path, origin=ORIGIN, signer=None, salts=os.urandom, **given)


def command(path: Path, *, callers: int = 1, file_size: int = 0) -> list[str]:
    return [sys.executable, "-c", CHILD, str(path), str(callers), str(file_size)]


def acknowledged(output: bytes) -> set[int]:
    lines = output.decode().split("\n")[:-1]  # a last line that was cut was not told to anybody
    return {int(line) for line in lines if line.isdigit()}


def assert_whole(path: Path, promised: set[int]) -> int:
    """Open the log again: it is one chain that holds every promised entry, and it goes on."""
    store = reopen(path)
    try:
        found = store.read(lambda reader: reader.records(limit=1_000_000))
        assert [record.entry.seq for record in found] == list(range(len(found)))
        prev = genesis(ORIGIN)
        for record in found:
            assert record.entry.prev == prev
            prev = record.entry.hash
        for record in found[1:]:
            assert record.content("message") == "x" * 2000
        assert promised <= set(range(len(found)))
        assert len(store.read(lambda reader: reader.run_records(RunId("run-1")))) == len(found) - 1
        assert store.write(lambda tx: tx.append(DRAFT, Micros(1))).entry.seq == len(found)
    finally:
        store.close()
    return len(found)


@pytest.mark.crash
def test_no_acknowledged_entry_is_lost_when_the_process_is_killed(path) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)
    promised: set[int] = set()
    for attempt in range(20):
        child = subprocess.Popen(
            command(path, callers=1 + attempt % 3), stdout=subprocess.PIPE, bufsize=0
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        reader = threading.Timer(chance.uniform(0.001, 0.06), child.send_signal, [signal.SIGKILL])
        reader.start()
        output = child.stdout.read()
        assert child.wait(10) == -signal.SIGKILL, f"seed {seed}"
        promised |= acknowledged(output)
        child.stdout.close()
    assert promised
    assert assert_whole(path, promised) > 20, f"seed {seed}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(
            "only root can mount a small file system; the file size limit is tested instead"
        )
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


@pytest.mark.crash
@pytest.mark.parametrize("callers", [1, 8])
def test_a_full_disk_stops_writing_and_loses_nothing(small_disk, tmp_path, callers) -> None:
    create(small_disk / "ledger.db")
    done = subprocess.run(
        command(small_disk / "ledger.db", callers=callers),
        capture_output=True,
        timeout=60,
        check=True,
    )
    told = done.stdout.decode()
    assert told.count("failed: database failed while committing: ") == callers
    assert told.endswith("refused afterwards\n")
    for file in small_disk.iterdir():
        shutil.copy2(file, tmp_path)
    assert assert_whole(tmp_path / "ledger.db", acknowledged(done.stdout)) > 10


@pytest.mark.crash
def test_a_file_that_may_not_grow_stops_writing_and_loses_nothing(path) -> None:
    done = subprocess.run(
        command(path, callers=4, file_size=600_000), capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().count("failed: database failed while committing: ") == 4
    assert done.stdout.endswith(b"refused afterwards\n")
    assert assert_whole(path, acknowledged(done.stdout)) > 10


@pytest.mark.crash
@pytest.mark.parametrize(("when", "doing"), [(3, "changing the keyring"), (8, "committing")])
def test_a_failed_sync_stops_writing_and_loses_nothing(path, when, doing) -> None:
    if shutil.which("strace") is None:
        assert "CI" not in os.environ, "strace is missing"
        pytest.skip("strace is not installed")
    inject = ["-e", f"inject=fdatasync:error=EIO:when={when}+"]
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", os.devnull, *inject, *command(path, callers=2)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    told = done.stdout.decode()
    assert told.count(f"failed: database failed while {doing}: `disk I/O error`") == 2, told
    assert told.endswith("refused afterwards\n")
    assert_whole(path, acknowledged(done.stdout))


def test_a_lock_held_by_a_stranger_fails_in_bounded_time_and_breaks_nothing(path) -> None:
    store = reopen(path, busy_timeout_s=0.2)
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="locked by another process while waiting to write"):
        store.write(lambda tx: tx.append(DRAFT, Micros(1)))
    assert time.monotonic() - began < 2
    assert store.read(lambda reader: reader.head()).size == 1
    stranger.execute("ROLLBACK")
    assert store.write(lambda tx: tx.append(DRAFT, Micros(1))).entry.seq == 1
    stranger.close()
    store.close()


@pytest.mark.attack
def test_a_file_cut_in_the_middle_is_damage_not_a_shorter_log(path) -> None:
    store = reopen(path)
    for _ in range(40):
        store.write(lambda tx: tx.append(DRAFT, Micros(1)))
    store.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // 4096 * 4096)
    with pytest.raises(TamperedError):
        reopen(path).read(lambda reader: reader.records())
