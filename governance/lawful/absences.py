"""Which payloads are not at hand? And is that excused: by an erasure, or by nothing.

Content of a run belongs to somebody: a payload of it that a *later* `payload.erased` entry names is
lawfully gone, what needed it cannot be judged any more, and that is information. What stands outside runs,
such as the text of the rules, belongs to nobody who could ask for its erasure. A payload that was withheld
from a bundle leaves what needed it not judged. Any other absence is a failure. Until the end of the log
nobody can tell which it is, so absences are remembered, up to a bound; beyond it nothing is excused.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from governance.lawful.report import Collector, Fault
from governance.ledger.entry import Entry, Kind, Record
from governance.ledger.erasure import erasure_targets
from governance.ledger.report import Status

__all__ = ["Absences"]

ABSENCES_MAX: Final = 100_000
NOTHING: Final[Mapping[str, Sequence[int]]] = {}

_NEEDED: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.POLICY_ACTIVATED: frozenset({"text"}),
    Kind.RUN_STARTED: frozenset({"input"}),
    Kind.INPUT_RECEIVED: frozenset({"message"}),
    Kind.MODEL_RESPONDED: frozenset({"message"}),
    Kind.CALL_DECIDED: frozenset({"args", "input", "message", "working"}),
}
"""The payloads that a judgement may rest on, by the entries that commit to them."""


class Absences:
    """Remembers what could not be judged for want of a payload, by the payload.

    `withheld` are by name the positions of payloads that the signed manifest says were kept back.
    """

    def __init__(self, found: Collector, withheld: Mapping[str, Sequence[int]] = NOTHING) -> None:
        self._found = found
        self._withheld = {name: frozenset(seqs) for name, seqs in withheld.items()}
        self._waiting: dict[tuple[int, str], list[Entry]] = {}
        self._size = 0

    def note(self, record: Record) -> None:
        """Say which payloads of `record` were withheld, if a judgement may rest on them."""
        entry = record.entry
        for name in sorted(_NEEDED.get(entry.kind, frozenset()) & entry.payloads.keys()):
            if name not in record.payloads and self._is_withheld(entry.seq, name):
                message = f"payload `{name}` was withheld, so what rests on it is not judged"
                self._found.add(Fault.PAYLOAD_WITHHELD, entry, message, Status.NOT_CHECKED)

    def lack(self, about: Entry, *needed: tuple[Record, str]) -> bool:
        """Tell whether any payload that judging `about` needs is absent, and remember that."""
        absent = [
            (record.entry.seq, name, record.entry.run is not None)
            for record, name in needed
            if name not in record.payloads
        ]
        for seq, name, of_run in absent:
            if self._is_withheld(seq, name):
                continue  # `note` said so
            if of_run and self._size < ABSENCES_MAX:
                self._size += 1
                self._waiting.setdefault((seq, name), []).append(about)
            else:
                self._miss(about, seq, name)
        return bool(absent)

    def excuse(self, seq: int, body: Mapping[str, Any]) -> None:
        """Take note of the `payload.erased` entry at `seq`."""
        for target, name in erasure_targets(seq, body):
            for about in self._waiting.pop((target, name), ()):
                message = (
                    f"cannot be judged again: payload `{name[:80]}` of entry {target} was erased"
                )
                self._found.add(Fault.NOT_DERIVABLE, about, message, Status.OK)

    def finish(self) -> None:
        for (seq, name), waiting in self._waiting.items():
            for about in waiting:
                self._miss(about, seq, name)

    def _is_withheld(self, seq: int, name: str) -> bool:
        return seq in self._withheld.get(name, ())

    def _miss(self, about: Entry, seq: int, name: str) -> None:
        message = f"cannot be judged again: payload `{name[:80]}` of entry {seq} is missing"
        self._found.add(Fault.NOT_DERIVABLE, about, message)
