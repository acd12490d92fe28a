"""What does a receipt say to a person, and to a script? What happened, and how much of that is shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from audit_viewer.timeline import timeline
from governance.canonical import JSON, thaw
from governance.cli.console import FAINT, facts, plain
from governance.cli.timeline_view import render as draw
from governance.cli.verdicts import GLYPHS, Judgement, finding_json, listed
from governance.lawful.check import LawfulReport
from governance.ledger.receipt import Receipt
from governance.ledger.receipt_check import ReceiptReport
from governance.ledger.report import Status, Verdict

__all__ = ["ReceiptJudgement", "disclosed", "render"]

_HOLDS: Final = {
    Verdict.INTEGRITY: "these entries are in the log, as they were written",
    Verdict.TRUST: "signed by the keys you pinned",
}
_OPEN: Final = {
    Verdict.COMPLETENESS: "a receipt shows what happened, not that nothing else did",
    Verdict.LAWFULNESS: "not checked: the rules, and the rest of the run, are in the whole log",
}


@dataclass(frozen=True, slots=True)
class ReceiptJudgement:
    """All that was found about one receipt. `lawful` is None where its decisions were not looked at."""

    checked: ReceiptReport
    lawful: LawfulReport | None = None

    @property
    def all_found(self) -> Judgement:
        """Verdicts and findings, as those of a bundle."""
        return Judgement(self.checked.report, self.lawful)

    @property
    def ok(self) -> bool:
        """What is here holds; the two questions that a receipt leaves open have not been answered badly."""
        return self.checked.ok and self.all_found.verdicts[Verdict.LAWFULNESS] is not Status.FAILED

    def to_json(self) -> dict[str, JSON]:
        found, receipt = self.all_found, self.checked.receipt
        summary = found.report.summary
        return {
            "ok": self.ok,
            "verdicts": {verdict.value: status.value for verdict, status in found.verdicts.items()},
            "log": summary.log,
            "call": receipt.call if receipt else None,
            "checkpoint": summary.checkpoint,
            "root": summary.root,
            "signers": list(summary.signers),
            "decisions_made_again": self.lawful.decisions_checked if self.lawful else 0,
            "entries": [thaw(entry.raw) for entry in self.checked.entries],
            "payloads": [
                {
                    "seq": item.seq,
                    "name": item.payload.name,
                    "content": item.payload.content.decode(),
                }
                for item in (receipt.payloads if receipt else ())
            ],
            "findings": [finding_json(finding) for finding in found.findings],
            "unlisted": found.unlisted,
        }


def render(judgement: ReceiptJudgement) -> Iterator[RenderableType]:
    """Lay out what the receipt is of, what it tells, the verdicts, and what was found."""
    checked, found = judgement.checked, judgement.all_found
    yield facts(_about(checked))
    if checked.entries:
        yield ""
        yield draw(timeline(checked.records, {}))
    yield ""
    for verdict, status in found.verdicts.items():
        yield _verdict(verdict, status, judgement)
    for heading, weight in (("findings", True), ("to know", False)):
        findings = [finding for finding in found.findings if finding.is_failure is weight]
        if findings:
            yield Text(f"\n{heading}", style=FAINT)
            yield from listed(findings)
    if found.unlisted:
        yield f"and {found.unlisted} more"
    yield ""
    yield Text("verified", "bold green") if judgement.ok else Text("NOT verified", "bold red")


def _about(checked: ReceiptReport) -> dict[str, str | Text]:
    summary, receipt = checked.report.summary, checked.receipt
    known: dict[str, str | Text] = {"log": plain(summary.log or "unknown")}
    if receipt is None:
        return known
    return known | {
        "about": f"call {plain(receipt.call)}" if receipt.call is not None else "one entry",
        "checkpoint": "none" if summary.checkpoint is None else str(summary.checkpoint),
        "signed by": plain(", ".join(summary.signers) or "nobody you pinned"),
        "discloses": plain(disclosed(receipt)),
    }


def disclosed(receipt: Receipt) -> str:
    names = {item.payload.name: None for item in receipt.payloads}
    return ", ".join(names) or "nothing but the entries"


def _verdict(verdict: Verdict, status: Status, judgement: ReceiptJudgement) -> Text:
    glyph, style = GLYPHS[status]
    said = (_HOLDS | _OPEN)[verdict]
    made = judgement.lawful.decisions_checked if judgement.lawful else 0
    if status is Status.FAILED:
        said = "does not hold"
    elif verdict is Verdict.TRUST and judgement.all_found.unpinned:
        said = "UNPINNED: no key was given, so nobody vouches for this log"
    elif verdict is Verdict.TRUST and status is not Status.OK:
        said = "not reached"
    elif verdict is Verdict.LAWFULNESS and made:
        said = f"{made} decided as the rules in it say; the rest is in the whole log"
    line = Text.assemble((f" {glyph} ", style), f"{verdict.value:<14}")
    return line.append(said, style="" if status is Status.OK else style)
