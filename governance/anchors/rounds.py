"""What is due to be anchored, and what came of it? One round over all sinks; every success is an entry.

A sink is due when an entry other than an anchor's own came after the head it anchored last: else each
anchor would call for the next one. No transaction waits for a sink. Order of what happens to one sink:

1. the head is signed, and durable;
2. the sink has it, and what it gave back is verified;
3. one commit: `anchor.recorded`, and a witness's line under the checkpoint.

A crash between 2 and 3 loses our note of it; the next round anchors the same or a later head again.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from governance import proofs
from governance.anchors.settings import Settings
from governance.anchors.sink import Anchored, Sink, SinkKind, Target
from governance.anchors.troubles import Trouble, Troubles
from governance.bundle import newest_archive
from governance.canonical import JSON, thaw
from governance.errors import GovernanceError
from governance.ids import Digest, Micros, SubjectId
from governance.ledger.checkpoint import note_text, parse_checkpoint
from governance.ledger.entry import Draft, Kind
from governance.ports import Clock, Reader, Store, Transaction

__all__ = ["Outcome", "State", "anchor", "settled", "stamps", "state_of"]

ACTOR: Final = SubjectId("system:anchor")

_BATCH: Final = 256
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class State:
    """How far one sink is behind. `since` is the time of the first entry that waits for it, if any does."""

    size: int
    at: Micros | None
    since: Micros | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one sink in a round: `size` is what it has anchored now, `error` why no more."""

    sink: str
    size: int
    error: str = ""


def state_of(reader: Reader, sink: str) -> State:
    """Tell how far `sink` is, by the log's own record."""
    record = reader.latest((Kind.ANCHOR_RECORDED,), sink=sink)
    size = int(record.entry.body["size"]) if record else 0
    waiting = next(_waiting(reader, size), None)
    return State(size, record.entry.ts if record else None, waiting)


def _waiting(reader: Reader, start: int) -> Iterator[Micros]:
    """The times of entries from `start` on that are no anchors."""
    size, archived = reader.head().size, newest_archive(reader)
    for first in range(max(start, archived.end if archived else 0), size, _BATCH):
        for record in reader.records(start=first, limit=_BATCH):
            if record.entry.kind is not Kind.ANCHOR_RECORDED:
                yield record.entry.ts


def settled(reader: Reader, settings: Settings) -> int | None:
    """The size of the newest head that a sink holds, if nothing but anchors has come after it."""
    size = max((state_of(reader, sink.name).size for sink in settings.sinks), default=0)
    return size if size and next(_waiting(reader, size), None) is None else None


def stamps(reader: Reader, settings: Settings) -> dict[tuple[int, str], bytes]:
    """The newest stamp of each authority, by size and sink."""
    found = dict[tuple[int, str], bytes]()
    for sink in settings.sinks:
        record = reader.latest((Kind.ANCHOR_RECORDED,), sink=sink.name)
        if sink.kind is SinkKind.STAMP and record and "evidence" in record.payloads:
            evidence = thaw(record.payloads["evidence"].content)
            found[int(record.entry.body["size"]), sink.name] = b64decode(evidence["stamp"])
    return found


def anchor(
    store: Store, settings: Settings, troubles: Troubles, clock: Clock, *, patient: bool = True
) -> Sequence[Outcome]:
    """Anchor the head in every sink that is due, and beat when nothing has happened for long.

    `patient` leaves out sinks that failed a short while ago. Raises ConflictError while another process
    anchors, and what the store raises; what goes wrong with a sink is an outcome, and remembered.
    """
    with troubles.alone():
        now, known = clock(), dict(troubles.read())
        _beat(store, settings, now)
        due = [sink for sink in settings.sinks if _is_due(store, sink)]
        tried = [s for s in due if not (patient and s.name in known and known[s.name].again > now)]
        outcomes = _try(store, tried, clock) if tried else []
        for outcome in outcomes:
            if outcome.error:
                known[outcome.sink] = Trouble.after(known.get(outcome.sink), outcome.error, now)
            else:
                known.pop(outcome.sink, None)
        configured = {sink.name for sink in settings.sinks}
        troubles.write({name: trouble for name, trouble in known.items() if name in configured})
        return outcomes


def _beat(store: Store, settings: Settings, now: Micros) -> None:
    """Say that nothing happened, so that silence is somebody's doing."""

    def work(tx: Transaction) -> None:
        if now - tx.head().ts >= settings.beat_s * _MICROS:
            tx.append(Draft(Kind.LOG_BEAT, ACTOR, {"every_s": settings.beat_s}), now)

    if now - store.read(lambda reader: reader.head().ts) >= settings.beat_s * _MICROS:
        store.write(work)


def _is_due(store: Store, sink: Sink) -> bool:
    return store.read(lambda reader: state_of(reader, sink.name).since is not None)


def _try(store: Store, sinks: Sequence[Sink], clock: Clock) -> list[Outcome]:
    size, note = store.checkpoint()
    return [_anchor(store, sink, (size, note), clock) for sink in sinks]


def _anchor(store: Store, sink: Sink, signed: tuple[int, str], clock: Clock) -> Outcome:
    size, note = signed
    last = store.read(lambda reader: state_of(reader, sink.name).size)

    def prove(old: int) -> Sequence[Digest]:
        return store.read(lambda reader: proofs.consistency(reader, old, size))

    try:
        given = sink.anchor(Target(parse_checkpoint(note_text(note)), note, last, prove))
    except GovernanceError as exc:
        return Outcome(sink.name, last, str(exc))
    at = clock()
    store.write(lambda tx: _record(tx, sink, size, given, at))
    return Outcome(sink.name, size)


def _record(tx: Transaction, sink: Sink, size: int, given: Anchored, at: Micros) -> None:
    body: dict[str, JSON] = {
        "sink": sink.name,
        "kind": sink.kind.value,
        "size": size,
        "digest": given.digest.hex(),
    }
    if given.at is not None:
        body["at"] = given.at
    if given.lines:
        tx.cosign(size, given.lines)
    tx.append(Draft(Kind.ANCHOR_RECORDED, ACTOR, body, {"evidence": dict(given.evidence)}), at)
