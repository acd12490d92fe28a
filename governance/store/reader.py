"""What does the log say at one moment? `Reader` over a driver connection, for reads and writers alike.

SQL is spelled out for the driver, not built through the ORM: the same statements run inside every
append, where an ORM costs 17 times as much. Every record passes `rows` on its way out.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence

from governance.canonical import payload_bytes
from governance.errors import GovernanceError, InvalidInputError, TamperedError
from governance.ids import Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.archived import Archived, Segment, read_archived
from governance.ledger.entry import Kind, Payload, Record
from governance.ledger.erasure import erasure_targets
from governance.ledger.merkle import Edge
from governance.ports import Head, RunHead
from governance.store.content import to_payloads
from governance.store.desk import SqliteLeases, SqlitePeople
from governance.store.keyring import Keyring
from governance.store.projection import PAYLOADS_MAX, Tip, is_about, latest_key
from governance.store.rows import (
    LINK_BYTES,
    Row,
    check_run,
    check_sequence,
    missing,
    short_uid,
    to_entry,
    to_run_head,
)
from governance.store.tree import SqliteTree

__all__ = ["SqliteReader", "read_tip"]

_HEAD = "SELECT size, last, edge, ts FROM head"
_ENTRIES = """
    SELECT e.seq, e.prev, r.run, e.rseq, e.uid, e.request, e.raw, n.prev
    FROM entry e LEFT JOIN entry n ON n.seq = e.seq + 1 LEFT JOIN run r ON r.no = e.run
"""
_BY_SEQ = _ENTRIES + "WHERE e.seq >= ? AND e.seq < ? ORDER BY e.seq"
_OF_RUN = _ENTRIES + (  # noqa: S608 - constants only
    "WHERE e.run = (SELECT no FROM run WHERE run = ?) AND e.rseq >= ? ORDER BY e.rseq"
)
_ABOUT = _ENTRIES + (  # noqa: S608 - constants only
    "WHERE e.run = (SELECT no FROM run WHERE run = ?) AND (e.uid = ? OR e.request = ?) ORDER BY e.seq"
)
_PAYLOADS = "SELECT place, name, key, content FROM payload WHERE place >= ? AND place < ?"
_PAYLOADS_OF_RUN = """
    SELECT p.place, p.name, p.key, p.content
    FROM entry e JOIN payload p ON p.place >= e.seq * ? AND p.place < (e.seq + 1) * ?
    WHERE e.run = (SELECT no FROM run WHERE run = ?) AND e.rseq >= ?
"""
_RUN_HEAD = """
    SELECT run, agent, principal, rseq, last, epoch, status, started, updated
    FROM run WHERE run = ?
"""
_RUNS = """
    SELECT run, agent, principal, rseq, last, epoch, status, started, updated FROM run
    ORDER BY no DESC LIMIT ?
"""
_RUNS_IN = """
    SELECT run, agent, principal, rseq, last, epoch, status, started, updated FROM run
    WHERE status IN (SELECT value FROM json_each(?)) ORDER BY no DESC LIMIT ?
"""
_OPEN_REQUESTS = "SELECT run, request FROM request WHERE open ORDER BY seq"
_FIND_REQUEST = "SELECT run FROM request WHERE request = ?"
_STARTS = """
    WITH RECURSIVE used (tool) AS (
        SELECT min(tool) FROM start WHERE principal = :principal
        UNION ALL
        SELECT (SELECT min(tool) FROM start WHERE principal = :principal AND tool > used.tool)
        FROM used WHERE used.tool IS NOT NULL
    ), told (tool, nth, before) AS (
        SELECT used.tool, (
            SELECT nth FROM start WHERE principal = :principal AND tool = used.tool
            ORDER BY ts DESC, nth DESC LIMIT 1
        ), coalesce((
            SELECT nth FROM start WHERE principal = :principal AND tool = used.tool AND ts <= :since
            ORDER BY ts DESC, nth DESC LIMIT 1
        ), 0)
        FROM used WHERE used.tool IS NOT NULL
    )
    SELECT tool, nth - before FROM told WHERE nth > before
"""
"""A few steps down the index for each tool that the principal ever used, and none for each call."""
_LATEST = "SELECT max(seq) FROM latest WHERE key IN (SELECT value FROM json_each(?))"
_ERASED = "SELECT place, by FROM erased WHERE place >= ? AND place < ?"
_LEAF = "SELECT hash FROM node WHERE level = 0 AND place = ?"
_CHECKPOINTS = "SELECT size, note FROM checkpoint ORDER BY size"


def read_tip(connection: sqlite3.Connection, origin: Origin, known: Tip | None = None) -> Tip:
    """Read the end of the log; `known` is returned when it is the end still.

    Raises TamperedError when there is none, or it contradicts itself.
    """
    row: Row | None = connection.execute(_HEAD).fetchone()
    if row is None:
        raise TamperedError("database has no head", hint="restore it, or begin a new log")
    size, last, raw, ts = row
    if known is not None and (size, last) == (known.size, known.last):
        return known
    try:
        edge = Edge.from_bytes(raw)
    except InvalidInputError as exc:
        raise TamperedError("tree edge of the head cannot be read", seq=size) from exc
    if edge.size != size:
        raise TamperedError(f"tree covers {edge.size} of {size} entries", seq=min(edge.size, size))
    return Tip(origin=origin, size=size, last=last, ts=ts, edge=edge)


class SqliteReader:
    """One moment, as the transaction open on `connection` sees it."""

    def __init__(self, connection: sqlite3.Connection, tip: Tip, keyring: Keyring) -> None:
        self._connection = connection
        self._opened = tip
        self._keyring = keyring

    @property
    def _tip(self) -> Tip:
        return self._opened

    @property
    def people(self) -> SqlitePeople:
        return SqlitePeople(self._connection, writable=False)

    @property
    def leases(self) -> SqliteLeases:
        return SqliteLeases(self._connection, writable=False)

    @property
    def tree(self) -> SqliteTree:
        return SqliteTree(self._settled(), self._tip.size)

    def head(self) -> Head:
        return self._tip.head

    def run_head(self, run: RunId) -> RunHead | None:
        row = self._one(_RUN_HEAD, run)
        return to_run_head(row) if row else None

    def runs(self, *, status: Collection[str] = (), limit: int = 1000) -> Sequence[RunHead]:
        if status:
            rows = self._settled().execute(_RUNS_IN, (_array(status), limit))
        else:
            rows = self._settled().execute(_RUNS, (limit,))
        return [to_run_head(row) for row in rows]

    def records(self, *, start: int = 0, limit: int = 10_000) -> Sequence[Record]:
        stop = min(start + limit, self._tip.size)
        rows = self._settled().execute(_BY_SEQ, (start, stop))
        payloads = self._settled().execute(_PAYLOADS, (start * PAYLOADS_MAX, stop * PAYLOADS_MAX))
        found = self._join(rows, payloads)
        try:
            check_sequence([record.entry for record in found], start, stop)
        except TamperedError as exc:
            raise self._explain(exc) from None
        return found

    def run_records(self, run: RunId, *, start: int = 0) -> Sequence[Record]:
        head = self.run_head(run)
        if head is None or start >= head.rseq:
            return []
        rows = self._settled().execute(_OF_RUN, (run, start))
        payloads = self._settled().execute(
            _PAYLOADS_OF_RUN, (PAYLOADS_MAX, PAYLOADS_MAX, run, start)
        )
        found = self._join(rows, payloads)
        try:
            check_run([record.entry for record in found], start, head)
        except TamperedError as exc:
            raise self._explain_run(exc, found, head) from None
        return found

    def about(self, run: RunId, key: str) -> Sequence[Record]:
        rows = self._settled().execute(_ABOUT, (run, short_uid(run, key), key))
        found = [self._record(row) for row in rows.fetchall()]
        return [record for record in found if is_about(record.entry, key)]

    def open_requests(self) -> Sequence[tuple[RunId, RequestId]]:
        return self._settled().execute(_OPEN_REQUESTS).fetchall()

    def find_request(self, request: RequestId) -> RunId | None:
        row = self._one(_FIND_REQUEST, request)
        return row[0] if row else None

    def starts(self, principal: SubjectId, since: Micros) -> Mapping[str, int]:
        asked = {"principal": principal, "since": since}
        return dict(self._settled().execute(_STARTS, asked).fetchall())

    def latest(
        self, kinds: Collection[Kind], *, tool: str | None = None, sink: str | None = None
    ) -> Record | None:
        row = self._one(_LATEST, _array([latest_key(kind, tool or sink) for kind in kinds]))
        if row is None or row[0] is None:
            return None
        seq = row[0]
        stored = self._one(_BY_SEQ, seq, seq + 1)
        if stored is None:
            raise self._explain(missing(seq))
        record = self._record(stored)
        if record.entry.kind not in kinds:
            raise TamperedError(f"entry {seq} is not of the kind it is indexed as", seq=seq)
        return record

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        return self._settled().execute(_CHECKPOINTS).fetchall()

    def _archived(self) -> Archived | None:
        """What the log says it has handed over, by its newest entry about that."""
        record = self.latest((Kind.LOG_ARCHIVED,))
        try:
            return None if record is None else read_archived(record.entry.body)
        except InvalidInputError as exc:
            raise TamperedError("`log.archived` cannot be read") from exc

    def _explain(self, missed: TamperedError) -> GovernanceError:
        """An entry is not here: because it was archived, or because somebody took it."""
        seq = missed.seq
        archived = None if seq is None or self._is_archive(seq) else self._archived()
        if archived is None or seq is None or not archived.has_left(seq):
            return missed
        return left(f"entry {seq} is", archived.holding(seq))

    def _explain_run(
        self, missed: TamperedError, found: Sequence[Record], head: RunHead
    ) -> GovernanceError:
        """Entries of a run are not here. Archived are only its first ones, and none behind the boundary."""
        archived = self._archived()
        tail = [record.entry for record in found]
        if archived is None or any(archived.has_left(entry.seq) for entry in tail):
            return missed
        (boundary,) = self.records(start=archived.end, limit=1)
        began_before = head.started <= boundary.entry.ts
        if not began_before or not (tail or archived.has_left(head.epoch)):
            return missed
        try:
            check_run(tail, head.rseq - len(tail), head)
        except TamperedError:
            return missed
        return left(f"run `{head.run}` is, or began,", archived.holding(head.epoch))

    def _is_archive(self, seq: int) -> bool:
        """Tell whether `seq` is where the newest `log.archived` should be: looking there again is no help."""
        row = self._one(_LATEST, _array([Kind.LOG_ARCHIVED]))
        return row is not None and row[0] == seq

    def _settled(self) -> sqlite3.Connection:
        """The connection, once everything this reader should see is in the database."""
        return self._connection

    def _one(self, sql: str, *values: str | int) -> Row | None:
        row: Row | None = self._settled().execute(sql, values).fetchone()
        return row

    def _newest(self) -> tuple[int, Digest]:
        return self._tip.size, self._tip.last

    def _record(self, row: Row) -> Record:
        entry = to_entry(self._linked(row), self._tip.origin, self._newest())
        if not entry.payloads:
            return Record(entry)
        first = entry.seq * PAYLOADS_MAX
        payloads = self._settled().execute(_PAYLOADS, (first, first + PAYLOADS_MAX))
        return self._excused([Record(entry, self._content(payloads).get(entry.seq, {}))])[0]

    def _linked(self, row: Row) -> Row:
        """Where the successor was archived, its word on this entry's hash is what was kept of the tree."""
        if row[-1] is not None or row[0] + 1 >= self._tip.size:
            return row
        leaf = self._connection.execute(_LEAF, (row[0],)).fetchone()
        return row if leaf is None else (*row[:-1], leaf[0][:LINK_BYTES])

    def _join(self, rows: Iterable[Row], payloads: Iterable[Row]) -> list[Record]:
        newest, origin = self._newest(), self._tip.origin
        beside = self._content(payloads)
        none: dict[str, Payload] = {}
        entries = [to_entry(self._linked(row), origin, newest) for row in rows]
        return self._excused([Record(entry, beside.get(entry.seq, none)) for entry in entries])

    def _content(self, payloads: Iterable[Row]) -> dict[int, dict[str, Payload]]:
        return to_payloads(payloads, self._keyring)

    def _excused(self, records: list[Record]) -> list[Record]:
        """Tell of each payload that is not at hand whether an entry says that it was erased."""
        said: dict[int, set[tuple[int, str]]] = {}
        for index, record in enumerate(records):
            entry = record.entry
            if len(record.payloads) == len(entry.payloads):
                continue
            first = entry.seq * PAYLOADS_MAX
            marks = self._settled().execute(_ERASED, (first, first + PAYLOADS_MAX)).fetchall()
            names = sorted(entry.payloads)
            erased = {names[place - first]: by for place, by in marks if place - first < len(names)}
            for by in set(erased.values()) - said.keys():
                said[by] = self._erased_by(by)
            erased = {name: by for name, by in erased.items() if (entry.seq, name) in said[by]}
            records[index] = Record(entry, record.payloads, erased)
        return records

    def _erased_by(self, seq: int) -> set[tuple[int, str]]:
        """The mark is an index; what counts is the entry it names."""
        row = self._one(_BY_SEQ, seq, seq + 1)
        entry = to_entry(row, self._tip.origin, self._newest()) if row else None
        if entry is None or entry.kind is not Kind.PAYLOAD_ERASED:
            return set()
        return set(erasure_targets(seq, entry.body))


def left(what: str, segment: Segment) -> InvalidInputError:
    return InvalidInputError(
        f"{what} archived: {segment}", hint="give that archive to `governance verify`"
    )


def _array(values: Collection[str]) -> str:
    return payload_bytes([str(value) for value in values]).decode()
