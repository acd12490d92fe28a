"""What does one pass over the entries see? Lines screened and followed, the tree grown, payloads compared.

It takes lines as they come and keeps none: memory does not grow with the number of entries.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from governance.canonical import ENTRY_BYTES_MAX, parse_json, thaw
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.ledger.chain import Chain
from governance.ledger.checkpoint import Checkpoint
from governance.ledger.entry import Kind, leaf_hash, read_entry
from governance.ledger.lines import Stream
from governance.ledger.merkle import Edge
from governance.ledger.payloads import Payloads
from governance.ledger.report import Findings, Flaw, Verdict, Where
from governance.ledger.screen import Screen

__all__ = ["Progress", "Walk"]

Progress: TypeAlias = Callable[[int], None]
"""Told now and then how many bytes have been verified."""

_LEAVES_MAX: Final = 1_024
"""Leaf hashes collected before they go into the tree."""
_ERASED: Final = Kind.PAYLOAD_ERASED.value
_sha256: Final = hashlib.sha256


class Walk:
    """The pass. `roots` are those of the tree at the sizes of `checkpoints`, `done` the bytes seen."""

    def __init__(
        self,
        payloads: Iterable[Stream],
        checkpoints: Sequence[Checkpoint],
        findings: Findings,
        progress: Progress | None,
    ) -> None:
        self.chain = Chain()
        self.edge = Edge()
        self.roots = dict[int, Digest]()
        self.done = 0
        self._findings = findings
        self._progress = progress
        self._screen = Screen()
        self._leaves = list[Digest]()
        self._stops = sorted({checkpoint.size for checkpoint in checkpoints}, reverse=True)
        self._payloads = Payloads(payloads, findings, self._count)
        self._plan()

    @property
    def size(self) -> int:
        return self.edge.size + len(self._leaves)

    def file(self, file: str, lines: Iterable[bytes]) -> None:
        screen, fits, leaves = self._screen.__call__, self.chain.fits, self._leaves
        for number, line in enumerate(lines, 1):
            self.done += len(line)
            raw = line[:-1]
            leaf: Digest = _sha256(b"\0" + raw).digest()  # type: ignore[assignment] # a NewType is a call
            fields = screen(raw)
            if fields is None or line[-1:] != b"\n" or not fits(fields, leaf):
                whole, fields = self._follow(line, Where(file, number))
                if not whole:
                    continue
                leaf = whole
            if fields is not None and (
                fields["payloads"]
                or fields["type"] == _ERASED
                or fields["seq"] >= self._payloads.next_seq
            ):
                self._beside(fields, file, number)
            leaves.append(leaf)
            if len(leaves) >= self._room:
                self._grow()

    def finish(self) -> None:
        self._grow()
        self._payloads.finish()

    def _follow(self, line: bytes, where: Where) -> tuple[Digest | None, dict[str, Any] | None]:
        """Take a line that is out of the ordinary, or wrong: read it in full and say what is.

        Gives its leaf hash, None for an empty line, and its fields, None when it is no entry.
        """
        raw = line.removesuffix(b"\n")
        seq = self.chain.next_seq
        if raw == line:
            self._say(Flaw.LINE_BROKEN, where, seq, "line has no end: cut, or glued to garbage")
        if not raw:
            self._say(Flaw.LINE_BROKEN, where, seq, "line is empty")
            return None, None
        leaf = leaf_hash(raw)
        try:
            read_entry(raw)
        except InvalidInputError as exc:
            self._say(Flaw.ENTRY_MALFORMED, where, seq, _reason(raw, exc))
            self.chain.skip(leaf)
            return leaf, None
        fields: dict[str, Any] = thaw(raw)
        for flaw, message in self.chain.follow(fields, leaf):
            self._say(flaw, where, fields["seq"], message)
        return leaf, fields

    def _beside(self, fields: Mapping[str, Any], file: str, line: int) -> None:
        """Look at what lies beside an entry, and at what it says about others' payloads."""
        self._payloads.match(fields["seq"], fields["payloads"], file, line)
        if fields["type"] == _ERASED:
            self._payloads.erase(fields["seq"], fields["body"])

    def _grow(self) -> None:
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


def _reason(raw: bytes, exc: InvalidInputError) -> str:
    """Say what is wrong with an entry; two equal keys are worth naming, and `exc` cannot."""
    try:
        parse_json(raw[:ENTRY_BYTES_MAX])
    except InvalidInputError as closer:
        if "duplicate" in closer.message:
            return closer.message
    return exc.message
