"""What would a store do, without a file? The twin of the SQLite store, for tests and for trying out.

One moment is an immutable value; a work changes a copy, which replaces the moment when the work
returns. Nothing is durable, and nothing can be altered behind its back.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from governance.errors import ConflictError, UnavailableError
from governance.ids import Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.entry import Draft, Kind, Record
from governance.ledger.erasure import (
    Belonging,
    Erasure,
    erasure_drafts,
    erasure_targets,
    owners_of,
)
from governance.ledger.merkle import Node, over_leaves
from governance.ports import Clock, Head, Lease, Person, Reader, RunHead, Signer, Transaction
from governance.store.checkpoints import CHECKPOINT_ENTRIES, Charter, cosigned
from governance.store.desk import name_taken, read_only
from governance.store.projection import (
    Tip,
    advance,
    extend,
    is_about,
    latest_key,
    latest_keys,
    log_created,
    place,
    request_of,
    start,
    start_of,
)
from governance.store.tree import check_nodes

__all__ = ["MemoryStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Moment:
    tip: Tip
    records: tuple[Record, ...] = ()
    runs: Mapping[RunId, RunHead] = field(default_factory=dict[RunId, RunHead])
    requests: Mapping[RequestId, RunId] = field(default_factory=dict[RequestId, RunId])
    open: tuple[RequestId, ...] = ()
    checkpoints: tuple[tuple[int, str], ...] = ()
    people: Mapping[SubjectId, Person] = field(default_factory=dict[SubjectId, Person])
    tokens: Mapping[SubjectId, Digest] = field(default_factory=dict[SubjectId, Digest])
    leases: Mapping[RunId, Lease] = field(default_factory=dict[RunId, Lease])


class _MemoryReader:
    def __init__(self, moment: _Moment) -> None:
        self.moment = moment

    @property
    def people(self) -> "_MemoryPeople":
        return _MemoryPeople(self, self._change)

    @property
    def leases(self) -> "_MemoryLeases":
        return _MemoryLeases(self, self._change)

    @property
    def tree(self) -> "_MemoryTree":
        return _MemoryTree(self)

    def _change(self, _: _Moment, /) -> None:
        raise read_only()

    def head(self) -> Head:
        return self.moment.tip.head

    def run_head(self, run: RunId) -> RunHead | None:
        return self.moment.runs.get(run)

    def runs(self, *, status: Collection[str] = (), limit: int = 1000) -> Sequence[RunHead]:
        newest_first = list(self.moment.runs.values())[::-1]
        return [run for run in newest_first if not status or run.status in status][:limit]

    def records(self, *, start: int = 0, limit: int = 10_000) -> Sequence[Record]:
        return list(self.moment.records[start : start + limit])

    def run_records(self, run: RunId, *, start: int = 0) -> Sequence[Record]:
        return [record for record in self.moment.records if record.entry.run == run][start:]

    def about(self, run: RunId, key: str) -> Sequence[Record]:
        return [
            record
            for record in self.moment.records
            if record.entry.run == run and is_about(record.entry, key)
        ]

    def open_requests(self) -> Sequence[tuple[RunId, RequestId]]:
        return [(self.moment.requests[request], request) for request in self.moment.open]

    def find_request(self, request: RequestId) -> RunId | None:
        return self.moment.requests.get(request)

    def starts(self, principal: SubjectId, since: Micros) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for record in itertools.takewhile(
            lambda r: r.entry.ts > since, reversed(self.moment.records)
        ):
            begun = start_of(record.entry)
            if begun is not None and begun.principal == principal:
                decided = self.moment.records[begun.decision].entry
                tool = decided.body.get("tool")
                if decided.run == record.entry.run and isinstance(tool, str):
                    counts[tool] += 1
        return dict(counts)

    def latest(
        self, kinds: Collection[Kind], *, tool: str | None = None, sink: str | None = None
    ) -> Record | None:
        keys = {latest_key(kind, tool or sink) for kind in kinds}
        newest_first = reversed(self.moment.records)
        return next((r for r in newest_first if not keys.isdisjoint(latest_keys(r.entry))), None)

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        return list(self.moment.checkpoints)


class _MemoryTransaction(_MemoryReader):
    def __init__(self, moment: _Moment, charter: Charter) -> None:
        super().__init__(moment)
        self._charter = charter

    def _change(self, moment: _Moment, /) -> None:
        self.moment = moment

    def append(self, draft: Draft, at: Micros) -> Record:
        now = self.moment
        run = None if draft.run is None else now.runs.get(draft.run)
        record = place(draft, at, now.tip, run, self._charter.salts)
        head = advance(run, record.entry)
        self._move_request(record)
        self.moment = replace(
            self.moment,
            tip=extend(now.tip, record.entry),
            records=(*now.records, record),
            runs={**now.runs, head.run: head} if head else now.runs,
        )
        return record

    def prune(self, tiles: int) -> int:  # noqa: ARG002  # the port's; nothing here outlives the process
        return 0

    def belongings(self, subject: SubjectId) -> Sequence[Belonging]:
        found: list[Belonging] = []
        for record in self.moment.records:
            entry = record.entry
            run = None if entry.run is None else self.moment.runs[entry.run]
            named = (None, None) if run is None else (run.principal, run.agent)
            owners = owners_of(entry, *named)
            if record.payloads and subject in owners:
                found.append(Belonging(entry.seq, tuple(sorted(record.payloads)), entry.run))
        return found

    def erase(self, erasure: Erasure, at: Micros) -> Sequence[Record]:
        found = self.belongings(erasure.subject)
        records = [self.append(draft, at) for draft in erasure_drafts(erasure, found)]
        kept = list(self.moment.records)
        for record in records:
            by = record.entry.seq
            for seq, name in erasure_targets(by, record.entry.body):
                old = kept[seq]
                left = {key: payload for key, payload in old.payloads.items() if key != name}
                kept[seq] = Record(old.entry, left, {**old.erased, name: by})
        self.moment = replace(self.moment, records=tuple(kept))
        return records

    def sign(self, also: Sequence[Signer] = ()) -> tuple[int, str]:
        now = self.moment
        notes = dict(now.checkpoints)
        if now.tip.size not in notes:
            notes[now.tip.size] = self._charter.sign(self, notes.get, also)
            self.moment = replace(now, checkpoints=tuple(notes.items()))
        return now.tip.size, notes[now.tip.size]

    def cosign(self, size: int, lines: str) -> None:
        notes = dict(self.moment.checkpoints)
        notes[size] = cosigned(notes.get(size), size, lines)
        self.moment = replace(self.moment, checkpoints=tuple(notes.items()))

    def _move_request(self, record: Record) -> None:
        now, move = self.moment, request_of(record.entry)
        if move is None:
            return
        if not move.opens:
            still = tuple(request for request in now.open if request != move.request)
            self.moment = replace(now, open=still)
            return
        if move.request in now.requests:
            raise ConflictError(
                f"approval `{move.request}` was requested before", hint="draw a new id"
            )
        requests = {**now.requests, move.request: move.run}
        self.moment = replace(now, open=(*now.open, move.request), requests=requests)


class _MemoryTree:
    def __init__(self, owner: _MemoryReader) -> None:
        self._owner = owner

    def nodes(self, nodes: Sequence[Node]) -> Sequence[Digest]:
        records = self._owner.moment.records
        check_nodes(nodes, len(records))
        return over_leaves([record.entry.hash for record in records])(nodes)

    def checkpoint(self, size: int) -> str | None:
        return dict(self._owner.moment.checkpoints).get(size)


class _MemoryPeople:
    def __init__(self, owner: _MemoryReader, change: Callable[[_Moment], None]) -> None:
        self._owner = owner
        self._change = change

    def by_subject(self, subject: SubjectId) -> Person | None:
        return self._owner.moment.people.get(subject)

    def by_name(self, name: str) -> Person | None:
        return next((one for one in self.everybody() if one.name == name), None)

    def by_token(self, token_digest: Digest) -> Person | None:
        now = self._owner.moment
        found = (subject for subject, token in now.tokens.items() if token == token_digest)
        return next((now.people[subject] for subject in found), None)

    def everybody(self) -> Sequence[Person]:
        return sorted(self._owner.moment.people.values(), key=lambda person: person.name)

    def put(self, person: Person, token_digest: Digest | None = None) -> None:
        now = self._owner.moment
        namesake = self.by_name(person.name)
        holder = self.by_token(token_digest) if token_digest else None
        if any(one and one.subject != person.subject for one in (namesake, holder)):
            raise name_taken(person)
        tokens = {**now.tokens, person.subject: token_digest} if token_digest else now.tokens
        people = {**now.people, person.subject: person}
        self._change(replace(now, people=people, tokens=tokens))

    def drop(self, subject: SubjectId) -> bool:
        now = self._owner.moment
        people = {key: person for key, person in now.people.items() if key != subject}
        tokens = {key: token for key, token in now.tokens.items() if key != subject}
        self._change(replace(now, people=people, tokens=tokens))
        return subject in now.people


class _MemoryLeases:
    def __init__(self, owner: _MemoryReader, change: Callable[[_Moment], None]) -> None:
        self._owner = owner
        self._change = change

    def get(self, run: RunId) -> Lease | None:
        return self._owner.moment.leases.get(run)

    def put(self, lease: Lease) -> None:
        now = self._owner.moment
        self._change(replace(now, leases={**now.leases, lease.run: lease}))

    def drop(self, run: RunId, holder: str) -> None:
        now = self._owner.moment
        left = {
            key: lease for key, lease in now.leases.items() if key != run or lease.holder != holder
        }
        self._change(replace(now, leases=left))


class MemoryStore:
    """A log in memory. Works run one after another, each in the thread that submits it."""

    def __init__(
        self, origin: Origin, signer: Signer | None, clock: Clock, salts: Callable[[int], bytes]
    ) -> None:
        self._charter = Charter(origin, salts, signer)
        self._lock = threading.Lock()
        self._closed = False
        self._moment = _Moment(start(origin))
        self.write(lambda transaction: transaction.append(log_created(signer), clock()))
        if signer is not None:
            self.checkpoint()

    @property
    def origin(self) -> Origin:
        return self._charter.origin

    def submit(self, work: Callable[[Transaction], T]) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(self._run(work))
        except BaseException as exc:  # noqa: BLE001 - it is the caller's, and reaches the caller
            future.set_exception(exc)
        return future

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.submit(work).result()

    def read(self, work: Callable[[Reader], T]) -> T:
        self._refuse_if_closed()
        return work(_MemoryReader(self._moment))

    def checkpoint(self) -> tuple[int, str]:
        return self._run(_MemoryTransaction.sign)

    def scrub(self) -> bool:
        return True

    def rekey(
        self, work: Callable[[Transaction], object], also: Sequence[Signer]
    ) -> tuple[int, str]:
        def change(transaction: _MemoryTransaction) -> tuple[int, str]:
            work(transaction)
            return transaction.sign(also)

        return self._run(change)

    def close(self) -> None:
        with self._lock:
            if not self._closed and self._charter.signer is not None:
                self._attempt(_MemoryTransaction.sign)
            self._closed = True

    def _run(self, work: Callable[[_MemoryTransaction], T]) -> T:
        with self._lock:
            self._refuse_if_closed()
            result = self._attempt(work)
            if self._charter.signer is not None and self._unsigned >= CHECKPOINT_ENTRIES:
                self._attempt(_MemoryTransaction.sign)
            return result

    def _attempt(self, work: Callable[[_MemoryTransaction], T]) -> T:
        transaction = _MemoryTransaction(self._moment, self._charter)
        result = work(transaction)
        self._moment = transaction.moment
        return result

    @property
    def _unsigned(self) -> int:
        notes = self._moment.checkpoints
        return self._moment.tip.size - (notes[-1][0] if notes else 0)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise UnavailableError("store is closed", hint="open it again")
