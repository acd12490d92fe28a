"""What a bundle says it holds: a part of one log, what was kept back of it, and every file with its hash.

Canonical JSON, so that one part has one manifest:

    {"files": {name: {"bytes": n, "sha256": hex}, …}, "format": "governance/bundle/v2", "log": origin,
     "part": {"kind": "log"} | {"end": n, "first": n, "kind": "range"} | {"kind": "run", "run": id},
     "size": n, "withheld": {payload name: [seq, …], …}}

`size` is that of the covering checkpoint. A manifest that lists files which its part does not have is not
read. Tiles are not listed: they follow from the entries, byte for byte.
"""

import hashlib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from governance.canonical import JSON, parse_json, payload_bytes
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Origin, parse_digest, parse_origin, parse_run_id
from governance.ledger.checkpoint import KeyType, VerifierKey, note_text, open_note
from governance.ledger.parts import OneRun, Part, Span, WholeLog
from governance.ledger.report import Finding, Flaw, Summary, Verdict, Where, finding

__all__ = [
    "CHECKPOINT",
    "FOLDERS",
    "FORMAT",
    "HASHES",
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
    "part_to_json",
    "segment_name",
    "stamp_name",
    "stamp_size",
]

FORMAT: Final = "governance/bundle/v2"
SEGMENT_ENTRIES: Final = 65_536
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
CHECKPOINT: Final = "checkpoint"
KEYS: Final = "keys"
HASHES: Final = "hashes"
FOLDERS: Final = ("anchors", "checkpoints", "entries", "payloads")

_CHECKPOINT_NAME: Final = re.compile(r"checkpoints/[0-9]{16}")
_STAMP_NAME: Final = re.compile(r"anchors/([0-9]{16})-[a-z0-9][a-z0-9-]{0,63}\.tsr")
_SEGMENTS: Final = ("entries", "payloads")
_SEGMENT_NAME: Final = re.compile(r"(?:entries|payloads)/[0-9]{16}\.jsonl")


def checkpoint_name(size: int) -> str:
    return f"checkpoints/{size:016}"


def stamp_name(size: int, sink: str) -> str:
    """A stamp over the text of the checkpoint of that size, by the name of who was asked."""
    return f"anchors/{size:016}-{sink}.tsr"


def stamp_size(name: str) -> int | None:
    """The size of the checkpoint that a file is a stamp over, None when it is called otherwise."""
    found = _STAMP_NAME.fullmatch(name)
    return int(found[1]) if found else None


def segment_name(folder: str, first: int) -> str:
    return f"{folder}/{first:016}.jsonl"


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of a bundle: how many bytes, and their SHA-256 in hex."""

    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says it holds: `part` of `log`, each file, and the payloads that were kept back.

    `withheld` is by payload name the positions of the entries, ascending.
    """

    log: Origin
    part: Part
    files: Mapping[str, Stored]
    withheld: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    @property
    def size(self) -> int:
        """How many entries the covering checkpoint is signed over."""
        return self.part.size

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
                "format": FORMAT,
                "log": self.log,
                "part": part_to_json(self.part),
                "size": self.size,
                "withheld": {name: list(seqs) for name, seqs in self.withheld.items()},
            },
            limit=MANIFEST_BYTES_MAX,
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Manifest":
        """Read what `to_bytes` wrote, for a part whose files it lists. Raises InvalidInputError."""
        value = parse_json(raw, limit=MANIFEST_BYTES_MAX)
        try:
            files = {
                str(name): Stored(_count(stored["bytes"]), parse_digest(stored["sha256"]).hex())
                for name, stored in value["files"].items()
            }
            part = _part(value["part"], _count(value["size"]))
            withheld = {str(name): _rising(seqs) for name, seqs in value["withheld"].items()}
            manifest = cls(parse_origin(value["log"]), part, files, withheld)
        except (KeyError, TypeError, AttributeError) as exc:
            raise InvalidInputError("manifest lacks a field, or has one of another type") from exc
        if manifest.to_bytes() != raw:
            raise InvalidInputError(
                "manifest is not in canonical form, or of another format",
                hint=f"this version reads `{FORMAT}`",
            )
        if not _fits(files, part):
            raise InvalidInputError("manifest lists files that its part does not have")
        return manifest


def part_to_json(part: Part) -> dict[str, JSON]:
    match part:
        case WholeLog():
            return {"kind": "log"}
        case Span(first, end):
            return {"kind": "range", "first": first, "end": end}
        case OneRun(run):
            return {"kind": "run", "run": run}


def _part(told: Any, size: int) -> Part:
    match told["kind"]:
        case "log":
            return WholeLog(size)
        case "range":
            first, end = _count(told["first"]), _count(told["end"])
            if not first < end <= size:
                raise InvalidInputError(f"manifest has no entries `{first}` to `{end}` of {size}")
            return Span(first, end, size)
        case "run":
            return OneRun(parse_run_id(told["run"]), size)
        case kind:
            raise InvalidInputError(f"manifest is of an unknown part `{kind!r:.40}`")


def _fits(files: Iterable[str], part: Part) -> bool:
    """Tell whether a part has these files: segments pairwise, no checkpoint that nothing can confirm, and
    no stamp over a checkpoint that is not there."""
    names = set(files)
    notes = {name for name in names if _CHECKPOINT_NAME.fullmatch(name)}
    sizes = {int(name.rpartition("/")[2]) for name in notes}
    stamps = {name for name in names if stamp_size(name) is not None}
    segments = {name for name in names if _SEGMENT_NAME.fullmatch(name)}
    others = names - notes - stamps - segments
    if not {stamp_size(name) for name in stamps} <= sizes:
        return False
    if isinstance(part, WholeLog):
        firsts = range(0, part.size, SEGMENT_ENTRIES)
        wanted = {segment_name(name, first) for name in _SEGMENTS for first in firsts}
        return segments == wanted and others == {CHECKPOINT, KEYS}
    inside = range(part.first + 1, part.end + 1) if isinstance(part, Span) else range(0)
    paired = {name.replace("entries/", "payloads/") for name in segments if name[0] == "e"}
    return (
        others == {CHECKPOINT, KEYS, HASHES}
        and {name for name in segments if name[0] == "p"} == paired
        and all(size in inside or size == part.size for size in sizes)
    )


def _rising(seqs: Any) -> list[int]:
    found = [_count(seq) for seq in seqs]
    if not found or any(map(operator.ge, found, found[1:])):
        raise InvalidInputError("manifest has withheld payloads out of order")
    return found


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
    if isinstance(manifest.part, WholeLog) and manifest.size != summary.entries:
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
