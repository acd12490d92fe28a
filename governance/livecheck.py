"""Is the log still what was recorded, and how old is that answer? The check that runs beside the writers.

A check goes on from where the last one ended; once a day, and after every finding, it begins at entry 0.
What it finds is told at once, at error level, and stays the answer until a whole check finds nothing: what
was kept of earlier checks is forgotten with the first finding.

It stops nobody. An alarm that could stop every agent would be a switch for whoever can flip one byte, and
what happens during an attack is worth recording. Whatever the gate reads it compares with the bytes by
itself, and refuses to decide on what does not hold; a person decides whether all is to stop.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from governance.errors import GovernanceError
from governance.ids import Micros
from governance.ports import Clock
from governance.store.inspection import Inspection, Subject, inspect
from governance.store.stands import KeptStand, Verified

__all__ = ["Health", "LiveCheck", "Outcome", "check", "tell"]

WHOLE_EVERY_S: Final = 24 * 3600
"""How long what lies before the last stand is believed unseen."""
OVERDUE_AFTER: Final = 3
"""A check that did not move on for so many intervals is overdue."""
REST: Final = 1.0
"""How long it rests after each slice, in times of what the slice took: others work meanwhile."""
LOGGED_MAX: Final = 20
"""So many findings of one check are logged one by one."""

_SECOND: Final = 1_000_000
_LOG: Final = logging.getLogger("governance.check")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check that came to its end, at `at`."""

    inspection: Inspection
    at: Micros
    took_us: int
    whole: bool
    kept_refused: str = ""
    """Why what was kept of the last check was not believed; then everything was looked at."""

    @property
    def ok(self) -> bool:
        return self.inspection.ok


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of the log now. Before the first check has ended nothing is: `outcome` is None."""

    outcome: Outcome | None
    age_us: int
    is_overdue: bool
    failure: str = ""
    """Why the last attempt did not come to an end."""

    @property
    def ok(self) -> bool:
        return not self.is_overdue and (self.outcome is None or self.outcome.ok)


def check(
    subject: Subject,
    kept: KeptStand,
    clock: Clock,
    *,
    whole: bool = False,
    pause: Callable[[], None] = lambda: None,
) -> Outcome:
    """Check once, and keep how far the log was verified.

    Raises UnavailableError when the files cannot be read or written now.
    """
    began = clock()
    raw, verified, refused = kept.read()
    due = verified is None or not 0 <= began - verified.whole_at < WHOLE_EVERY_S * _SECOND
    stand = None if whole or due or verified is None else verified.stand
    inspection = inspect(subject, stand, pause)
    at = clock()
    was_whole = inspection.begin == 0
    if not inspection.ok:
        kept.drop()
    elif inspection.stand is not None:
        whole_at = began if was_whole or verified is None else verified.whole_at
        kept.replace(Verified(subject.origin, inspection.stand, at, whole_at), was=raw)
    return Outcome(inspection, at, max(0, at - began), was_whole, refused or inspection.refused)


class LiveCheck:
    """Checks every `every_s` seconds, in a thread of its own, for as long as it is entered."""

    def __init__(self, subject: Subject, kept: KeptStand, clock: Clock, every_s: float) -> None:
        self._subject = subject
        self._kept = kept
        self._clock = clock
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="live-check", daemon=True)
        self._outcome: Outcome | None = None
        self._failure = ""
        self._began = clock()
        self._ended_at = self._moved_at = self._rested_at = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End between two slices. A check that is cut short says nothing."""
        self._ending.set()
        self._thread.join()

    def health(self) -> Health:
        outcome, failure = self._outcome, self._failure
        alive_at = self._ended_at if failure else max(self._ended_at, self._moved_at)
        return Health(
            outcome,
            max(0, self._clock() - (outcome.at if outcome else self._began)),
            time.monotonic() - alive_at > OVERDUE_AFTER * self._every_s,
            failure,
        )

    def _serve(self) -> None:
        while not self._ending.is_set():
            self._check()
            self._ending.wait(self._every_s)

    def _check(self) -> None:
        self._rested_at = time.monotonic()
        try:
            outcome = check(self._subject, self._kept, self._clock, pause=self._rest)
        except _StoppedError:
            return
        except GovernanceError as exc:
            self._fail(str(exc))
        except Exception as exc:  # noqa: BLE001 - the alarm must not die of what it watches
            # Whatever it is, the next check comes; until one ends, this one's age is what alarms.
            _LOG.exception("live check failed")
            self._fail(f"live check failed with `{type(exc).__name__}`")
        else:
            self._ended_at = time.monotonic()
            self._outcome, self._failure = outcome, ""
            tell(outcome)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        _LOG.error("the log could not be checked: %s", reason)

    def _rest(self) -> None:
        """Let others work for as long as the last slice took, so that no append waits for a check."""
        now = time.monotonic()
        self._moved_at = now
        if self._ending.wait(REST * (now - self._rested_at)):
            raise _StoppedError
        self._rested_at = time.monotonic()


class _StoppedError(Exception):
    """The program ends; so does the check."""


def tell(outcome: Outcome) -> None:
    """Say what a check found to whoever reads the program's log. Silence means that nothing was found."""
    if outcome.kept_refused:
        _LOG.warning("everything was checked again: %s", outcome.kept_refused)
    found = outcome.inspection
    if found.ok:
        return
    for item in found.findings[:LOGGED_MAX]:
        _LOG.error("%s: %s: %s; %s", item.kind, item.where, item.message, item.next_step)
    _LOG.error(
        "the log does not hold: %d findings; run `governance check --full` to see all", found.count
    )
