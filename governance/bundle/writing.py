"""How is a bundle written? Whole or not at all, for its owner alone, the same bytes each time.

It is written beside its place and moved there when it is whole: a crash leaves no half bundle. Entries
stream through; memory does not grow with their number.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from governance.bundle.choosing import BATCH, Choice, choose_whole
from governance.errors import (
    ConflictError,
    InvalidInputError,
    TamperedError,
    UnavailableError,
)
from governance.ledger.checkpoint import note_text, parse_checkpoint, sign_note
from governance.ledger.entry import Record
from governance.ledger.manifest import (
    CHECKPOINT,
    FOLDERS,
    HASHES,
    KEYS,
    MANIFEST,
    SEGMENT_ENTRIES,
    SIGNATURE,
    Manifest,
    Stored,
    checkpoint_name,
    manifest_text,
    segment_name,
    stamp_name,
)
from governance.ledger.parts import OneRun, Part, Span, WholeLog, gap
from governance.ledger.payloads import payload_line
from governance.ledger.tiles import Tiles
from governance.ledger.verify import Progress
from governance.ports import Reader, Signer

__all__ = ["export", "export_part"]


def export(
    reader: Reader,
    checkpoint: tuple[int, str],
    folder: Path,
    signer: Signer,
    progress: Progress | None = None,
) -> Manifest:
    """Write the entries that `checkpoint` (size, signed note) covers: `export_part` of the whole log."""
    return export_part(reader, choose_whole(checkpoint), folder, signer, progress)


def export_part(
    reader: Reader,
    choice: Choice,
    folder: Path,
    signer: Signer,
    progress: Progress | None = None,
) -> Manifest:
    """Write what was chosen into the new `folder`.

    `progress` is told how many entries have been written. Raises ConflictError when `folder` exists and
    is not empty, InvalidInputError when the checkpoint is not of the signer's log or nothing is there to
    withhold, TamperedError when `reader` has fewer entries, UnavailableError when the disk fails.
    """
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        raise ConflictError(f"`{folder}` exists already", hint="name a new folder for the bundle")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            manifest = _write(reader, choice, _Folder(partial), signer, progress)
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
    reader: Reader, choice: Choice, folder: "_Folder", signer: Signer, progress: Progress | None
) -> Manifest:
    part = choice.part
    head = parse_checkpoint(note_text(choice.note))
    if (head.origin, head.size) != (signer.origin, part.size):
        raise InvalidInputError(
            f"checkpoint of `{head.origin}` at {head.size} is not of `{signer.origin}` at {part.size}"
        )
    for name in FOLDERS:
        folder.make(name)
    withheld = _write_entries(reader, choice, folder, progress)
    if not isinstance(part, WholeLog):
        _write_hashes(reader, choice, folder)
    for size, note in _notes(reader, choice):
        folder.store(checkpoint_name(size), note.encode())
    for (size, sink), stamp in choice.stamps.items():
        if checkpoint_name(size) in folder.files:
            folder.store(stamp_name(size, sink), stamp)
    folder.store(CHECKPOINT, choice.note.encode())
    folder.store(KEYS, f"{signer.verifier_key}\n".encode())
    manifest = Manifest(signer.origin, part, folder.files, withheld)
    raw = manifest.to_bytes()
    folder.store(MANIFEST, raw, listed=False)
    note = sign_note(manifest_text(signer.origin, raw), signer)
    folder.store(SIGNATURE, note.encode(), listed=False)
    folder.sync()
    return manifest


def _notes(reader: Reader, choice: Choice) -> Iterator[tuple[int, str]]:
    """The checkpoints whose root the bundle's entries and hashes come to."""
    inside = _inside(choice.part)
    yield from ((size, note) for size, note in reader.checkpoints() if size in inside)
    yield choice.part.size, choice.note


def _inside(part: Part) -> range:
    match part:
        case WholeLog(size):
            return range(size)
        case Span(first, end, size):
            return range(first + 1, min(end + 1, size))
        case OneRun():
            return range(0)


def _write_entries(
    reader: Reader, choice: Choice, folder: "_Folder", progress: Progress | None
) -> dict[str, list[int]]:
    tiles = Tiles() if isinstance(choice.part, WholeLog) else None
    with _Segments(folder, choice) as segments:
        for start, end in choice.stretches:
            for batch in _batches(reader, start, end):
                for record in batch:
                    segments.write(record)
                if tiles is not None:
                    for name, tile in tiles.take([record.entry.hash for record in batch]):
                        folder.store(name, tile, listed=False)
                if progress is not None:
                    progress(segments.written)
    for name, tile in () if tiles is None else tiles.finish():
        folder.store(name, tile, listed=False)
    segments.check()
    return segments.withheld


def _batches(reader: Reader, start: int, end: int) -> Iterator[list[Record]]:
    while start < end:
        batch = reader.records(start=start, limit=min(BATCH, end - start))
        if not batch:
            raise TamperedError(
                f"the store ends at entry {start}, before its own checkpoint",
                seq=start,
                hint="run `governance verify` on the last bundle, and restore the database",
            )
        yield list(batch)
        start += len(batch)


def _write_hashes(reader: Reader, choice: Choice, folder: "_Folder") -> None:
    """Write the hashes that stand for the entries left out, from left to right."""
    at = 0
    with folder.output(HASHES) as output:
        for start, end in (*choice.stretches, (choice.part.size, choice.part.size)):
            nodes = list(gap(at, start))
            for hash in reader.tree.nodes(nodes):
                output.write(hash)
            at = end


class _Segments:
    """Writes entries and their payloads side by side, in files of so many; notes what is kept back."""

    def __init__(self, folder: "_Folder", choice: Choice) -> None:
        self._folder = folder
        self._rules = choice.withhold
        self._unused = set(choice.withhold)
        self._stack = ExitStack()
        self.written = 0
        self.withheld = dict[str, list[int]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.__exit__(*failure)  # type: ignore[arg-type]  # what we were given we pass on

    def write(self, record: Record) -> None:
        entry = record.entry
        if self.written % SEGMENT_ENTRIES == 0:
            self._stack.close()
            self._entries = self._open(segment_name("entries", entry.seq))
            self._payloads = self._open(segment_name("payloads", entry.seq))
        self._entries.write(entry.raw + b"\n")
        for name, payload in sorted(record.payloads.items()):
            rules = [rule for rule in self._rules if rule.covers(entry, name)]
            if rules:
                self._unused.difference_update(rules)
                self.withheld.setdefault(name, []).append(entry.seq)
            else:
                self._payloads.write(payload_line(entry.seq, payload))
        self.written += 1

    def check(self) -> None:
        """Refuse a rule that kept nothing back: misspelt, it would have given away what it names."""
        for rule in self._unused:
            raise InvalidInputError(
                f"`{str(rule)[:160]}` withholds nothing: no such payload is in this part",
                hint="compare with the names in docs/entries.md",
            )

    def _open(self, name: str) -> "_Output":
        return self._stack.enter_context(self._folder.output(name))


@dataclass(slots=True)
class _Folder:
    """The folder that becomes a bundle. `files` are those that the manifest lists."""

    path: Path
    files: dict[str, Stored] = field(default_factory=dict[str, Stored])
    _made: set[str] = field(default_factory=set[str])

    def output(self, name: str) -> "_Output":
        return _Output(self.path, name, self.files)

    def store(self, name: str, content: bytes, *, listed: bool = True) -> None:
        self.make(name.rpartition("/")[0])
        with _Output(self.path, name, self.files if listed else {}) as output:
            output.write(content)

    def make(self, name: str) -> None:
        """Make a folder in it, and those above."""
        if not name or name in self._made:
            return
        self.make(name.rpartition("/")[0])
        (self.path / name).mkdir(mode=0o700)
        self._made.add(name)

    def sync(self) -> None:
        for name in (*sorted(self._made), "."):
            _sync_folder(self.path / name)


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
