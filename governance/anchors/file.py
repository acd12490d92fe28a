"""Which heads were written to a file elsewhere? An append-only file, best on a volume that is not ours.

One line of canonical JSON for each head: `{"note": …, "size": …}`. The last line is compared with the log
before another follows: the log has to continue it, and the file has to hold what the log says it was given.
A line cut off by a crash is ended, and passed over.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governance.anchors.sink import Anchored, SinkKind, Target
from governance.canonical import parse_json, payload_bytes
from governance.errors import InvalidInputError, TamperedError, UnavailableError
from governance.ids import Digest
from governance.ledger.checkpoint import NOTE_BYTES_MAX, Checkpoint, note_text, parse_checkpoint
from governance.ledger.merkle import proves_consistency
from governance.store.checkpoints import sync_directory

__all__ = ["FileSink"]

_MODE: Final = 0o600
_TAIL_BYTES: Final = 2 * NOTE_BYTES_MAX
"""More than two lines: the last whole one is in it, whatever was cut off behind it."""


@dataclass(frozen=True, slots=True)
class FileSink:
    name: str
    path: Path
    kind: SinkKind = SinkKind.FILE

    def anchor(self, target: Target) -> Anchored:
        line = payload_bytes({"note": target.note, "size": target.head.size})
        with self._locked(new=not target.last) as descriptor:
            tail = _tail(descriptor)
            last = _last_head(tail)
            self._check(last, target)
            if last is None or last.size < target.head.size:
                end = b"" if not tail or tail.endswith(b"\n") else b"\n"
                os.write(descriptor, end + line + b"\n")
            os.fsync(descriptor)
        return Anchored(Digest(hashlib.sha256(line).digest()), {"note": target.note})

    def _check(self, last: Checkpoint | None, target: Target) -> None:
        held, head = last.size if last else 0, target.head
        if held < target.last:
            raise TamperedError(
                f"file `{self.path}` ends at {held} entries, and was given a head of `{target.last}`",
                hint="find out who has changed it; it is the copy that a rewritten log is found by",
            )
        if last is None:
            return
        known = last.origin == head.origin and held <= head.size
        try:
            proof = target.prove(held) if known else ()
        except InvalidInputError:
            known, proof = False, ()
        if not known or not proves_consistency(held, head.size, proof, last.root, head.root):
            raise TamperedError(
                f"log of {head.size} entries does not continue the head of `{held}` in `{self.path}`",
                hint="stop writing: the log was rewritten or restored, or the file is another log's",
            )

    @contextmanager
    def _locked(self, *, new: bool) -> Iterator[int]:
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | (os.O_CREAT if new else 0)
        try:
            descriptor = os.open(self.path, flags, _MODE)
            try:
                if new:
                    sync_directory(self.path.parent)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor
            finally:
                os.close(descriptor)
        except FileNotFoundError as exc:
            if new:
                raise UnavailableError(
                    f"no folder for `{self.path}`", hint="mount the volume it lies on"
                ) from exc
            raise TamperedError(
                f"file `{self.path}` is gone, and heads were anchored in it",
                hint="mount the volume it lies on, or bring the file back",
            ) from exc
        except OSError as exc:
            raise UnavailableError(f"`{self.path}` cannot be written: `{exc.strerror}`") from exc


def _tail(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))


def _last_head(tail: bytes) -> Checkpoint | None:
    """The head in the last whole line that holds one."""
    *lines, _ = tail.split(b"\n")
    for line in reversed(lines):
        try:
            value = parse_json(line, limit=_TAIL_BYTES)
            return parse_checkpoint(note_text(value["note"]))
        except (InvalidInputError, TypeError, KeyError):
            continue
    return None
