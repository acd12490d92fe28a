"""Which entries may leave the log? Those old enough that nobody needs here any more.

They end before the first entry of any run that is open, waits for an answer or has a call under way, or is
under hold; and what is still in force at their end stays: the log's own first entry, its keys, the policies
and the definitions of tools that were last recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from governance.bundle import newest_archive
from governance.bundle.choosing import read_on
from governance.errors import InvalidInputError, RefusedError
from governance.holds import Hold
from governance.ids import CallUid, Micros, RunId
from governance.ledger.archived import Archived, Segment
from governance.ledger.entry import Entry, Kind
from governance.ledger.merkle import TILE_HEIGHT
from governance.ports import Person, Reader

__all__ = ["ARCHIVIST", "FLOOR_DAYS", "Order", "Plan", "check_right", "keys_kept", "survey"]

ARCHIVIST: Final = "operator"
"""The role of those who may archive."""
FLOOR_DAYS: Final = 183
"""No entry leaves the log before it is so old: six months, the least that deployers keep logs for."""

DAY_US: Final = 24 * 60 * 60 * 1_000_000
TILE_ENTRIES: Final = 1 << TILE_HEIGHT

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_OUTCOMES: Final = frozenset(
    {Kind.CALL_FINISHED, Kind.CALL_FAILED, Kind.CALL_UNKNOWN, Kind.CALL_RESOLVED}
)
_PASSING: Final = frozenset(
    {
        Kind.LOG_BEAT,
        Kind.LOG_ARCHIVED,
        Kind.BUNDLE_EXPORTED,
        Kind.ACCESS_REFUSED,
        Kind.PAYLOAD_ERASED,
        Kind.ANCHOR_RECORDED,
    }
)
"""Kinds outside runs that tell what happened; all others say what holds from there on."""
_TOOLS: Final = frozenset({Kind.TOOL_REGISTERED, Kind.TOOL_CHANGED})


@dataclass(frozen=True, slots=True)
class Order:
    """What to archive and where: entries before the moment `before`, into the new `folder`."""

    folder: Path
    before: Micros
    by: Person
    floor_days: int = FLOOR_DAYS


@dataclass(frozen=True, slots=True)
class Plan:
    """Entries `first` to `end - 1` can go, but for `kept`. `pins` say what keeps later ones here."""

    first: int
    end: int
    kept: tuple[int, ...]
    keys: tuple[str, ...]
    pins: tuple[str, ...]
    earlier: tuple[Segment, ...]


def survey(reader: Reader, order: Order, now: Micros, holds: Sequence[Hold]) -> Plan:
    """Find what can go. Raises RefusedError when it is too young, would be all, or `by` may not;
    InvalidInputError when nothing is left to archive."""
    check_right(reader, order.by)
    if order.before > now - order.floor_days * DAY_US:
        raise RefusedError(
            f"entries stay in the log for at least {order.floor_days} days",
            hint="give an earlier moment",
        )
    archived, size = newest_archive(reader), reader.head().size
    first = archived.end if archived else 0
    seen = _Seen(holds)
    for seq in archived.kept if archived else ():
        seen.stand(reader.records(start=seq, limit=1)[0].entry)
    limit = first
    for record in read_on(reader, first, size):
        if record.entry.ts >= order.before:
            break
        seen.take(record.entry)
        limit += 1
    pins = sorted(pin for pin in seen.pins(reader, now) if pin[0] < limit)
    end = min([limit, *(seq for seq, _ in pins)]) // TILE_ENTRIES * TILE_ENTRIES
    reasons = tuple(why for _, why in pins)
    if end <= first:
        raise InvalidInputError(
            f"nothing to archive from entry {first} on: {limit - first} entries are old enough",
            hint=_why_not(reasons),
        )
    if end >= size:
        raise RefusedError(
            f"all {size} entries would leave the log",
            hint="the last ones stay: give an earlier moment",
        )
    kept = seen.standing(end)
    earlier = archived.segments if archived else ()
    return Plan(first, end, tuple(kept), tuple(seen.keys), reasons, earlier)


def _why_not(reasons: Sequence[str]) -> str:
    if reasons:
        return f"first comes {reasons[0]}"
    return f"only whole groups of {TILE_ENTRIES} are archived: wait, or give a later moment"


@dataclass(slots=True)
class _Seen:
    """What one pass over the candidates finds: who needs them here still, and what stays in force."""

    holds: Sequence[Hold]
    keys: list[str] = field(default_factory=list[str])
    _runs: dict[RunId, int] = field(default_factory=dict[RunId, int])
    _calls: set[tuple[RunId, CallUid]] = field(default_factory=set[tuple[RunId, CallUid]])
    _held: dict[str, int] = field(default_factory=dict[str, int])
    _standing: list[Entry] = field(default_factory=list[Entry])

    def take(self, entry: Entry) -> None:
        for hold in self.holds:
            if hold.covers(entry):
                self._held.setdefault(str(hold), entry.seq)
        if entry.run is None:
            self.stand(entry)
            return
        self._runs.setdefault(entry.run, entry.seq)
        call = entry.run, CallUid(str(entry.body.get("uid")))
        if entry.kind is Kind.CALL_STARTED:
            self._calls.add(call)
        elif entry.kind in _OUTCOMES:
            self._calls.discard(call)

    def stand(self, entry: Entry) -> None:
        if entry.kind in _PASSING:
            return
        self._standing.append(entry)
        told = (*entry.body.get("keys", ()), entry.body.get("key"))
        if entry.kind in {Kind.LOG_CREATED, Kind.KEY_ADDED}:
            self.keys += [key for key in told if isinstance(key, str)]

    def standing(self, end: int) -> list[int]:
        """The positions before `end` of what is in force there: rules and tools by their last word only."""
        last = dict[tuple[str, object], int]()
        for entry in self._standing:
            if entry.seq >= end:
                continue
            if entry.kind is Kind.POLICY_ACTIVATED:
                last["policy", None] = entry.seq
            elif entry.kind in _TOOLS:
                last["tool", entry.body.get("tool")] = entry.seq
            else:
                last["entry", entry.seq] = entry.seq
        return sorted(last.values())

    def pins(self, reader: Reader, now: Micros) -> Iterator[tuple[int, str]]:
        """Each entry that must stay, and why."""
        asked = {run for run, _ in reader.open_requests()}
        for run, seq in self._runs.items():
            head = reader.run_head(run)
            if head is None or head.status not in _ENDED:
                yield seq, f"run `{run}`, which has not ended"
            elif run in asked:
                yield seq, f"run `{run}`, with a request that waits for an answer"
        for run, uid in self._calls:
            # Of an ended run only its last driver can still tell what came of a call, while it has it.
            lease = reader.leases.get(run)
            told = any(record.entry.kind in _OUTCOMES for record in reader.about(run, uid))
            if not told and lease is not None and lease.until > now:
                yield self._runs[run], f"call `{uid}`, which is still under way"
        for name, seq in self._held.items():
            yield seq, f"{name}, which is under hold"


def check_right(reader: Reader, by: Person) -> None:
    """Raise RefusedError unless `by` is active and has the right, now."""
    known = reader.people.by_subject(by.subject)
    if known is None or not known.active or ARCHIVIST not in known.roles:
        raise RefusedError(
            f"`{by.subject}` may not archive", hint=f"somebody with role {ARCHIVIST} may"
        )


def keys_kept(reader: Reader, archived: Archived) -> list[str]:
    """The keys that the log has named as its own, in entries that were kept of what it archived."""
    seen = _Seen(())
    for seq in archived.kept:
        seen.stand(reader.records(start=seq, limit=1)[0].entry)
    return seen.keys
