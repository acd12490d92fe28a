"""What happens when somebody's data has to go? One use case: look what there is, record it, remove it.

Order: (1) the entries that name every payload, and the removal of content and salts, are one commit;
(2) the subject's keys are destroyed, so that no copy of the database can be read either; (3) what the
files still hold of deleted pages is written over. After a crash the next opening does (2), and asking
again does (3). Asking twice does nothing twice.

A person's row in the directory (name, roles, token) goes with (1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.holds import Hold, refuse_held
from governance.ids import Micros, RunId, SubjectId
from governance.ledger.erasure import Belonging, Erasure
from governance.ports import Clock, Store, Transaction

__all__ = ["ERASER", "REASON_CHARS_MAX", "Erased", "erase", "survey"]

ERASER: Final = "operator"
"""The role of those who may erase."""
REASON_CHARS_MAX: Final = 2_000
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_RUNS_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Erased:
    """What went, or would go. `entries` record it; `scrubbed` tells whether no file holds it any more."""

    subject: SubjectId
    payloads: int
    runs: int
    person: bool
    entries: tuple[int, ...] = ()
    scrubbed: bool = False


def survey(
    store: Store, clock: Clock, subject: SubjectId, holds: Callable[[], Sequence[Hold]]
) -> Erased:
    """Tell what an erasure would take. Raises as `erase` does when it could not be done now."""
    now = clock()
    return store.write(lambda tx: _survey(tx, subject, now, holds()))


def erase(
    store: Store, clock: Clock, erasure: Erasure, holds: Callable[[], Sequence[Hold]]
) -> Erased:
    """Erase everything that belongs to the subject of `erasure`, for ever.

    `holds` reads the legal holds; it is asked within the transaction, so none that is there by then is
    passed over. Raises RefusedError when who asks may not or content is under hold, ConflictError while it
    is still needed: by a run that has not ended, or by a driver that may still write.
    """
    subject, reason = erasure.subject, erasure.reason
    if not reason.strip() or len(reason) > REASON_CHARS_MAX:
        raise InvalidInputError(
            f"a reason of `{len(reason)}` characters was given",
            hint=f"say in 1 to {REASON_CHARS_MAX} why, without naming the person",
        )
    now = clock()

    def work(tx: Transaction) -> Erased:
        _check_right(tx, erasure.by, subject)
        found = _survey(tx, subject, now, holds())
        if not found.payloads and not found.person:
            return found
        at = max(now, tx.head().ts)
        records = tx.erase(erasure, at)
        tx.people.drop(subject)
        entries = tuple(record.entry.seq for record in records)
        return Erased(subject, found.payloads, found.runs, found.person, entries)

    done = store.write(work)
    return Erased(done.subject, done.payloads, done.runs, done.person, done.entries, store.scrub())


def _check_right(tx: Transaction, by: SubjectId, subject: SubjectId) -> None:
    known = tx.people.by_subject(by)
    if known is None or not known.active or ERASER not in known.roles:
        raise RefusedError(
            f"`{by}` may not erase anybody's data", hint=f"somebody with role {ERASER} may"
        )
    if by == subject:
        raise RefusedError(
            "nobody erases their own data", hint=f"let another {ERASER} do it, and answer for it"
        )


def _survey(tx: Transaction, subject: SubjectId, now: Micros, holds: Sequence[Hold]) -> Erased:
    found = tx.belongings(subject)
    runs = _runs_of(found)
    refuse_held(holds, subject, runs)
    _check_over(tx, runs, subject, max(now, tx.head().ts))
    return Erased(
        subject=subject,
        payloads=sum(len(one.names) for one in found),
        runs=len(runs),
        person=tx.people.by_subject(subject) is not None,
    )


def _runs_of(found: Sequence[Belonging]) -> tuple[RunId, ...]:
    return tuple(dict.fromkeys(one.run for one in found if one.run is not None))


def _check_over(tx: Transaction, runs: Sequence[RunId], subject: SubjectId, now: Micros) -> None:
    """Content that a run still needs is not taken from under it."""
    heads = [head for head in map(tx.run_head, runs) if head is not None]
    still_open = [head.run for head in heads if head.status not in _ENDED]
    if still_open:
        raise ConflictError(
            f"{_named(still_open)} with content of `{subject}` has not ended",
            hint="let it end, or `governance runs cancel AGENT RUN`, then erase",
        )
    leases = [tx.leases.get(run) for run in runs]
    driven = [lease.run for lease in leases if lease is not None and lease.until > now]
    if driven:
        raise ConflictError(
            f"a call of {_named(driven)} may still be under way",
            hint="wait until its driver has let go, then erase",
        )


def _named(runs: Sequence[RunId]) -> str:
    shown = ", ".join(f"`{run}`" for run in runs[:_RUNS_NAMED_MAX])
    more = len(runs) - _RUNS_NAMED_MAX
    return f"run {shown}" + (f" and {more} more" if more > 0 else "")
