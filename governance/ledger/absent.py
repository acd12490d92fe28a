"""Which payloads are absent? Kept while nobody can tell yet whether a later entry excuses it.

An erasure may take many, and its entry comes long after theirs. So they are kept small: in columns by
name, in the order of their entries, 17 bytes each. What does not come in order is kept beside them, in
less room.
"""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Absent"]

ABSENT_MAX: Final = 4_000_000
ODD_MAX: Final = 100_000
NAMES_MAX: Final = 64


@dataclass(slots=True)
class _Column:
    seqs: "array[int]" = field(default_factory=lambda: array("Q"))
    marks: "array[int]" = field(default_factory=lambda: array("Q"))
    gone: bytearray = field(default_factory=bytearray)


class Absent:
    """Payloads by the position of their entry and their name, each with a mark: a number below 2^64 that
    tells its keeper more."""

    def __init__(self) -> None:
        self._columns = dict[str, _Column]()
        self._odd = dict[tuple[int, str], int]()
        self._kept = 0

    def add(self, seq: int, name: str, mark: int) -> bool:
        """Remember one; False when there is no room."""
        column = self._columns.get(name)
        if column is None and len(self._columns) < NAMES_MAX:
            column = self._columns[name] = _Column()
        if column is not None and (not column.seqs or column.seqs[-1] < seq):
            if self._kept >= ABSENT_MAX:
                return False
            self._kept += 1
            column.seqs.append(seq)
            column.marks.append(mark)
            column.gone.append(False)
            return True
        if len(self._odd) >= ODD_MAX:
            return False
        self._odd[seq, name] = mark
        return True

    def pop(self, seq: int, name: str) -> int | None:
        """Forget one and give its mark; None when it is not remembered."""
        column = self._columns.get(name)
        if column is not None:
            at = bisect_left(column.seqs, seq)
            if at < len(column.seqs) and column.seqs[at] == seq and not column.gone[at]:
                column.gone[at] = True
                return column.marks[at]
        return self._odd.pop((seq, name), None)

    def left(self) -> Iterator[tuple[int, str, int]]:
        """Those that are still remembered, by position: (seq, name, mark)."""
        columns = [_left(name, column) for name, column in sorted(self._columns.items())]
        odd = sorted((seq, name, mark) for (seq, name), mark in self._odd.items())
        return heapq.merge(*columns, odd)


def _left(name: str, column: _Column) -> Iterator[tuple[int, str, int]]:
    for seq, mark, gone in zip(column.seqs, column.marks, column.gone, strict=True):
        if not gone:
            yield seq, name, mark
