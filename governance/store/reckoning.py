"""What must every row say, given the bytes of the entries? A fold over them, entry by entry.

A `Reckoning` takes the rows of `entry` in order, from the beginning or from a stand that was verified. It
says what does not fit: bytes, links, tree, index columns. What it has gathered at the end (heads of runs,
requests, newest entries, nodes of the tree) is what the other tables must say.

It links on the hash computed from the bytes, and goes on after a fault, so that one finding hides no other.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from governance.errors import InvalidInputError
from governance.ids import Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.checkpoint import VerifierKey
from governance.ledger.entry import ABOUT_KEYS, RUN_START, Entry, Kind, leaf_hash, read_entry
from governance.ledger.keys import KeyHistory
from governance.ledger.merkle import Edge, Node, completed_by
from governance.ledger.report import Flaw
from governance.ports import RunHead
from governance.store.moves import Request
from governance.store.projection import Tip, advance, latest_keys, request_of, start, start_of
from governance.store.rows import LINK_BYTES, entry_index

__all__ = ["Difference", "EntryRow", "Memory", "Reckoning", "Say", "Stand", "keys_at"]

Say: TypeAlias = Callable[[str, str, int | None, str], None]
"""Takes a finding: its kind, table and column, the entry it is about, and a message."""


class Difference(StrEnum):
    """What only the live check can find, beside the flaws of `ledger.report`. Never rename or reuse one."""

    INDEX_DIFFERS = "index-differs"
    ROW_MISSING = "row-missing"
    ROW_UNEXPECTED = "row-unexpected"
    KEPT_DIFFERS = "kept-differs"
    DATABASE_DAMAGED = "database-damaged"


class EntryRow(NamedTuple):
    """A row of `entry` as it lies there; `name` is the run that `number` leads to."""

    seq: int
    prev: Any
    name: Any
    number: Any
    rseq: Any
    uid: Any
    request: Any
    raw: Any


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a log was verified: what the fold needs to go on from there.

    `runs` is how many runs had begun, `keys` the positions of the entries that name keys.
    """

    size: int
    last: Digest
    ts: Micros
    edge: Edge
    runs: int
    keys: tuple[int, ...]

    def tip(self, origin: Origin) -> Tip:
        return Tip(origin=origin, size=self.size, last=self.last, ts=self.ts, edge=self.edge)


@dataclass(frozen=True, slots=True)
class Memory:
    """What came before, read from the bytes again: runs and requests only where they go on from a stand."""

    about_keys: tuple[Entry, ...]
    entry: Callable[[int], Entry | None]
    run: Callable[[RunId], RunHead | None]
    request: Callable[[RequestId, RunId], Request | None]


class Reckoning:
    """The fold. `tip` is where it has come to; `unbroken` tells whether every position was there."""

    def __init__(self, origin: Origin, stand: Stand | None, memory: Memory, say: Say) -> None:
        self.tip = stand.tip(origin) if stand else start(origin)
        self.begin = self.next_seq = self.tip.size
        self.unbroken = True
        self.heads = dict[RunId, tuple[int, RunHead]]()
        self.newest = dict[RunId, int]()
        self.requests = dict[RequestId, Request]()
        self.latest = dict[str, int]()
        self.nodes = dict[Node, Digest]()
        self.erased = dict[int, int]()
        self.starts = dict[tuple[SubjectId, str], list[tuple[Micros, int]]]()
        self.untold = set[SubjectId]()
        """For whom calls were started under decisions that are archived: which tools is not known here."""
        self.about_keys = list(memory.about_keys)
        self._runs = stand.runs if stand else 0
        self._memory = memory
        self._say = say

    @property
    def stand(self) -> Stand:
        tip, keys = self.tip, tuple(entry.seq for entry in self.about_keys)
        return Stand(tip.size, tip.last, tip.ts, tip.edge, self._runs, keys)

    def follow(self, row: EntryRow) -> Entry | None:
        """Take the next row; None when its bytes are no entry."""
        seq = row.seq
        gap = seq != self.next_seq
        if gap:
            self.unbroken = False
            message = f"entries {self.next_seq} to {seq - 1} are missing"
            self._say(Flaw.ENTRY_MISSING, "entry", self.next_seq, message)
        self.next_seq = seq + 1
        entry = self._read(row)
        if entry is None:
            return None
        self._check_links(row, entry, gap=gap)
        self._check_index(row, entry)
        self._follow_run(row, entry)
        self._gather(entry)
        self._grow(entry.hash, max(entry.ts, self.tip.ts))
        return entry

    def _read(self, row: EntryRow) -> Entry | None:
        if type(row.raw) is not bytes:
            self.unbroken = False
            self._say(Flaw.ENTRY_MALFORMED, "entry.raw", row.seq, "the bytes are gone")
            return None
        try:
            return read_entry(row.raw)
        except InvalidInputError as exc:
            self._say(Flaw.ENTRY_MALFORMED, "entry.raw", row.seq, exc.message)
            self._grow(leaf_hash(row.raw), self.tip.ts)
            return None

    def _check_links(self, row: EntryRow, entry: Entry, *, gap: bool) -> None:
        seq, tip = row.seq, self.tip
        if entry.seq != seq:
            message = f"entry {entry.seq} stands where entry {seq} should"
            self._say(Flaw.ENTRY_MOVED, "entry.seq", seq, message)
        if entry.log != tip.origin:
            message = f"entry belongs to log `{entry.log}`, not `{tip.origin}`"
            self._say(Flaw.LOG_MIXED, "entry.raw", seq, message)
        if entry.ts < tip.ts:
            message = f"time {entry.ts} is before {tip.ts}"
            self._say(Flaw.TIME_REVERSED, "entry.raw", seq, message)
        if (entry.kind is Kind.LOG_CREATED) != (seq == 0):
            message = f"entry {seq} is `{entry.kind}`; a log is created once, by entry 0"
            self._say(Flaw.GENESIS_WRONG, "entry.raw", seq, message)
        if entry.prev != tip.last and not gap:
            # The index holds half of the same hash: it tells which of the two entries was altered.
            altered = seq if seq == 0 or row.prev == tip.last[:LINK_BYTES] else seq - 1
            message = f"entry {seq} does not name the hash of the entry before"
            flaw = Flaw.LINK_BROKEN if seq else Flaw.GENESIS_WRONG
            self._say(flaw, "entry.raw", altered, message)

    def _check_index(self, row: EntryRow, entry: Entry) -> None:
        uid, request = entry_index(entry)
        said = (
            ("prev", entry.prev[:LINK_BYTES], row.prev),
            ("run", entry.run, row.name),
            ("rseq", entry.rseq, row.rseq),
            ("uid", uid, row.uid),
            ("request", request, row.request),
        )
        for column, meant, stored in said:
            if meant != stored:
                message = f"`{column}` is not what the bytes of the entry say"
                self._say(Difference.INDEX_DIFFERS, f"entry.{column}", row.seq, message)

    def _follow_run(self, row: EntryRow, entry: Entry) -> None:
        if entry.run is None:
            return
        number, before = self.heads.get(entry.run, (row.number, None))
        if before is None and entry.rseq == 0:
            self._runs += 1
            if number != self._runs:
                message = f"run `{entry.run}` began as number {self._runs}, and has another"
                self._say(Difference.INDEX_DIFFERS, "run.no", row.seq, message)
        elif before is None and self.begin:
            before = self._memory.run(entry.run)
        meant = (before.rseq, before.last) if before else (0, RUN_START)
        if (entry.rseq, entry.rprev) != meant:
            message = f"entry does not continue run `{entry.run}` where it stood"
            self._say(Flaw.RUN_LINK_BROKEN, "entry.raw", row.seq, message)
        head = advance(before, entry)
        if head is not None:
            self.heads[entry.run], self.newest[entry.run] = (number, head), row.seq

    def _gather(self, entry: Entry) -> None:
        for key in latest_keys(entry):
            self.latest[key] = entry.seq
        if entry.kind in ABOUT_KEYS:
            self.about_keys.append(entry)
        self.nodes |= completed_by(entry.hash, self.tip.edge)
        self._gather_start(entry)
        move = request_of(entry)
        if move is None:
            return
        if move.opens:
            self.requests[move.request] = Request(move.run, entry.seq, open=True)
            return
        old = self.requests.get(move.request) or self._memory.request(move.request, move.run)
        if old is not None:
            self.requests[move.request] = replace(old, open=False)

    def _gather_start(self, entry: Entry) -> None:
        """A start counts for its principal and the tool that its decision, earlier in the run, names."""
        begun = start_of(entry)
        decision = self._memory.entry(begun.decision) if begun else None
        if begun is not None and decision is None and begun.decision < self.begin:
            self.untold.add(begun.principal)
        if begun is None or decision is None or decision.run != entry.run:
            return
        tool = decision.body.get("tool")
        if isinstance(tool, str):
            counted = self.starts.setdefault((begun.principal, tool), [])
            counted.append((entry.ts, entry.seq))

    def _grow(self, leaf: Digest, ts: Micros) -> None:
        tip = self.tip
        self.tip = Tip(tip.origin, tip.size + 1, leaf, ts, tip.edge.append(leaf))


def keys_at(about_keys: Sequence[Entry], size: int) -> list[VerifierKey]:
    """Read which keys the log itself names as signing its head of `size`, as it was when that was signed.

    `about_keys` are its entries about keys, in order. They inform: the caller knows one key of its own.
    """
    history = KeyHistory()
    for entry in about_keys:
        if entry.seq < size:
            deque(
                history.follow(entry.seq, entry.kind, entry.body), maxlen=0
            )  # a verifier judges them
    return [term.key for term in history.terms.values() if term.covers(size)]
