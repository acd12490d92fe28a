"""Who goes on with a run once its answers are in, or its driver died? A thread that looks and resumes.

Looking is cheap: one read lists the heads of open runs, and a run is replayed only when its head has
moved, or a clock has run out, since it was last looked at. Each run that can go on is driven on a thread
of its own, so that a slow tool holds up nobody else; whatever a run raises stays with that run.

Several workers may look at one ledger: the lease keeps them apart, and the epoch fences.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from agent.durable import DurableAgent
from agent.journal import replay
from agent.messages import AIMessage, Message
from agent.models.port import Model
from agent.state import Held, RunState, runnable
from governance.errors import ConflictError, GovernanceError, TamperedError
from governance.ids import Micros, RunId
from governance.ports import Reader, RunHead
from governance.queue import expire

__all__ = ["Failure", "Worker", "backoff_s"]

DRIVES_MAX: Final = 8
"""Runs driven side by side."""
BACKOFF_FIRST_S: Final = 1.0
BACKOFF_MAX_S: Final = 300.0
DRAIN_S: Final = 30.0
"""How long `stop` waits for a turn to end. What is still in a step then is left as a crash leaves it."""
SECOND: Final = 1_000_000
NEVER: Final = Micros(2**62)
OPEN: Final = frozenset({"running", "suspended"})


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that could not go on, and when it is tried again."""

    run: RunId
    text: str
    again_in_s: float


Report: TypeAlias = Callable[[Failure], None]


def log_failure(failure: Failure) -> None:
    logging.getLogger(__name__).warning(
        "run %s: %s; again in %.0f s", failure.run, failure.text, failure.again_in_s
    )


def backoff_s(failures: int) -> float:
    """Tell how long to wait after so many failures in a row: twice as long each time."""
    return min(BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 16), BACKOFF_MAX_S)


@dataclass(slots=True)
class _Watch:
    """What is remembered of a run between looks.

    `rseq` is where its head stood at the last look that found nothing to do, `wake` the next moment at
    which there may be something although nothing was written.
    """

    rseq: int = -1
    wake: Micros = NEVER
    failures: int = 0
    not_before: Micros = Micros(0)  # noqa: RUF009  # a NewType call is the value itself
    drive: threading.Thread | None = None

    def due(self, head: RunHead, now: Micros) -> bool:
        if self.drive is not None or now < self.not_before:
            return False
        return head.status == "running" or head.rseq != self.rseq or now > self.wake


@dataclass(frozen=True, slots=True)
class _UntilStopped:
    """A model that begins no new turn once the worker stops.

    The run then stands before its next answer, held by nobody: whoever takes it up asks the model again.
    """

    model: Model
    stopping: threading.Event

    @property
    def name(self) -> str:
        return self.model.name

    async def respond(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AIMessage:
        if self.stopping.is_set():
            raise asyncio.CancelledError
        return await self.model.respond(messages, tools)


@dataclass(slots=True)
class Worker:
    """Drives the open runs of `agent` while a `with` block lasts, or from `start` to `stop`."""

    agent: DurableAgent
    pause_s: float = 0.5
    report: Report = log_failure
    _watches: dict[RunId, _Watch] = field(default_factory=dict[RunId, _Watch], init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.agent = self.agent.through(lambda model: _UntilStopped(model, self._stopping))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take up no more runs, and wait for those in hand to finish their turn."""
        self._stopping.set()
        end = time.monotonic() + DRAIN_S
        drives = [watch.drive for watch in tuple(self._watches.values())]
        for thread in (self._thread, *drives):
            if thread is not None:
                thread.join(max(0.0, end - time.monotonic()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def sweep(self) -> int:
        """Look once at every open run, and take up those that can go on; returns how many."""
        governance = self.agent.governance
        expire(governance.store, governance.clock)
        now = governance.clock()
        heads = governance.store.read(self._idle)
        self._forget({head.run for head in heads}, now)
        taken = 0
        for head in heads:
            watch = self._watches.setdefault(head.run, _Watch())
            if self._in_hand() >= DRIVES_MAX or self._stopping.is_set():
                break
            if watch.due(head, now) and self._look(head, watch, now):
                taken += 1
        return taken

    def _work(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self.sweep()
                failures = 0
            except Exception as exc:  # noqa: BLE001  # a store that cannot be read now is tried again
                failures += 1
                self.report(Failure(RunId("all"), _text(exc), backoff_s(failures)))
            self._stopping.wait(backoff_s(failures) if failures else self.pause_s)

    def _idle(self, reader: Reader) -> list[RunHead]:
        """List this agent's open runs that no live driver holds."""
        now = self.agent.governance.clock()
        heads = [h for h in reader.runs(status=OPEN) if h.agent == self.agent.name]
        leases = {head.run: reader.leases.get(head.run) for head in heads}
        return [h for h in heads if (lease := leases[h.run]) is None or lease.until <= now]

    def _look(self, head: RunHead, watch: _Watch, now: Micros) -> bool:
        """Replay a run; drive it if it can go on, else remember what would have to change."""
        try:
            records = self.agent.governance.store.read(lambda r: r.run_records(head.run))
            state = replay(head.run, records)
        except GovernanceError as exc:
            self._failed(head.run, watch, exc)
            return False
        if not runnable(state, now):
            watch.rseq, watch.wake = head.rseq, _deadline(state)
            return False
        watch.drive = threading.Thread(
            target=self._drive, args=(head.run, watch), name=f"drive-{head.run}", daemon=True
        )
        watch.drive.start()
        return True

    def _drive(self, run: RunId, watch: _Watch) -> None:
        try:
            self.agent.resume(run, wait=False)
            watch.failures = 0
        except (ConflictError, asyncio.CancelledError):
            pass  # somebody else has it, or will have it: we stop
        except Exception as exc:  # noqa: BLE001  # a run's failure is its own
            self._failed(run, watch, exc)
        finally:
            watch.rseq, watch.drive = -1, None

    def _failed(self, run: RunId, watch: _Watch, exc: Exception) -> None:
        watch.failures += 1
        # What contradicts itself does not mend itself; it is still looked at, in case a person mends it.
        wait = BACKOFF_MAX_S if isinstance(exc, TamperedError) else backoff_s(watch.failures)
        watch.not_before = Micros(self.agent.governance.clock() + int(wait * SECOND))
        self.report(Failure(run, _text(exc), wait))

    def _in_hand(self) -> int:
        return sum(watch.drive is not None for watch in self._watches.values())

    def _forget(self, open_runs: set[RunId], now: Micros) -> None:
        for run, watch in tuple(self._watches.items()):
            if run not in open_runs and watch.drive is None and watch.not_before <= now:
                del self._watches[run]


def _deadline(state: RunState) -> Micros:
    """Tell when the first open request runs out."""
    waits = (c.decide_by for c in state.calls if isinstance(c, Held) and c.request is not None)
    return min(waits, default=NEVER)


def _text(exc: Exception) -> str:
    return str(exc) if isinstance(exc, GovernanceError) else f"{type(exc).__name__}: {exc}"
