"""Whose content did an erasure take? Only that of the person it names, or it is a finding.

Whose content lies beside an entry follows from the entry and from the start of its run. So what is absent
is remembered with whom it belongs to, until an erasure names it. An operator who wants one person's content
gone has to say so under that person's name: it cannot go among that of another.

What an erasure names and is not absent, or stands before the part that is at hand, is not asked about here:
the verifier of integrity says of it what there is to say.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from governance.ids import SubjectId
from governance.ledger.absent import Absent
from governance.ledger.entry import Entry, Record
from governance.ledger.erasure import erasure_targets, owners_of

__all__ = ["Erasures"]

OWNERS_MAX: Final = 1_000_000
NOBODY: Final = "nobody"


class Erasures:
    """Remembers whose content is absent. `is_short` once an erasure may have taken what was not remembered,
    because there was more than can be."""

    def __init__(self) -> None:
        self.is_short = False
        self._is_full = False
        self._absent = Absent()
        self._numbers = dict[tuple[SubjectId, ...], int]()
        self._owners = list[tuple[SubjectId, ...]]()

    def note(self, record: Record, started: Entry | None) -> None:
        """Remember what is absent of `record`, whose run began with `started`; None outside runs."""
        entry = record.entry
        absent = [name for name in entry.payloads if name not in record.payloads]
        if not absent:
            return
        owners = _owners(entry, started)
        if owners not in self._numbers and len(self._owners) >= OWNERS_MAX:
            self._is_full = True
            return
        number = self._number(owners)
        for name in absent:
            self._is_full |= not self._absent.add(entry.seq, name, number)

    def misdirected(self, seq: int, body: Mapping[str, Any]) -> tuple[int, str]:
        """Tell how many payloads the `payload.erased` entry at `seq` took that are not its subject's, and
        the first of them in words."""
        count, first, subject = 0, "", body["subject"]
        for target, name in erasure_targets(seq, body):
            number = self._absent.pop(target, name)
            if number is None:
                self.is_short |= self._is_full
            if number is None or subject in self._owners[number]:
                continue
            count += 1
            owners = _named(self._owners[number])
            first = first or f"payload `{name[:80]}` of entry {target}, which belongs to {owners}"
        return count, first

    def _number(self, owners: tuple[SubjectId, ...]) -> int:
        if owners not in self._numbers:
            self._numbers[owners] = len(self._owners)
            self._owners.append(owners)
        return self._numbers[owners]


def _owners(entry: Entry, started: Entry | None) -> tuple[SubjectId, ...]:
    if started is None:
        return owners_of(entry, None, None)
    agent = SubjectId(str(started.body["agent"]))
    return owners_of(entry, started.on_behalf_of or started.actor, agent)


def _named(owners: Sequence[SubjectId]) -> str:
    return " and ".join(f"`{owner}`" for owner in owners) or NOBODY
