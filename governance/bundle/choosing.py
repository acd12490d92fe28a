"""Which entries go into a bundle? And what is kept back of them, on request.

A choice follows from the part asked for and from the log up to the covering checkpoint, and from nothing
else, so that the same question gives the same bundle later. Beside what was asked for go the entries
without which it cannot be judged:

- of a range: the later `payload.erased` entries that excuse what is absent in it;
- of a run: the same; `log.created`; of each policy set that a decision names, its last activation before;
  the activation in force whenever a driver took the run; of each tool decided about, its last registration
  with that definition.

The covering checkpoint is the smallest that covers all of these, among those with the most cosignatures.
What was archived is not there to be chosen: of such a log the whole is the range of what it still holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from governance.errors import InvalidInputError, TamperedError
from governance.ids import RunId, parse_run_id
from governance.ledger.archived import Archived, read_archived
from governance.ledger.checkpoint import read_note
from governance.ledger.entry import Entry, Kind, Record
from governance.ledger.erasure import erasure_targets
from governance.ledger.parts import OneRun, Part, Span, WholeLog
from governance.ports import Reader

__all__ = [
    "Choice",
    "Withholding",
    "choose_range",
    "choose_rest",
    "choose_run",
    "choose_whole",
    "newest_archive",
    "parse_withholding",
    "read_on",
]

BATCH: Final = 512
EVERY_NAME: Final = "*"

_TOOLS: Final = frozenset({Kind.TOOL_REGISTERED, Kind.TOOL_CHANGED})
_TAKES: Final = frozenset({Kind.RUN_STARTED, Kind.RUN_RESUMED})


@dataclass(frozen=True, slots=True)
class Withholding:
    """Payloads to keep back: those called `name` (`*`: any), of one entry, of one run, or of all."""

    name: str
    run: RunId | None = None
    seq: int | None = None

    def covers(self, entry: Entry, name: str) -> bool:
        return (
            self.name in {name, EVERY_NAME}
            and self.run in {None, entry.run}
            and self.seq in {None, entry.seq}
        )

    def __str__(self) -> str:
        where = "" if self.run is None else f"run:{self.run}/"
        return f"{where if self.seq is None else f'entry:{self.seq}/'}{self.name}"


def parse_withholding(text: str) -> Withholding:
    """Read `NAME`, `entry:SEQ/NAME` or `run:ID/NAME`. Raises InvalidInputError."""
    scope, slash, name = text.rpartition("/")
    kind, _, which = scope.partition(":")
    if name and not slash:
        return Withholding(name)
    if name and kind == "entry" and which.isascii() and which.isdigit():
        return Withholding(name, seq=int(which))
    if name and kind == "run":
        return Withholding(name, run=parse_run_id(which))
    raise InvalidInputError(
        f"`{text[:160]}` names no payload", hint="give NAME, entry:SEQ/NAME or run:ID/NAME"
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """What goes into a bundle: `stretches` of entries, [start, end) each, under the checkpoint `note`.

    `stamps` are by size and sink; each goes along with the checkpoint that it is over, if that does.
    """

    part: Part
    note: str
    stretches: Sequence[tuple[int, int]]
    withhold: Sequence[Withholding] = field(default=())
    stamps: Mapping[tuple[int, str], bytes] = field(default_factory=dict[tuple[int, str], bytes])


def choose_whole(checkpoint: tuple[int, str], withhold: Sequence[Withholding] = ()) -> Choice:
    size, note = checkpoint
    return Choice(WholeLog(size), note, [(0, size)] if size else [], withhold)


def choose_range(
    reader: Reader, first: int, end: int, withhold: Sequence[Withholding] = ()
) -> Choice:
    """Choose entries `first` to `end - 1`. Raises InvalidInputError when the log does not have them."""
    newest = max((size for size, _ in reader.checkpoints()), default=0)
    if not 0 <= first < end <= newest:
        raise InvalidInputError(
            f"no entries `{first}` to `{end - 1}` in a signed log of {newest}",
            hint="give positions from 0, the first not after the last",
        )
    absent = _absent(read_on(reader, first, end))
    later = _stretches(seq for seq in _erasures(reader, absent) if seq >= end)
    stretches = [(first, end), *later]
    size, note = _covering(reader, stretches[-1][1])
    return Choice(Span(first, end, size), note, stretches, withhold)


def choose_rest(
    reader: Reader, checkpoint: tuple[int, str], withhold: Sequence[Withholding] = ()
) -> Choice:
    """Choose all that the log still holds up to `checkpoint`: the whole of it, where nothing is archived."""
    archived, (size, note) = newest_archive(reader), checkpoint
    if archived is None:
        return choose_whole(checkpoint, withhold)
    choice = choose_range(reader, archived.end, size, withhold)
    if len(choice.stretches) > 1:  # an erasure that came later needs a later checkpoint
        return choice
    return replace(choice, part=Span(archived.end, size, size), note=note)


def choose_run(reader: Reader, run: RunId, withhold: Sequence[Withholding] = ()) -> Choice:
    """Choose a run with what it rests on. Raises InvalidInputError when there is no such run."""
    own = reader.run_records(run)
    if not own:
        raise InvalidInputError(f"no run `{run}`", hint="`governance runs` lists them")
    seqs = {0, *(record.entry.seq for record in own)}
    seqs |= _foundations(reader, [record.entry for record in own])
    seqs.update(_erasures(reader, _absent(own)))
    size, note = _covering(reader, max(seqs) + 1)
    return Choice(OneRun(run, size), note, _stretches(sorted(seqs)), withhold)


def newest_archive(reader: Reader) -> Archived | None:
    """Tell what the log has handed over to archives so far. Raises TamperedError when it cannot be read."""
    record = reader.latest((Kind.LOG_ARCHIVED,))
    try:
        return None if record is None else read_archived(record.entry.body)
    except InvalidInputError as exc:
        raise TamperedError(exc.message) from exc


def read_on(reader: Reader, start: int, end: int) -> Iterator[Record]:
    """Read entries in batches; stops early where the store does."""
    while start < end:
        batch = reader.records(start=start, limit=min(BATCH, end - start))
        if not batch:
            return
        yield from batch
        start += len(batch)


def _covering(reader: Reader, size: int) -> tuple[int, str]:
    """The checkpoint that most have signed, witnesses among them; of these the smallest."""
    found = [(at, note) for at, note in reader.checkpoints() if at >= size]
    if not found:
        raise InvalidInputError(
            f"no checkpoint covers entry `{size - 1}` yet", hint="sign the head and try again"
        )
    return max(found, key=lambda item: (len(read_note(item[1])[1]), -item[0]))


def _stretches(seqs: Iterable[int]) -> list[tuple[int, int]]:
    found = list[tuple[int, int]]()
    for seq in seqs:
        if found and found[-1][1] == seq:
            found[-1] = (found[-1][0], seq + 1)
        else:
            found.append((seq, seq + 1))
    return found


def _absent(records: Iterable[Record]) -> set[tuple[int, str]]:
    return {
        (record.entry.seq, name)
        for record in records
        for name in record.entry.payloads
        if name not in record.payloads
    }


def _erasures(reader: Reader, absent: set[tuple[int, str]]) -> list[int]:
    """Find the entries that record the erasure of absent payloads, the first of each."""
    waiting, found = set(absent), list[int]()
    size = reader.head().size if waiting else 0
    for record in read_on(reader, min(waiting)[0], size) if waiting else ():
        entry = record.entry
        if entry.kind is not Kind.PAYLOAD_ERASED:
            continue
        gone = waiting.intersection(erasure_targets(entry.seq, entry.body))
        if gone:
            waiting -= gone
            found.append(entry.seq)
        if not waiting:
            break
    return found


def _foundations(reader: Reader, own: Sequence[Entry]) -> set[int]:
    """Find the activations and registrations that the decisions of a run rest on."""
    decided = [entry for entry in own if entry.kind is Kind.CALL_DECIDED]
    takes = [entry.seq for entry in own if entry.kind in _TAKES]
    tools = {_tool(entry.body) for entry in decided if "definition" in entry.body}
    activated, registered = list[tuple[int, Any]](), list[tuple[int, Any]]()
    for record in _standing(reader, own[-1].seq):
        entry = record.entry
        if entry.kind is Kind.POLICY_ACTIVATED:
            activated.append((entry.seq, entry.body.get("policy")))
        elif entry.kind in _TOOLS and _tool(entry.body) in tools:
            registered.append((entry.seq, _tool(entry.body)))
    wanted = {_last(activated, None, seq) for seq in takes}
    for entry in decided:
        wanted.add(_last(activated, entry.body.get("policy"), entry.seq))
        wanted.add(_last(registered, _tool(entry.body), entry.seq))
    return {seq for seq in wanted if seq is not None}


def _standing(reader: Reader, end: int) -> Iterator[Record]:
    """Read all entries before `end` that the log holds: where it has archived, those it has kept too."""
    archived = newest_archive(reader)
    for seq in archived.kept if archived else ():
        yield from reader.records(start=seq, limit=1)
    yield from read_on(reader, archived.end if archived else 0, end)


def _tool(body: Any) -> tuple[Any, Any]:
    return body.get("tool"), body.get("definition")


def _last(found: Sequence[tuple[int, Any]], name: Any, before: int) -> int | None:
    """The last position before `before` with this `name`; with any, where it is None."""
    fitting = (at for at, named in reversed(found) if at < before and name in {None, named})
    return next(fitting, None)
