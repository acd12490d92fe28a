"""How do stored rows become domain values again? Nothing is believed that the bytes do not say.

Each record read is re-hashed and compared with its index columns and with what its successor names as
`prev`; sequences are checked for gaps and links. Every difference is a `TamperedError` that names the
first bad `seq`. Of payloads see `content`.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from governance.canonical import payload_bytes, thaw
from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest, Origin, RunId
from governance.ledger.entry import Entry, read_entry
from governance.ports import Person, RunHead

__all__ = [
    "LINK_BYTES",
    "Row",
    "check_run",
    "check_sequence",
    "entry_index",
    "missing",
    "person_row",
    "run_row",
    "short_uid",
    "to_entry",
    "to_person",
    "to_run_head",
]

Row: TypeAlias = tuple[Any, ...]

LINK_BYTES: Final = 16
"""How much of `prev` the index holds. The bytes hold all of it; 128 bits cannot be forged either."""

_HINT: Final = "stop writing, export a bundle and run `governance verify` on it"


def entry_index(entry: Entry) -> tuple[str | None, str | None]:
    """The keys an entry is found by: its call `uid`, without the run it starts with, and `request`."""
    uid, request = entry.body.get("uid"), entry.body.get("request")
    return (
        short_uid(entry.run, uid) if isinstance(uid, str) else None,
        request if isinstance(request, str) else None,
    )


def short_uid(run: RunId | None, uid: str) -> str:
    """Store `run-7/1.0` as `/1.0`. The slash stays, so no other key can look like it."""
    return uid[len(run) :] if run is not None and uid.startswith(f"{run}/") else uid


def to_entry(row: Row, origin: Origin, newest: tuple[int, Digest]) -> Entry:
    """Read an entry. `newest` is (size, last) of the log at this moment.

    The row is seq, prev, run id, rseq, uid, request, raw, and the `prev` of the successor: the recorded
    leaf hash of this entry.
    """
    seq, prev, run, rseq, uid, request, raw, successor_prev = row
    size, last = newest
    try:
        entry = read_entry(raw)
    except InvalidInputError as exc:
        raise TamperedError(f"entry {seq} cannot be read", seq=seq, hint=_HINT) from exc
    if seq + 1 < size and successor_prev is None:
        raise missing(seq + 1)
    linked = entry.hash[:LINK_BYTES] == successor_prev if seq + 1 < size else entry.hash == last
    if not linked:
        raise TamperedError(f"entry {seq} does not have its recorded hash", seq=seq, hint=_HINT)
    said = (
        entry.seq,
        entry.prev[:LINK_BYTES],
        entry.run,
        entry.rseq,
        *entry_index(entry),
        entry.log,
    )
    if said != (seq, prev, run, rseq, uid, request, origin):
        raise TamperedError(f"entry {seq} differs from its index", seq=seq, hint=_HINT)
    return entry


def missing(seq: int) -> TamperedError:
    return TamperedError(f"entry {seq} is missing", seq=seq, hint=_HINT)


def check_sequence(entries: Sequence[Entry], start: int, stop: int) -> None:
    """Raise TamperedError unless `entries` are exactly those from `start` to before `stop`, linked."""
    before: Entry | None = None
    for seq in range(start, stop):
        if seq - start >= len(entries) or entries[seq - start].seq != seq:
            raise missing(seq)
        entry = entries[seq - start]
        if before is not None and entry.prev != before.hash:
            raise TamperedError(f"entry {seq} does not link to the one before", seq=seq, hint=_HINT)
        before = entry


def check_run(entries: Sequence[Entry], start: int, head: RunHead) -> None:
    """Raise TamperedError unless `entries` are all of the run from position `start` on, linked."""
    if len(entries) != head.rseq - start:
        raise TamperedError(
            f"run `{head.run}` has {len(entries)} of {head.rseq - start} entries from {start} on",
            seq=_gap(entries, start),
            hint=_HINT,
        )
    before: Entry | None = None
    for position, entry in enumerate(entries, start):
        linked = before is None or entry.rprev == before.hash
        if entry.rseq != position or not linked:
            raise TamperedError(
                f"entry {entry.seq} does not link to the one before in run `{head.run}`",
                seq=entry.seq,
                hint=_HINT,
            )
        before = entry
    if before is not None and before.hash != head.last:
        raise TamperedError(
            f"run `{head.run}` ends at entry {before.seq}, which is not its head",
            seq=before.seq,
            hint=_HINT,
        )


def to_run_head(row: Row) -> RunHead:
    run, agent, principal, rseq, last, epoch, status, started, updated = row
    return RunHead(run, agent, principal, rseq, last, epoch, status, started, updated)


def run_row(head: RunHead) -> Row:
    return (
        head.run,
        head.agent,
        head.principal,
        head.rseq,
        head.last,
        head.epoch,
        head.status,
        head.started,
        head.updated,
    )


def to_person(row: Row) -> Person:
    subject, name, roles, active = row
    return Person(subject, name, frozenset(thaw(roles)), active=bool(active))


def person_row(person: Person) -> Row:
    roles = payload_bytes(sorted(person.roles)).decode()
    return (person.subject, person.name, roles, person.active)


def _gap(entries: Sequence[Entry], start: int) -> int | None:
    """The entry after the first position that is missing, where there is one."""
    return next((e.seq for place, e in enumerate(entries, start) if e.rseq != place), None)
