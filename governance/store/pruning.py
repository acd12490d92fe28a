"""How do archived entries leave the database? Whole tiles at a time, and never their hashes.

What goes is what the newest `log.archived` entry names, and nothing else: this room is given no
positions. Of every entry that goes its leaf hash stays, as a node of level 0, so that each proof that
could be made before can be made after. A tile whose entries do not come to the root that was kept of
it when it was whole stays where it is.
"""

import sqlite3
from typing import Final

from governance.canonical import payload_bytes
from governance.errors import TamperedError
from governance.ids import Digest
from governance.ledger.archived import Archived
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import TILE_HEIGHT, root_of
from governance.store.projection import PAYLOADS_MAX

__all__ = ["prune"]

TILE_ENTRIES: Final = 1 << TILE_HEIGHT

_NEXT: Final = """
    SELECT seq FROM entry WHERE seq < ? AND seq NOT IN (SELECT value FROM json_each(?))
    ORDER BY seq LIMIT 1
"""
_RAWS: Final = "SELECT seq, raw FROM entry WHERE seq >= ? AND seq < ?"
_LEAVES: Final = "SELECT place, hash FROM node WHERE level = 0 AND place >= ? AND place < ?"
_TILE: Final = "SELECT hash FROM node WHERE level = ? AND place = ?"
_KEEP_LEAF: Final = "INSERT OR REPLACE INTO node (level, place, hash) VALUES (0, ?, ?)"
_DROP_ENTRY: Final = "DELETE FROM entry WHERE seq = ?"
_DROP_PAYLOADS: Final = "DELETE FROM payload WHERE place >= ? AND place < ?"
_DROP_ERASED: Final = "DELETE FROM erased WHERE place >= ? AND place < ?"
_DROP_LATEST: Final = """
    DELETE FROM latest WHERE seq < ? AND seq NOT IN (SELECT value FROM json_each(?))
"""
_DROP_REQUESTS: Final = "DELETE FROM request WHERE seq < ? AND NOT open"


def prune(connection: sqlite3.Connection, archived: Archived, tiles: int) -> int:
    """Drop what `archived` names of at most `tiles` tiles; tell how many entries went.

    Raises TamperedError when a tile is not what it was when it was completed.
    """
    end, kept = archived.end, payload_bytes(list(archived.kept)).decode()
    connection.execute(_DROP_LATEST, (end, kept))
    connection.execute(_DROP_REQUESTS, (end,))
    gone = 0
    for _ in range(tiles):
        row = connection.execute(_NEXT, (end, kept)).fetchone()
        if row is None:
            break
        gone += _drop_tile(connection, row[0] // TILE_ENTRIES, archived)
    return gone


def _drop_tile(connection: sqlite3.Connection, tile: int, archived: Archived) -> int:
    first = tile * TILE_ENTRIES
    stop = first + TILE_ENTRIES
    leaves: dict[int, Digest] = dict(connection.execute(_LEAVES, (first, stop)))
    here = dict(connection.execute(_RAWS, (first, stop)))
    leaves |= {seq: leaf_hash(raw) for seq, raw in here.items()}
    row = connection.execute(_TILE, (TILE_HEIGHT, tile)).fetchone()
    whole = len(leaves) == TILE_ENTRIES
    if row is None or not whole or root_of([leaves[seq] for seq in range(first, stop)]) != row[0]:
        raise TamperedError(
            f"entries {first} to {stop - 1} are not those that were archived",
            seq=first,
            hint="stop writing, export a bundle and run `governance verify` on it",
        )
    going = [seq for seq in here if archived.has_left(seq)]
    connection.executemany(_KEEP_LEAF, list(leaves.items()))
    places = [(seq * PAYLOADS_MAX, (seq + 1) * PAYLOADS_MAX) for seq in going]
    connection.executemany(_DROP_PAYLOADS, places)
    connection.executemany(_DROP_ERASED, places)
    connection.executemany(_DROP_ENTRY, [(seq,) for seq in going])
    return len(going)
