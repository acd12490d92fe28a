"""Under which key does somebody's content lie? A file apart from the ledger's, so that a copy of the
database alone says nothing, and destroying a key erases every copy of what lies under it.

    key     number, whom it belongs to, 256 random bits; numbers are never used again; under a retired one
            nothing new is written
    meta    the log these keys are of

Content of one person lies under that person's key; content of two, under a key that belongs to both
and goes with either. What is stored is AES-256-GCM over salt and content, bound to its place and name:

    8 random bytes || ciphertext || 16 bytes tag      nonce = random bytes || place mod 2^32

A nonce repeats under one key only if the same place is written again (a work that was undone, a
restored copy) *and* 64 random bits are the same.

Order of writes: (1) a new key is durable here, (2) content under it is committed to the database. A crash
between leaves a key without content, which is used or destroyed later. An erasure goes the other way.

The file keeps no write-ahead log and its rollback journal is deleted at each commit; deleted rows are
overwritten. What a disk keeps of overwritten blocks is beyond a program's reach.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from governance.errors import InvalidInputError, UnavailableError
from governance.ids import Origin, SubjectId
from governance.store.connection import LockedError, connect_keyring, translate
from governance.store.files import check_file, new_file
from governance.store.rows import Row

__all__ = ["NOISE_BYTES", "Keyring", "KeyringError", "SubjectKey"]

KEY_BYTES: Final = 32
NOISE_BYTES: Final = 8
KEYS_REMEMBERED_MAX: Final = 4096

_META: Final = "CREATE TABLE meta (only_one INTEGER PRIMARY KEY, origin TEXT NOT NULL)"
_KEYS: Final = """
    CREATE TABLE key (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        owners TEXT NOT NULL,
        retired BOOLEAN NOT NULL DEFAULT FALSE,
        secret BLOB NOT NULL
    )
"""
_ONE_IN_USE: Final = "CREATE UNIQUE INDEX key_in_use ON key (owners) WHERE NOT retired"
_OF_OWNERS: Final = "SELECT no, secret FROM key WHERE owners = ? AND NOT retired"
_BY_NUMBER: Final = "SELECT secret FROM key WHERE no = ?"
_ADD: Final = "INSERT OR IGNORE INTO key (owners, secret) VALUES (?, ?)"
_OF_SUBJECT: Final = (
    "SELECT no FROM key WHERE instr(' ' || owners || ' ', ' ' || ? || ' ') ORDER BY no"
)
_RETIRE: Final = "UPDATE key SET retired = TRUE WHERE no = ?"
_DESTROY: Final = "DELETE FROM key WHERE no = ?"
_LAST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'key'"


class KeyringError(UnavailableError):
    """A change of the keyring failed: what its file holds is known only to whoever opens it again."""


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """A key at hand, by its number."""

    no: int
    cipher: AESGCM

    def encrypt(self, place: int, name: str, plain: bytes, noise: bytes) -> bytes:
        return noise + self.cipher.encrypt(_nonce(noise, place), plain, _bound_to(place, name))

    def decrypt(self, place: int, name: str, stored: bytes) -> bytes | None:
        """Give back what was encrypted at this place under this name; None for anything else."""
        noise, sealed = stored[:NOISE_BYTES], stored[NOISE_BYTES:]
        try:
            return self.cipher.decrypt(_nonce(noise, place), sealed, _bound_to(place, name))
        except (InvalidTag, ValueError):
            return None


def _nonce(noise: bytes, place: int) -> bytes:
    return noise + (place % 2**32).to_bytes(4, "big")


def _bound_to(place: int, name: str) -> bytes:
    return f"{place} {name}".encode()


class Keyring:
    """The keys of one log's content. Made by `open` or `create`, never directly. Any thread may use it."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, draw: Callable[[int], bytes]
    ) -> None:
        self._path = path
        self._connection = connection
        self._draw = draw
        self._lock = threading.Lock()
        self._of_owners: dict[tuple[SubjectId, ...], SubjectKey] = {}
        self._by_number: dict[int, SubjectKey] = {}

    @classmethod
    def create(cls, path: Path, origin: Origin, draw: Callable[[int], bytes]) -> "Keyring":
        """Begin a keyring in a new file. Raises ConflictError when it exists."""
        new_file(path)
        try:
            connection = connect_keyring(path)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_META)
            connection.execute(_KEYS)
            connection.execute(_ONE_IN_USE)
            connection.execute("INSERT INTO meta (only_one, origin) VALUES (0, ?)", (origin,))
            connection.execute("COMMIT")
        except sqlite3.Error as exc:
            raise translate(exc, f"creating `{path}`") from exc
        return cls(path, connection, draw)

    @classmethod
    def open(cls, path: Path, origin: Origin, draw: Callable[[int], bytes]) -> "Keyring":
        """Go on with the keyring in `path`.

        Raises InvalidInputError when it is absent or another log's, RefusedError when others can read it.
        """
        check_file(path, "keyring", "bring it back, or name it in `GOVERNANCE_KEYRING`")
        try:
            connection = connect_keyring(path)
        except sqlite3.Error as exc:
            raise translate(exc, f"opening `{path}`") from exc
        try:
            _check_origin(path, connection, origin)
        except BaseException:
            connection.close()
            raise
        return cls(path, connection, draw)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def last(self) -> int:
        """The highest number ever given to a key."""
        with self._lock:
            row = self._ask(_LAST)
        return row[0] if row else 0

    def key_of(self, owners: tuple[SubjectId, ...]) -> SubjectKey:
        """Find the key that belongs to exactly `owners`; a new one is durable before it is given out.

        Raises UnavailableError when that fails.
        """
        known = self._of_owners.get(owners)
        if known is not None:
            return known
        with self._lock:
            row = self._ask(_OF_OWNERS, " ".join(owners)) or self._add(" ".join(owners))
            return self._remember(row[0], row[1], owners)

    def key(self, no: int) -> SubjectKey | None:
        """Find a key by its number; None when it was destroyed, or never was here."""
        known = self._by_number.get(no)
        if known is not None:
            return known
        with self._lock:
            row = self._ask(_BY_NUMBER, no)
            return self._remember(no, row[0]) if row else None

    def numbers(self, subject: SubjectId) -> tuple[int, ...]:
        """List the keys that belong to `subject`, alone or with somebody else."""
        with self._lock:
            try:
                return tuple(no for (no,) in self._connection.execute(_OF_SUBJECT, (subject,)))
            except sqlite3.Error as exc:
                raise translate(exc, "reading the keyring") from exc

    def retire(self, numbers: Iterable[int]) -> None:
        """Keep anything new from being written under keys that are about to be destroyed.

        Where they are not, after all, what lies under them still reads.
        """
        with self._lock:
            self._change(_RETIRE, [(no,) for no in numbers])
        self.forget()

    def destroy(self, numbers: Iterable[int]) -> None:
        """Overwrite keys, durably. Those already gone are passed over."""
        with self._lock:
            self._change(_DESTROY, [(no,) for no in numbers])
        self.forget()

    def forget(self) -> None:
        """Look again: another process may have destroyed a key, and be about to use another."""
        self._of_owners = {}
        self._by_number = {}

    def close(self) -> None:
        self.forget()
        with self._lock:
            self._connection.close()

    def _remember(
        self, no: int, secret: bytes, owners: tuple[SubjectId, ...] | None = None
    ) -> SubjectKey:
        if len(self._by_number) >= KEYS_REMEMBERED_MAX:
            self.forget()
        found = self._by_number.get(no) or SubjectKey(no, AESGCM(secret))
        self._by_number[no] = found
        if owners is not None:
            self._of_owners[owners] = found
        return found

    def _add(self, owners: str) -> Row:
        # Another process may have been first: whichever key is there afterwards is the one.
        self._change(_ADD, [(owners, self._draw(KEY_BYTES))])
        row = self._ask(_OF_OWNERS, owners)
        if row is None:
            raise KeyringError(f"keyring `{self._path}` lost a key it just kept")
        return row

    def _change(self, sql: str, rows: list[Row]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(sql, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as exc:
            failure = translate(exc, "changing the keyring")
            if isinstance(failure, LockedError):
                raise failure from exc
            raise KeyringError(failure.message, hint=failure.hint) from exc

    def _ask(self, sql: str, *values: object) -> Row | None:
        try:
            row: Row | None = self._connection.execute(sql, values).fetchone()
        except sqlite3.Error as exc:
            raise translate(exc, "reading the keyring") from exc
        return row


def _check_origin(path: Path, connection: sqlite3.Connection, origin: Origin) -> None:
    try:
        row = connection.execute("SELECT origin FROM meta").fetchone()
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR:
            raise translate(exc, f"opening `{path}`") from exc
        row = None  # no such table
    if row is None:
        raise InvalidInputError(f"`{path}` is no keyring", hint="bring back the log's own")
    if row[0] != origin:
        raise InvalidInputError(
            f"keyring `{path}` is of log `{row[0]}`, not `{origin}`",
            hint="bring back the log's own",
        )
