"""Which payloads are not at hand? And is that excused: by an erasure, or by nothing.

Content of a run belongs to somebody: a payload of it that a *later* `payload.erased` entry names is
lawfully gone, what needed it cannot be judged any more, and that is information. What stands outside runs,
such as the text of the rules, belongs to nobody who could ask for its erasure. A payload that was withheld
from a bundle leaves what needed it not judged. Any other absence is a failure. Until the end of the log
nobody can tell which it is, so absences and erasures are remembered, each in a few bytes, up to a large
bound; beyond it nothing is excused.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from governance.ids import RunId
from governance.lawful.report import About, Collector, Fault
from governance.ledger.entry import Entry, Kind, Record
from governance.ledger.erasure import erasure_targets
from governance.ledger.report import Status

__all__ = ["Absences"]

WAITING_MAX: Final = 4_000_000
ERASED_MAX: Final = 4_000_000
_SEQ_BITS: Final = 32
"""An erasure is kept as one number: whose payload, by which entry. Four billion entries are told apart."""
NAMES_MAX: Final = 1_024
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
        self._waiting = _Waiting()
        self._erased = dict[str, "array[int]"]()
        self._erasures = 0

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
            if not (of_run and self._waiting.add(seq, name, about)):
                self._miss(about, seq, name)
        return bool(absent)

    def excuse(self, seq: int, body: Mapping[str, Any]) -> None:
        """Take note of the `payload.erased` entry at `seq`."""
        for target, name in erasure_targets(seq, body):
            known = name in self._erased or len(self._erased) < NAMES_MAX
            if known and 0 <= target < seq < 1 << _SEQ_BITS and self._erasures < ERASED_MAX:
                self._erasures += 1
                self._erased.setdefault(name, array("Q")).append(target << _SEQ_BITS | seq)

    def finish(self) -> None:
        """Judge what was absent, now that every erasure is known."""
        erased = {name: array("Q", sorted(pairs)) for name, pairs in self._erased.items()}
        for seq, name, about in self._waiting:
            if _erased_after(about.seq, seq, erased.get(name, _NONE)):
                message = f"cannot be judged again: payload `{name[:80]}` of entry {seq} was erased"
                self._found.add(Fault.NOT_DERIVABLE, about, message, Status.OK)
            else:
                self._miss(about, seq, name)

    def _is_withheld(self, seq: int, name: str) -> bool:
        return seq in self._withheld.get(name, ())

    def _miss(self, about: Entry | About, seq: int, name: str) -> None:
        message = f"cannot be judged again: payload `{name[:80]}` of entry {seq} is missing"
        self._found.add(Fault.NOT_DERIVABLE, about, message)


def _erased_after(about: int, target: int, erased: "array[int]") -> bool:
    """Tell whether the payload of entry `target` was erased by an entry that comes after entry `about`."""
    at = bisect_left(erased, target + 1 << _SEQ_BITS)  # behind its last erasure
    by = erased[at - 1] if at else 0
    return by >> _SEQ_BITS == target and by & (1 << _SEQ_BITS) - 1 > about


class _Waiting:
    """What could not be judged, and for want of which payload: columns, 22 bytes for each."""

    def __init__(self) -> None:
        self._seqs, self._names = array("Q"), array("H")
        self._abouts, self._runs = array("Q"), array("I")
        self._numbers = dict[str, int]()
        self._run_numbers = dict[RunId | None, int]()

    def add(self, seq: int, name: str, about: Entry) -> bool:
        """Remember that `about` needs payload `name` of entry `seq`; False when there is no room."""
        if len(self._seqs) >= WAITING_MAX:
            return False
        if name not in self._numbers and len(self._numbers) >= NAMES_MAX:
            return False
        self._seqs.append(seq)
        self._names.append(self._numbers.setdefault(name, len(self._numbers)))
        self._abouts.append(about.seq)
        self._runs.append(self._run_numbers.setdefault(about.run, len(self._run_numbers)))
        return True

    def __iter__(self) -> Iterator[tuple[int, str, About]]:
        names, runs = list(self._numbers), list(self._run_numbers)
        rows = zip(self._seqs, self._names, self._abouts, self._runs, strict=True)
        return ((seq, names[name], About(about, runs[run])) for seq, name, about, run in rows)


_NONE: Final = array("Q")
