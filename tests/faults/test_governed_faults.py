"""What an agent does when its ledger's disk is full, does not sync, is locked or is gone: nothing.

A real run of a real agent over a real file. The fault comes once the model has proposed a call and before
the call's start is durable. The tool must not run, the caller must get a clear error with a next step, and
the same run must go on once the fault is gone, with one effect in the end.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from agents import say
from faults import governed_child
from faults.governed_child import RUN, agent, open_governance

from governance import assemble
from governance.config import Home
from governance.errors import UnavailableError
from governance.ids import Origin
from governance.ledger.entry import Kind
from governance.store.sqlite import SqliteStore

pytestmark = pytest.mark.crash


@dataclass
class Place:
    home: Path
    effects: Path

    def child(self, fault: str, *before: str) -> str:
        command = [*before, sys.executable, governed_child.__file__, str(self.home), fault]
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"PYTHONPATH": path, "EFFECTS": str(self.effects)},
        )
        assert done.returncode in {0, -9, 137}, done.stderr
        return done.stdout.strip()

    def ran(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def assert_goes_on(self) -> None:
        """Start again as an operator would: the run completes, its call ran once, the log holds."""
        with open_governance(self.home) as governance:
            result = agent(governance, self.effects, turns=[say()]).resume(RUN)
            assert (result.status, self.ran()) == ("completed", ["hello"])
            records = governance.store.read(lambda reader: reader.run_records(RUN))
            kinds = [record.entry.kind for record in records]
            assert kinds.count(Kind.CALL_STARTED) == kinds.count(Kind.CALL_FINISHED) == 1
        outcome = assemble.check_log(Home(self.home, self.home / "checkpoint"), whole=True)
        assert outcome.ok, outcome.inspection.findings


def begin(home: Path, effects: Path) -> Place:
    assemble.init(Home(home, home / "checkpoint"), Origin("faults/test"))
    return Place(home, effects)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return begin(tmp_path / "home", tmp_path / "effects")


def assert_clear(said: str) -> None:
    assert re.fullmatch(r"UnavailableError: [a-z].*[^.]; next: [a-z].+[^.]", said), said
    assert "database" in said


def test_without_a_fault_the_call_runs(place) -> None:
    assert (place.child("none"), place.ran()) == ("completed", ["hello"])


def test_a_file_that_may_not_grow_keeps_the_call_from_running(place) -> None:
    assert_clear(place.child("file-size"))
    assert place.ran() == []
    place.assert_goes_on()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("only root can mount a small disk; the limited file is tested instead")
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


def test_a_full_disk_keeps_the_call_from_running(small_disk, tmp_path) -> None:
    place = begin(small_disk / "home", tmp_path / "effects")
    said = place.child(f"fill:{small_disk / 'filler'}")
    assert_clear(said)
    assert "full" in said
    assert place.ran() == []
    (small_disk / "filler").unlink()
    place.assert_goes_on()


def test_a_failed_sync_keeps_the_call_from_running(place, tmp_path) -> None:
    if shutil.which("strace") is None:
        assert "CI" not in os.environ, "strace is missing"
        pytest.skip("strace is not installed")
    rehearsal = begin(tmp_path / "rehearsal", tmp_path / "other-effects")
    trace = tmp_path / "syncs"
    watch = ("strace", "-f", "-qq", "-e", "trace=fdatasync", "-o", str(trace))
    rehearsal.child("stop", *watch)
    synced = trace.read_text().count("fdatasync(")
    assert synced > 2
    inject = f"inject=fdatasync:error=EIO:when={synced + 1}+"
    said = place.child("none", "strace", "-f", "-qq", "-o", os.devnull, "-e", inject)
    assert_clear(said)
    assert "disk I/O error" in said
    assert place.ran() == []
    # Whether what could not be synced is there is known to whoever reads it again. A start without an
    # outcome may be an effect, so a person is asked; nobody guesses, and nothing runs by itself.
    with open_governance(place.home) as governance:
        result = agent(governance, place.effects, turns=[say()]).resume(RUN)
        if result.status == "suspended":
            assert (result.because, place.ran()) == ("unknown", [])
        else:
            assert (result.status, place.ran()) == ("completed", ["hello"])
    assert assemble.check_log(Home(place.home, place.home / "checkpoint"), whole=True).ok


def fail_at_the_start(place: Place, fault, *, busy_timeout_s: float = 0.2) -> UnavailableError:
    """Let `fault(store)` happen once the model has answered; gives the error of the run."""
    opened = open_governance(place.home)
    store = SqliteStore.open(
        place.home / "ledger.db",
        origin=opened.signer.origin,
        signer=opened.signer,
        salts=os.urandom,
        kept_checkpoint=place.home / "checkpoint",
        busy_timeout_s=busy_timeout_s,
    )
    opened.close()
    governance = replace(opened, store=store)

    def failpoint(name: str) -> None:
        if name == "after-responded":
            fault(store)

    with pytest.raises(UnavailableError) as caught:
        agent(governance, place.effects, failpoint).run("go", run_id=RUN)
    assert_clear(f"UnavailableError: {caught.value.message}; next: {caught.value.hint}")
    return caught.value


HOLD = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_that_another_process_holds_keeps_the_call_from_running(place) -> None:
    holders: list[subprocess.Popen] = []
    stores: list[SqliteStore] = []

    def lock(store: SqliteStore) -> None:
        stores.append(store)
        holders.append(
            subprocess.Popen(
                [sys.executable, "-c", HOLD, str(place.home / "ledger.db")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        assert holders[0].stdout.readline() == b"held\n"

    error = fail_at_the_start(place, lock)
    assert "locked by another process" in error.message
    assert place.ran() == []
    holders[0].communicate()
    # A lock breaks nothing: the same store goes on as soon as it is free.
    assert stores[0].write(lambda tx: tx.head().size) > 3
    stores[0].close()
    place.assert_goes_on()


def test_a_connection_that_is_gone_keeps_the_call_from_running(place) -> None:
    stores: list[SqliteStore] = []

    def cut(store: SqliteStore) -> None:
        stores.append(store)
        store._writer._connection.close()

    error = fail_at_the_start(place, cut)
    assert "closed" in error.message
    assert place.ran() == []
    # Not even once it would work again: what the file holds is known only to whoever opens it anew.
    with pytest.raises(UnavailableError):
        stores[0].write(lambda tx: tx.head())
    stores[0].close()
    place.assert_goes_on()
