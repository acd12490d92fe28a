"""Who anchors while the queue is served? One thread, a round every so often, and never in anybody's way."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from governance.anchors.rounds import anchor
from governance.anchors.settings import Settings
from governance.anchors.troubles import Troubles
from governance.errors import ConflictError, GovernanceError
from governance.ports import Clock, Store

__all__ = ["Schedule"]

_LEAVE_WITHIN_S: Final = 15.0


class Schedule:
    """Anchors from entering to leaving. `report` is told, in this thread, of everything that fails."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        troubles: Troubles,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._store, self._settings, self._troubles = store, settings, troubles
        self._clock, self._report = clock, report
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="anchors", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What is under way is waited for: its entry should not be lost for want of a second. But a sink
        # that hangs holds nobody back: what it anchored unrecorded is anchored again.
        self._leaving.set()
        self._thread.join(_LEAVE_WITHIN_S)

    def _serve(self) -> None:
        while True:
            try:
                for outcome in anchor(self._store, self._settings, self._troubles, self._clock):
                    if outcome.error:
                        self._report(f"anchor {outcome.sink}: {outcome.error}")
            except ConflictError:
                pass  # whoever it is does what we would have done
            except GovernanceError as exc:
                self._report(f"anchors: {exc}")
            if self._leaving.wait(self._settings.every_s):
                return
