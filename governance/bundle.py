"""How a log leaves the house and is read back: a folder that anybody can verify offline.

    checkpoint                       the newest checkpoint, a signed note
    checkpoints/<size>               every checkpoint, by its size in 16 digits
    entries/<first seq>.jsonl        65,536 envelopes each, one raw envelope a line
    payloads/<first seq>.jsonl       the payloads of the same entries (`ledger.payloads`)
    keys                             the log's verifier key: information, never a pin
    manifest.json                    canonical JSON: format, log, range, size and SHA-256 of each file above
    manifest.sig                     a note over the manifest's SHA-256, signed by the log's key

The same range gives the same bytes. The list of files follows from the range and the checkpoints, so a
file too many or too few is noticed. Reading checks every file's hash on the way, while its lines are
verified: no file is read twice, and none is trusted unread. Symbolic links are refused.

A bundle is written beside its place and moved there when it is whole: a crash leaves no half bundle.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Self

from governance.canonical import ENTRY_BYTES_MAX
from governance.errors import (
    ConflictError,
    InvalidInputError,
    TamperedError,
    UnavailableError,
)
from governance.ledger.checkpoint import (
    NOTE_BYTES_MAX,
    VerifierKey,
    note_text,
    parse_checkpoint,
    sign_note,
)
from governance.ledger.entry import Entry, Payload, Record, read_entry
from governance.ledger.lines import Stream, cut_lines
from governance.ledger.manifest import (
    CHECKPOINT,
    FOLDERS,
    KEYS,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    SEGMENT_ENTRIES,
    SIGNATURE,
    Manifest,
    Stored,
    check_signature,
    checkpoint_name,
    compare_range,
    manifest_text,
    segment_name,
)
from governance.ledger.payloads import PAYLOAD_LINE_BYTES_MAX, payload_line, read_payload_line
from governance.ledger.report import Finding, Flaw, Report, Verdict, Where, finding
from governance.ledger.verify import Note, Progress, verify
from governance.ports import Reader, Signer

__all__ = ["Bundle", "Manifest", "export", "read_bundle", "records", "verify_bundle"]

_BATCH: Final = 512
_CHUNK_BYTES: Final = 1024 * 1024


def export(
    reader: Reader,
    checkpoint: tuple[int, str],
    folder: Path,
    signer: Signer,
    progress: Progress | None = None,
) -> Manifest:
    """Write the entries that `checkpoint` (size, signed note) covers into the new `folder`.

    `progress` is told how many entries have been written. Raises ConflictError when `folder` exists and
    is not empty, InvalidInputError when `checkpoint` is not of the signer's log, TamperedError when
    `reader` has fewer entries, UnavailableError when the disk fails.
    """
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        raise ConflictError(f"`{folder}` exists already", hint="name a new folder for the bundle")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            manifest = _write(reader, checkpoint, partial, signer, progress)
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _sync_folder(folder.parent)
    except OSError as exc:
        raise UnavailableError(
            f"cannot write bundle `{folder}`: {exc.strerror}", hint="free the disk and export again"
        ) from exc
    return manifest


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and next(folder.iterdir(), None) is None


def _write(
    reader: Reader,
    checkpoint: tuple[int, str],
    folder: Path,
    signer: Signer,
    progress: Progress | None,
) -> Manifest:
    size, note = checkpoint
    head = parse_checkpoint(note_text(note))
    if (head.origin, head.size) != (signer.origin, size):
        raise InvalidInputError(
            f"checkpoint of `{head.origin}` at {head.size} is not of `{signer.origin}` at {size}"
        )
    files = dict[str, Stored]()
    for name in FOLDERS:
        (folder / name).mkdir(mode=0o700)
    for first in range(0, size, SEGMENT_ENTRIES):
        _write_segment(reader, folder, (first, min(first + SEGMENT_ENTRIES, size)), files, progress)
    notes = {at: text for at, text in reader.checkpoints() if at < size} | {size: note}
    for at, text in sorted(notes.items()):
        _store(folder, checkpoint_name(at), text.encode(), files)
    _store(folder, CHECKPOINT, note.encode(), files)
    _store(folder, KEYS, f"{signer.verifier_key}\n".encode(), files)
    manifest = Manifest(signer.origin, size, files)
    raw = manifest.to_bytes()
    _store(folder, MANIFEST, raw, {})
    _store(folder, SIGNATURE, sign_note(manifest_text(signer.origin, raw), signer).encode(), {})
    for name in (*FOLDERS, "."):
        _sync_folder(folder / name)
    return manifest


def _write_segment(
    reader: Reader,
    folder: Path,
    span: tuple[int, int],
    files: dict[str, Stored],
    progress: Progress | None,
) -> None:
    first, end = span
    with (
        _Output(folder, segment_name("entries", first), files) as entries,
        _Output(folder, segment_name("payloads", first), files) as payloads,
    ):
        while first < end:
            batch = reader.records(start=first, limit=min(_BATCH, end - first))
            for record in batch:
                entries.write(record.entry.raw + b"\n")
                for _, payload in sorted(record.payloads.items()):
                    payloads.write(payload_line(record.entry.seq, payload))
            if not batch:
                raise TamperedError(
                    f"the store ends at entry {first}, before its own checkpoint",
                    seq=first,
                    hint="run `governance verify` on the last bundle, and restore the database",
                )
            first += len(batch)
            if progress is not None:
                progress(first)


def _store(folder: Path, name: str, content: bytes, files: dict[str, Stored]) -> None:
    with _Output(folder, name, files) as output:
        output.write(content)


class _Output:
    """A new file for its owner alone, hashed as it is written, on the disk when it is closed."""

    def __init__(self, folder: Path, name: str, files: dict[str, Stored]) -> None:
        self._name = name
        self._files = files
        self._hash = hashlib.sha256()
        self._bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._file = os.fdopen(os.open(folder / name, flags, 0o600), "wb")

    def __enter__(self) -> Self:
        return self

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self._hash.update(content)
        self._bytes += len(content)

    def __exit__(self, *failure: object) -> None:
        with self._file:
            if failure[0] is None:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._files[self._name] = Stored(self._bytes, self._hash.hexdigest())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(slots=True)
class Bundle:
    """A folder under verification. `findings` grows while its streams are read, each of them once.

    Without a readable manifest, `names` are the files that lie there, and no hash is known.
    """

    folder: Path
    names: frozenset[str]
    manifest: Manifest | None
    raw_manifest: bytes = b""
    signature: bytes | None = None
    findings: list[Finding] = field(default_factory=list[Finding])

    def entries(self) -> Iterator[Stream]:
        return self._streams("entries/", ENTRY_BYTES_MAX)

    def payloads(self) -> Iterator[Stream]:
        return self._streams("payloads/", PAYLOAD_LINE_BYTES_MAX)

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

    def _chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a file, compared with the manifest once all have been read."""
        total, hashed = 0, hashlib.sha256()
        try:
            with _open(self.folder / name) as file:
                while chunk := file.read(_CHUNK_BYTES):
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
    return bundle


def verify_bundle(
    folder: Path, pins: Sequence[VerifierKey] | None, progress: Progress | None = None
) -> Report:
    """Judge a bundle by `ledger.verify`, and its files by its manifest.

    Raises InvalidInputError when there is no such folder; whatever lies in it ends in findings.
    """
    bundle = read_bundle(folder)
    report = verify(bundle.entries(), bundle.payloads(), bundle.notes(), pins, progress)
    if KEYS in bundle.names:
        bundle.read(KEYS, NOTE_BYTES_MAX)
    if bundle.manifest is not None:
        bundle.findings += compare_range(bundle.manifest, report.summary)
        if bundle.signature is not None:
            raw, note = bundle.raw_manifest, bundle.signature
            bundle.findings += check_signature(bundle.manifest, raw, note, pins)
    return report.with_findings(bundle.findings)


def records(folder: Path) -> Iterator[Record]:
    """Read the entries of a bundle with their payloads. Verify the bundle first: this only reads.

    Raises TamperedError where it cannot go on, and at the end if any file is not what was listed.
    """
    bundle = read_bundle(folder)
    payloads = _payload_lines(bundle)
    beside = next(payloads, None)
    last: Entry | None = None
    for name, lines in bundle.entries():
        for number, line in enumerate(lines, 1):
            try:
                entry = read_entry(line.removesuffix(b"\n"))
            except InvalidInputError as exc:
                raise _torn(name, number, exc.message) from exc
            follows = last is None or (entry.prev == last.hash)
            if not follows or entry.seq != (last.seq + 1 if last else 0):
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
    """The regular files of a bundle, by their names in it; everything else is reported."""
    present = set[str]()
    for base in ("", *(f"{name}/" for name in FOLDERS)):
        try:
            found = sorted(os.scandir(bundle.folder / base), key=lambda item: item.name)
        except OSError as exc:
            bundle.say(Flaw.FILE_MISSING, base, f"cannot be listed: {exc.strerror}")
            continue
        for item in found:
            name = base + item.name
            if item.is_file(follow_symlinks=False):
                present.add(name)
            elif not (item.is_dir(follow_symlinks=False) and name in FOLDERS):
                bundle.say(Flaw.FILE_UNEXPECTED, name, "is no regular file, or no part of a bundle")
    return frozenset(present)


def _open(path: Path) -> BinaryIO:
    """Open a regular file that lies here itself: no link, no pipe that would wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(None, "no regular file")
    return file
