"""Was all that happened allowed to happen? By the rules, and by the people, that the log itself names.

`check` reads records whose integrity was verified before, in their order, once. For each it asks:

- a decision: does the recorded policy, loaded again, make it of the recorded input, and is that input
  what the rest of the log says? (`decisions`)
- a start: does the newest decision allow it, or an approval of exactly this call, used up right before?
  Does each attempt follow an unknown outcome, and each outcome a start? (`calls`)
- a request, a vote, an outcome: does the table of approvals allow it, by people with the right, over the
  card and the head that were there, under a signature of the log's key? (`votes`)
- an erasure: did it take only what belongs to the person that it names? (`erasures`)
- any entry: does its run begin with `run.started`, and is it not over?

It never raises on what it judges. Memory grows with open runs and the starts of a day, not with the log.
The time for a card grows with its run, as a card names every earlier call.

What it cannot see: a history that somebody who holds the log's key wrote anew from end to end, with lawful
decisions throughout. That is for checkpoints kept elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from governance.errors import GovernanceError
from governance.ids import RunId
from governance.lawful.absences import NOTHING, Absences
from governance.lawful.books import Books
from governance.lawful.calls import take_end_of_turn, take_outcome, take_resolution, take_start
from governance.lawful.case import Case
from governance.lawful.decisions import take_decision
from governance.lawful.erasures import Erasures
from governance.lawful.report import Collector, Fault, LawfulFinding, LawfulReport
from governance.lawful.votes import APPROVAL_KINDS, take_approval, take_unfinished
from governance.lawful.vouching import PolicyKey
from governance.lawful.windows import Windows
from governance.ledger.entry import Entry, Kind, Record
from governance.ledger.erasure import erasure_targets
from governance.ledger.parts import OneRun, Part, Span
from governance.ledger.report import Status

__all__ = ["Fault", "LawfulFinding", "LawfulReport", "check"]

PROGRESS_ENTRIES: Final = 1_000
REASON_CHARS: Final = 200

_OUTCOMES: Final = frozenset({Kind.CALL_FINISHED, Kind.CALL_FAILED, Kind.CALL_UNKNOWN})
_ENDS: Final = frozenset({Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED})
_AFTER_END: Final = _OUTCOMES | (APPROVAL_KINDS - {Kind.APPROVAL_REQUESTED, Kind.APPROVAL_USED})
"""What may still come of calls in flight, and of requests that nobody needs any more."""


def check(
    records: Iterable[Record],
    progress: Callable[[int], None] | None = None,
    part: Part | None = None,
    withheld: Mapping[str, Sequence[int]] = NOTHING,
    *,
    policy_key: PolicyKey | None = None,
) -> LawfulReport:
    """Judge a log by its records. `progress` is told now and then how many have been read.

    `part` and `withheld` are what a signed manifest says of them. A run is judged under the rules that
    stand beside it; a range only where it starts with entry 0, else the verdict is `not-checked`. With
    `policy_key`, every policy set has to be signed with it. What reading `records` itself raises is left
    to the caller.
    """
    walk = _Walk(withheld, policy_key)
    count = 0
    for count, record in enumerate(records, 1):
        if count == 1 and record.entry.seq != 0:
            message = (
                f"the records begin with entry {record.entry.seq}, so what holds there is unknown"
            )
            walk.found.add(Fault.LOG_PARTIAL, record.entry, message, Status.NOT_CHECKED)
            break
        walk.take(record)
        if progress is not None and count % PROGRESS_ENTRIES == 0:
            progress(count)
    if progress is not None:
        progress(count)
    walk.finish()
    if isinstance(part, Span | OneRun):
        walk.found.add(Fault.PART_JUDGED, None, _scope(part), Status.OK)
    return walk.found.report(entries=count)


def _scope(part: Span | OneRun) -> str:
    match part:
        case Span():
            return f"judged are entries {part.first} to {part.end - 1}, not what came after them"
        case OneRun():
            return (
                f"run `{part.run}` is judged by itself, under the rules, tools and keys that are here;"
                " whether others were in force in between, only the whole log shows"
            )


class _Walk:
    """One pass over the records: what holds for the whole log, and a `Case` for each open run."""

    def __init__(self, withheld: Mapping[str, Sequence[int]], policy_key: PolicyKey | None) -> None:
        self.found = Collector()
        self._absences = Absences(self.found, withheld)
        self._books = Books(self.found, self._absences, policy_key)
        self._erasures = Erasures()
        self._windows = Windows()
        self._cases: dict[RunId, Case] = {}
        self._before: Entry | None = None

    def take(self, record: Record) -> None:
        try:
            self._take(record)
        except Exception as exc:  # noqa: BLE001  # whatever a hostile record trips over is a finding
            why = exc.message if isinstance(exc, GovernanceError) else type(exc).__name__
            message = f"`{record.entry.kind}` cannot be read as what it should be: {why}"
            self.found.add(Fault.UNREADABLE, record.entry, message)
        self._before = record.entry

    def finish(self) -> None:
        for case in self._cases.values():
            take_unfinished(case, self.found)
        self._absences.finish()
        if self._erasures.is_short:
            message = "more content is absent than can be remembered: whose it was is not judged"
            self.found.add(Fault.ERASURE_MISDIRECTED, None, message, Status.NOT_CHECKED)

    def _take(self, record: Record) -> None:
        entry = record.entry
        self._absences.note(record)
        match entry.kind:
            case Kind.LOG_CREATED:
                self._books.create(entry)
            case Kind.POLICY_ACTIVATED:
                self._books.activate(record)
            case Kind.TOOL_REGISTERED | Kind.TOOL_CHANGED:
                self._books.register(entry)
            case Kind.PAYLOAD_ERASED:
                self._take_erasure(record)
            case _:
                pass
        if entry.run is None:
            self._erasures.note(record, None)
            return
        case = self._cases.get(entry.run)
        self._take_of_run(entry.run, record)
        case = case or self._cases.get(entry.run)
        if case is not None:
            self._erasures.note(record, case.started.entry)

    def _take_erasure(self, record: Record) -> None:
        entry = record.entry
        self._absences.excuse(entry.seq, entry.body)
        went = sum(1 for _ in erasure_targets(entry.seq, entry.body))
        reason = record.content("reason") if "reason" in record.payloads else "(no reason here)"
        message = (
            f"`{entry.actor}` erased {went} payload{'s' * (went != 1)} of"
            f" `{str(entry.body['subject'])[:160]}`: {str(reason)[:REASON_CHARS]}"
        )
        self.found.add(Fault.CONTENT_ERASED, entry, message, Status.OK)
        count, first = self._erasures.misdirected(entry.seq, entry.body)
        if count:
            more = f", and {count - 1} more of others" if count > 1 else ""
            message = f"in the name of `{str(entry.body['subject'])[:160]}` went {first}{more}"
            self.found.add(Fault.ERASURE_MISDIRECTED, entry, message)

    def _take_of_run(self, run: RunId, record: Record) -> None:
        entry = record.entry
        case = self._cases.get(run)
        if case is None:
            if entry.kind is not Kind.RUN_STARTED or entry.rseq != 0:
                message = f"entry of run `{run}`, which has not started or is over"
                self.found.add(Fault.RUN_UNSTARTED, entry, message)
                return
            self._open(run, record)
            return
        if case.ended and entry.kind not in _AFTER_END and entry.kind is not Kind.CALL_STARTED:
            message = f"`{entry.kind}` comes after the end of run `{run}`"
            self.found.add(Fault.RUN_CONTINUED, entry, message)
        try:
            self._take_step(case, record)
        finally:
            case.keep(record)
            case.last = entry
        if case.closed:
            take_unfinished(case, self.found)
            del self._cases[run]

    def _open(self, run: RunId, record: Record) -> None:
        entry = record.entry
        case = self._cases[run] = Case.open(record, self._books.newest, self._windows)
        principal = entry.on_behalf_of or entry.actor
        if entry.actor != case.agent or entry.body["principal"]["id"] != principal:
            message = f"run `{run}` starts in another name than its entry's"
            self.found.add(Fault.RUN_MISATTRIBUTED, entry, message)

    def _take_step(self, case: Case, record: Record) -> None:
        entry = record.entry
        match entry.kind:
            case Kind.RUN_STARTED:
                message = f"run `{case.run}` starts a second time"
                self.found.add(Fault.RUN_CONTINUED, entry, message)
            case Kind.RUN_RESUMED:
                case.floor = self._books.newest
            case Kind.INPUT_RECEIVED:
                if "message" in record.payloads:
                    case.hear(record.content("message"))
            case Kind.CALL_DECIDED:
                take_decision(case, record, self._right_before(entry), self._books)
            case Kind.CALL_STARTED:
                take_start(case, entry, self.found)
            case Kind.CALL_RESOLVED:
                take_resolution(case, entry, self.found)
            case kind if kind in _OUTCOMES:
                take_outcome(case, entry, self.found)
            case kind if kind in APPROVAL_KINDS:
                take_approval(case, record, self._books)
            case _:
                self._take_turn(case, record)

    def _right_before(self, entry: Entry) -> Entry | None:
        """The entry right before `entry` in the log, unless a part leaves it out."""
        before = self._before
        return before if before is not None and before.seq == entry.seq - 1 else None

    def _take_turn(self, case: Case, record: Record) -> None:
        entry = record.entry
        match entry.kind:
            case Kind.MODEL_REQUESTED:
                take_end_of_turn(case, entry, self.found)
            case Kind.MODEL_RESPONDED:
                if not case.propose(record):
                    message = (
                        f"the calls of turn {case.turn} are not named by run, turn and position"
                    )
                    self.found.add(Fault.CALL_UNPROPOSED, entry, message)
            case kind if kind in _ENDS:
                if kind is Kind.RUN_COMPLETED:
                    take_end_of_turn(case, entry, self.found)
                case.ended = True
            case _:
                pass
