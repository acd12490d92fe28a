"""What is put before the verifier: lines, notes and hashes, and what they claim to be."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from governance.ids import Digest
from governance.ledger.heads import Note
from governance.ledger.kept import Kept
from governance.ledger.lines import Stream
from governance.ledger.parts import Part

__all__ = ["Evidence", "TileReader"]

TileReader: TypeAlias = Callable[[str], bytes | None]
"""Gives the bytes of a tile by its name, None when it cannot be read: who reads it says so."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A log, or a part of one. Each stream is read once, and in order.

    `part` is what it claims to be; None, as far as nothing is claimed, is judged as a whole log. `hashes`
    stand for the entries that a part is without (`ledger.parts`). `withheld` are the payloads that were
    kept back, by name the ascending positions. `tile` is there when there are tiles to compare.
    `kept` are checkpoints that the verifier brings along: no part of what is put before him.
    """

    entries: Iterable[Stream]
    payloads: Iterable[Stream]
    notes: Iterable[Note]
    part: Part | None = None
    hashes: Iterable[Digest] = ()
    withheld: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    tile: TileReader | None = None
    kept: Sequence[Kept] = ()
