"""What do the tiles of a log hold? The hashes that others need to compute proofs of their own.

C2SP tlog-tiles: a tile is up to 256 hashes of 32 bytes side by side, of leaves at level 0, of whole tiles
of the level below at each level above. The last tile of a level may be *partial*. Names:

    tile/<level>/<number>            the number in groups of three digits, all but the last with an `x`
    tile/<level>/<number>.p/<width>  a partial one; a whole one has no width

    tile/0/000.p/17    tile/0/x001/234    tile/1/004.p/210
"""

from collections.abc import Iterable, Iterator
from typing import Final

from governance.ids import Digest
from governance.ledger.merkle import root_of

__all__ = ["TILES", "Tiles", "tile_names"]

TILES: Final = "tile"
WIDTH: Final = 256


def tile_name(level: int, number: int, width: int = WIDTH) -> str:
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    partial = "" if width == WIDTH else f".p/{width}"
    return f"{TILES}/{level}/{'/'.join(groups)}{partial}"


def tile_names(size: int) -> Iterator[str]:
    """The names of all tiles of a log of `size` entries, level by level."""
    level = 0
    while size:
        whole, rest = divmod(size, WIDTH)
        for number in range(whole):
            yield tile_name(level, number)
        if rest:
            yield tile_name(level, whole, rest)
        level, size = level + 1, whole


class Tiles:
    """Grows the tiles of a log leaf by leaf. Each is given once: whole ones at once, partial ones at last."""

    def __init__(self) -> None:
        self._rows: list[list[Digest]] = [[]]
        self._whole = [0]

    def take(self, leaves: Iterable[Digest]) -> Iterator[tuple[str, bytes]]:
        """Append leaf hashes; give each tile that is whole now, by name."""
        row = self._rows[0]
        for leaf in leaves:
            row.append(leaf)
            if len(row) == WIDTH:
                yield from self._complete(0)

    def finish(self) -> Iterator[tuple[str, bytes]]:
        """Give the partial tiles."""
        for level, row in enumerate(self._rows):
            if row:
                yield tile_name(level, self._whole[level], len(row)), b"".join(row)

    def _complete(self, level: int) -> Iterator[tuple[str, bytes]]:
        row = self._rows[level]
        yield tile_name(level, self._whole[level]), b"".join(row)
        self._whole[level] += 1
        if len(self._rows) == level + 1:
            self._rows.append([])
            self._whole.append(0)
        above = self._rows[level + 1]
        above.append(root_of(row))
        row.clear()
        if len(above) == WIDTH:
            yield from self._complete(level + 1)
