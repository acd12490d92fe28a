"""How far was the log verified? Kept in a file beside it, signed by the log's own key.

    governance/verified/v1
    {"at":…,"edge":"<hex>","keys":[0],"last":"<hex>","origin":"…","runs":3,"size":1024,"ts":…,"whole_at":…}
                                                         (empty line)
    — acme.example/agents M9e0luh4…

It is a note like a checkpoint and can never be taken for one: its second line is no size. Whoever has not
the log's key cannot make the check skip anything by writing this file; whoever deletes it, or puts an
older one there, makes it check more.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from governance.canonical import parse_json, payload_bytes
from governance.errors import InvalidInputError, RefusedError, TamperedError, UnavailableError
from governance.ids import Micros, Origin, parse_digest
from governance.ledger.checkpoint import note_text, open_note, parse_verifier_key, sign_note
from governance.ledger.merkle import Edge
from governance.ports import Signer
from governance.store.reckoning import Stand

__all__ = ["KeptStand", "Verified"]

_FORMAT: Final = "governance/verified/v1"
_FILE_MODE: Final = 0o600
_FILE_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Verified:
    """The log was found whole up to `stand` at `at`, and walked from its beginning at `whole_at`."""

    origin: Origin
    stand: Stand
    at: Micros
    whole_at: Micros

    def sign(self, signer: Signer) -> str:
        stand = self.stand
        fields = {
            "at": self.at,
            "edge": stand.edge.to_bytes().hex(),
            "keys": list(stand.keys),
            "last": stand.last.hex(),
            "origin": self.origin,
            "runs": stand.runs,
            "size": stand.size,
            "ts": stand.ts,
            "whole_at": self.whole_at,
        }
        return sign_note(f"{_FORMAT}\n{payload_bytes(fields).decode()}\n", signer)


def read_verified(note: str, origin: Origin, verifier_key: str) -> Verified:
    """Read what `Verified.sign` wrote. Raises InvalidInputError, RefusedError or TamperedError."""
    open_note(note, [parse_verifier_key(verifier_key)])
    heading, _, line = note_text(note).partition("\n")
    try:
        fields: dict[str, Any] = parse_json(line)
        found = Verified(
            Origin(fields["origin"]),
            Stand(
                int(fields["size"]),
                parse_digest(fields["last"]),
                Micros(int(fields["ts"])),
                Edge.from_bytes(bytes.fromhex(fields["edge"])),
                int(fields["runs"]),
                tuple(int(seq) for seq in fields["keys"]),
            ),
            Micros(int(fields["at"])),
            Micros(int(fields["whole_at"])),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidInputError("what was verified cannot be read") from exc
    if heading != _FORMAT or found.origin != origin or found.stand.edge.size != found.stand.size:
        raise InvalidInputError("what was verified is of another log")
    return found


@dataclass(frozen=True, slots=True)
class KeptStand:
    """The file. Several processes may check one log: the last word is never less strict than the others'."""

    path: Path
    signer: Signer

    def read(self) -> tuple[bytes | None, Verified | None, str]:
        """Give the file as it is, what it says if it may be believed, and why not if it may not."""
        raw = self._raw()
        if raw is None:
            return None, None, ""
        signer = self.signer
        try:
            return raw, read_verified(raw.decode(), signer.origin, signer.verifier_key), ""
        except (InvalidInputError, UnicodeDecodeError):
            return raw, None, f"`{self.path}` is malformed"
        except (RefusedError, TamperedError):
            return raw, None, f"`{self.path}` is not signed by this log's key"

    def replace(self, verified: Verified, was: bytes | None) -> None:
        """Keep `verified` unless the file is no longer what it `was`: then somebody knows better."""
        with _locked(self.path.parent):
            if self._raw() == was:
                self._write(verified.sign(self.signer))

    def drop(self) -> None:
        """Forget it: the next check, whoever makes it, begins at entry 0."""
        with _locked(self.path.parent):
            self.path.unlink(missing_ok=True)

    def _raw(self) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                return file.read(_FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise UnavailableError(
                f"`{self.path}` cannot be read: `{exc.strerror}`", hint="look at the disk"
            ) from exc

    def _write(self, note: str) -> None:
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.unlink(missing_ok=True)  # what a crash left; the lock says nobody is writing it
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(note)
        # Not synced: after a power cut an older one, or none, only makes the next check longer.
        fresh.replace(self.path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)
    except OSError as exc:
        raise UnavailableError(
            f"what was verified cannot be kept in `{folder}`: `{exc.strerror}`",
            hint="make the folder writable; until then every check begins at entry 0",
        ) from exc
