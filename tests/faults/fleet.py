"""Processes that write one log, and die. Forked from one parent that has loaded everything: no thread yet.

    python fleet.py writers LEDGER COUNT APPENDS      COUNT processes append side by side to the end
    python fleet.py killed LEDGER TIMES SEED          one after another is killed by SIGKILL at random

Every append that was acknowledged is a line `seq hash` on stdout, written only after `Store.write` returned.
A child's own words go through a pipe or file of its own, so that a line that was cut is nobody's.
"""

import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from governance.assemble import KeySigner
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("acme.example/agents")
SIGNER = KeySigner.from_seed(ORIGIN, bytes(range(32)))
RUNS = 5


def open_store(path: Path) -> SqliteStore:
    return SqliteStore.open(
        path,
        origin=ORIGIN,
        signer=SIGNER,
        salts=os.urandom,
        kept_checkpoint=path.with_name("checkpoint"),
        busy_timeout_s=60,
    )


def append(store: SqliteStore, writer: int, n: int) -> bytes:
    """Append an entry with content, and tell where it stands once that is durable."""

    def work(tx):
        run = RunId(f"run-{(writer + n) % RUNS}")
        draft = Draft(
            Kind.INPUT_RECEIVED, SubjectId(f"agent:{writer}"), {"n": n}, {"message": "x" * 200}, run
        )
        return tx.append(draft, Micros(n)).entry

    entry = store.write(work)
    return b"%d %s\n" % (entry.seq, entry.hash.hex().encode())


def in_child(work) -> int:
    """Fork; the child does `work` and ends, whatever happens in it. Gives its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - a child never returns into its parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def writers(path: Path, count: int, appends: int) -> None:
    def write(writer: int) -> None:
        store = open_store(path)
        told = [append(store, writer, n) for n in range(appends)]
        store.close()
        path.with_name(f"told-{writer}").write_bytes(b"".join(told))

    pids = [in_child(lambda writer=writer: write(writer)) for writer in range(count)]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(statuses):
        sys.exit(f"writers ended with {statuses}")
    for writer in range(count):
        sys.stdout.buffer.write(path.with_name(f"told-{writer}").read_bytes())


def endless(path: Path, out: int, callers: int) -> None:
    """Append until killed, from several threads, and sign now and then."""
    store = open_store(path)

    def call(caller: int) -> None:
        n = 0
        while True:
            os.write(out, append(store, caller, n))
            n += 1
            if n % 8 == 0:
                store.checkpoint()

    for caller in range(1, callers):
        threading.Thread(target=call, args=(caller,), daemon=True).start()
    call(0)


def killed(path: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    for attempt in range(times):
        reading, writing = os.pipe()
        callers = 1 + attempt % 3
        pid = in_child(lambda: endless(path, writing, callers))  # noqa: B023 - forked at once
        os.close(writing)
        if attempt % 4:
            os.read(reading, 1)  # alive: the rest of its time lies among appends
            held = b"?"  # the first digit of the first line was read just now; that line is not counted
        else:
            held = b""  # any time, opening and recovery included
        time.sleep(chance.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading, "rb") as pipe:
            said = held + pipe.read()
        if os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"a child ended by itself: {status}")
        whole = said[: said.rfind(b"\n") + 1].splitlines(keepends=True)
        sys.stdout.buffer.write(b"".join(line for line in whole if b"?" not in line))


if __name__ == "__main__":
    action, ledger, *numbers = sys.argv[1:]
    {"writers": writers, "killed": killed}[action](Path(ledger), *map(int, numbers))
