"""Which payloads are not at hand? And is that excused: by an erasure, or by nothing.

A payload that a *later* `payload.erased` entry names is lawfully gone: what needed it cannot be judged
any more, and that is information. Any other absence is a failure. Until the end of the log nobody can
tell which it is, so absences are remembered, up to a bound; beyond it nothing is excused.
"""

from collections.abc import Mapping
from typing import Any, Final

from governance.lawful.report import Collector, Fault
from governance.ledger.entry import Entry, Record
from governance.ledger.report import Status

__all__ = ["Absences"]

ABSENCES_MAX: Final = 100_000


class Absences:
    """Remembers what could not be judged for want of a payload, by the payload."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._waiting: dict[tuple[int, str], list[Entry]] = {}
        self._size = 0

    def lack(self, about: Entry, *needed: tuple[Record, str]) -> bool:
        """Tell whether any payload that judging `about` needs is absent, and remember that."""
        absent = [
            (record.entry.seq, name) for record, name in needed if name not in record.payloads
        ]
        for seq, name in absent:
            if self._size < ABSENCES_MAX:
                self._size += 1
                self._waiting.setdefault((seq, name), []).append(about)
            else:
                self._miss(about, seq, name)
        return bool(absent)

    def excuse(self, seq: int, body: Mapping[str, Any]) -> None:
        """Take note of the `payload.erased` entry at `seq`."""
        target, name = body.get("target"), body.get("name")
        if type(target) is not int or type(name) is not str or target >= seq:
            return
        for about in self._waiting.pop((target, name), ()):
            message = f"cannot be judged again: payload `{name[:80]}` of entry {target} was erased"
            self._found.add(Fault.NOT_DERIVABLE, about, message, Status.OK)

    def finish(self) -> None:
        for (seq, name), waiting in self._waiting.items():
            for about in waiting:
                self._miss(about, seq, name)

    def _miss(self, about: Entry, seq: int, name: str) -> None:
        message = f"cannot be judged again: payload `{name[:80]}` of entry {seq} is missing"
        self._found.add(Fault.NOT_DERIVABLE, about, message)
