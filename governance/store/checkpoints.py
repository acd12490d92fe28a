"""What does a log sign, and what does it keep outside its database? Signed tree heads.

The last signed checkpoint is also kept in a file, best on another volume. A database that is shorter
than it, or does not hold that very checkpoint, is an older or another copy: it must not go on signing.

Order of writes: (1) the note is committed to the database, (2) the kept file is replaced. A crash
between them leaves a kept file that is older than the database, which is consistent.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governance.errors import InvalidInputError, RefusedError, TamperedError, UnavailableError
from governance.ids import Origin
from governance.ledger.checkpoint import (
    Checkpoint,
    note_text,
    parse_checkpoint,
    sign_checkpoint,
)
from governance.ledger.cosignature import add_signatures
from governance.ledger.entry import ABOUT_KEYS
from governance.ledger.keys import signing_after
from governance.ports import Head, Reader, Signer

__all__ = [
    "CHECKPOINT_AFTER_S",
    "CHECKPOINT_ENTRIES",
    "Charter",
    "KeptCheckpoint",
    "cosigned",
    "refuse_strangers",
    "sync_directory",
]

CHECKPOINT_ENTRIES: Final = 256
"""At most so many entries are committed without a signature over them."""
CHECKPOINT_AFTER_S: Final = 5.0
"""Nor does an entry wait longer than this for one."""

_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """The last checkpoint, in a file outside the database."""

    path: Path

    def read(self) -> str | None:
        """Read the kept note; None when nothing was kept yet."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            raise UnavailableError(f"kept checkpoint `{self.path}` cannot be read") from exc

    def check(self, note: str | None, head: Head, stored: Callable[[int], str | None]) -> None:
        """Raise TamperedError unless the log that ends at `head` continues the kept `note`.

        Read the note first and the head after it: another process may append meanwhile. `stored` gives
        the note that the database holds for a size.
        """
        if note is None:
            return
        kept = self._parse(note)
        hint = "an older or another copy must not go on: find the newest copy, or begin a new log"
        if kept.size > head.size:
            raise TamperedError(
                f"database ends at {head.size} entries, the kept checkpoint covers `{kept.size}`",
                seq=head.size,
                hint=hint,
            )
        same_root = kept.size != head.size or kept.root == head.root
        if not _is_same(stored(kept.size), note) or not same_root:
            raise TamperedError(
                f"database is not consistent with the kept checkpoint of size `{kept.size}`",
                hint=hint,
            )

    def replace(self, note: str) -> None:
        """Keep `note` unless a newer one is kept already. Several processes may try at once.

        The same head with more signatures is newer: witnesses come later.
        """
        try:
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
                old = self.read()
                if old is None or self._is_newer(note, old):
                    self._write(note)
                    os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as exc:
            raise UnavailableError(
                f"checkpoint cannot be kept in `{self.path}`: `{exc.strerror}`"
            ) from exc

    def _write(self, note: str) -> None:
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.unlink(missing_ok=True)  # what a crash left; the lock says nobody is writing it
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(note)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def _is_newer(self, note: str, old: str) -> bool:
        size, last = self._parse(note).size, self._parse(old).size
        return size > last or (_is_same(note, old) and note != old)

    def _parse(self, note: str) -> Checkpoint:
        try:
            return parse_checkpoint(note_text(note))
        except InvalidInputError as exc:
            raise TamperedError(
                f"kept checkpoint `{self.path}` is malformed", hint="restore the file"
            ) from exc


@dataclass(frozen=True, slots=True)
class Charter:
    """What makes a log this log: its name, its key, the randomness of its salts, what it keeps."""

    origin: Origin
    salts: Callable[[int], bytes]
    signer: Signer | None = None
    kept: KeptCheckpoint | None = None

    def __post_init__(self) -> None:
        if self.signer is not None and self.signer.origin != self.origin:
            raise InvalidInputError(
                f"key is of log `{self.signer.origin}`, not `{self.origin}`",
                hint="open each log with its own key",
            )

    def sign(
        self, reader: Reader, stored: Callable[[int], str | None], also: Sequence[Signer] = ()
    ) -> str:
        """Sign the head as `reader` sees it, unless the log would belie the kept checkpoint.

        Raises TamperedError then, UnavailableError without a signer, RefusedError when no key at hand
        may sign any more.
        """
        head = reader.head()
        if self.kept is not None:
            self.kept.check(self.kept.read(), head, stored)
        if self.signer is None:
            raise UnavailableError("log has no key to sign with", hint="open it with its key")
        signers = (self.signer, *also)
        refuse_strangers(reader, signers)
        return sign_checkpoint(Checkpoint(self.origin, head.size, head.root), *signers)

    def keep(self, note: str) -> None:
        """Keep a note that is durable in the database."""
        if self.kept is not None:
            self.kept.replace(note)


def refuse_strangers(reader: Reader, signers: Sequence[Signer]) -> None:
    """Raise RefusedError unless one of `signers` holds a key that the log names as signing from here on."""
    latest = reader.latest(ABOUT_KEYS)
    signing = [] if latest is None else signing_after(latest.entry)
    if not any(signer.verifier_key in signing for signer in signers):
        raise RefusedError(
            f"key `{signers[0].verifier_key[:160]}` is not one of log `{signers[0].origin}`, or no longer",
            hint="bring back the key that belongs to it; finish a rotation with `governance keys rotate`",
        )


def cosigned(note: str | None, size: int, lines: str) -> str:
    """The checkpoint `note` over `size` entries with signature `lines` of others under it."""
    if note is None:
        raise InvalidInputError(f"no checkpoint covers exactly `{size}` entries")
    return add_signatures(note, lines)


def _is_same(note: str | None, other: str) -> bool:
    """Tell whether two notes are one head, whoever has signed each since."""
    try:
        return note is not None and note_text(note) == note_text(other)
    except InvalidInputError:
        return False


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
