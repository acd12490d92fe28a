"""Whether each entry follows from the one before it, in the log and in its run.

A `Chain` walks entries in the order they stand and says at each one what does not fit: position,
previous hash, time, log, run. It links on the hash *computed* from the bytes, never on a stored one, and
after a break it picks up where the log itself goes on, so that one fault is not reported for ever.

Memory grows with the number of runs (some 250 bytes each), not of entries: a run that starts again
under an old name has to be noticed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import le
from typing import Any, Final, NamedTuple

from governance.errors import InvalidInputError
from governance.ids import Digest, parse_run_id
from governance.ledger.entry import RUN_START, Kind, genesis
from governance.ledger.report import Flaw
from governance.ledger.screen import Block

__all__ = ["Break", "Chain"]

_RUN_START: Final = RUN_START.hex()
_CREATED: Final = Kind.LOG_CREATED.value
_ENDS: Final = frozenset({"run.completed", "run.failed", "run.cancelled"})
_TURNS: Final = _ENDS | {"run.started", "run.resumed", "run.suspended"}


class Break(NamedTuple):
    """One thing that does not fit at the entry just followed."""

    flaw: Flaw
    message: str


@dataclass(slots=True)
class _Run:
    rseq: int
    rprev: str
    started: int
    is_open: bool = True


class Chain:
    """The links of one log. `first` is the position it began with, `head` the last hash seen.

    With `begun`, runs may have begun before the entries did: the first one seen of a run is believed.
    """

    def __init__(self, *, begun: bool = False) -> None:
        self.log: str | None = None
        self.first: int | None = None
        self.head: str | None = None
        self._seq = 0
        self._ts = 0
        self._runs = dict[str, _Run]()
        self._begun = begun

    @property
    def next_seq(self) -> int:
        """The position expected next."""
        return self._seq

    @property
    def runs(self) -> int:
        return len(self._runs)

    def open_runs(self) -> Iterator[tuple[str, int]]:
        """Each run without an ending, and where it started."""
        return ((name, run.started) for name, run in self._runs.items() if run.is_open)

    def fit(self, block: Block, leaves: Sequence[Digest]) -> bool:
        """Take the next entries if all links of all of them are exactly what must stand there; else none.

        This is `follow` for entries without fault, a field of all of them at a time: nearly all the time
        of a verification is spent here, in the screen and in the hash.
        """
        heres = [leaf.hex() for leaf in leaves]
        try:
            times = block.times
            if not (
                block.seqs == tuple(range(self._seq, self._seq + len(heres)))
                and block.prevs == (self.head, *heres[:-1])
                and set(map(type, block.seqs)) == set(map(type, times)) == {int}
                and self._ts <= times[0]
                and all(map(le, times, times[1:]))
                and set(block.logs) == {self.log}
                and _CREATED not in block.kinds
            ):
                return False
            moved = self._moved(zip(block.entries, block.kinds, heres, strict=True))
        except (KeyError, TypeError, InvalidInputError):
            return False
        if moved is None:
            return False
        self._runs.update(moved)
        self._seq += len(heres)
        self._ts, self.head = times[-1], heres[-1]
        return True

    def _moved(self, steps: Iterable[tuple[Mapping[str, Any], str, str]]) -> dict[str, _Run] | None:
        """The runs that entries belong to, as they stand after them; None if one does not go on there.

        A step is an entry's fields, its type and its hash.
        """
        moved = dict[str, _Run]()
        for fields, kind, here in steps:
            if "run" not in fields:
                continue
            name, rseq = fields["run"], fields["rseq"]
            run = moved.get(name)
            if run is None:
                run = moved[name] = self._copy(name, fields["seq"])
            if rseq != run.rseq or fields["rprev"] != run.rprev or type(rseq) is not int:
                return None
            run.rseq += 1
            run.rprev = here
            if kind in _TURNS:
                run.is_open = kind not in _ENDS
        return moved

    def _copy(self, name: str, seq: int) -> _Run:
        run = self._runs.get(name)
        if run is not None:
            return _Run(run.rseq, run.rprev, run.started, run.is_open)
        parse_run_id(name)
        return _Run(0, _RUN_START, seq)

    def follow(self, fields: Mapping[str, Any], leaf: Digest) -> Sequence[Break]:
        """Take the next entry, by its fields and the hash of its bytes."""
        seq, prev, ts = fields["seq"], fields["prev"], fields["ts"]
        fits = (
            seq == self._seq
            and prev == self.head
            and ts >= self._ts
            and fields["log"] == self.log
            and fields["type"] != _CREATED
        )
        breaks = [] if fits else list(self._breaks(fields))
        here = leaf.hex()
        if "run" in fields:
            breaks += self._follow_run(fields, here)
        # A wrong number on a right link is that entry's own fault; else the log goes on from `seq`.
        linked = self.head is not None and prev == self.head
        self._seq = (self._seq if linked else seq) + 1
        self._ts = max(ts, self._ts)
        self.head = here
        return breaks

    def skip(self, leaf: Digest) -> None:
        """Pass over a line that is no entry; what follows should still not link to it."""
        self.first = self._seq if self.first is None else self.first
        self._seq += 1
        self.head = leaf.hex()

    def leap(self, fields: Mapping[str, Any]) -> None:
        """Go on at an entry whose predecessor is not here: what it says of that one is believed."""
        self.first = fields["seq"] if self.first is None else self.first
        self._seq, self.head = fields["seq"], fields["prev"]

    def has(self, run: str) -> bool:
        return run in self._runs

    def _breaks(self, fields: Mapping[str, Any]) -> Iterator[Break]:
        seq, log = fields["seq"], fields["log"]
        first = self.first is None
        if first:
            self.first = seq
        elif seq > self._seq:
            yield Break(Flaw.ENTRY_MISSING, f"entries {self._seq} to {seq - 1} are missing")
        elif seq < self._seq:
            yield Break(
                Flaw.ENTRY_MOVED,
                f"entry {seq} stands where entry {self._seq} should: repeated or moved",
            )
        if self.log is None:
            self.log = log
        elif log != self.log:
            yield Break(Flaw.LOG_MIXED, f"entry belongs to log `{log}`, not `{self.log}`")
        if fields["ts"] < self._ts:
            yield Break(Flaw.TIME_REVERSED, f"time {fields['ts']} is before {self._ts}")
        yield from self._origin(fields) if first else self._link(fields)

    def _origin(self, fields: Mapping[str, Any]) -> Iterator[Break]:
        """Check the entry that the evidence begins with."""
        if fields["seq"] != 0:
            return  # a missing beginning is a matter of completeness
        if fields["type"] != _CREATED:
            yield Break(Flaw.GENESIS_WRONG, f"entry 0 is `{fields['type']}`, not `{_CREATED}`")
        if fields["prev"] != genesis(fields["log"]).hex():
            yield Break(Flaw.GENESIS_WRONG, "entry 0 does not name this log's genesis")

    def _link(self, fields: Mapping[str, Any]) -> Iterator[Break]:
        if fields["prev"] != self.head:
            yield Break(Flaw.LINK_BROKEN, "`prev` is not the hash of the entry before")
        if fields["type"] == _CREATED:
            yield Break(Flaw.GENESIS_WRONG, "the log is created a second time")

    def _follow_run(self, fields: Mapping[str, Any], here: str) -> Sequence[Break]:
        name, rseq, rprev, kind = fields["run"], fields["rseq"], fields["rprev"], fields["type"]
        run = self._runs.get(name)
        if run is None:
            run = _Run(0, _RUN_START, fields["seq"])
            if self._begun and rseq:
                run.rseq, run.rprev = rseq, rprev
            self._runs[name] = run
        breaks = list[Break]()
        if rseq != run.rseq:
            breaks.append(
                Break(
                    Flaw.RUN_LINK_BROKEN,
                    f"entry is number {rseq} of run `{name}`, where {run.rseq} should stand",
                )
            )
        if rprev != run.rprev:
            breaks.append(
                Break(
                    Flaw.RUN_LINK_BROKEN,
                    f"`rprev` is not the hash of the entry before in run `{name}`",
                )
            )
        run.rseq, run.rprev = rseq + 1, here
        if kind in _TURNS:
            run.is_open = kind not in _ENDS
        return breaks
