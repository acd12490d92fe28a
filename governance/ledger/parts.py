"""Which part of a log is this? And what stands for the entries that are not here.

A part says which entries it holds and over how many its checkpoint is signed. Where entries are left
out, the roots of the perfect subtrees over them stand in their place: from left to right, each as large
as it can be where it begins. With these and the entries at hand the root can be computed, so a
checkpoint over the whole log proves a part of it, entry by entry and place by place.

    entries 3 and 4 of 8:   [0,2) [2,3)  3  4  [5,6) [6,8)      four hashes stand for six entries

Two entries with `n` others between them cost at most 2 log2(n) hashes.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from governance.ids import Digest, RunId
from governance.ledger.merkle import Edge, Node

__all__ = ["OneRun", "Part", "Span", "WholeLog", "filled", "gap", "may_lack", "named"]

_sha256: Final = hashlib.sha256


@dataclass(frozen=True, slots=True)
class WholeLog:
    """Entries 0 to `size - 1`: all that the checkpoint covers."""

    size: int


@dataclass(frozen=True, slots=True)
class Span:
    """Entries `first` to `end - 1`, and later entries that record the erasure of payloads of these."""

    first: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class OneRun:
    """All entries of `run`, and those that its decisions rest on: rules, tools, the log's own first."""

    run: RunId
    size: int


Part: TypeAlias = WholeLog | Span | OneRun
"""`size` is always how many entries the covering checkpoint is signed over."""


def named(part: Part) -> str:
    """Say which part it is, so that nobody takes it for the whole."""
    match part:
        case WholeLog(size):
            return f"all {size} entries"
        case Span(first, end, size):
            return f"entries {first} to {end - 1}, within {size} entries"
        case OneRun(run, size):
            return f"run {run}, within {size} entries"


def may_lack(part: Part, start: int, end: int) -> bool:
    """Tell whether `part` may be without the entries `start` to `end - 1`."""
    match part:
        case WholeLog():
            return start >= end
        case Span(first, stop):
            return end <= first or start >= stop or start >= end
        case OneRun():
            return True


def gap(start: int, end: int) -> Iterator[Node]:
    """The perfect subtrees that stand for the entries `start` to `end - 1`, from left to right."""
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield Node(level, start >> level)
        start += 1 << level


def filled(edge: Edge, level: int, root: Digest) -> Edge:
    """Append a perfect subtree of `1 << level` leaves, at a place where one may begin."""
    bits, peaks, node = edge.size >> level, list(edge.peaks), root
    while bits & 1:
        node = Digest(_sha256(b"\1" + peaks.pop() + node).digest())
        bits >>= 1
    return Edge(edge.size + (1 << level), (*peaks, node))
