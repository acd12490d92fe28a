"""How many calls were started for somebody of late? Recounted over all runs, as the log is read.

Only what can still count is kept: memory grows with the calls of one day, not with the log.
"""

from bisect import bisect_right
from collections import deque
from typing import Final

from governance.approval.model import SECOND
from governance.policy.model import WINDOWS

__all__ = ["SKEW_MAX_S", "Windows"]

SKEW_MAX_S: Final = 60
"""How far the clocks of machines that write to one log may be apart."""

_KEPT: Final = (max(WINDOWS.values()) + SKEW_MAX_S) * SECOND


class Windows:
    """The starts that a window may still reach, by principal and tool, each in the order of the log."""

    def __init__(self) -> None:
        self._starts: dict[str, dict[str, deque[int]]] = {}
        self._order: deque[tuple[int, str, str]] = deque()

    def take(self, principal: str, tool: str, ts: int) -> None:
        """Count a start, and let go of those that no later decision can count."""
        self._order.append((ts, principal, tool))
        self._starts.setdefault(principal, {}).setdefault(tool, deque()).append(ts)
        while self._order[0][0] <= ts - _KEPT:
            self._drop(*self._order.popleft())

    def counts(self, principal: str, now: int) -> dict[str, dict[str, int]]:
        """Count the starts for `principal` in each window before `now`, by tool."""
        by_tool = self._starts.get(principal, {})
        return {
            window: {
                tool: count
                for tool, starts in by_tool.items()
                if (count := len(starts) - bisect_right(starts, now - seconds * SECOND))
            }
            for window, seconds in WINDOWS.items()
        }

    def _drop(self, _: int, principal: str, tool: str) -> None:
        by_tool = self._starts[principal]
        by_tool[tool].popleft()
        if not by_tool[tool]:
            del by_tool[tool]
        if not by_tool:
            del self._starts[principal]
