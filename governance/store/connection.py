"""How is the file opened, and what do the driver's errors mean? The only place that connects."""

import sqlite3
from pathlib import Path
from typing import Final

from governance.errors import GovernanceError, TamperedError, UnavailableError

__all__ = ["BUSY_TIMEOUT_S", "LockedError", "connect", "connect_keyring", "translate"]

BUSY_TIMEOUT_S: Final = 5.0
"""How long a transaction waits for another process before it gives up."""

_PRIMARY_CODE: Final = 0xFF
_CONTRADICTS_ITSELF: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_IN_USE: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class LockedError(UnavailableError):
    """Another process holds the lock. Nothing was begun, nothing is broken."""


def connect(path: Path, *, busy_timeout_s: float, read_only: bool = False) -> sqlite3.Connection:
    """Open an existing file. Transactions are ours to begin and end. Raises sqlite3.Error."""
    connection = _connect(path, "ro" if read_only else "rw", busy_timeout_s)
    try:
        _configure(connection, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_keyring(path: Path) -> sqlite3.Connection:
    """Open the file of a keyring: no copy of a key is left in a journal. Raises sqlite3.Error."""
    connection = _connect(path, "rw", BUSY_TIMEOUT_S)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
        # EXTRA: with the commit, the end of its journal is durable too, and so is a key's destruction.
        connection.execute("PRAGMA synchronous = EXTRA")
        _harden(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str, busy_timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,  # one thread at a time: the writer's own, or the reader that holds it
    )


def translate(error: sqlite3.Error, doing: str) -> GovernanceError:
    """Say what a driver's error means to a caller who was `doing` something."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
    if code in _CONTRADICTS_ITSELF:
        return TamperedError(
            f"database is damaged, found while {doing}: `{error}`",
            hint="stop every writer and restore a copy no older than the kept checkpoint",
        )
    if code in _IN_USE:
        return LockedError(f"database is locked by another process while {doing}", hint="try again")
    return UnavailableError(
        f"database failed while {doing}: `{error}`", hint="look at the disk, then open it again"
    )


def _configure(connection: sqlite3.Connection, *, read_only: bool) -> None:
    # WAL can be refused without an error, on a network file system for one: the answer tells.
    journal = "PRAGMA journal_mode" if read_only else "PRAGMA journal_mode = WAL"
    (answer,) = connection.execute(journal).fetchone()
    if answer != "wal":
        raise UnavailableError(
            f"database keeps its journal as `{answer}`, not as a write-ahead log",
            hint="put it on a local disk",
        )
    # FULL: a commit that was acknowledged survives a power cut. NORMAL may lose the last ones.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    _harden(connection)


def _harden(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    # What is deleted is overwritten with zeros: an erased name must not stand in a free page.
    connection.execute("PRAGMA secure_delete = ON")
