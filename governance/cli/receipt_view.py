"""What does a receipt say to a person, and to a script? What happened, and how much of that is shown."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from audit_viewer.timeline import timeline
from governance.canonical import JSON, thaw
from governance.cli.console import FAINT, facts, plain
from governance.cli.timeline_view import render as draw
from governance.cli.verdicts import GLYPHS, finding_json, listed
from governance.ledger.entry import Payload, Record
from governance.ledger.receipt import Receipt
from governance.ledger.receipt_check import ReceiptReport
from governance.ledger.report import Flaw, Status, Verdict

__all__ = ["disclosed", "receipt_json", "render"]

_HOLDS: Final = {
    Verdict.INTEGRITY: "these entries are in the log, as they were written",
    Verdict.TRUST: "signed by the keys you pinned",
}
_OPEN: Final = {
    Verdict.COMPLETENESS: "a receipt shows what happened, not that nothing else did",
    Verdict.LAWFULNESS: "not checked: the rules, and the rest of the run, are in the whole log",
}


def receipt_json(checked: ReceiptReport) -> dict[str, JSON]:
    report, receipt = checked.report, checked.receipt
    return {
        "ok": checked.ok,
        "verdicts": {verdict.value: status.value for verdict, status in _verdicts(checked).items()},
        "log": report.summary.log,
        "call": receipt.call if receipt else None,
        "checkpoint": report.summary.checkpoint,
        "root": report.summary.root,
        "signers": list(report.summary.signers),
        "entries": [thaw(entry.raw) for entry in checked.entries],
        "payloads": [
            {"seq": item.seq, "name": item.payload.name, "content": item.payload.content.decode()}
            for item in (receipt.payloads if receipt else ())
        ],
        "findings": [finding_json(found) for found in report.findings],
        "unlisted": report.uncounted,
    }


def render(checked: ReceiptReport) -> Iterator[RenderableType]:
    """Lay out what the receipt is of, what it tells, the verdicts, and what was found."""
    summary, receipt = checked.report.summary, checked.receipt
    known: dict[str, str | Text] = {"log": plain(summary.log or "unknown")}
    if receipt is not None:
        known |= {
            "about": f"call {plain(receipt.call)}" if receipt.call is not None else "one entry",
            "checkpoint": "none" if summary.checkpoint is None else str(summary.checkpoint),
            "signed by": plain(", ".join(summary.signers) or "nobody you pinned"),
            "discloses": plain(disclosed(receipt)),
        }
    yield facts(known)
    if checked.entries:
        yield ""
        yield draw(timeline(_records(checked), {}))
    yield ""
    for verdict, status in _verdicts(checked).items():
        yield _verdict(verdict, status, checked)
    for heading, weight in (("findings", True), ("to know", False)):
        found = [finding for finding in checked.report.findings if finding.is_failure is weight]
        if found:
            yield Text(f"\n{heading}", style=FAINT)
            yield from listed(found)
    if checked.report.uncounted:
        yield f"and {checked.report.uncounted} more"
    yield ""
    yield Text("verified", "bold green") if checked.ok else Text("NOT verified", "bold red")


def disclosed(receipt: Receipt) -> str:
    names = {item.payload.name: None for item in receipt.payloads}
    return ", ".join(names) or "nothing but the entries"


def _verdicts(checked: ReceiptReport) -> Mapping[Verdict, Status]:
    report = checked.report
    return {
        Verdict.INTEGRITY: report.integrity,
        Verdict.TRUST: report.trust,
        Verdict.COMPLETENESS: report.completeness,
        Verdict.LAWFULNESS: Status.NOT_CHECKED,
    }


def _verdict(verdict: Verdict, status: Status, checked: ReceiptReport) -> Text:
    glyph, style = GLYPHS[status]
    if status is Status.FAILED:
        said = "does not hold"
    elif verdict is Verdict.TRUST and Flaw.UNPINNED in checked.report.counts:
        said = "UNPINNED: no key was given, so nobody vouches for this log"
    else:
        said = (_HOLDS | _OPEN)[verdict]
    line = Text.assemble((f" {glyph} ", style), f"{verdict.value:<14}")
    return line.append(said, style="" if status is Status.OK else style)


def _records(checked: ReceiptReport) -> list[Record]:
    beside: dict[int, dict[str, Payload]] = {}
    for item in checked.receipt.payloads if checked.receipt else ():
        beside.setdefault(item.seq, {})[item.payload.name] = item.payload
    return [Record(entry, beside.get(entry.seq, {})) for entry in checked.entries]
