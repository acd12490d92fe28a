"""What becomes of a call that was started and never heard of again? A person says, and it is recorded.

A call without an outcome may have had its effect. Nobody repeats it on a guess: either it was declared
idempotent, or somebody who can look into the other system says what happened there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governance.canonical import JSON
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.ids import CallUid, RunId
from governance.ledger.entry import Draft, Kind, Record
from governance.ports import Clock, Person, Store, Transaction

__all__ = ["RESOLVERS", "How", "Resolution", "resolve"]

RESOLVERS: Final = frozenset({"operator", "approver"})
"""Who may say what happened: anybody with one of these roles."""
NOTE_CHARS_MAX: Final = 4_000
_OUTCOMES: Final = frozenset(
    {Kind.CALL_STARTED, Kind.CALL_FINISHED, Kind.CALL_FAILED, Kind.CALL_UNKNOWN, Kind.CALL_RESOLVED}
)


class How(StrEnum):
    """`happened`: the effect took place, its result is given. `again`: it did not; decide and start
    anew. `abandoned`: nobody can tell; the model is told so."""

    HAPPENED = "happened"
    AGAIN = "again"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Resolution:
    how: How
    result: JSON = None
    note: str | None = None

    def __post_init__(self) -> None:
        if self.note is not None and len(self.note) > NOTE_CHARS_MAX:
            raise InvalidInputError(
                f"note of `{len(self.note)}` characters exceeds {NOTE_CHARS_MAX}",
                hint="say it shorter",
            )


def resolve(
    store: Store, clock: Clock, call: tuple[RunId, CallUid], resolution: Resolution, by: Person
) -> Record:
    """Record what `by` says became of `call`.

    Raises ConflictError when its outcome is known, RefusedError when `by` may not say.
    """
    now = clock()

    def work(tx: Transaction) -> Record:
        run, uid = call
        records = tx.about(run, uid)
        attempt = _unknown_attempt(records, uid)
        _check_right(tx, records, by)
        body: dict[str, JSON] = {"uid": uid, "attempt": attempt, "how": resolution.how.value}
        payloads: dict[str, JSON] = {}
        if resolution.note is not None:
            payloads["note"] = resolution.note
        if resolution.how is How.HAPPENED:
            payloads["result"] = {"content": resolution.result}
        entry = Draft(Kind.CALL_RESOLVED, by.subject, body, payloads, run)
        return tx.append(entry, max(now, tx.head().ts))

    return store.write(work)


def _unknown_attempt(records: Sequence[Record], uid: CallUid) -> int:
    latest = next((r.entry for r in reversed(records) if r.entry.kind in _OUTCOMES), None)
    if latest is None or latest.kind is not Kind.CALL_UNKNOWN:
        raise ConflictError(
            f"the outcome of call `{uid}` is not unknown",
            hint="see the run with `governance runs show`",
        )
    attempt: int = latest.body["attempt"]
    return attempt


def _check_right(tx: Transaction, records: Sequence[Record], by: Person) -> None:
    known = tx.people.by_subject(by.subject)
    if known is None or not known.active or not known.roles & RESOLVERS:
        raise RefusedError(
            f"`{by.subject}` may not say what became of a call",
            hint=f"somebody with role {' or '.join(sorted(RESOLVERS))} may",
        )
    started = records[-1].entry
    if by.subject in (started.actor, started.on_behalf_of):
        raise RefusedError(
            f"`{by.subject}` acts in this run", hint="let somebody else say what happened"
        )
