"""What are the nodes of the Merkle tree over the log, without hashing it all? `Tree` over the database.

A node over less than a tile is computed from the entries' bytes, or, where these were archived, from the
leaf hashes that were kept of them; a larger one from the `node` table, which keeps every whole tile's
root (and the roots over 256 of these, and so on). Whatever is read here is checked by whoever makes a
proof of it: against a root that was signed.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import TILE_HEIGHT, Node, root_of

__all__ = ["SqliteTree", "check_nodes"]

_HASH_BYTES: Final = 32
_RAW: Final = "SELECT raw FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq"
_KEPT: Final = "SELECT hash FROM node WHERE level = ? AND place >= ? AND place < ? ORDER BY place"
_CHECKPOINT: Final = "SELECT note FROM checkpoint WHERE size = ?"


class SqliteTree:
    """The tree over the first `size` entries, all of which `connection` sees."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self._size = size

    def nodes(self, nodes: Sequence[Node]) -> Sequence[Digest]:
        check_nodes(nodes, self._size)
        return [self._node(node) for node in nodes]

    def checkpoint(self, size: int) -> str | None:
        row = self._connection.execute(_CHECKPOINT, (size,)).fetchone()
        return row[0] if row else None

    def _node(self, node: Node) -> Digest:
        """Compute `node` from the nearest level below whose nodes are at hand."""
        above = node.level % TILE_HEIGHT
        level = node.level - above
        start, stop = node.place << above, (node.place + 1) << above
        if level:
            rows = self._connection.execute(_KEPT, (level, start, stop))
            below = [Digest(row[0]) for row in rows]
        else:
            below = [leaf_hash(row[0]) for row in self._connection.execute(_RAW, (start, stop))]
            if len(below) != stop - start:  # archived: of these the leaves were kept, or nothing
                below = [
                    Digest(row[0]) for row in self._connection.execute(_KEPT, (0, start, stop))
                ]
        if len(below) != stop - start or any(len(hash) != _HASH_BYTES for hash in below):
            raise TamperedError(
                f"tree lacks nodes at level {level}, from {start} to {stop - 1}",
                seq=start << level,
                hint="stop writing, export a bundle and run `governance verify` on it",
            )
        return root_of(below)


def check_nodes(nodes: Sequence[Node], size: int) -> None:
    """Raise InvalidInputError when one of `nodes` is not within a tree of `size` leaves."""
    for node in nodes:
        if min(node) < 0 or (node.place + 1) << node.level > size:
            raise InvalidInputError(
                f"no node `{node.level}/{node.place}` in a tree of {size}", hint="ask for less"
            )
