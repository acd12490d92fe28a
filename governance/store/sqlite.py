"""Where is the embedded log, and may it be opened? `Store` over one SQLite file.

Opening refuses what must not go on: a file that others can read, another log, an unknown schema, and a
database that does not continue the checkpoint kept outside it. Several processes may open one file.
"""

import collections
import os
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from governance.errors import (
    ConflictError,
    InvalidInputError,
    RefusedError,
    TamperedError,
    UnavailableError,
)
from governance.ids import Origin
from governance.ports import Clock, Reader, Signer, Transaction
from governance.store.checkpoints import Charter, KeptCheckpoint, sync_directory
from governance.store.connection import BUSY_TIMEOUT_S, connect, translate
from governance.store.moves import Moves
from governance.store.projection import log_created, start
from governance.store.reader import SqliteReader, read_tip
from governance.store.transaction import Commit, SqliteTransaction
from governance.store.writer import Writer

__all__ = ["SqliteStore"]

T = TypeVar("T")

SCHEMA_VERSION: Final = 3
READERS_MAX: Final = 16
"""Idle connections kept for the next readers."""

_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


class SqliteStore:
    """The log in one file. Made by `open` or `create`, never directly."""

    def __init__(
        self, path: Path, charter: Charter, connection: sqlite3.Connection, busy_timeout_s: float
    ) -> None:
        self._path = path
        self._charter = charter
        self._busy_timeout_s = busy_timeout_s
        self._idle: collections.deque[sqlite3.Connection] = collections.deque()
        self._closed = False
        self._writer = Writer(connection, charter)

    @classmethod
    def create(  # noqa: PLR0913 - what `assemble` joins, each by name
        cls,
        path: Path,
        *,
        origin: Origin,
        signer: Signer | None,
        clock: Clock,
        salts: Callable[[int], bytes],
        kept_checkpoint: Path | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> "SqliteStore":
        """Begin a log in a new file, whose first entry names its keys.

        Raises ConflictError when the file exists.
        """
        charter = _charter(origin, signer, salts, kept_checkpoint)
        _new_file(path)
        try:
            _lay_down(path, charter, clock)
            store = cls._open(path, charter, busy_timeout_s)
        except BaseException:
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            raise
        if signer is not None:
            store.checkpoint()
        return store

    @classmethod
    def open(  # noqa: PLR0913 - what `assemble` joins, each by name
        cls,
        path: Path,
        *,
        origin: Origin,
        signer: Signer | None,
        salts: Callable[[int], bytes],
        kept_checkpoint: Path | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> "SqliteStore":
        """Go on with the log in `path`.

        Raises InvalidInputError when it is absent, another log or no log, RefusedError when others can
        read it, TamperedError when it does not continue the kept checkpoint, UnavailableError when the
        database cannot be used.
        """
        return cls._open(path, _charter(origin, signer, salts, kept_checkpoint), busy_timeout_s)

    @classmethod
    def _open(cls, path: Path, charter: Charter, busy_timeout_s: float) -> "SqliteStore":
        _check_file(path)
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(path, busy_timeout_s=busy_timeout_s)
            _check_content(path, connection, charter)
            return cls(path, charter, connection, busy_timeout_s)
        except BaseException as exc:
            if connection is not None:
                connection.close()
            if isinstance(exc, sqlite3.Error):
                raise translate(exc, f"opening `{path}`") from exc
            raise

    @property
    def origin(self) -> Origin:
        return self._charter.origin

    def submit(self, work: Callable[[Transaction], T]) -> "Future[T]":
        return self._writer.submit(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._writer.write(work)

    def read(self, work: Callable[[Reader], T]) -> T:
        try:
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                return work(SqliteReader(connection, read_tip(connection, self.origin)))
            finally:
                self._give_back(connection)
        except sqlite3.Error as exc:
            raise translate(exc, "reading") from exc

    def checkpoint(self) -> tuple[int, str]:
        return self._writer.write(SqliteTransaction.sign)

    def close(self) -> None:
        # Readers first: the last connection folds the write-ahead log back, and it must be able to write.
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        self._writer.close()

    def _borrow(self) -> sqlite3.Connection:
        if self._closed:
            raise UnavailableError("store is closed", hint="open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self._path, busy_timeout_s=self._busy_timeout_s, read_only=True)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed or len(self._idle) >= READERS_MAX:
            connection.close()
        else:
            self._idle.append(connection)


def _charter(
    origin: Origin, signer: Signer | None, salts: Callable[[int], bytes], kept: Path | None
) -> Charter:
    return Charter(origin, salts, signer, KeptCheckpoint(kept) if kept is not None else None)


def _new_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    except FileExistsError as exc:
        raise ConflictError(
            f"`{path}` exists already", hint="use it, or choose another place"
        ) from exc
    except OSError as exc:
        raise UnavailableError(f"`{path}` cannot be made: `{exc.strerror}`") from exc
    try:
        os.fchmod(descriptor, _FILE_MODE)  # whatever the umask took away
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def _lay_down(path: Path, charter: Charter, clock: Clock) -> None:
    """Write the schema and entry 0 in one transaction: a crash leaves an empty file or a whole log."""
    from sqlalchemy import create_mock_engine
    from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
    from sqlalchemy.schema import ExecutableDDLElement

    from governance.store.tables import METADATA

    connection = connect(path, busy_timeout_s=BUSY_TIMEOUT_S)
    try:
        dialect = sqlite_dialect()

        def define(ddl: ExecutableDDLElement, *_: object, **__: object) -> None:
            connection.execute(str(ddl.compile(dialect=dialect)))

        connection.execute("BEGIN IMMEDIATE")
        METADATA.create_all(create_mock_engine("sqlite://", define), checkfirst=False)
        tip = start(charter.origin)
        connection.execute(
            "INSERT INTO meta (only, origin, schema_version) VALUES (0, ?, ?)",
            (charter.origin, SCHEMA_VERSION),
        )
        connection.execute(
            "INSERT INTO head (only, size, last, edge, ts) VALUES (0, ?, ?, ?, ?)",
            (tip.size, tip.last, tip.edge.to_bytes(), tip.ts),
        )
        commit = Commit(connection, charter, Moves(tip), {}, alone=True)
        transaction = SqliteTransaction(commit)
        transaction.append(log_created(charter.signer), clock())
        transaction.keep()
        commit.write()
        connection.execute("COMMIT")
    except sqlite3.Error as exc:
        raise translate(exc, f"creating `{path}`") from exc
    finally:
        connection.close()


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError as exc:
        raise InvalidInputError(f"no log at `{path}`", hint="run `governance init`") from exc
    except OSError as exc:
        raise UnavailableError(f"`{path}` cannot be looked at: `{exc.strerror}`") from exc
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInputError(f"`{path}` is not a file", hint="name the database itself")
    if status.st_mode & _OTHERS:
        raise RefusedError(
            f"database `{path}` is open to others: mode `{stat.S_IMODE(status.st_mode):04o}`",
            hint=f"run `chmod 600 {path}` and ask who has read or changed it",
        )


def _check_content(path: Path, connection: sqlite3.Connection, charter: Charter) -> None:
    try:
        row = connection.execute("SELECT origin, schema_version FROM meta").fetchone()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        row = None  # no such table
    if row is None:
        raise InvalidInputError(f"`{path}` holds no log", hint="run `governance init`")
    origin, version = row
    if version != SCHEMA_VERSION:
        raise InvalidInputError(
            f"database has schema `{version}`, this program knows {SCHEMA_VERSION}",
            hint="use the program that wrote it, or a newer one",
        )
    if origin != charter.origin:
        raise InvalidInputError(
            f"log at `{path}` is `{origin}`, not `{charter.origin}`", hint="name the log it is"
        )
    if charter.signer is not None:
        _check_key(connection, charter, charter.signer)
    if charter.kept is not None:
        _check_kept(connection, charter, charter.kept)


def _check_key(connection: sqlite3.Connection, charter: Charter, signer: Signer) -> None:
    """Refuse to sign a log with a key that it does not name as its own."""
    reader = SqliteReader(connection, read_tip(connection, charter.origin))
    keys = [key for first in reader.records(limit=1) for key in first.entry.body.get("keys", ())]
    if signer.verifier_key not in keys:
        raise RefusedError(
            f"key `{signer.verifier_key[:160]}` is not one of log `{charter.origin}`",
            hint="bring back the key that belongs to it",
        )


def _check_kept(connection: sqlite3.Connection, charter: Charter, kept: KeptCheckpoint) -> None:
    note = kept.read()
    reader = SqliteReader(connection, read_tip(connection, charter.origin))
    if note is None and reader.checkpoints():
        raise TamperedError(
            f"kept checkpoint `{kept.path}` is gone, and the log has signed",
            hint="restore it, or put the newest checkpoint that you trust there",
        )
    kept.check(note, reader.head(), reader.tree.checkpoint)
