"""How does a work append, and what does it see? `Transaction` over the connection of the one writer.

What is read is read inside the write transaction, so nobody can have appended since. A work's appends
are gathered as its own `Moves`: they join those of the commit when it returns, and are forgotten when
it raises. Only a work that reads after it has appended, or writes beside the log, needs a savepoint.
"""

import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from governance.canonical import payload_bytes
from governance.errors import ConflictError
from governance.ids import Micros, RequestId, RunId, SubjectId
from governance.ledger.entry import Draft, Entry, Kind, Record
from governance.ledger.erasure import (
    Belonging,
    Erasure,
    erasure_drafts,
    erasure_targets,
    owners_of,
)
from governance.ledger.merkle import completed_by
from governance.ports import RunHead, Signer
from governance.store.checkpoints import Charter, cosigned
from governance.store.content import payload_rows
from governance.store.desk import SqliteLeases, SqlitePeople
from governance.store.keyring import Keyring
from governance.store.moves import Moves, Request
from governance.store.projection import (
    PAYLOADS_MAX,
    Tip,
    advance,
    extend,
    latest_keys,
    place,
    request_of,
)
from governance.store.pruning import prune
from governance.store.reader import SqliteReader
from governance.store.rows import to_run_head

__all__ = ["Commit", "SqliteTransaction", "destroy_doomed"]

_RUN = """
    SELECT run, agent, principal, rseq, last, epoch, status, started, updated, no
    FROM run WHERE run = ?
"""
_LAST_RUN = "SELECT coalesce(max(no), 0) FROM run"
_REQUEST = "SELECT run, seq, open FROM request WHERE request = ?"
_BELONGINGS = """
    SELECT p.place, p.name, r.run
    FROM payload p JOIN entry e ON e.seq = p.place / ? LEFT JOIN run r ON r.no = e.run
    WHERE p.key IN (SELECT value FROM json_each(?)) ORDER BY p.place
"""
_MARK_ERASED = """
    INSERT INTO erased (place, by)
    SELECT place, ? FROM payload WHERE place >= ? AND place < ? AND name = ?
"""
_ERASE = "DELETE FROM payload WHERE place >= ? AND place < ? AND name = ?"
_DOOM = "UPDATE subjectkey SET doomed = TRUE WHERE no = ?"
_DOOMED = "SELECT no FROM subjectkey WHERE doomed"
_STRIKE = "DELETE FROM subjectkey WHERE doomed"
_COSIGN = "UPDATE checkpoint SET note = ? WHERE size = ?"
_ADD_CHECKPOINT = "INSERT INTO checkpoint (size, note) VALUES (?, ?)"


@dataclass(slots=True)
class Commit:
    """One database transaction, shared by works: what those that returned have moved so far.

    `seen` are heads of runs, good for as long as nobody else has appended.
    """

    connection: sqlite3.Connection
    charter: Charter
    keyring: Keyring
    moves: Moves
    seen: dict[RunId, tuple[int, RunHead]]
    alone: bool = False
    signed: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Checkpoints to be kept outside once they are durable."""
    dooms: bool = False
    """Keys are to be destroyed once it is durable that nothing lies under them any more."""

    def write(self) -> None:
        """Bring the database up to the last work that returned."""
        if self.moves.records:
            self.moves.write(self.connection)
            self.moves = Moves(self.moves.tip)


def destroy_doomed(connection: sqlite3.Connection, keyring: Keyring) -> bool:
    """Destroy the keys that an erasure left without content, within the write transaction that is open.

    True when there were any. A crash in the middle leaves them doomed, and this is done again.
    """
    doomed = [no for (no,) in connection.execute(_DOOMED)]
    if doomed:
        keyring.destroy(doomed)
        connection.execute(_STRIKE)
    return bool(doomed)


class SqliteTransaction(SqliteReader):
    """What one work reads and appends, after the works before it in the same commit."""

    def __init__(self, commit: Commit) -> None:
        super().__init__(commit.connection, commit.moves.tip, commit.keyring)
        self._commit = commit
        self._moves = Moves(commit.moves.tip)
        self._protected = False
        self._signed: tuple[int, str] | None = None
        self._dooms = False

    @property
    def _tip(self) -> Tip:
        return self._moves.tip

    @property
    def people(self) -> SqlitePeople:
        self._protect()
        return SqlitePeople(self._connection, writable=True)

    @property
    def leases(self) -> SqliteLeases:
        self._protect()
        return SqliteLeases(self._connection, writable=True)

    def run_head(self, run: RunId) -> RunHead | None:
        found = self._find_run(run)
        return found[1] if found else None

    def append(self, draft: Draft, at: Micros) -> Record:
        moves = self._moves
        run = None if draft.run is None else self._find_run(draft.run)
        before = run[1] if run else None
        record = place(draft, at, moves.tip, before, self._commit.charter.salts)
        entry = record.entry
        self._move_request(entry)
        head = advance(before, entry)
        if head is not None:
            moves.runs[head.run] = (run[0] if run else self._next_run(), head)
        moves.records.append(record)
        if record.payloads:
            self._keep_content(record, head)
        for key in latest_keys(entry):
            moves.latest[key] = entry.seq
        moves.nodes += completed_by(entry.hash, moves.tip.edge)
        moves.tip = extend(moves.tip, entry)
        return record

    def belongings(self, subject: SubjectId) -> Sequence[Belonging]:
        numbers = payload_bytes(list(self._keyring.numbers(subject))).decode()
        rows = self._settled().execute(_BELONGINGS, (PAYLOADS_MAX, numbers)).fetchall()
        return [
            Belonging(seq, tuple(name for _, name, _ in group), run)
            for (seq, run), group in itertools.groupby(
                ((place // PAYLOADS_MAX, name, run) for place, name, run in rows),
                key=lambda row: (row[0], row[2]),
            )
        ]

    def erase(self, erasure: Erasure, at: Micros) -> Sequence[Record]:
        numbers = self._keyring.numbers(erasure.subject)
        found = self.belongings(erasure.subject)
        # A work that shares this commit may write content of the same person after us: under another key.
        self._keyring.retire(numbers)
        records = [self.append(draft, at) for draft in erasure_drafts(erasure, found)]
        connection = self._settled()
        for record in records:
            for seq, name in erasure_targets(record.entry.seq, record.entry.body):
                span = (seq * PAYLOADS_MAX, (seq + 1) * PAYLOADS_MAX, name)
                connection.execute(_MARK_ERASED, (record.entry.seq, *span))
                connection.execute(_ERASE, span)
        connection.executemany(_DOOM, [(no,) for no in numbers])
        self._dooms = bool(numbers)
        return records

    def sign(self, also: Sequence[Signer] = ()) -> tuple[int, str]:
        """Sign the head as this work sees it, unless it is signed already."""
        size = self._tip.size
        stored = self.tree.checkpoint
        note = stored(size)
        if note is None:
            note = self._commit.charter.sign(self, stored, also)
            self._protect()
            self._connection.execute(_ADD_CHECKPOINT, (size, note))
        self._signed = size, note
        return size, note

    def cosign(self, size: int, lines: str) -> None:
        note = cosigned(self.tree.checkpoint(size), size, lines)
        self._protect()
        self._connection.execute(_COSIGN, (note, size))
        self._signed = size, note

    def prune(self, tiles: int) -> int:
        archived, newest = self._archived(), self.latest((Kind.LOG_ARCHIVED,))
        if archived is None or newest is None:
            return 0
        seq = newest.entry.seq
        if not any(size > seq for size, _ in self.checkpoints()):
            raise ConflictError(
                f"entry {seq} is not signed yet", hint="sign the head and try again"
            )
        self._protect()
        return prune(self._connection, archived, tiles)

    def keep(self) -> None:
        """Let the works that follow, and the commit, see what this one did."""
        if self._protected:
            self._connection.execute("RELEASE work")
        self._commit.moves.take(self._moves)
        self._commit.seen.update(self._moves.runs)
        if self._signed is not None:
            self._commit.signed.append(self._signed)
        self._commit.dooms |= self._dooms

    def undo(self) -> None:
        """Leave no trace. A work alone in its commit is undone with it."""
        if self._protected:
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")

    def _keep_content(self, record: Record, head: RunHead | None) -> None:
        """Take the content of `record`, under the key of whom it belongs to. The key is durable first."""
        principal, agent = (head.principal, head.agent) if head else (None, None)
        owners = owners_of(record.entry, principal, agent)
        key = self._keyring.key_of(owners) if owners else None
        if key is not None:
            self._moves.keys.add(key.no)
        self._moves.payloads += payload_rows(record, key, self._commit.charter.salts)

    def _settled(self) -> sqlite3.Connection:
        if self._moves.records:
            self._protect()
            self._moves.write(self._connection)
            self._moves.records.clear()
            self._moves.nodes.clear()
            self._moves.payloads.clear()
        else:
            self._commit.write()
        return self._connection

    def _protect(self) -> None:
        """What this work writes from here on can be undone alone."""
        self._commit.write()
        if not self._protected and not self._commit.alone:
            self._connection.execute("SAVEPOINT work")
            self._protected = True

    def _find_run(self, run: RunId) -> tuple[int, RunHead] | None:
        """Find the number and head of a run: as moved in this commit, else as stored."""
        commit = self._commit
        for moved in (self._moves.runs, commit.seen):
            if run in moved:
                return moved[run]
        row = self._connection.execute(_RUN, (run,)).fetchone()
        if row is None:
            return None
        commit.seen[run] = found = row[-1], to_run_head(row[:-1])
        return found

    def _next_run(self) -> int:
        stored: int = self._connection.execute(_LAST_RUN).fetchone()[0]
        unwritten = (*self._commit.moves.runs.values(), *self._moves.runs.values())
        return 1 + max(stored, *(number for number, _ in unwritten), 0)

    def _move_request(self, entry: Entry) -> None:
        move = request_of(entry)
        if move is None:
            return
        old = self._find_request(move.request)
        if old is not None and move.opens:
            raise ConflictError(
                f"approval `{move.request}` was requested before", hint="draw a new id"
            )
        if old is not None:
            self._moves.requests[move.request] = replace(old, open=False)
        elif move.opens:
            self._moves.requests[move.request] = Request(move.run, entry.seq, open=True)

    def _find_request(self, request: RequestId) -> Request | None:
        for moved in (self._moves.requests, self._commit.moves.requests):
            if request in moved:
                return moved[request]
        row = self._connection.execute(_REQUEST, (request,)).fetchone()
        return Request(row[0], row[1], open=bool(row[2])) if row else None
