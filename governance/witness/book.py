"""What has a witness seen? The last head of each log that it cosigned, in one SQLite file of its own.

    log     the keys of the logs it knows
    seen    the last head cosigned of each, and when
    fork    signed heads of a size that was seen with another root: proof that the log tells two stories

Looking and remembering are one transaction, durable before anybody is answered: of two requests that
start from the same size one wins, and a witness that was killed never signs back behind itself. An older
copy of this file would make it do so. A witness whose file was lost or restored takes a new key.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.ids import Micros
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    format_verifier_key,
    note_text,
    parse_checkpoint,
    parse_verifier_key,
)
from governance.ledger.witnessing import (
    Answer,
    Fit,
    Stale,
    Submission,
    judge_submission,
)
from governance.store.checkpoints import sync_directory
from governance.store.connection import BUSY_TIMEOUT_S, connect, translate

__all__ = ["Book", "Known"]

T = TypeVar("T")

FORKS_MAX: Final = 100
"""So many contradicting heads are kept of one log; one is enough to show that it lied."""

_SCHEMA_VERSION: Final = 1
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
_SCHEMA: Final = (
    "CREATE TABLE log (vkey TEXT PRIMARY KEY, origin TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE seen (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, note TEXT NOT NULL,
       at INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE fork (origin TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL,
       note TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (origin, size, root)) WITHOUT ROWID""",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)
_REMEMBER: Final = """
    INSERT INTO seen (origin, size, note, at) VALUES (?, ?, ?, ?)
    ON CONFLICT (origin) DO UPDATE SET size = excluded.size, note = excluded.note, at = excluded.at
"""
_FORK: Final = """
    INSERT OR IGNORE INTO fork (origin, size, root, note, at)
    SELECT ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM fork WHERE origin = ?) < ?
"""
_KNOWN: Final = """
    SELECT l.vkey, coalesce(s.size, 0), s.note, s.at,
           (SELECT count(*) FROM fork f WHERE f.origin = l.origin)
    FROM log l LEFT JOIN seen s ON s.origin = l.origin ORDER BY l.origin, l.vkey
"""


@dataclass(frozen=True, slots=True)
class Known:
    """One key of a log that is witnessed. `note` is the last head cosigned, `at` when that was.

    `forks` counts the signed heads that contradict one that was cosigned.
    """

    key: VerifierKey
    size: int
    note: str | None
    at: Micros | None
    forks: int


@dataclass(frozen=True, slots=True)
class Book:
    """The file. Several processes may use one; each transaction has a connection of its own."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "Book":
        """Begin a book. Raises ConflictError when there is one already."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        except FileExistsError as exc:
            raise ConflictError(
                f"`{path}` exists already", hint="go on with it, or choose another folder"
            ) from exc
        os.close(descriptor)
        book = cls(path)

        def lay_down(connection: sqlite3.Connection) -> None:
            for statement in _SCHEMA:
                connection.execute(statement)

        book._transact(lay_down)
        sync_directory(path.parent)
        return book

    @classmethod
    def open(cls, path: Path) -> "Book":
        """Go on with a book.

        Raises InvalidInputError when there is none, RefusedError when others can change it.
        """
        if not path.is_file():
            raise InvalidInputError(
                f"no witness at `{path.parent}`",
                hint="run `governance witness init`; a witness that lost its book needs a new key",
            )
        mode = path.stat().st_mode
        if mode & _OTHERS:
            raise RefusedError(
                f"book `{path}` is open to others: mode `{stat.S_IMODE(mode):04o}`",
                hint=f"run `chmod 600 {path}` and ask who has changed it",
            )
        book = cls(path)
        (version,) = book._transact(lambda c: c.execute("PRAGMA user_version").fetchone())
        if version != _SCHEMA_VERSION:
            raise InvalidInputError(
                f"`{path}` is no witness's book of version {_SCHEMA_VERSION}",
                hint="use the program that wrote it, or a newer one",
            )
        return book

    def add_log(self, key: VerifierKey) -> None:
        """Witness the log of `key`, whose origin is the key's name. Several keys may be one log's."""
        if key.kind is not KeyType.ED25519:
            raise InvalidInputError(
                f"verifier key of `{key.name[:80]}` is not a log's",
                hint="give the key that `governance init` printed",
            )
        row = format_verifier_key(key), key.name

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO log (vkey, origin) VALUES (?, ?)", row)

        self._transact(work)

    def known(self) -> Sequence[Known]:
        """List the keys of all logs that are witnessed."""
        rows = self._transact(lambda connection: connection.execute(_KNOWN).fetchall())
        return [Known(parse_verifier_key(vkey), *rest) for vkey, *rest in rows]

    def submit(self, given: Submission, at: Micros) -> tuple[Answer, Micros]:
        """Look, judge, and remember what may be cosigned, at once. Gives the time to sign with, too:
        `at`, but never before the last one."""

        def work(connection: sqlite3.Connection) -> tuple[Answer, Micros]:
            origin = given.checkpoint.origin
            keys = [
                parse_verifier_key(vkey)
                for (vkey,) in connection.execute(
                    "SELECT vkey FROM log WHERE origin = ?", (origin,)
                )
            ]
            last = connection.execute(
                "SELECT note, at FROM seen WHERE origin = ?", (origin,)
            ).fetchone()
            seen = parse_checkpoint(note_text(last[0])) if last else None
            moment = max(at, last[1]) if last else at
            answer = judge_submission(given, {origin: keys}, seen)
            _remember(connection, given, answer, moment)
            return answer, Micros(moment)

        return self._transact(work)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = connect(self.path, busy_timeout_s=BUSY_TIMEOUT_S)
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as exc:
            raise translate(exc, f"using `{self.path}`") from exc


def _remember(
    connection: sqlite3.Connection, given: Submission, answer: Answer, at: Micros
) -> None:
    head: Checkpoint = given.checkpoint
    match answer:
        case Fit():
            connection.execute(_REMEMBER, (head.origin, head.size, given.note, at))
        case Stale(forks=True):
            row = (head.origin, head.size, head.root, given.note, at, head.origin, FORKS_MAX)
            connection.execute(_FORK, row)
        case _:
            pass
