"""What does one pass over the entries see? Lines screened and followed, the tree grown, payloads compared.

It takes lines as they come and keeps none: memory does not grow with the number of entries. Where a part
of a log is without entries, it goes on behind them with the hashes that stand in their place.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from governance.canonical import ENTRY_BYTES_MAX, parse_json, thaw
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.ledger.archived import Archived, read_archived
from governance.ledger.chain import Chain
from governance.ledger.checkpoint import Checkpoint, note_text, parse_checkpoint
from governance.ledger.entry import ABOUT_KEYS, Kind, leaf_hash, read_entry
from governance.ledger.evidence import Evidence, TileReader
from governance.ledger.keys import KeyHistory
from governance.ledger.manifest import HASHES
from governance.ledger.merkle import Edge
from governance.ledger.parts import OneRun, Part, Span, filled, gap, may_lack
from governance.ledger.payloads import Payloads
from governance.ledger.report import Findings, Flaw, Verdict, Where
from governance.ledger.screen import Screen
from governance.ledger.tiles import Tiles

__all__ = ["Progress", "Walk"]

Progress: TypeAlias = Callable[[int], None]
"""Told now and then how many bytes have been verified."""

BLOCK_LINES: Final = 128
"""Lines that are looked at together: more would save nothing."""
_LEAVES_MAX: Final = 1_024
"""Leaf hashes collected before they go into the tree."""
_ERASED: Final = Kind.PAYLOAD_ERASED.value
_ARCHIVED: Final = Kind.LOG_ARCHIVED.value
_NO_HASH: Final = Digest(bytes(32))
_TOLD: Final = frozenset({_ERASED, _ARCHIVED, *(kind.value for kind in ABOUT_KEYS)})
"""Entries that say something about others, or about who may sign."""


class Walk:
    """The pass. `roots` are those of the tree at the sizes of `checkpoints`, `done` the bytes seen,
    `archived` what the newest entry about archives says."""

    def __init__(
        self,
        evidence: Evidence,
        checkpoints: Sequence[Checkpoint],
        findings: Findings,
        progress: Progress | None,
    ) -> None:
        part = evidence.part
        begun = isinstance(part, Span) and part.first > 0
        self.chain = Chain(begun=begun)
        self.keys = KeyHistory(begun=begun)
        self.edge = Edge()
        self.roots = dict[int, Digest]()
        self.done = 0
        self.lacking = 0
        self.archived: Archived | None = None
        self._part = part if isinstance(part, Span | OneRun) else None
        self._hashes = iter(evidence.hashes)
        self._tiles = None if evidence.tile is None else _TileCheck(evidence.tile, findings)
        self._findings = findings
        self._progress = progress
        self._screen = Screen()
        self._leaves = list[Digest]()
        self._stops = sorted({checkpoint.size for checkpoint in checkpoints}, reverse=True)
        self._payloads = Payloads(evidence.payloads, evidence.withheld, findings, self._count)
        self._plan()

    @property
    def size(self) -> int:
        """The size of the tree so far: the entries seen, and those that hashes stand for."""
        return self.edge.size + len(self._leaves)

    @property
    def entries(self) -> int:
        """How many entries were seen. `lacking` is how many hashes stand for."""
        return self.size - self.lacking

    def file(self, file: str, lines: Iterable[bytes]) -> None:
        rest, number = iter(lines), 1
        while block := list(islice(rest, min(self._room - len(self._leaves), BLOCK_LINES))):
            if not self._take(block, file, number):
                for at, line in enumerate(block, number):
                    if not self._take([line], file, at):
                        self._follow(line, file, at)
            number += len(block)

    def _take(self, block: Sequence[bytes], file: str, first: int) -> bool:
        """Take lines if nothing about any of them is out of the ordinary; else none."""
        raws = [line[:-1] for line in block]
        whole = b"".join(block)
        plain = self._screen(raws) if whole == b"\n".join(raws) + b"\n" else None
        if plain is None:
            return False
        leaves = list(map(leaf_hash, raws))
        if not self.chain.fit(plain, leaves):
            return False
        self.done += len(whole)
        if (
            any(plain.payloads)
            or not _TOLD.isdisjoint(plain.kinds)
            or plain.seqs[-1] >= self._payloads.next_seq
        ):
            for number, fields in enumerate(plain.entries, first):
                self._beside(fields, file, number)
        self._collect(leaves)
        return True

    def _collect(self, leaves: Sequence[Digest]) -> None:
        self._leaves += leaves
        if len(self._leaves) >= self._room:
            self._grow()

    def finish(self) -> None:
        self._grow()
        self._payloads.finish()
        if self._tiles is not None:
            self._tiles.finish()
        if self._part is not None:
            self._fill(self._part, self._part.size)
            if next(self._hashes, None) is not None:
                message = "holds more hashes than there are entries left out"
                self._findings.add(Verdict.INTEGRITY, Flaw.HASHES_WRONG, Where(HASHES), message)

    def _follow(self, whole: bytes, file: str, line: int) -> None:
        """Take a line that is out of the ordinary, or wrong: read it in full and say what is."""
        self.done += len(whole)
        raw, where = whole.removesuffix(b"\n"), Where(file, line)
        seq = self.chain.next_seq
        if raw == whole:
            self._say(Flaw.LINE_BROKEN, where, seq, "line has no end: cut, or glued to garbage")
        if not raw:
            self._say(Flaw.LINE_BROKEN, where, seq, "line is empty")
            return
        leaf = leaf_hash(raw)
        try:
            read_entry(raw)
        except InvalidInputError as exc:
            self._say(Flaw.ENTRY_MALFORMED, where, seq, _reason(raw, exc))
            self.chain.skip(leaf)
            self._collect([leaf])
            return
        fields: dict[str, Any] = thaw(raw)
        if self._part is not None and fields["seq"] > self.size:
            self._fill(self._part, fields["seq"])
            self.chain.leap(fields)
        for flaw, message in self.chain.follow(fields, leaf):
            self._say(flaw, where, fields["seq"], message)
        self._beside(fields, file, line)
        self._collect([leaf])

    def _beside(self, fields: Mapping[str, Any], file: str, line: int) -> None:
        """Look at what lies beside an entry, and at what it says about others' payloads."""
        seq, kind, body = fields["seq"], fields["type"], fields["body"]
        self._payloads.match(seq, fields["payloads"], file, line)
        if kind == _ERASED:
            since = seq if isinstance(self._part, OneRun) else self.chain.first or 0
            self._payloads.erase(seq, fields["actor"], body, since)
        elif kind in ABOUT_KEYS:
            where = Where(file, line, seq)
            for problem in self.keys.follow(seq, kind, body):
                self._findings.add(Verdict.TRUST, Flaw.KEYS_DIFFER, where, problem)
            if "succeeds" in body:
                message = f"log goes on where another had to end: {_last_head(body['succeeds'])}"
                self._findings.add(Verdict.COMPLETENESS, Flaw.LOG_SUCCEEDS, where, message)
        elif kind == _ARCHIVED:
            with contextlib.suppress(InvalidInputError):  # what cannot be read excuses nothing
                self.archived = read_archived(body)

    def _fill(self, part: Part, end: int) -> None:
        """Put hashes in the place of the entries up to `end`."""
        start = self.size
        if not may_lack(part, start, end):
            message = (
                f"some of the entries {start} to {end - 1} belong to this part, and are missing"
            )
            self._say(Flaw.ENTRY_MISSING, Where(), start, message)
        self._grow()
        short = False
        for node in gap(start, end):
            root = next(self._hashes, None)
            short = short or root is None
            self.edge = filled(self.edge, node.level, _NO_HASH if root is None else root)
        if short:
            message = f"lacks hashes for the entries {start} to {end - 1}"
            self._findings.add(Verdict.INTEGRITY, Flaw.HASHES_WRONG, Where(HASHES), message)
        self.lacking += self.edge.size - start
        self._plan()

    def _grow(self) -> None:
        if self._tiles is not None:
            self._tiles.take(self._leaves)
        self.edge = self.edge.extend(self._leaves)
        self._leaves.clear()
        self._plan()
        if self._progress is not None:
            self._progress(self.done)

    def _plan(self) -> None:
        """Decide how many leaves to collect: up to the next checkpoint, or a good batch."""
        size = self.edge.size
        while self._stops and self._stops[-1] <= size:
            if self._stops.pop() == size:
                self.roots[size] = self.edge.root()
        self._room = min(self._stops[-1] - size, _LEAVES_MAX) if self._stops else _LEAVES_MAX

    def _count(self, size: int) -> None:
        self.done += size

    def _say(self, flaw: Flaw, where: Where, seq: int, message: str) -> None:
        place = Where(where.file, where.line, seq)
        self._findings.add(Verdict.INTEGRITY, flaw, place, message)


class _TileCheck:
    """Compares the tiles at hand with those that the entries come to. The first that differs is named."""

    def __init__(self, read: TileReader, findings: Findings) -> None:
        self._read = read
        self._findings = findings
        self._tiles = Tiles()
        self._differing = 0

    def take(self, leaves: Sequence[Digest]) -> None:
        self._compare(self._tiles.take(leaves))

    def finish(self) -> None:
        self._compare(self._tiles.finish())
        if self._differing > 1:
            self._say(None, f"{self._differing - 1} more tiles are not what the entries come to")

    def _compare(self, tiles: Iterator[tuple[str, bytes]]) -> None:
        for name, expected in tiles:
            found = self._read(name)
            if found is not None and found != expected:
                self._differing += 1
                if self._differing == 1:
                    self._say(name, "is not what the entries come to")

    def _say(self, file: str | None, message: str) -> None:
        self._findings.add(Verdict.INTEGRITY, Flaw.TILE_DIFFERS, Where(file), message)


def _last_head(note: object) -> str:
    try:
        head = parse_checkpoint(note_text(str(note)))
    except InvalidInputError:
        return "it does not say which"
    return f"`{head.origin}` with {head.size} entries"


def _reason(raw: bytes, exc: InvalidInputError) -> str:
    """Say what is wrong with an entry; two equal keys are worth naming, and `exc` cannot."""
    try:
        parse_json(raw[:ENTRY_BYTES_MAX])
    except InvalidInputError as closer:
        if "duplicate" in closer.message:
            return closer.message
    return exc.message
