"""What lies in a bundle, and does it hold? Read once, each file compared with the manifest on the way.

Nothing is trusted unread and no file is read twice: while its lines are verified, each file is hashed.
Symbolic links are refused. Whatever bytes lie there end in findings.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from governance.canonical import ENTRY_BYTES_MAX
from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest
from governance.ledger.anchoring import Demands, Vouched, judge_anchors
from governance.ledger.checkpoint import NOTE_BYTES_MAX, VerifierKey, parse_verifier_key
from governance.ledger.entry import Entry, Payload, Record, read_entry
from governance.ledger.kept import Kept, parse_kept
from governance.ledger.lines import Stream, cut_lines
from governance.ledger.manifest import (
    CHECKPOINT,
    FOLDERS,
    HASHES,
    KEYS,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    SIGNATURE,
    Manifest,
    Stored,
    check_signature,
    compare_range,
    stamp_size,
)
from governance.ledger.parts import Part, WholeLog, may_lack
from governance.ledger.payloads import PAYLOAD_LINE_BYTES_MAX, read_payload_line
from governance.ledger.report import Finding, Flaw, Report, Verdict, Where, finding
from governance.ledger.stamp import STAMP_BYTES_MAX
from governance.ledger.tiles import TILES, tile_names
from governance.ledger.verify import Evidence, Note, Progress, judge

__all__ = ["Bundle", "read_bundle", "read_kept", "records", "verify_bundle"]

_CHUNK_BYTES: Final = 1024 * 1024
_TILE_BYTES_MAX: Final = 256 * 32
_HASH_BYTES: Final = 32
_LEVELS_MAX: Final = 12
"""How deep folders nest in a bundle at most: `tile/7/x001/x002/003.p/4` has six levels."""


@dataclass(slots=True)
class Bundle:
    """A folder under verification. `findings` grows while its streams are read, each of them once.

    Without a readable manifest, `names` are the files that lie there, and no hash is known.
    """

    folder: Path
    names: frozenset[str]
    manifest: Manifest | None
    tiles: frozenset[str] = frozenset()
    raw_manifest: bytes = b""
    signature: bytes | None = None
    findings: list[Finding] = field(default_factory=list[Finding])

    def entries(self) -> Iterator[Stream]:
        return self._streams("entries/", ENTRY_BYTES_MAX)

    def payloads(self) -> Iterator[Stream]:
        return self._streams("payloads/", PAYLOAD_LINE_BYTES_MAX)

    def hashes(self) -> Iterator[Digest]:
        """What stands for the entries that a part is without."""
        rest = b""
        for chunk in self._chunks(HASHES) if HASHES in self.names else ():
            rest += chunk
            whole = len(rest) - len(rest) % _HASH_BYTES
            for at in range(0, whole, _HASH_BYTES):
                yield Digest(rest[at : at + _HASH_BYTES])
            rest = rest[whole:]
        if rest:
            self.say(Flaw.HASHES_WRONG, HASHES, "ends within a hash")

    def tile(self, name: str) -> bytes | None:
        """One tile, None when it is missing, which was said, or cannot be read, which is said now."""
        if name not in self.tiles:
            return None
        return b"".join(self._chunks(name, _TILE_BYTES_MAX + 1))

    def notes(self) -> Iterator[Note]:
        """Every checkpoint. The one that counts as newest has to be the newest."""
        newest = b""
        for name in sorted(self.names):
            if name.startswith("checkpoints/"):
                newest = self.read(name, NOTE_BYTES_MAX)
                yield name, newest
        if CHECKPOINT in self.names:
            named = self.read(CHECKPOINT, NOTE_BYTES_MAX)
            yield CHECKPOINT, named
            if named != newest:
                self.say(Flaw.FILE_ALTERED, CHECKPOINT, "is not the newest of `checkpoints/`")

    def stamps(self) -> Iterator[tuple[str, bytes]]:
        """Every stamp of a time-stamping authority."""
        for name in sorted(self.names):
            if stamp_size(name) is not None:
                yield name, self.read(name, STAMP_BYTES_MAX + 1)

    def read(self, name: str, limit: int) -> bytes:
        """A small file as a whole; what exceeds `limit` is cut off, and found by its hash."""
        kept = b""
        for chunk in self._chunks(name):
            kept += chunk[: limit - len(kept)]
        return kept

    def say(self, flaw: Flaw, name: str, message: str) -> None:
        shown = name.encode(errors="backslashreplace").decode()
        self.findings.append(finding(Verdict.INTEGRITY, flaw, Where(shown), message))

    def _streams(self, prefix: str, limit: int) -> Iterator[Stream]:
        for name in sorted(self.names):
            if name.startswith(prefix):
                yield name, cut_lines(self._chunks(name), limit)

    def _chunks(self, name: str, size: int = _CHUNK_BYTES) -> Iterator[bytes]:
        """The bytes of a file, compared with the manifest once all have been read."""
        total, hashed = 0, hashlib.sha256()
        try:
            with _open(self.folder / name) as file:
                while chunk := file.read(size):
                    total += len(chunk)
                    hashed.update(chunk)
                    yield chunk
        except OSError as exc:
            self.say(Flaw.FILE_UNREADABLE, name, f"cannot be read: {exc.strerror}")
            return
        listed = self.manifest.files.get(name) if self.manifest else None
        if listed is not None and listed != Stored(total, hashed.hexdigest()):
            self.say(Flaw.FILE_ALTERED, name, "is not the file that the manifest lists")


def read_bundle(folder: Path) -> Bundle:
    """Open a bundle for verification. Raises InvalidInputError when there is no such folder."""
    if not folder.is_dir():
        raise InvalidInputError(f"no bundle at `{folder}`", hint="name the folder of an export")
    bundle = Bundle(folder, frozenset(), None)
    present = _list(bundle)
    for name in sorted({MANIFEST, SIGNATURE} - present):
        bundle.say(Flaw.FILE_MISSING, name, "is missing")
    if SIGNATURE in present:
        bundle.signature = bundle.read(SIGNATURE, NOTE_BYTES_MAX)
    if MANIFEST in present:
        bundle.raw_manifest = bundle.read(MANIFEST, MANIFEST_BYTES_MAX + 1)
        try:
            bundle.manifest = Manifest.from_bytes(bundle.raw_manifest)
        except InvalidInputError as exc:
            bundle.say(Flaw.MANIFEST_MALFORMED, MANIFEST, exc.message)
    present -= {MANIFEST, SIGNATURE}
    listed = frozenset(bundle.manifest.files) if bundle.manifest else present
    for name in sorted(listed - present):
        bundle.say(Flaw.FILE_MISSING, name, "is listed in the manifest, and missing")
    for name in sorted(present - listed):
        bundle.say(Flaw.FILE_UNEXPECTED, name, "is not listed in the manifest")
    bundle.names = listed & present
    bundle.tiles = _tiles(bundle)
    return bundle


def read_kept(path: Path) -> Kept:
    """Read a checkpoint that was kept from before. Raises InvalidInputError."""
    try:
        with path.open("rb") as file:
            raw = file.read(NOTE_BYTES_MAX + 1)
    except OSError as exc:
        raise InvalidInputError(
            f"kept checkpoint `{path}` cannot be read: `{exc.strerror}`",
            hint="give the file `checkpoint` of an earlier bundle",
        ) from exc
    return parse_kept(str(path), raw)


def verify_bundle(
    folder: Path,
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None = None,
    demands: Demands | None = None,
    kept: Sequence[Kept] = (),
) -> Report:
    """Judge a bundle by `ledger.verify`, its files by its manifest, its anchors by what is demanded of them.

    Raises InvalidInputError when there is no such folder; whatever lies in it ends in findings.
    """
    bundle = read_bundle(folder)
    manifest, hashes = bundle.manifest, bundle.hashes()
    notes, stamps = list(bundle.notes()), bundle.stamps()
    evidence = Evidence(bundle.entries(), bundle.payloads(), notes, kept=kept)
    if manifest is not None:
        evidence = replace(
            evidence,
            part=manifest.part,
            hashes=hashes,
            withheld=manifest.withheld,
            tile=bundle.tile if isinstance(manifest.part, WholeLog) else None,
        )
    report = judge(evidence, pins, progress)
    for _ in hashes:  # hashed to its end, however few were needed
        pass
    if KEYS in bundle.names:
        bundle.read(KEYS, NOTE_BYTES_MAX)
    trusted = [parse_verifier_key(key) for key in report.summary.keys] if pins else pins
    if manifest is not None:
        bundle.findings += compare_range(manifest, report.summary)
        if bundle.signature is not None:
            raw, note = bundle.raw_manifest, bundle.signature
            bundle.findings += check_signature(manifest, raw, note, trusted)
    if demands is not None:
        said = Vouched(report.summary.log, notes, stamps)
        # Each head bears the key of its day; whether it might, the report says.
        believed = [parse_verifier_key(key) for key in report.summary.believed]
        bundle.findings += judge_anchors(said, believed, demands)
    for _ in stamps:  # compared with the manifest, whether anybody asked for them or not
        pass
    return report.with_findings(bundle.findings)


def records(folder: Path) -> Iterator[Record]:
    """Read the entries of a bundle with their payloads. Verify the bundle first: this only reads.

    Raises TamperedError where it cannot go on, and at the end if any file is not what was listed.
    """
    bundle = read_bundle(folder)
    part = bundle.manifest.part if bundle.manifest else None
    payloads = _payload_lines(bundle)
    beside = next(payloads, None)
    last: Entry | None = None
    for name, lines in bundle.entries():
        for number, line in enumerate(lines, 1):
            try:
                entry = read_entry(line.removesuffix(b"\n"))
            except InvalidInputError as exc:
                raise _torn(name, number, exc.message) from exc
            if not _follows(entry, last, part):
                raise _torn(name, number, "entry does not follow from the one before")
            last, found = entry, dict[str, Payload]()
            while beside is not None and beside[0] == entry.seq:
                found[beside[1].name] = beside[1]
                beside = next(payloads, None)
            yield Record(entry, found)
    if beside is not None:
        raise _torn("payloads", None, f"payload of entry {beside[0]} stands out of order")
    for problem in bundle.findings:
        raise _torn(problem.where.file or "", None, problem.message)


def _follows(entry: Entry, last: Entry | None, part: Part | None) -> bool:
    """Tell whether `entry` may stand after `last`: next to it, or where the part leaves some out."""
    due = last.seq + 1 if last else 0
    if last is not None and entry.seq == due:
        return entry.prev == last.hash
    if part is None:
        return entry.seq == due
    return entry.seq >= due and may_lack(part, due, entry.seq)


def _payload_lines(bundle: Bundle) -> Iterator[tuple[int, Payload]]:
    for name, lines in bundle.payloads():
        for number, line in enumerate(lines, 1):
            try:
                yield read_payload_line(line)
            except InvalidInputError as exc:
                raise _torn(name, number, exc.message) from exc


def _torn(file: str, line: int | None, message: str) -> TamperedError:
    place = str(Where(file, line))
    return TamperedError(f"`{place}`: {message}", hint="run `governance verify` on the bundle")


def _list(bundle: Bundle) -> frozenset[str]:
    """The regular files of a bundle but for its tiles, by their names in it; all else is reported."""
    present = set[str]()
    for base in ("", *(f"{name}/" for name in FOLDERS)):
        for name, item in _scan(bundle, base):
            if item.is_file(follow_symlinks=False):
                present.add(name)
            elif not (item.is_dir(follow_symlinks=False) and name in {*FOLDERS, TILES}):
                bundle.say(Flaw.FILE_UNEXPECTED, name, "is no regular file, or no part of a bundle")
    return frozenset(present)


def _tiles(bundle: Bundle) -> frozenset[str]:
    """The tiles of a bundle, by name. Those missing are counted, not listed: they come in thousands."""
    part = bundle.manifest.part if bundle.manifest else None
    expected = frozenset(tile_names(part.size)) if isinstance(part, WholeLog) else frozenset[str]()
    top = bundle.folder / TILES
    present, folders = set[str](), [f"{TILES}/"] if top.is_dir() and not top.is_symlink() else []
    while folders:
        for name, item in _scan(bundle, folders.pop()):
            if item.is_dir(follow_symlinks=False) and name.count("/") < _LEVELS_MAX:
                folders.append(f"{name}/")
            elif item.is_file(follow_symlinks=False) and (name in expected or part is None):
                present.add(name)
            else:
                bundle.say(Flaw.FILE_UNEXPECTED, name, "is no tile of this part")
    missing = expected - present
    if missing:
        message = f"is missing, as are {len(missing) - 1} other tiles"
        bundle.say(Flaw.FILE_MISSING, min(missing), message)
    return frozenset(present)


def _scan(bundle: Bundle, base: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        found = sorted(os.scandir(bundle.folder / base), key=lambda item: item.name)
    except OSError as exc:
        bundle.say(Flaw.FILE_MISSING, base, f"cannot be listed: {exc.strerror}")
        return
    for item in found:
        yield base + item.name, item


def _open(path: Path) -> BinaryIO:
    """Open a regular file that lies here itself: no link, no pipe that would wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(None, "no regular file")
    return file
