"""When is a work durable? One thread commits for everybody in this process.

    submit -> queue -> BEGIN IMMEDIATE, head, work, work, …, head, COMMIT -> futures resolve

The queue is drained into each commit and nobody waits for company: while one commit is synced, the
next one's works gather. Each of several works runs in a savepoint, so that one which raises is undone
alone. What a crash means at each step stands beside it.

A lock that another process holds too long fails the works that waited for it. Any other failure of the
database leaves the outcome of the commit unknown, so the writer stops for good: opening again reads
what really happened.
"""

import copy
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from governance.errors import GovernanceError, UnavailableError
from governance.ids import RunId
from governance.ports import RunHead
from governance.store.checkpoints import CHECKPOINT_AFTER_S, CHECKPOINT_ENTRIES, Charter
from governance.store.connection import LockedError, translate
from governance.store.keyring import Keyring, KeyringError
from governance.store.moves import Moves
from governance.store.reader import read_tip
from governance.store.transaction import Commit, SqliteTransaction, destroy_doomed

__all__ = ["Writer"]

T = TypeVar("T")

WORKS_PER_COMMIT_MAX: Final = 512
RUNS_REMEMBERED_MAX: Final = 4096

_OF_THE_WORK: Final = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What the driver says of a statement, not of the database."""


_Work: TypeAlias = Callable[[SqliteTransaction], Any]


class _Submitted:
    """A work whose caller holds a future."""

    __slots__ = ("future", "work")

    def __init__(self, work: _Work) -> None:
        self.work = work
        self.future: Future[Any] = Future()

    def starts(self) -> bool:
        """Tell whether it is still wanted."""
        return self.future.set_running_or_notify_cancel()

    def resolve(self, value: object, error: BaseException | None = None) -> None:
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


class _Awaited:
    """A work whose caller does nothing but wait: a bare lock tells it, at a fraction of a future's price."""

    __slots__ = ("_error", "_landed", "_value", "work")

    def __init__(self, work: _Work) -> None:
        self.work = work
        self._value: object = None
        self._error: BaseException | None = None
        self._landed = threading.Lock()
        self._landed.acquire()

    def starts(self) -> bool:
        return True

    def resolve(self, value: object, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        self._landed.release()

    def result(self) -> Any:
        self._landed.acquire()
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            del self  # the traceback holds this frame, and must not hold the error again


_Job: TypeAlias = _Submitted | _Awaited


@dataclass(frozen=True, slots=True)
class _Outcome:
    job: _Job
    value: object = None
    error: BaseException | None = None

    def tell(self) -> None:
        self.job.resolve(self.value, self.error)


class Writer:
    """The only writer of this process. It owns `connection` from here on."""

    def __init__(self, connection: sqlite3.Connection, charter: Charter, keyring: Keyring) -> None:
        self._connection = connection
        self._charter = charter
        self._keyring = keyring
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._broken: GovernanceError | None = None
        self._last_words: GovernanceError | None = None
        self._tip = read_tip(connection, charter.origin)
        self._runs: dict[RunId, tuple[int, RunHead]] = {}
        self._signed = _last_signed(connection)
        self._sign_by = time.monotonic() + CHECKPOINT_AFTER_S
        self._thread = threading.Thread(target=self._serve, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[SqliteTransaction], T]) -> "Future[T]":
        job = _Submitted(work)
        self._enqueue(job)
        return job.future

    def write(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Submit `work` and wait for it."""
        job = _Awaited(work)
        self._enqueue(job)
        value: T = job.result()
        return value

    def close(self) -> None:
        """Finish what is queued, sign the head, let go of the file.

        Raises UnavailableError or TamperedError when that last signature could not be made.
        """
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)  # INVARIANT: nothing is queued behind it
        self._thread.join()
        if self._last_words is not None:
            failure, self._last_words = self._last_words, None
            raise failure

    def _enqueue(self, job: _Job) -> None:
        with self._gate:
            if not self._closed:
                self._queue.put(job)
                return
        if job.starts():
            job.resolve(None, UnavailableError("store is closed", hint="open it again"))

    def _serve(self) -> None:
        while (jobs := self._gather()) is not None:
            self._commit(jobs)
            if self._signature_due():
                self._sign()
        if self._unsigned:
            self._sign()
            self._last_words = self._broken
        self._connection.close()
        self._keyring.close()

    def _gather(self) -> list[_Job] | None:
        """Wait for the next works, but not past the time to sign; None when closed and drained."""
        patience = max(0.0, self._sign_by - time.monotonic()) if self._unsigned else None
        jobs: list[_Job] = []
        try:
            job = self._queue.get(timeout=patience)
            while job is not None:
                jobs.append(job)
                if len(jobs) == WORKS_PER_COMMIT_MAX:
                    return jobs
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs
        if jobs:
            self._queue.put(None)  # closing: commit these first, then find the end again
            return jobs
        return None

    def _commit(self, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if job.starts()]
        if not jobs:
            return
        try:
            outcomes = self._transact(jobs)
        except GovernanceError as exc:
            for job in jobs:
                # Each caller raises its own: a traceback grows wherever its error is raised.
                own = copy.copy(exc)
                own.__cause__ = exc
                job.resolve(None, own)
            return
        for outcome in outcomes:  # durable from here on
            outcome.tell()

    def _transact(self, jobs: list[_Job]) -> list[_Outcome]:
        """Run all works in one durable transaction. Raises what none of them survives."""
        if self._broken is not None:
            raise self._broken
        self._begin()
        try:
            # A crash before COMMIT returns leaves nothing of these works, and nobody was told.
            commit = self._open_commit(alone=len(jobs) == 1)
            outcomes = [_attempt(job, commit) for job in jobs]
            commit.write()
            self._connection.execute(
                "COMMIT" if any(outcome.error is None for outcome in outcomes) else "ROLLBACK"
            )
            # A crash after it leaves all of them; a caller who was not told looks before trying again.
            self._take_note(commit)
            if commit.dooms:
                self._destroy_keys()
        except Exception as exc:
            raise self._break(exc) from exc
        return outcomes

    def _open_commit(self, *, alone: bool) -> Commit:
        tip = read_tip(self._connection, self._charter.origin, known=self._tip)
        if tip is not self._tip or len(self._runs) > RUNS_REMEMBERED_MAX:
            self._runs.clear()  # another process has appended since our last commit, or there are many
            self._keyring.forget()
            destroy_doomed(self._connection, self._keyring)
        charter, keyring = self._charter, self._keyring
        return Commit(self._connection, charter, keyring, Moves(tip), self._runs, alone=alone)

    def _destroy_keys(self) -> None:
        # A crash before this leaves keys under which nothing lies; the next to open or write destroys them.
        self._connection.execute("BEGIN IMMEDIATE")
        destroy_doomed(self._connection, self._keyring)
        self._connection.execute("COMMIT")

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as exc:
            failure = translate(exc, "waiting to write")
            raise failure if isinstance(failure, LockedError) else self._break(exc) from exc

    def _take_note(self, commit: Commit) -> None:
        tip = commit.moves.tip
        if self._tip.size <= self._signed < tip.size:  # the first that nothing covers yet
            self._sign_by = time.monotonic() + CHECKPOINT_AFTER_S
        self._tip = tip
        for size, note in commit.signed:
            self._charter.keep(note)
            self._signed = max(self._signed, size)

    def _break(self, cause: Exception) -> GovernanceError:
        """Write no more: what the file holds now is known only to whoever opens it again."""
        match cause:
            case sqlite3.Error():
                self._broken = translate(cause, "committing")
            case GovernanceError():
                self._broken = cause
            case _:
                self._broken = UnavailableError(f"writer failed: `{cause}`", hint="open it again")
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection.close()  # undone by whoever opens it next
        return self._broken

    @property
    def _unsigned(self) -> bool:
        return (
            self._charter.signer is not None
            and self._broken is None
            and self._tip.size > self._signed
        )

    def _signature_due(self) -> bool:
        if not self._unsigned:
            return False
        many = self._tip.size - self._signed >= CHECKPOINT_ENTRIES
        return many or time.monotonic() >= self._sign_by

    def _sign(self) -> None:
        """Sign the head, in a commit of its own. A log that cannot be signed is written no more."""
        self._sign_by = time.monotonic() + CHECKPOINT_AFTER_S
        job = _Submitted(SqliteTransaction.sign)
        self._commit([job])
        failure = job.future.exception()
        if isinstance(failure, Exception) and not isinstance(failure, LockedError):
            self._break(failure)


def _attempt(job: _Job, commit: Commit) -> _Outcome:
    """Run one work; undo it, and only it, when it raises. Errors of the files themselves are raised."""
    transaction = SqliteTransaction(commit)
    try:
        value = job.work(transaction)
    except BaseException as exc:
        if isinstance(exc, sqlite3.Error | KeyringError) and not isinstance(exc, _OF_THE_WORK):
            raise
        transaction.undo()
        return _Outcome(job, error=exc)
    transaction.keep()
    return _Outcome(job, value)


def _last_signed(connection: sqlite3.Connection) -> int:
    (size,) = connection.execute("SELECT coalesce(max(size), 0) FROM checkpoint").fetchone()
    return int(size)
