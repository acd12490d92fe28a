"""What do the works of one commit leave behind, and how does it get into the database? `Moves`.

Appending computes and gathers; the rows are inserted together, before the commit or before something
is read that could miss them. One statement inserts many rows: the driver lets other threads run while
a statement does, and taking turns for each row would cost more than the row.
"""

import functools
import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from governance.errors import TamperedError
from governance.ids import Digest, RequestId, RunId
from governance.ledger.entry import Record
from governance.ledger.merkle import Node
from governance.ports import RunHead
from governance.store.projection import Tip, start_of
from governance.store.rows import LINK_BYTES, Row, entry_index, run_row

__all__ = ["Moves", "Request"]

_ROWS_PER_STATEMENT: Final = (64, 16, 4, 1)

_ENTRY: Final = "INSERT INTO entry (seq, prev, run, rseq, uid, request, raw) VALUES "
_PAYLOAD: Final = "INSERT INTO payload (place, name, key, content) VALUES "
_KEY: Final = "INSERT OR IGNORE INTO subjectkey (no, doomed) VALUES (?, FALSE)"
_RUN: Final = """
    INSERT INTO run (no, run, agent, principal, rseq, last, epoch, status, started, updated)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (no) DO UPDATE SET
        rseq = excluded.rseq, last = excluded.last, epoch = excluded.epoch,
        status = excluded.status, updated = excluded.updated
"""
_REQUEST: Final = """
    INSERT INTO request (request, run, seq, open) VALUES (?, ?, ?, ?)
    ON CONFLICT (request) DO UPDATE SET open = excluded.open
"""
_LATEST: Final = """
    INSERT INTO latest (key, seq) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET seq = excluded.seq
"""
_NODE: Final = "INSERT INTO node (level, place, hash) VALUES (?, ?, ?)"
_START: Final = """
    INSERT INTO start (principal, tool, ts, nth)
    SELECT :principal, named.tool, :ts, 1 + coalesce((
        SELECT s.nth FROM start s WHERE s.principal = :principal AND s.tool = named.tool
        ORDER BY s.ts DESC, s.nth DESC LIMIT 1
    ), 0)
    FROM (
        SELECT json_extract(CAST(raw AS TEXT), '$.body.tool') AS tool FROM entry
        WHERE seq = :decision AND run = :run
        AND json_type(CAST(raw AS TEXT), '$.body.tool') = 'text'
    ) named
"""
_HEAD: Final = "UPDATE head SET size = ?, last = ?, edge = ?, ts = ?"


@dataclass(frozen=True, slots=True)
class Request:
    """An approval request as it is indexed: where it was opened, and whether it is open."""

    run: RunId
    seq: int
    open: bool


@dataclass(slots=True)
class Moves:
    """What moved and is not written yet. A run stands with its number in the database; `payloads` are rows
    as they will lie there, `keys` the numbers of those they lie under."""

    tip: Tip
    records: list[Record] = field(default_factory=list[Record])
    payloads: list[Row] = field(default_factory=list[Row])
    keys: set[int] = field(default_factory=set[int])
    runs: dict[RunId, tuple[int, RunHead]] = field(default_factory=dict[RunId, tuple[int, RunHead]])
    requests: dict[RequestId, Request] = field(default_factory=dict[RequestId, Request])
    latest: dict[str, int] = field(default_factory=dict[str, int])
    nodes: list[tuple[Node, Digest]] = field(default_factory=list[tuple[Node, Digest]])

    def take(self, later: "Moves") -> None:
        """Add what a later work has moved."""
        self.tip = later.tip
        self.records += later.records
        self.payloads += later.payloads
        self.keys |= later.keys
        self.runs |= later.runs
        self.requests |= later.requests
        self.latest |= later.latest
        self.nodes += later.nodes

    def write(self, connection: sqlite3.Connection) -> None:
        """Write what moved. Raises TamperedError when the log does not end where its head says."""
        try:
            self._write(connection)
        except sqlite3.IntegrityError as exc:
            seq = self.records[0].entry.seq
            raise TamperedError(
                f"log does not end before entry {seq}, as its head says",
                seq=seq,
                hint="stop writing, export a bundle and run `governance verify` on it",
            ) from exc

    def _write(self, connection: sqlite3.Connection) -> None:
        if self.runs:  # before the entries that name them
            rows = [(number, *run_row(head)) for number, head in self.runs.values()]
            connection.executemany(_RUN, rows)
        numbers = {run: number for run, (number, _) in self.runs.items()}
        _insert(connection, _ENTRY, [_entry_row(record, numbers) for record in self.records])
        _insert(connection, _PAYLOAD, self.payloads)
        connection.executemany(_KEY, [(no,) for no in self.keys])
        starts = _start_rows(self.records, numbers)
        if starts:  # after the entries: the tool of a start stands in that of its decision
            connection.executemany(_START, starts)
        if self.requests:
            requests = [(key, one.run, one.seq, one.open) for key, one in self.requests.items()]
            connection.executemany(_REQUEST, requests)
        connection.executemany(_LATEST, list(self.latest.items()))
        if self.nodes:
            connection.executemany(_NODE, [(*node, hash) for node, hash in self.nodes])
        tip = self.tip
        connection.execute(_HEAD, (tip.size, tip.last, tip.edge.to_bytes(), tip.ts))


def _entry_row(record: Record, numbers: dict[RunId, int]) -> Row:
    entry = record.entry
    number = None if entry.run is None else numbers[entry.run]
    return (entry.seq, entry.prev[:LINK_BYTES], number, entry.rseq, *entry_index(entry), entry.raw)


def _start_rows(records: Sequence[Record], numbers: dict[RunId, int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for entry in (record.entry for record in records):
        start = start_of(entry)
        if start is not None and entry.run is not None:
            row = {"principal": start.principal, "decision": start.decision, "ts": entry.ts}
            rows.append({**row, "run": numbers[entry.run]})
    return rows


def _insert(connection: sqlite3.Connection, insert: str, rows: Sequence[Row]) -> None:
    done = 0
    for count in _ROWS_PER_STATEMENT:
        while len(rows) - done >= count:
            some = rows[done : done + count]
            connection.execute(
                _statement(insert, len(some[0]), count), tuple(itertools.chain.from_iterable(some))
            )
            done += count


@functools.cache
def _statement(insert: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return insert + ", ".join([row] * rows)
