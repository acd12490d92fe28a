"""What a verification found, where, and what follows for each verdict.

A verdict is `ok` only if it was asked for and nothing speaks against it. A *finding* names one thing and
its place. Most findings are failures; some are information (a run still open, a payload lawfully
erased) and change no verdict.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governance.ledger.archived import Archived
from governance.ledger.parts import Part

__all__ = [
    "FINDINGS_MAX",
    "Finding",
    "Findings",
    "Flaw",
    "Report",
    "Status",
    "Summary",
    "Verdict",
    "Where",
    "finding",
]

FINDINGS_MAX: Final = 1_000
"""How many failures, and how many pieces of information, a report keeps; the rest is counted."""


class Verdict(StrEnum):
    """The questions a verification answers, each apart. Lawfulness is judged by `governance.lawful`."""

    INTEGRITY = "integrity"
    TRUST = "trust"
    COMPLETENESS = "completeness"
    LAWFULNESS = "lawfulness"


class Status(StrEnum):
    OK = "ok"
    FAILED = "failed"
    NOT_CHECKED = "not-checked"


class Flaw(StrEnum):
    """What kinds of finding this room makes. Never rename or reuse one."""

    LINE_BROKEN = "line-broken"
    ENTRY_MALFORMED = "entry-malformed"
    ENTRY_MISSING = "entry-missing"
    ENTRY_MOVED = "entry-moved"
    LINK_BROKEN = "link-broken"
    RUN_LINK_BROKEN = "run-link-broken"
    TIME_REVERSED = "time-reversed"
    GENESIS_WRONG = "genesis-wrong"
    LOG_MIXED = "log-mixed"
    ROOT_DIFFERS = "root-differs"
    CHECKPOINT_MALFORMED = "checkpoint-malformed"
    PAYLOAD_MALFORMED = "payload-malformed"
    PAYLOAD_MISSING = "payload-missing"
    PAYLOAD_ALTERED = "payload-altered"
    PAYLOAD_UNEXPECTED = "payload-unexpected"
    PAYLOAD_REPEATED = "payload-repeated"
    PAYLOAD_MOVED = "payload-moved"
    PAYLOAD_ERASED = "payload-erased"
    PAYLOAD_KEPT = "payload-kept"
    FILE_ALTERED = "file-altered"
    FILE_MISSING = "file-missing"
    FILE_UNEXPECTED = "file-unexpected"
    FILE_UNREADABLE = "file-unreadable"
    MANIFEST_MALFORMED = "manifest-malformed"
    MANIFEST_DIFFERS = "manifest-differs"
    HASHES_WRONG = "hashes-wrong"
    TILE_DIFFERS = "tile-differs"
    UNPINNED = "UNPINNED"
    PINS_EMPTY = "pins-empty"
    PIN_WRONG = "pin-wrong"
    KEY_UNKNOWN = "key-unknown"
    KEY_ENDED = "key-ended"
    KEYS_DIFFER = "keys-differ"
    SIGNATURE_WRONG = "signature-wrong"
    CHECKPOINT_FOREIGN = "checkpoint-foreign"
    NOTHING_SIGNED = "nothing-signed"
    QUORUM_MISSING = "quorum-missing"
    ANCHOR_STALE = "anchor-stale"
    STAMP_WRONG = "stamp-wrong"
    STAMP_MISSING = "stamp-missing"
    COSIGNED = "cosigned"
    STAMPED = "stamped"
    LOG_EMPTY = "log-empty"
    LOG_PARTIAL = "log-partial"
    TAIL_CUT = "tail-cut"
    TAIL_UNCOVERED = "tail-uncovered"
    CHECKPOINT_BEYOND = "checkpoint-beyond"
    HISTORY_DIFFERS = "history-differs"
    HISTORY_SHORTER = "history-shorter"
    RUN_MISSING = "run-missing"
    RUN_UNENDED = "run-unended"
    RUN_OPEN = "run-open"
    RECEIPT_MALFORMED = "receipt-malformed"
    PROOF_WRONG = "proof-wrong"
    ENTRY_UNRELATED = "entry-unrelated"
    PAYLOAD_WITHHELD = "payload-withheld"
    LOG_SUCCEEDS = "log-succeeds"
    ARCHIVED = "archived"
    PART_MISSING = "part-missing"
    PART_OVERLAPS = "part-overlaps"
    PART_DIFFERS = "part-differs"


_COMPARE: Final = "compare with another copy of the bundle, and ask who had access to this one"
_AGAIN: Final = "ask for a fresh export; if it says the same, treat the log as tampered with"
_PIN: Final = (
    "get the log's verifier key from its owner, not from the evidence, and give it with `--key`"
)
_NEW_RECEIPT: Final = "ask for the receipt again; if it says the same, ask for the whole log"
_NEXT_STEPS: Final[Mapping[Flaw, str]] = {
    Flaw.PAYLOAD_MISSING: "ask for the payload; only a `payload.erased` entry excuses its absence",
    Flaw.PAYLOAD_ERASED: "nothing to do: its erasure is recorded",
    Flaw.PAYLOAD_KEPT: "check that the content was erased where it is stored",
    Flaw.FILE_UNREADABLE: "copy the bundle again, with permission to read it",
    Flaw.UNPINNED: _PIN,
    Flaw.PINS_EMPTY: _PIN,
    Flaw.PIN_WRONG: _PIN,
    Flaw.KEY_UNKNOWN: "find out whose key signed; trust nothing it says until you know",
    Flaw.KEY_ENDED: "ask whose hands the key is in; trust heads under the key that followed it",
    Flaw.KEYS_DIFFER: "trust no key that this log names; ask its owner for the present one",
    Flaw.CHECKPOINT_FOREIGN: "find out which log this checkpoint belongs to",
    Flaw.NOTHING_SIGNED: "ask for the log's newest checkpoint",
    Flaw.QUORUM_MISSING: "ask for an export made after its witnesses cosigned; ask the witnesses themselves",
    Flaw.ANCHOR_STALE: "ask for a fresh export; if none is to be had, treat what is missing as withheld",
    Flaw.STAMP_WRONG: "find out who made the stamp; give the authority's own certificate",
    Flaw.STAMP_MISSING: "ask for an export with the stamps of that authority",
    Flaw.COSIGNED: "nothing to do: this is as far as the witnesses vouch",
    Flaw.STAMPED: "nothing to do: the authority vouches that it existed then",
    Flaw.LOG_EMPTY: _AGAIN,
    Flaw.LOG_PARTIAL: "ask for the whole log, from entry 0",
    Flaw.TAIL_CUT: _AGAIN,
    Flaw.TAIL_UNCOVERED: "ask for an export with a checkpoint over every entry",
    Flaw.CHECKPOINT_BEYOND: "ask for the entries that this checkpoint covers",
    Flaw.HISTORY_DIFFERS: "keep both: two heads under one key that disagree prove two histories",
    Flaw.HISTORY_SHORTER: "ask for the entries that are gone; the checkpoint proves that they were there",
    Flaw.RUN_MISSING: "ask for a fresh export of this run",
    Flaw.RUN_UNENDED: "export the run again once it has ended, or ask for the whole log",
    Flaw.LOG_SUCCEEDS: "ask for that log too: what happened before stands there",
    Flaw.RUN_OPEN: "nothing to do: the run had not ended when the bundle was made",
    Flaw.RECEIPT_MALFORMED: _NEW_RECEIPT,
    Flaw.PROOF_WRONG: _NEW_RECEIPT,
    Flaw.ENTRY_UNRELATED: _NEW_RECEIPT,
    Flaw.PAYLOAD_WITHHELD: "ask for a copy that discloses it, if you need it and may have it",
    Flaw.ARCHIVED: "give the archive's folder beside this one to judge the log as a whole",
    Flaw.PART_MISSING: "ask for the entries in between; the log does not say that they were archived",
    Flaw.PART_OVERLAPS: "give each entry once",
}
_INFORMATION: Final = frozenset(
    {
        Flaw.ARCHIVED,
        Flaw.COSIGNED,
        Flaw.LOG_SUCCEEDS,
        Flaw.PAYLOAD_ERASED,
        Flaw.PAYLOAD_KEPT,
        Flaw.PAYLOAD_WITHHELD,
        Flaw.RUN_OPEN,
        Flaw.STAMPED,
    }
)
_UNREACHED: Final = frozenset({Flaw.UNPINNED, Flaw.RUN_UNENDED, Flaw.ARCHIVED})
"""With these a verdict is not reached, rather than failed."""


@dataclass(frozen=True, slots=True)
class Where:
    """A place: a file, a line of it from 1, an entry's position. None where that does not apply."""

    file: str | None = None
    line: int | None = None
    seq: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        seq = "" if self.seq is None else f" (entry {self.seq})"
        return f"{self.file or 'log'}{line}{seq}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. `kind` is a `Flaw` here; `governance.lawful` brings words of its own."""

    verdict: Verdict
    kind: str
    where: Where
    message: str
    next_step: str
    is_failure: bool = True


def finding(verdict: Verdict, flaw: Flaw, where: Where, message: str) -> Finding:
    """Make a finding of this room; its next step and its weight follow from the flaw."""
    next_step = _NEXT_STEPS.get(flaw, _COMPARE)
    return Finding(verdict, flaw, where, message, next_step, flaw not in _INFORMATION)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was looked at. Nothing here is proven unless the verdicts say so.

    `part` is what the evidence claims to be, None where it claims nothing; `log` the origin the entries
    name, `head` the leaf hash of the last entry, `root` the RFC 6962 root over all, `checkpoint` the
    size of the newest checkpoint, `signers` the trusted keys that signed one,
    `keys` the verifier keys that are trusted at it: pinned, or come after a pinned one, `believed` those
    that were at any size,
    `archived` what the newest entry about archives says.
    """

    log: str | None = None
    entries: int = 0
    bytes: int = 0
    head: str | None = None
    root: str | None = None
    checkpoint: int | None = None
    signers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    believed: tuple[str, ...] = ()
    runs: int = 0
    open_runs: int = 0
    part: Part | None = None
    archived: Archived | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Three verdicts and why. `counts` has every finding by kind, also those no longer in `findings`."""

    integrity: Status
    trust: Status
    completeness: Status
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    summary: Summary

    @property
    def ok(self) -> bool:
        return self.integrity is self.trust is self.completeness is Status.OK

    @property
    def uncounted(self) -> int:
        """How many findings are counted but not kept."""
        return sum(self.counts.values()) - len(self.findings)

    def with_findings(self, more: Iterable[Finding]) -> "Report":
        """The same report with what another check of the same evidence found."""
        found = Findings(self)
        for item in more:
            found.put(item)
        return found.report(self.summary)


class Findings:
    """Collects findings, bounded: a hostile file cannot make a report of any size."""

    def __init__(self, base: Report | None = None) -> None:
        self._kept = list(base.findings) if base else []
        self._counts: Counter[str] = Counter(base.counts if base else {})
        self._statuses = {
            Verdict.INTEGRITY: base.integrity if base else Status.OK,
            Verdict.TRUST: base.trust if base else Status.OK,
            Verdict.COMPLETENESS: base.completeness if base else Status.OK,
        }
        failures = sum(item.is_failure for item in self._kept)
        self._room = {
            True: FINDINGS_MAX - failures,
            False: FINDINGS_MAX - len(self._kept) + failures,
        }

    def add(self, verdict: Verdict, flaw: Flaw, where: Where, message: str) -> None:
        self.put(finding(verdict, flaw, where, message))

    def put(self, item: Finding) -> None:
        self._counts[item.kind] += 1
        if item.kind in _UNREACHED:
            if self._statuses[item.verdict] is Status.OK:
                self._statuses[item.verdict] = Status.NOT_CHECKED
        elif item.is_failure:
            self._statuses[item.verdict] = Status.FAILED
        if self._room[item.is_failure] > 0:
            self._room[item.is_failure] -= 1
            self._kept.append(item)

    def report(self, summary: Summary) -> Report:
        return Report(
            integrity=self._statuses[Verdict.INTEGRITY],
            trust=self._statuses[Verdict.TRUST],
            completeness=self._statuses[Verdict.COMPLETENESS],
            findings=tuple(self._kept),
            counts=dict(self._counts),
            summary=summary,
        )
