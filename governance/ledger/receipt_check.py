"""Does a receipt hold? Its entries are in the signed log, its content is what they commit to.

- *integrity*: every entry is in its one form, and its path leads to the checkpoint's root; entries that
  stand next to each other in the log or in the run link; content is what was committed to; a receipt of
  a call holds nothing about another.
- *trust*: the log's own key, which you have pinned, signed the checkpoint.
- *completeness* is never `ok`: a receipt shows that something happened, not that nothing else did. It is
  `failed` where an entry names another that belongs to it and is not here: a vote, a decision.

Whether rules and people were followed is for `governance.lawful` to say: of decisions where the rules are
here too, of the rest in a bundle of the whole log. Nothing raises on what it judges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, cast

from governance.errors import InvalidInputError
from governance.ledger.checkpoint import Checkpoint, VerifierKey
from governance.ledger.entry import Entry, Kind, Payload, Record, read_entry
from governance.ledger.heads import judge_notes, judge_pins, judge_signers
from governance.ledger.keys import KeyHistory
from governance.ledger.merkle import proves_inclusion
from governance.ledger.receipt import Receipt
from governance.ledger.report import Findings, Flaw, Report, Status, Summary, Verdict, Where

__all__ = ["ReceiptReport", "about_call", "verify_receipt"]

_FILE: Final = "receipt"
_CHECKPOINT: Final = "checkpoint"
_NAMES_ONE: Final = ("decision", "first")
_NAMES_MANY: Final = "votes"


@dataclass(frozen=True, slots=True)
class ReceiptReport:
    """What a receipt is worth. `entries` are those that can be read; none is proven unless it is `ok`."""

    report: Report
    receipt: Receipt | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """The entries, each with the content that was disclosed of it."""
        beside = dict[int, dict[str, Payload]]()
        for item in self.receipt.payloads if self.receipt else ():
            beside.setdefault(item.seq, {})[item.payload.name] = item.payload
        return tuple(Record(entry, beside.get(entry.seq, {})) for entry in self.entries)

    @property
    def ok(self) -> bool:
        """What is here holds. That nothing is left out is not among what a receipt can say."""
        report = self.report
        whole = report.completeness is not Status.FAILED
        return report.integrity is report.trust is Status.OK and whole


def verify_receipt(raw: bytes, pins: Sequence[VerifierKey] | None) -> ReceiptReport:
    """Judge a receipt, whatever its bytes. `pins` are the keys you trust, None if you have none."""
    findings = Findings()
    try:
        receipt = Receipt.from_bytes(raw)
    except InvalidInputError as exc:
        findings.add(Verdict.INTEGRITY, Flaw.RECEIPT_MALFORMED, Where(_FILE), exc.message)
        unread = replace(findings.report(Summary()), trust=Status.NOT_CHECKED)
        return ReceiptReport(_unfinished(unread))
    note = _CHECKPOINT, receipt.checkpoint.encode()
    # The log's own entries about keys are not here: the key of that day is pinned, or nobody is trusted.
    signed, _ = judge_signers(judge_notes([note], findings), {}, KeyHistory(), pins, findings)
    head = signed[0].checkpoint if signed else None
    entries = tuple(_prove(receipt, head, findings))
    _judge_links(entries, findings)
    _judge_payloads(receipt, entries, findings)
    if receipt.call is not None:
        _judge_call(receipt.call, entries, findings)
    log = head.origin if head else entries[0].log if entries else None
    judge_pins(log, signed, pins, findings)
    summary = Summary(
        log=log,
        entries=len(entries),
        bytes=len(raw),
        root=head.root.hex() if head else None,
        checkpoint=head.size if head else None,
        signers=signed[0].signers if signed else (),
        runs=len({entry.run for entry in entries if entry.run is not None}),
    )
    return ReceiptReport(_unfinished(findings.report(summary)), receipt, entries)


def _unfinished(report: Report) -> Report:
    if report.completeness is Status.FAILED:
        return report
    return replace(report, completeness=Status.NOT_CHECKED)


def _prove(receipt: Receipt, head: Checkpoint | None, findings: Findings) -> Iterator[Entry]:
    """Give each entry that can be read; say which of them the signed log does not hold."""
    for number, item in enumerate(receipt.entries, 1):
        try:
            entry = read_entry(item.raw)
        except InvalidInputError as exc:
            where = Where(_FILE, number)
            findings.add(Verdict.INTEGRITY, Flaw.ENTRY_MALFORMED, where, exc.message)
            continue
        yield entry
        if head is None:
            continue
        where = Where(_FILE, number, entry.seq)
        if entry.log != head.origin:
            message = f"entry belongs to log `{entry.log}`, the checkpoint to `{head.origin[:80]}`"
            findings.add(Verdict.INTEGRITY, Flaw.LOG_MIXED, where, message)
        if not proves_inclusion(entry.hash, entry.seq, head.size, item.path, head.root):
            message = f"its path does not lead to the root over {head.size} entries"
            findings.add(Verdict.INTEGRITY, Flaw.PROOF_WRONG, where, message)


def _judge_links(entries: Sequence[Entry], findings: Findings) -> None:
    """Compare each entry with the one before it here, as far as they are neighbours in the log."""
    for before, entry in pairwise(entries):
        for flaw, message in _breaks(before, entry):
            findings.add(Verdict.INTEGRITY, flaw, Where(_FILE, seq=entry.seq), message)


def _breaks(before: Entry, entry: Entry) -> Iterator[tuple[Flaw, str]]:
    if entry.seq <= before.seq:
        yield Flaw.ENTRY_MOVED, f"entry {entry.seq} stands behind entry {before.seq}"
        return
    if entry.ts < before.ts:
        yield Flaw.TIME_REVERSED, f"time {entry.ts} is before {before.ts}"
    if entry.seq == before.seq + 1 and entry.prev != before.hash:
        yield Flaw.LINK_BROKEN, "`prev` is not the hash of the entry before"
    if entry.run is None or entry.rseq is None or entry.run != before.run or before.rseq is None:
        return
    follows = entry.rseq == before.rseq + 1
    if entry.rseq <= before.rseq or (follows and entry.rprev != before.hash):
        yield Flaw.RUN_LINK_BROKEN, f"entry does not follow entry {before.seq} in its run"


def _judge_payloads(receipt: Receipt, entries: Sequence[Entry], findings: Findings) -> None:
    owed = {(entry.seq, name): value for entry in entries for name, value in entry.payloads.items()}
    for item in receipt.payloads:
        where, name = Where(_FILE, seq=item.seq), item.payload.name
        expected = owed.pop((item.seq, name), None)
        if expected is None:
            message = f"no entry here commits to payload `{name[:80]}`"
            findings.add(Verdict.INTEGRITY, Flaw.PAYLOAD_UNEXPECTED, where, message)
        elif item.payload.commitment != expected:
            message = f"payload `{name[:80]}` is not what was recorded"
            findings.add(Verdict.INTEGRITY, Flaw.PAYLOAD_ALTERED, where, message)
    for seq, name in owed:
        message = f"payload `{name[:80]}` is committed to, and not disclosed here"
        findings.add(Verdict.INTEGRITY, Flaw.PAYLOAD_WITHHELD, Where(_FILE, seq=seq), message)


def about_call(call: str, entries: Sequence[Entry]) -> frozenset[int]:
    """Tell which of `entries`, by seq, are about `call`.

    They name it, or a request for approval of it, or put the rules in force that a decision about it names.
    """
    run = call.partition("/")[0]
    requests = [  # whatever stands there: a list cannot be looked up in a set, and need not be
        entry.body.get("request")
        for entry in entries
        if entry.kind is Kind.APPROVAL_REQUESTED and entry.body.get("uid") == call
    ]
    named = [entry for entry in entries if entry.run == run and _names(entry.body, call, requests)]
    rules = [entry.body.get("policy") for entry in named if entry.kind is Kind.CALL_DECIDED]
    activations = [
        entry
        for entry in entries
        if entry.kind is Kind.POLICY_ACTIVATED and entry.body.get("policy", ()) in rules
    ]
    return frozenset(entry.seq for entry in (*named, *activations))


def _names(body: Mapping[str, Any], call: str, requests: Sequence[object]) -> bool:
    return body["uid"] == call if "uid" in body else body.get("request", ()) in requests


def _judge_call(call: str, entries: Sequence[Entry], findings: Findings) -> None:
    """Say which entries are not about `call`, and which that they name are not here."""
    about = about_call(call, entries)
    for entry in entries:
        if entry.seq not in about:
            message = f"entry is not about call `{call[:160]}`"
            where = Where(_FILE, seq=entry.seq)
            findings.add(Verdict.INTEGRITY, Flaw.ENTRY_UNRELATED, where, message)
    for seq, message in _missing(call, entries):
        findings.add(Verdict.COMPLETENESS, Flaw.ENTRY_MISSING, Where(_FILE, seq=seq), message)


def _missing(call: str, entries: Sequence[Entry]) -> Iterator[tuple[int | None, str]]:
    present = {entry.seq: entry for entry in entries}
    if not any(entry.kind is Kind.CALL_DECIDED for entry in entries):
        yield None, f"no decision about call `{call[:160]}` is here"
    for entry in entries:
        for seq in _named(entry):
            if seq not in present:
                yield entry.seq, f"it names entry {seq}, which is not here"


def _named(entry: Entry) -> Iterator[int]:
    """The positions of other entries that this one rests on."""
    votes: object = entry.body.get(_NAMES_MANY)
    named: list[object] = [entry.body.get(name) for name in _NAMES_ONE]
    if isinstance(votes, list):
        named += cast("list[object]", votes)
    for seq in named:
        if type(seq) is int:
            yield seq
