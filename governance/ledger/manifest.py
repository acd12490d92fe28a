"""What a bundle says it holds: a range of one log, and every file with its size and hash.

Canonical JSON, so that one range has one manifest. The list of files follows from the range and the
checkpoints; a manifest that lists others is not read. `first` is 0 and `withheld` empty in this version.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from governance.canonical import parse_json, payload_bytes
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Origin, parse_digest, parse_origin
from governance.ledger.checkpoint import KeyType, VerifierKey, note_text, open_note
from governance.ledger.report import Finding, Flaw, Summary, Verdict, Where, finding

__all__ = [
    "CHECKPOINT",
    "FOLDERS",
    "FORMAT",
    "KEYS",
    "MANIFEST",
    "MANIFEST_BYTES_MAX",
    "SEGMENT_ENTRIES",
    "SIGNATURE",
    "Manifest",
    "Stored",
    "check_signature",
    "checkpoint_name",
    "compare_range",
    "manifest_text",
    "segment_name",
]

FORMAT: Final = "governance/bundle/v1"
SEGMENT_ENTRIES: Final = 65_536
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
CHECKPOINT: Final = "checkpoint"
KEYS: Final = "keys"
FOLDERS: Final = ("checkpoints", "entries", "payloads")

_CHECKPOINT_NAME: Final = re.compile(r"checkpoints/[0-9]{16}")


def checkpoint_name(size: int) -> str:
    return f"checkpoints/{size:016}"


def segment_name(folder: str, first: int) -> str:
    return f"{folder}/{first:016}.jsonl"


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of a bundle: how many bytes, and their SHA-256 in hex."""

    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says it holds: entries 0 to `size - 1` of `log`, and each file."""

    log: Origin
    size: int
    files: Mapping[str, Stored]

    @property
    def total_bytes(self) -> int:
        """How many bytes of entries and payloads there are: what `verify` counts up to."""
        return sum(
            stored.length
            for name, stored in self.files.items()
            if name.startswith(("entries/", "payloads/"))
        )

    def to_bytes(self) -> bytes:
        return payload_bytes(
            {
                "files": {
                    name: {"bytes": stored.length, "sha256": stored.sha256}
                    for name, stored in self.files.items()
                },
                "first": 0,
                "format": FORMAT,
                "log": self.log,
                "size": self.size,
                "withheld": [],
            },
            limit=MANIFEST_BYTES_MAX,
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Manifest":
        """Read what `to_bytes` wrote, for a range whose files it lists. Raises InvalidInputError."""
        value = parse_json(raw, limit=MANIFEST_BYTES_MAX)
        try:
            files = {
                str(name): Stored(_count(stored["bytes"]), parse_digest(stored["sha256"]).hex())
                for name, stored in value["files"].items()
            }
            manifest = cls(parse_origin(value["log"]), _count(value["size"]), files)
        except (KeyError, TypeError, AttributeError) as exc:
            raise InvalidInputError("manifest lacks a field, or has one of another type") from exc
        if manifest.to_bytes() != raw:
            raise InvalidInputError(
                "manifest is not in canonical form, or of another format or range",
                hint=f"this version reads whole logs in `{FORMAT}`",
            )
        notes = {name for name in files if _CHECKPOINT_NAME.fullmatch(name)}
        firsts = range(0, manifest.size, SEGMENT_ENTRIES)
        segments = {segment_name(name, first) for name in FOLDERS[1:] for first in firsts}
        if files.keys() - notes != segments | {CHECKPOINT, KEYS}:
            raise InvalidInputError("manifest lists files that its range does not have")
        return manifest


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInputError(f"manifest has `{value!r:.40}` where a count belongs")
    return value


def manifest_text(log: Origin, manifest: bytes) -> str:
    """What is signed for a manifest. No checkpoint: a checkpoint's third line has 44 characters."""
    return f"{FORMAT}\n{log}\n{hashlib.sha256(manifest).hexdigest()}\n"


def compare_range(manifest: Manifest, summary: Summary) -> Iterator[Finding]:
    """Compare what a manifest says it holds with what was read."""
    where = Where(MANIFEST)
    if manifest.size != summary.entries:
        message = f"says {manifest.size} entries, and {summary.entries} are here"
        yield finding(Verdict.COMPLETENESS, Flaw.MANIFEST_DIFFERS, where, message)
    if summary.log is not None and manifest.log != summary.log:
        message = f"is of log `{manifest.log}`, the entries of `{summary.log}`"
        yield finding(Verdict.INTEGRITY, Flaw.MANIFEST_DIFFERS, where, message)


def check_signature(
    manifest: Manifest, raw: bytes, signature: bytes, pins: Sequence[VerifierKey] | None
) -> Iterator[Finding]:
    """Check that the log's own key signed these bytes of `manifest`.

    Without a pin for the log, only that the note is over them; that no key is pinned, `verify` says.
    """
    where, note = Where(SIGNATURE), signature.decode(errors="replace")
    own = [pin for pin in pins or () if pin.name == manifest.log and pin.kind is KeyType.ED25519]
    keys = list({pin.id: pin for pin in own}.values())
    try:
        if note_text(note) != manifest_text(manifest.log, raw):
            message = "signs another manifest"
            yield finding(Verdict.INTEGRITY, Flaw.MANIFEST_DIFFERS, where, message)
        if keys:
            open_note(note, keys)
    except InvalidInputError as exc:
        yield finding(Verdict.INTEGRITY, Flaw.MANIFEST_MALFORMED, where, exc.message)
    except TamperedError as exc:
        yield finding(Verdict.TRUST, Flaw.SIGNATURE_WRONG, where, exc.message)
    except RefusedError as exc:
        yield finding(Verdict.TRUST, Flaw.KEY_UNKNOWN, where, exc.message)
