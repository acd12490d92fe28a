"""Where is the embedded log, and may it be opened? `Store` over one SQLite file.

Opening refuses what must not go on: a file that others can read, another log, an unknown schema, and a
database that does not continue the checkpoint kept outside it. Several processes may open one file.
"""

import collections
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from governance.errors import InvalidInputError, TamperedError, UnavailableError
from governance.ids import Origin
from governance.ports import Clock, Reader, Signer, Transaction
from governance.store.checkpoints import Charter, KeptCheckpoint, refuse_strangers
from governance.store.connection import BUSY_TIMEOUT_S, connect, translate
from governance.store.files import check_file, new_file
from governance.store.keyring import Keyring
from governance.store.moves import Moves
from governance.store.projection import log_created, start
from governance.store.reader import SqliteReader, read_tip
from governance.store.transaction import Commit, SqliteTransaction, destroy_doomed
from governance.store.writer import Writer

__all__ = ["SqliteStore"]

T = TypeVar("T")

SCHEMA_VERSION: Final = 4
SCRUB_TIMEOUT_S: Final = 2.0
READERS_MAX: Final = 16
"""Idle connections kept for the next readers."""


class SqliteStore:
    """The log in one file. Made by `open` or `create`, never directly."""

    def __init__(
        self,
        path: Path,
        charter: Charter,
        keyring: Keyring,
        connection: sqlite3.Connection,
        busy_timeout_s: float,
    ) -> None:
        self._path = path
        self._charter = charter
        self._keyring = keyring
        self._busy_timeout_s = busy_timeout_s
        self._idle: collections.deque[sqlite3.Connection] = collections.deque()
        self._closed = False
        self._writer = Writer(connection, charter, keyring)

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
        keyring: Path | None = None,
        succeeds: str | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> "SqliteStore":
        """Begin a log in a new file, whose first entry names its keys and the log that it `succeeds`.

        Its keyring is another file; without `keyring` that lies beside this one. Raises ConflictError
        when either exists.
        """
        charter = _charter(origin, signer, salts, kept_checkpoint)
        keys = keyring or _beside(path)
        new_file(path)
        made = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        try:
            ring = Keyring.create(keys, origin, salts)
            made.append(keys)
            _lay_down(path, charter, ring, clock, succeeds)
            ring.close()
            store = cls._open(path, charter, keys, busy_timeout_s)
        except BaseException:
            for file in made:
                file.unlink(missing_ok=True)
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
        keyring: Path | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> "SqliteStore":
        """Go on with the log in `path`, and complete an erasure that a crash cut short.

        Raises InvalidInputError when it or its keyring is absent or another log's, RefusedError when
        others can read them, TamperedError when it does not continue the kept checkpoint or is newer than
        its keyring, UnavailableError when the database cannot be used.
        """
        charter = _charter(origin, signer, salts, kept_checkpoint)
        return cls._open(path, charter, keyring or _beside(path), busy_timeout_s)

    @classmethod
    def _open(
        cls, path: Path, charter: Charter, keys: Path, busy_timeout_s: float
    ) -> "SqliteStore":
        check_file(path, "log", "run `governance init`")
        with contextlib.ExitStack() as opened:
            try:
                connection = connect(path, busy_timeout_s=busy_timeout_s)
                opened.callback(connection.close)
                _check_identity(path, connection, charter)
                keyring = Keyring.open(keys, charter.origin, charter.salts)
                opened.callback(keyring.close)
                _check_evidence(connection, charter, keyring)
                unfinished = _complete_erasure(connection, keyring)
                store = cls(path, charter, keyring, connection, busy_timeout_s)
            except sqlite3.Error as exc:
                raise translate(exc, f"opening `{path}`") from exc
            opened.pop_all()  # the store closes them from here on
        if unfinished:
            store.scrub()
        return store

    @property
    def origin(self) -> Origin:
        return self._charter.origin

    @property
    def path(self) -> Path:
        return self._path

    @property
    def kept(self) -> KeptCheckpoint | None:
        return self._charter.kept

    @property
    def keyring(self) -> Path:
        return self._keyring.path

    def submit(self, work: Callable[[Transaction], T]) -> "Future[T]":
        return self._writer.submit(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._writer.write(work)

    def read(self, work: Callable[[Reader], T]) -> T:
        try:
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                return work(_reader(connection, self.origin, self._keyring))
            finally:
                self._give_back(connection)
        except sqlite3.Error as exc:
            raise translate(exc, "reading") from exc

    def checkpoint(self) -> tuple[int, str]:
        return self._writer.write(SqliteTransaction.sign)

    def rekey(
        self, work: Callable[[Transaction], object], also: Sequence[Signer]
    ) -> tuple[int, str]:
        def change(transaction: SqliteTransaction) -> tuple[int, str]:
            work(transaction)
            return transaction.sign(also)

        return self._writer.write(change)

    def scrub(self) -> bool:
        # A checkpoint writes what was deleted over the old pages, and cuts the write-ahead log that holds
        # them still. It waits for readers, and others wait for it meanwhile: not long.
        try:
            connection = connect(self._path, busy_timeout_s=SCRUB_TIMEOUT_S)
            try:
                (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.close()
        except sqlite3.Error as exc:
            raise translate(exc, "scrubbing") from exc
        return not busy

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


def _lay_down(
    path: Path, charter: Charter, keyring: Keyring, clock: Clock, succeeds: str | None
) -> None:
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
        commit = Commit(connection, charter, keyring, Moves(tip), {}, alone=True)
        transaction = SqliteTransaction(commit)
        transaction.append(log_created(charter.signer, succeeds), clock())
        transaction.keep()
        commit.write()
        connection.execute("COMMIT")
    except sqlite3.Error as exc:
        raise translate(exc, f"creating `{path}`") from exc
    finally:
        connection.close()


def _check_identity(path: Path, connection: sqlite3.Connection, charter: Charter) -> None:
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


def _check_evidence(connection: sqlite3.Connection, charter: Charter, keyring: Keyring) -> None:
    (newest,) = connection.execute("SELECT coalesce(max(no), 0) FROM subjectkey").fetchone()
    if newest > keyring.last:
        raise TamperedError(
            f"content lies under key `{newest}`, and the keyring ends at `{keyring.last}`",
            hint="an older keyring cannot read what was written since: bring back the newest",
        )
    if charter.signer is not None:
        # A log is not signed with a key that it does not name as its own.
        refuse_strangers(_reader(connection, charter.origin, keyring), (charter.signer,))
    if charter.kept is not None:
        _check_kept(connection, charter, keyring, charter.kept)


def _reader(connection: sqlite3.Connection, origin: Origin, keyring: Keyring) -> SqliteReader:
    return SqliteReader(connection, read_tip(connection, origin), keyring)


def _complete_erasure(connection: sqlite3.Connection, keyring: Keyring) -> bool:
    """Do what a crash after the entry of an erasure left undone. True when there was something."""
    if not connection.execute("SELECT 1 FROM subjectkey WHERE doomed LIMIT 1").fetchone():
        return False
    connection.execute("BEGIN IMMEDIATE")
    done = destroy_doomed(connection, keyring)
    connection.execute("COMMIT")
    return done


def _beside(path: Path) -> Path:
    return path.with_suffix(".keyring")


def _check_kept(
    connection: sqlite3.Connection, charter: Charter, keyring: Keyring, kept: KeptCheckpoint
) -> None:
    note = kept.read()
    reader = _reader(connection, charter.origin, keyring)
    if note is None and reader.checkpoints():
        raise TamperedError(
            f"kept checkpoint `{kept.path}` is gone, and the log has signed",
            hint="restore it, or put the newest checkpoint that you trust there",
        )
    kept.check(note, reader.head(), reader.tree.checkpoint)
