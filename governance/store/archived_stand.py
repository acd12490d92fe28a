"""Where does a check of a log begin that has archived its beginning? At the boundary, on what was kept.

The tree's edge there comes from the nodes that stand for what went, so the first signed head behind it shows
whether that is the tree that was signed. Of a run that began before, its first entry here is believed, as
a verifier believes it of a range.
"""

import sqlite3
from typing import Final

from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest, Micros, RunId
from governance.ledger.archived import Archived, read_archived
from governance.ledger.entry import ABOUT_KEYS, Kind, read_entry
from governance.ledger.merkle import Edge
from governance.ledger.parts import filled, gap
from governance.ports import RunHead
from governance.store.reckoning import Stand
from governance.store.rows import to_run_head
from governance.store.tree import SqliteTree

__all__ = ["archived_stand", "run_begun_before"]

_NEWEST: Final = """
    SELECT e.raw FROM latest l JOIN entry e ON e.seq = l.seq WHERE l.key = ? ORDER BY l.seq DESC
"""
_RAW: Final = "SELECT raw FROM entry WHERE seq = ?"
_RUNS_BEFORE: Final = """
    SELECT (SELECT count(*) FROM run) - (SELECT count(*) FROM entry WHERE seq >= ? AND rseq = 0)
"""
_RUN: Final = """
    SELECT run, agent, principal, rseq, last, epoch, status, started, updated FROM run WHERE run = ?
"""
_FIRST_HERE: Final = """
    SELECT raw FROM entry WHERE run = (SELECT no FROM run WHERE run = ?) AND seq >= ?
    ORDER BY seq LIMIT 1
"""


def archived_stand(connection: sqlite3.Connection) -> Stand | None:
    """Give the boundary behind which the log holds everything; None where nothing is archived, or what
    is kept of it does not fit together: then all that is gone is found missing."""
    try:
        archived = _archived(connection)
        if archived is None:
            return None
        nodes, edge = list(gap(0, archived.end)), Edge()
        hashes = SqliteTree(connection, archived.end).nodes(nodes)
        for node, hash in zip(nodes, hashes, strict=True):
            edge = filled(edge, node.level, hash)
        keys = tuple(seq for seq in archived.kept if _names_keys(connection, seq))
    except (InvalidInputError, TamperedError, TypeError):
        return None
    (runs,) = connection.execute(_RUNS_BEFORE, (archived.end,)).fetchone()
    return Stand(archived.end, archived.last, Micros(0), edge, runs, keys)


def run_begun_before(connection: sqlite3.Connection, run: RunId, begin: int) -> RunHead | None:
    """Give the head of a run as it must have been at `begin`, by its first entry from there on."""
    row = connection.execute(_RUN, (run,)).fetchone()
    first = connection.execute(_FIRST_HERE, (run, begin)).fetchone()
    try:
        entry = read_entry(first[0]) if first else None
    except (InvalidInputError, TypeError):
        return None
    if row is None or entry is None or not entry.rseq or entry.rprev is None:
        return None
    head = to_run_head(row)
    return RunHead(
        run=head.run,
        agent=head.agent,
        principal=head.principal,
        rseq=entry.rseq,
        last=Digest(entry.rprev),
        epoch=head.epoch,
        status=head.status,
        started=head.started,
        updated=head.updated,
    )


def _archived(connection: sqlite3.Connection) -> Archived | None:
    row = connection.execute(_NEWEST, (Kind.LOG_ARCHIVED.value,)).fetchone()
    return None if row is None else read_archived(read_entry(row[0]).body)


def _names_keys(connection: sqlite3.Connection, seq: int) -> bool:
    row = connection.execute(_RAW, (seq,)).fetchone()
    return row is not None and read_entry(row[0]).kind in ABOUT_KEYS
