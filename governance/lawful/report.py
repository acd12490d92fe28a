"""What was found unlawful, where, and what that means for the verdict.

A finding of status `failed` is an accusation and makes the verdict `failed`. One of `not-checked` says
that something could not be judged here, and keeps the verdict from being `ok`. One of `ok` is
information: it names what a reader should know, such as a payload that was lawfully erased.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from governance.ids import RunId
from governance.ledger.entry import Entry
from governance.ledger.report import FINDINGS_MAX, Status

__all__ = ["Collector", "Fault", "LawfulFinding", "LawfulReport"]


class Fault(StrEnum):
    """What kinds of finding this room makes. Never rename or reuse one."""

    UNREADABLE = "unreadable"
    LOG_PARTIAL = "log-partial"
    PART_JUDGED = "part-judged"
    PAYLOAD_WITHHELD = "payload-withheld"
    NOT_DERIVABLE = "not-derivable"
    CONTENT_ERASED = "content-erased"
    ERASURE_MISDIRECTED = "erasure-misdirected"
    ENGINE_ABSENT = "engine-absent"
    POLICY_UNKNOWN = "policy-unknown"
    POLICY_DIFFERS = "policy-differs"
    POLICY_SUPERSEDED = "policy-superseded"
    POLICY_ROLLED_BACK = "policy-rolled-back"
    POLICY_UNSIGNED = "policy-unsigned"
    POLICY_SIGNATURE_WRONG = "policy-signature-wrong"
    TOOL_UNKNOWN = "tool-unknown"
    CALL_UNPROPOSED = "call-unproposed"
    CALL_UNANSWERED = "call-unanswered"
    DECISION_DIFFERS = "decision-differs"
    DECISION_REPEATED = "decision-repeated"
    DECISION_UNFOUNDED = "decision-unfounded"
    INPUT_DIFFERS = "input-differs"
    INPUT_UNKNOWN = "input-unknown"
    CLOCK_BEHIND = "clock-behind"
    START_UNDECIDED = "start-undecided"
    START_DENIED = "start-denied"
    START_UNAPPROVED = "start-unapproved"
    START_REPEATED = "start-repeated"
    START_AFTER_END = "start-after-end"
    OUTCOME_UNFOUNDED = "outcome-unfounded"
    SUBJECT_DIFFERS = "subject-differs"
    DEMANDS_LOWERED = "demands-lowered"
    REQUEST_UNFOUNDED = "request-unfounded"
    APPROVAL_UNLAWFUL = "approval-unlawful"
    VOTE_UNLAWFUL = "vote-unlawful"
    CARD_DIFFERS = "card-differs"
    SIGNATURE_WRONG = "signature-wrong"
    RUN_UNSTARTED = "run-unstarted"
    RUN_MISATTRIBUTED = "run-misattributed"
    RUN_CONTINUED = "run-continued"


_ASK: Final = "ask the log's operator how this entry came about"
_NEXT_STEPS: Final[Mapping[Fault, str]] = {
    Fault.LOG_PARTIAL: "check the whole log, from entry 0",
    Fault.PART_JUDGED: "check the whole log, if you need to know what else was in force",
    Fault.PAYLOAD_WITHHELD: "ask for a bundle that holds the payload",
    Fault.NOT_DERIVABLE: "ask for the payload, or for the entry that records its erasure",
    Fault.CONTENT_ERASED: "ask who asked for it, if that does not go without saying",
    Fault.ERASURE_MISDIRECTED: "ask the person whose content went, and who erased it",
    Fault.ENGINE_ABSENT: "check with the engine that the finding names",
    Fault.POLICY_DIFFERS: "ask for the policy text that was in force",
    Fault.POLICY_UNSIGNED: "ask who put these policies in force",
    Fault.POLICY_SIGNATURE_WRONG: "ask who put these policies in force",
    Fault.INPUT_UNKNOWN: "check with a newer version",
    Fault.CLOCK_BEHIND: "compare the clocks of the machines that write to this log",
    Fault.CALL_UNANSWERED: "find out whether the call had an effect",
    Fault.START_UNDECIDED: "find out what the call did, and who let it run",
    Fault.START_DENIED: "find out what the call did, and who let it run",
    Fault.START_UNAPPROVED: "find out what the call did, and who let it run",
    Fault.START_AFTER_END: "find out what the call did, and who let it run",
    Fault.START_REPEATED: "find out whether the call took effect twice",
    Fault.VOTE_UNLAWFUL: "ask the voter what they were shown and what they answered",
    Fault.CARD_DIFFERS: "ask the voter what they were shown and what they answered",
    Fault.SIGNATURE_WRONG: "ask the voter what they were shown and what they answered",
}


@dataclass(frozen=True, slots=True)
class LawfulFinding:
    """One thing found. `seq` is the entry it is about, None for the log as a whole."""

    kind: Fault
    seq: int | None
    run: RunId | None
    message: str
    next_step: str
    status: Status = Status.FAILED


@dataclass(frozen=True, slots=True)
class LawfulReport:
    """The verdict and why. `counts` has every finding by kind, also those no longer in `findings`.

    `skipped` are decisions and requests that could not be derived again; each has a finding, or the
    policy set that it names has one.
    """

    verdict: Status
    findings: tuple[LawfulFinding, ...]
    counts: Mapping[str, int]
    decisions_checked: int
    starts_checked: int
    votes_checked: int
    skipped: int

    @property
    def ok(self) -> bool:
        return self.verdict is Status.OK

    @property
    def uncounted(self) -> int:
        """How many findings are counted but not kept."""
        return sum(self.counts.values()) - len(self.findings)


class About(NamedTuple):
    """An entry that a finding is about, where the entry itself is not at hand any more."""

    seq: int
    run: RunId | None


class Collector:
    """Collects findings, bounded: failures first, so that no amount of information hides one."""

    def __init__(self) -> None:
        self._kept: dict[Status, list[LawfulFinding]] = {status: [] for status in Status}
        self._counts: Counter[str] = Counter()
        self._worst = Status.OK
        self.decisions = 0
        self.starts = 0
        self.votes = 0
        self.skipped = 0

    def add(
        self,
        fault: Fault,
        entry: Entry | About | None,
        message: str,
        status: Status = Status.FAILED,
    ) -> None:
        seq, run = (None, None) if entry is None else (entry.seq, entry.run)
        next_step = _NEXT_STEPS.get(fault, _ASK)
        self.put(LawfulFinding(fault, seq, run, message, next_step, status))

    def put(self, finding: LawfulFinding) -> None:
        self._counts[finding.kind] += 1
        if finding.status is Status.FAILED or self._worst is Status.OK:
            self._worst = finding.status
        kept = self._kept[finding.status]
        if len(kept) < FINDINGS_MAX:
            kept.append(finding)

    def report(self, *, entries: int) -> LawfulReport:
        """Sum up. A log without entries proves nothing, so its verdict is not `ok`."""
        order = (Status.FAILED, Status.NOT_CHECKED, Status.OK)
        kept = [finding for status in order for finding in self._kept[status]][:FINDINGS_MAX]
        return LawfulReport(
            verdict=self._worst if entries else Status.NOT_CHECKED,
            findings=tuple(sorted(kept, key=_place)),
            counts=dict(self._counts),
            decisions_checked=self.decisions,
            starts_checked=self.starts,
            votes_checked=self.votes,
            skipped=self.skipped,
        )


def _place(finding: LawfulFinding) -> int:
    return -1 if finding.seq is None else finding.seq
