"""Do several bundles make one log? Each is judged by itself, then what lies side by side as one.

    verify_together([log, archive, older])      in any order

Ranges that touch are read a second time, one behind the other, under every checkpoint that can be
confirmed on the way: entries link over the seams, runs go on, the tree has the roots that were signed.
Where entries are missing the newest `log.archived` entry under a trusted checkpoint may say which archives
hold them: these are *archived, not presented*, and completeness is not reached. What nothing accounts for
is missing. A range that touches nothing must be the very archive that the log names.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from governance.bundle.reading import Bundle, read_bundle, records, verify_bundle
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.ledger.anchoring import Demands
from governance.ledger.archived import Archived
from governance.ledger.checkpoint import (
    NOTE_BYTES_MAX,
    VerifierKey,
    format_verifier_key,
    parse_verifier_key,
)
from governance.ledger.entry import Record
from governance.ledger.evidence import Evidence
from governance.ledger.kept import Kept
from governance.ledger.lines import Stream
from governance.ledger.manifest import CHECKPOINT, KEYS, MANIFEST, Manifest
from governance.ledger.parts import OneRun, Part, Span, WholeLog, gap
from governance.ledger.report import (
    Finding,
    Findings,
    Flaw,
    Report,
    Status,
    Summary,
    Verdict,
    Where,
)
from governance.ledger.verify import Note, Progress, judge

__all__ = ["Joined", "records_together", "verify_together"]

_DIGITS_MAX: Final = 19
_OF_ENTRIES: Final = frozenset[str](
    {
        Flaw.LOG_SUCCEEDS,
        Flaw.PAYLOAD_ERASED,
        Flaw.PAYLOAD_KEPT,
        Flaw.PAYLOAD_WITHHELD,
        Flaw.RUN_OPEN,
        Flaw.UNPINNED,
    }
)
"""What is found about a sound part, and found again when it is read with its neighbours."""
_WORST: Final = (Status.FAILED, Status.NOT_CHECKED, Status.OK)


@dataclass(frozen=True, slots=True)
class Joined:
    """What was found about several bundles. `chain` are their folders in order, if they are a whole log."""

    report: Report
    chain: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One bundle: entries `first` to `end - 1`, and what was found about it alone."""

    folder: Path
    manifest: Manifest
    digest: Digest
    report: Report
    first: int
    end: int

    @property
    def sound(self) -> bool:
        report = self.report
        return report.integrity is Status.OK and Status.FAILED not in (
            report.trust,
            report.completeness,
        )


def verify_together(
    folders: Sequence[Path],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None = None,
    demands: Demands | None = None,
    kept: Sequence[Kept] = (),
) -> Joined:
    """Judge bundles of one log as a whole; the newest head by what is demanded of anchors.

    `kept` are checkpoints from before, which only the whole log can be compared with. Raises
    InvalidInputError when a bundle is no folder, or of a run.
    """
    reports, pins = _each(folders, pins, progress, demands)
    found = [_piece(*pair) for pair in zip(folders, reports, strict=True)]
    findings = Findings()
    pieces = _in_order([piece for piece in found if piece is not None], findings)
    groups = _groups(pieces)
    together = {piece.folder for group in groups if len(group) > 1 for piece in group}
    for folder, report in zip(folders, reports, strict=True):
        told_again = _OF_ENTRIES if folder in together else frozenset[str]()
        items = (item for item in report.findings if item.kind not in told_again)
        _put(findings, (_at(folder, item) for item in items))
    summary = Summary()
    for group in groups:
        judged = _judge(group, pins, progress, kept)
        summary = judged.summary
        if len(group) > 1:
            reports.append(judged)
            _put(findings, judged.findings)
    size = max((piece.manifest.size for piece in pieces), default=0)
    _account(groups, size, findings)
    whole = len(groups) == 1 and (groups[0][0].first, groups[0][-1].end) == (0, size)
    if kept and not whole:
        message = (
            "a kept checkpoint cannot be compared: these are not all entries from 0 to the newest"
        )
        findings.add(Verdict.INTEGRITY, Flaw.CHECKPOINT_BEYOND, Where(), message)
    chain = tuple(piece.folder for piece in groups[0]) if whole else ()
    summary = replace(
        summary,
        entries=sum(piece.end - piece.first for piece in pieces),
        part=WholeLog(size) if whole else None,
    )
    return Joined(_worst(findings.report(summary), reports), chain)


def records_together(chain: Sequence[Path]) -> Iterator[Record]:
    """Read the entries of bundles that follow one another. Verify them first: this only reads.

    Raises TamperedError like `records`.
    """
    for number, folder in enumerate(chain, 1):
        manifest = read_bundle(folder).manifest
        end = _bounds(manifest.part)[1] if manifest and number < len(chain) else None
        for record in records(folder):
            if end is None or record.entry.seq < end:
                yield record


def _each(
    folders: Sequence[Path],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None,
    demands: Demands | None,
) -> tuple[list[Report], Sequence[VerifierKey] | None]:
    """Judge each by itself, under the pinned keys and those that trusted ones lead to.

    A range may be older, or younger, than every key that is pinned, and hold no entry about keys. One that is
    trusted tells who signs at its end; it names archives by their digest, and with it the key in them.
    """
    sizes = [manifest.size if (manifest := read_bundle(f).manifest) else 0 for f in folders]
    asked = [demands if size == max(sizes) else None for size in sizes]
    pairs = zip(folders, asked, strict=True)
    reports = [verify_bundle(folder, pins, progress, ask) for folder, ask in pairs]
    known = {format_verifier_key(pin) for pin in pins or ()}
    while pins:
        distrusted = [n for n, one in enumerate(reports) if one.trust is Status.FAILED]
        trusted = [one for one in reports if one.integrity is one.trust is Status.OK]
        new = {key for one in trusted for key in one.summary.keys}
        new |= {_own_key(folders[n], trusted) for n in distrusted} - {""}
        if not distrusted or new <= known:
            break
        pins = [*pins, *(parse_verifier_key(key) for key in sorted(new - known))]
        known |= new
        for n in distrusted:
            reports[n] = verify_bundle(folders[n], pins, progress, asked[n])
    return reports, pins


def _own_key(folder: Path, trusted: Iterable[Report]) -> str:
    """The key that an archive names itself, if a trusted log names this very archive; else none."""
    bundle = read_bundle(folder)
    digest = hashlib.sha256(bundle.raw_manifest).digest()
    told = [one.summary.archived for one in trusted if one.summary.archived]
    if not any(digest == segment.manifest for archived in told for segment in archived.segments):
        return ""
    try:
        return format_verifier_key(
            parse_verifier_key(bundle.read(KEYS, NOTE_BYTES_MAX).decode().strip())
        )
    except (InvalidInputError, UnicodeDecodeError):
        return ""


def _piece(folder: Path, report: Report) -> _Piece | None:
    bundle = read_bundle(folder)
    if bundle.manifest is None:
        return None  # a finding by now
    if isinstance(bundle.manifest.part, OneRun):
        raise InvalidInputError(
            f"`{folder}` holds one run", hint="verify it by itself; logs and ranges can be joined"
        )
    digest = Digest(hashlib.sha256(bundle.raw_manifest).digest())
    return _Piece(folder, bundle.manifest, digest, report, *_bounds(bundle.manifest.part))


def _bounds(part: Part) -> tuple[int, int]:
    return (part.first, part.end) if isinstance(part, Span) else (0, part.size)


def _in_order(pieces: Sequence[_Piece], findings: Findings) -> list[_Piece]:
    """Sort the pieces of the log that most is here of; name those of others, and what is here twice."""
    found = list[_Piece]()
    log = max(pieces, key=lambda piece: piece.manifest.size).manifest.log if pieces else None
    for piece in sorted(pieces, key=lambda piece: (piece.first, piece.end)):
        where = Where(f"{piece.folder.name}/{MANIFEST}")
        if piece.manifest.log != log:
            message = f"is of log `{piece.manifest.log}`, not `{log}`"
            findings.add(Verdict.INTEGRITY, Flaw.LOG_MIXED, where, message)
        elif found and piece.first < found[-1].end:
            message = f"has entries from {piece.first} on, which `{found[-1].folder.name}` has too"
            findings.add(Verdict.COMPLETENESS, Flaw.PART_OVERLAPS, where, message)
        else:
            found.append(piece)
    return found


def _groups(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Put together what touches and was found sound: over a broken piece nothing more can be told."""
    groups = [[piece] for piece in pieces[:1]]
    for before, piece in pairwise(pieces):
        if before.end == piece.first and before.sound and piece.sound:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _judge(
    group: Sequence[_Piece],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None,
    kept: Sequence[Kept],
) -> Report:
    """Judge neighbours as the one range, or the whole log, that they are together."""
    if len(group) == 1:
        return group[0].report
    first, last = group[0], group[-1]
    whole = (first.first, last.end) == (0, last.manifest.size)
    size = last.manifest.size
    bundles = [read_bundle(piece.folder) for piece in group]
    evidence = Evidence(
        _entries(group, bundles),
        _payloads(group, bundles),
        _notes(group, bundles),
        part=WholeLog(size) if whole else Span(first.first, last.end, size),
        hashes=() if whole else _hashes(group, bundles),
        withheld=_withheld(group),
        kept=kept if whole else (),
    )
    return judge(evidence, pins, progress)


def _entries(group: Sequence[_Piece], bundles: Sequence[Bundle]) -> Iterator[Stream]:
    """The lines of each piece, but for the later erasures that it brought along: they come in their turn."""
    for piece, bundle in zip(group, bundles, strict=True):
        left = piece.end - piece.first
        for name, lines in bundle.entries():
            if piece is group[-1]:
                yield _named(piece, name), lines
            elif left > 0:
                counted = _Counted(islice(lines, left))
                yield _named(piece, name), counted
                left -= counted.seen


class _Counted:
    """Lines, and how many of them were read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.seen = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.seen += 1
            yield line


def _payloads(group: Sequence[_Piece], bundles: Sequence[Bundle]) -> Iterator[Stream]:
    for piece, bundle in zip(group, bundles, strict=True):
        for name, lines in bundle.payloads():
            own = (
                lines if piece is group[-1] else (line for line in lines if _seq(line) < piece.end)
            )
            yield _named(piece, name), own


def _seq(line: bytes) -> int:
    """The position that a payload line was found to bear: its last field. 0 if it was changed since."""
    digits = line.rstrip(b"}\n").rpartition(b":")[2]
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else 0


def _notes(group: Sequence[_Piece], bundles: Sequence[Bundle]) -> Iterator[Note]:
    """Every checkpoint that the joined entries come to, and that of the last piece."""
    for piece, bundle in zip(group, bundles, strict=True):
        for name, raw in bundle.notes():
            size = piece.manifest.size if name == CHECKPOINT else int(name.rpartition("/")[2])
            if piece is group[-1] or size <= group[-1].end:
                yield _named(piece, name), raw


def _hashes(group: Sequence[_Piece], bundles: Sequence[Bundle]) -> Iterator[Digest]:
    """What stands left of the first piece, and right of the last one."""
    yield from islice(bundles[0].hashes(), sum(1 for _ in gap(0, group[0].first)))
    yield from islice(bundles[-1].hashes(), sum(1 for _ in gap(0, group[-1].first)), None)


def _withheld(group: Iterable[_Piece]) -> dict[str, list[int]]:
    found = dict[str, list[int]]()
    for piece in group:
        for name, seqs in piece.manifest.withheld.items():
            found.setdefault(name, []).extend(seq for seq in seqs if seq < piece.end)
    return found


def _account(groups: Sequence[Sequence[_Piece]], size: int, findings: Findings) -> None:
    """Say of everything that is not here whether the log itself says where it is."""
    archived, told_by = None, None
    for group in groups:
        for piece in group:
            told = piece.report.summary.archived if piece.sound else None
            if told is not None and (archived is None or told.end > archived.end):
                archived, told_by = told, group
    at = 0
    for group in groups:
        _gap(at, group[0].first, archived, findings)
        at = group[-1].end
        if group is not told_by and len(groups) > 1 and all(piece.sound for piece in group):
            _compare(group, archived, findings)
    _gap(at, size, archived, findings)


def _gap(start: int, end: int, archived: Archived | None, findings: Findings) -> None:
    if start >= end:
        return
    segments = archived.tiling(start, end) if archived else ()
    for segment in segments:
        message = f"archived, not presented: {segment}"
        findings.add(Verdict.COMPLETENESS, Flaw.ARCHIVED, Where(), message)
    if not segments:
        message = f"entries {start} to {end - 1} are neither here nor known to be archived"
        findings.add(Verdict.COMPLETENESS, Flaw.PART_MISSING, Where(), message)


def _compare(group: Sequence[_Piece], archived: Archived | None, findings: Findings) -> None:
    """Find a piece that stands alone among the archives that the log names: nothing else ties it to it."""
    named = {(one.first, one.end, one.manifest) for one in archived.segments} if archived else set()
    if not any((piece.first, piece.end, piece.digest) in named for piece in group):
        where = Where(f"{group[0].folder.name}/{MANIFEST}")
        message = "is not an archive that the log names, and touches no other part"
        findings.add(Verdict.INTEGRITY, Flaw.PART_DIFFERS, where, message)


def _worst(report: Report, parts: Sequence[Report]) -> Report:
    """What a part could not keep for want of room still counts."""
    judged = (report, *parts)
    return replace(
        report,
        integrity=next(s for s in _WORST if any(part.integrity is s for part in judged)),
        trust=next(s for s in _WORST if any(part.trust is s for part in judged)),
        completeness=Status.FAILED
        if any(part.completeness is Status.FAILED for part in judged)
        else report.completeness,
    )


def _put(findings: Findings, items: Iterable[Finding]) -> None:
    for item in items:
        if item.kind != Flaw.ARCHIVED:  # what a range alone says, and the others may answer
            findings.put(item)


def _at(folder: Path, item: Finding) -> Finding:
    where = item.where
    file = f"{folder.name}/{where.file}" if where.file else folder.name
    return replace(item, where=replace(where, file=file))


def _named(piece: _Piece, name: str) -> str:
    return f"{piece.folder.name}/{name}"
