"""Does the file hold one log, and does every index over it say what the bytes say? One pass that looks.

It reads through a connection of its own, in slices: each is one short read transaction, so that no writer
waits and the write-ahead log can be folded back. Entries never change, so slices add up; the last slice
and the comparison of everything else are one transaction, and therefore one moment.

    file integrity (whole walks)  ->  slice, slice, …  ->  last slice, tables, checkpoints, kept checkpoint

What is found is told with its table, column and entry. Nothing is repaired. A log that has archived its
beginning is looked at from the boundary on.
"""

import itertools
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest, Origin, RequestId, RunId
from governance.ledger.absent import Absent
from governance.ledger.checkpoint import (
    format_verifier_key,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.entry import Entry, Kind, leaf_hash, read_entry
from governance.ledger.erasure import erasure_targets
from governance.ledger.report import Finding, Findings, Flaw, Summary, Verdict, Where
from governance.ports import Head, RunHead
from governance.store.archived_stand import archived_stand, run_begun_before
from governance.store.checkpoints import KeptCheckpoint
from governance.store.comparison import compare_checkpoints, compare_tables
from governance.store.connection import BUSY_TIMEOUT_S, connect, translate
from governance.store.content import to_payloads
from governance.store.keyring import Keyring
from governance.store.moves import Request
from governance.store.projection import PAYLOADS_MAX, advance
from governance.store.reckoning import Difference, EntryRow, Memory, Reckoning, Stand, keys_at
from governance.store.rows import Row

__all__ = ["SLICE_ENTRIES", "Inspection", "Subject", "inspect"]

SLICE_ENTRIES: Final = 128
"""So many entries are looked at in one go: some milliseconds."""

_ENTRIES: Final = """
    SELECT e.seq, e.prev, r.run, e.run, e.rseq, e.uid, e.request, e.raw
    FROM entry e LEFT JOIN run r ON r.no = e.run WHERE e.seq >= ? ORDER BY e.seq LIMIT ?
"""
_PAYLOADS: Final = """
    SELECT place, name, key, content FROM payload WHERE place >= ? AND place < ? ORDER BY place
"""
_PLACE: Final = "SELECT 1 FROM payload WHERE place = ?"
_RAW: Final = "SELECT raw FROM entry WHERE seq = ?"
_OF_RUN: Final = """
    SELECT raw FROM entry WHERE run = (SELECT no FROM run WHERE run = ?) AND seq < ? ORDER BY rseq
"""
_OPENING: Final = """
    SELECT raw FROM entry
    WHERE run = (SELECT no FROM run WHERE run = ?) AND request = ? AND seq < ? ORDER BY seq
"""
_NOTE: Final = "SELECT note FROM checkpoint WHERE size = ?"
_SIZES: Final = "SELECT size FROM checkpoint WHERE size > ? AND size <= ?"
_NEWEST: Final = "SELECT coalesce(max(seq), -1) FROM entry"
_ANY_CHECKPOINT: Final = "SELECT count(*) FROM (SELECT 1 FROM checkpoint LIMIT 1)"
_INTEGRITY: Final = "PRAGMA integrity_check(20)"

_NEXT: Final = (
    "stop every writer, copy the files, export a bundle and run `governance verify` on it;"
    " find out who can write to the database"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is inspected, and what is known of it from outside: its name, its own key, its last head."""

    path: Path
    keyring: Path
    origin: Origin
    verifier_key: str
    kept: KeptCheckpoint | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one pass found. `stand` is how far the log was verified: to its newest good checkpoint."""

    findings: tuple[Finding, ...]
    count: int
    size: int
    begin: int
    stand: Stand | None
    refused: str = ""
    """Why a stand was not gone on from, where one was given."""

    @property
    def ok(self) -> bool:
        return self.count == 0


def inspect(
    subject: Subject, stand: Stand | None = None, pause: Callable[[], None] = lambda: None
) -> Inspection:
    """Look at the whole log, or at what came after `stand` if that fits what was signed.

    `pause` is called between slices. Raises UnavailableError when the file cannot be read now,
    InvalidInputError when there is none.
    """
    if not subject.path.is_file():
        raise InvalidInputError(f"no log at `{subject.path}`", hint="run `governance init`")
    found = Findings()
    look: _Pass | None = None
    keyring = Keyring.open(subject.keyring, subject.origin, secrets.token_bytes)
    try:
        connection = connect(subject.path, busy_timeout_s=BUSY_TIMEOUT_S, read_only=True)
        try:
            # A text that is none must be found, not raised.
            connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
            look = _Pass(connection, subject, keyring, stand, found)
            look.through(pause)
        finally:
            connection.close()
    except sqlite3.Error as exc:
        failure = translate(exc, "checking the log")
        if not isinstance(failure, TamperedError):
            raise failure from exc
        found.put(_finding(Difference.DATABASE_DAMAGED, Where("database"), failure.message))
    finally:
        keyring.close()
    report = found.report(Summary())
    size = look.reckoning.next_seq if look else 0
    begin = look.reckoning.begin if look else 0
    refused = look.refused if look else ""
    good = look.stand if look and not report.counts else None
    return Inspection(report.findings, sum(report.counts.values()), size, begin, good, refused)


class _Pass:
    """One pass over one connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        subject: Subject,
        keyring: Keyring,
        stand: Stand | None,
        findings: Findings,
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._findings = findings
        self._keyring = keyring
        self._absent = Absent()
        self._roots = dict[int, Digest]()
        self.refused = ""
        self._boundary = archived_stand(connection)
        if stand is not None and self._boundary is not None and stand.size < self._boundary.size:
            stand = None  # what it stood on is archived by now
        if stand is not None:
            self.refused = self._refuse(stand)
        self.stand = self._boundary if self.refused or stand is None else stand
        keys = self._keys(self.stand)
        memory = Memory(keys, self._entry, self._run_before, self._request_before)
        self.reckoning = Reckoning(subject.origin, self.stand, memory, self._say)
        if self.stand is not None:
            self._roots[self.stand.size] = self.stand.edge.root()

    def through(self, pause: Callable[[], None]) -> None:
        if self.stand in (None, self._boundary):
            self._check_file()
        outside = self._subject.kept
        note = outside.read() if outside else None  # before the moment that it is compared with
        (newest,) = self._connection.execute(_NEWEST).fetchone()
        while self.reckoning.next_seq + SLICE_ENTRIES <= newest:
            with self._moment():
                self._walk(SLICE_ENTRIES)
            pause()
        with self._moment():
            while self._walk(SLICE_ENTRIES):
                pass
            self._compare(note)
        with self._moment():
            self._judge_absences()

    def _check_file(self) -> None:
        """Ask the database whether its pages and its own indexes are sound."""
        for (line,) in self._connection.execute(_INTEGRITY).fetchall():
            if line != "ok":
                where = Where("database")
                self._findings.put(_finding(Difference.DATABASE_DAMAGED, where, str(line)[:200]))

    @contextmanager
    def _moment(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _walk(self, limit: int) -> bool:
        """Follow the next entries and what lies beside them; False when there are none."""
        found = self.reckoning
        begin = found.next_seq
        rows = [EntryRow(*row) for row in self._connection.execute(_ENTRIES, (begin, limit))]
        if not rows:
            return False
        end = rows[-1].seq + 1
        stops = {size for (size,) in self._connection.execute(_SIZES, (begin, end))}
        places = (begin * PAYLOADS_MAX, end * PAYLOADS_MAX)
        payloads = self._connection.execute(_PAYLOADS, places)
        beside = itertools.groupby(payloads, key=lambda row: row[0] // PAYLOADS_MAX)
        next_seq, group = next(beside, (end, iter(())))
        for row in rows:
            entry = found.follow(row)
            while next_seq < row.seq:
                self._say(Flaw.PAYLOAD_UNEXPECTED, "payload", next_seq, "no entry stands there")
                next_seq, group = next(beside, (end, iter(())))
            at_hand: list[Row] = []
            if next_seq == row.seq:
                at_hand = list(group)
                next_seq, group = next(beside, (end, iter(())))
            if entry is not None:
                self._check_payloads(entry, at_hand)
            if found.next_seq in stops:
                self._roots[found.next_seq] = found.tip.edge.root()
                self.stand = found.stand
        # This may be the head of this moment, and be signed in the next.
        self._roots[found.next_seq] = found.tip.edge.root()
        return True

    def _check_payloads(self, entry: Entry, rows: Sequence[Row]) -> None:
        """Compare the content at hand with what `entry` commits to; what is absent may be excused later."""
        names = sorted(entry.payloads)
        for place, name, *_ in rows:
            rank = place % PAYLOADS_MAX
            if rank >= len(names) or names[rank] != name:
                message = (
                    f"payload `{str(name)[:80]}` lies where entry {entry.seq} has none of that name"
                )
                self._say(Flaw.PAYLOAD_UNEXPECTED, "payload.name", entry.seq, message)
        at_hand = to_payloads(map(_in_bytes, rows), self._keyring).get(entry.seq, {})
        there = {name: place for place, name, *_ in rows}
        for name in names:
            payload = at_hand.get(name)
            if payload is None:
                self._miss(entry.seq, name, there.get(name))
            elif payload.commitment != entry.payloads[name]:
                message = f"payload `{name[:80]}` is not what was recorded"
                self._say(Flaw.PAYLOAD_ALTERED, "payload", entry.seq, message)
        if entry.kind is Kind.PAYLOAD_ERASED:
            self._follow_erasure(entry)

    def _follow_erasure(self, erasure: Entry) -> None:
        """What is absent is excused, and marked as erased where its row lay."""
        for seq, name in erasure_targets(erasure.seq, erasure.body):
            self._absent.pop(seq, name)
            target = self._entry(seq)
            names = sorted(target.payloads) if target else []
            if name in names:
                self.reckoning.erased[seq * PAYLOADS_MAX + names.index(name)] = erasure.seq

    def _miss(self, seq: int, name: str, place: int | None) -> None:
        """Remember what is absent: no row, or one at `place` whose key is gone."""
        if not self._absent.add(seq, name, 0 if place is None else place + 1):
            self._say_missing(seq, name)

    def _say_missing(self, seq: int, name: str) -> None:
        message = f"payload `{name[:80]}` is missing, and no later entry records its erasure"
        self._say(Flaw.PAYLOAD_MISSING, "payload", seq, message)

    def _judge_absences(self) -> None:
        """Report what no entry excuses, a moment later than all else.

        An erasure removes rows and then destroys keys. A row seen before it whose key is gone may have
        been removed by now; the check after this one finds the entry.
        """
        for seq, name, mark in self._absent.left():
            if not mark or self._connection.execute(_PLACE, (mark - 1,)).fetchone():
                self._say_missing(seq, name)

    def _compare(self, note: str | None) -> None:
        """Compare everything beside the entries, at the moment of the last of them."""
        compare_tables(self._connection, self.reckoning, self._say)
        compare_checkpoints(self._connection, self.reckoning, self._roots, self._say)
        named = keys_at(self.reckoning.about_keys, self.reckoning.next_seq)
        if self._subject.verifier_key not in map(format_verifier_key, named):
            message = "the log does not name the key of this installation"
            self._say(Flaw.KEY_UNKNOWN, "entry.raw", 0, message)
        if self._subject.kept is not None:
            self._compare_kept(self._subject.kept, note)

    def _compare_kept(self, kept: KeptCheckpoint, note: str | None) -> None:
        tip = self.reckoning.tip
        (signed,) = self._connection.execute(_ANY_CHECKPOINT).fetchone()
        if note is None and signed:
            message = f"kept checkpoint `{kept.path}` is gone, and the log has signed"
            self._say(Difference.KEPT_DIFFERS, "kept checkpoint", None, message)
        try:
            kept.check(note, Head(tip.size, tip.last, tip.edge.root(), tip.ts), self._note)
        except TamperedError as exc:
            self._say(Difference.KEPT_DIFFERS, "kept checkpoint", exc.seq, exc.message)

    def _refuse(self, stand: Stand) -> str:
        """Say why `stand` does not fit what was signed and what lies there; empty when it does."""
        note, keys = self._note(stand.size), keys_at(self._keys(stand), stand.size)
        try:
            checkpoint = parse_checkpoint(note_text(note or ""))
            signing_keys(note or "", keys)
        except (InvalidInputError, RefusedError, TamperedError, TypeError):
            return f"no checkpoint of size {stand.size} is signed by a key of the log"
        said = (checkpoint.origin, checkpoint.size, checkpoint.root)
        if said != (self._subject.origin, stand.size, stand.edge.root()):
            return f"what was verified is not what checkpoint {stand.size} was signed over"
        raw = self._raw(stand.size - 1)
        if raw is None or leaf_hash(raw) != stand.last:
            return f"entry {stand.size - 1} is not the one that was verified"
        return ""

    def _keys(self, stand: Stand | None) -> tuple[Entry, ...]:
        raws = [self._raw(seq) for seq in stand.keys] if stand else []
        return tuple(_read_all(raw for raw in raws if raw is not None))

    def _entry(self, seq: int) -> Entry | None:
        raw = self._raw(seq)
        return next(_read_all([raw]), None) if raw is not None else None

    def _run_before(self, run: RunId) -> RunHead | None:
        head = None
        rows = self._connection.execute(_OF_RUN, (run, self.reckoning.begin))
        for entry in _read_all(raw for (raw,) in rows if type(raw) is bytes):
            head = advance(head, entry)
        if head is None and self._boundary is not None:
            return run_begun_before(self._connection, run, self.reckoning.begin)
        return head

    def _request_before(self, request: RequestId, run: RunId) -> Request | None:
        rows = self._connection.execute(_OPENING, (run, request, self.reckoning.begin))
        for entry in _read_all(raw for (raw,) in rows if type(raw) is bytes):
            if entry.kind is Kind.APPROVAL_REQUESTED and entry.run is not None:
                return Request(entry.run, entry.seq, open=True)
        return None

    def _note(self, size: int) -> str | None:
        row = self._connection.execute(_NOTE, (size,)).fetchone()
        return row[0] if row else None

    def _raw(self, seq: int) -> bytes | None:
        row = self._connection.execute(_RAW, (seq,)).fetchone()
        return row[0] if row and type(row[0]) is bytes else None

    def _say(self, kind: str, place: str, seq: int | None, message: str) -> None:
        self._findings.put(_finding(kind, Where(place, seq=seq), message))


def _finding(kind: str, where: Where, message: str) -> Finding:
    return Finding(Verdict.INTEGRITY, kind, where, message, _NEXT)


def _read_all(raws: Iterable[bytes]) -> Iterator[Entry]:
    """Read entries that were verified before. One that no longer reads is found where it is linked to."""
    for raw in raws:
        try:
            yield read_entry(raw)
        except InvalidInputError:
            continue


def _in_bytes(row: Row) -> Row:
    """A column holds what somebody put there. What is no content decrypts to nothing and fits nothing."""
    return row if type(row[-1]) is bytes else (*row[:-1], b"")
