"""What does a verification say to a person, and to a script? Four verdicts, and every finding's place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from governance.canonical import JSON
from governance.cli.console import FAINT, facts, plain
from governance.lawful.check import LawfulReport
from governance.ledger.manifest import part_to_json
from governance.ledger.parts import OneRun, Part, Span, WholeLog, named
from governance.ledger.report import Finding, Flaw, Report, Status, Verdict, Where

__all__ = ["GLYPHS", "Judgement", "finding_json", "listed", "render"]

GLYPHS: Final = {
    Status.OK: ("✓", "green"),
    Status.FAILED: ("✗", "bold red"),
    Status.NOT_CHECKED: ("?", "yellow"),
}
_QUESTIONS: Final = {
    Verdict.INTEGRITY: "nothing was changed",
    Verdict.TRUST: "signed by the keys you pinned",
    Verdict.COMPLETENESS: "from the first entry to the last checkpoint",
    Verdict.LAWFULNESS: "every call was decided, and approved where it had to be",
}


_NOT_PRESENTED: Final = "not reached: entries are archived, not presented"


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that was found about one bundle. `unjudged` says why lawfulness could not be looked at."""

    report: Report
    lawful: LawfulReport | None
    unjudged: str = ""

    @property
    def verdicts(self) -> dict[Verdict, Status]:
        return {
            Verdict.INTEGRITY: self.report.integrity,
            Verdict.TRUST: self.report.trust,
            Verdict.COMPLETENESS: self.report.completeness,
            Verdict.LAWFULNESS: self.lawful.verdict if self.lawful else Status.NOT_CHECKED,
        }

    @property
    def ok(self) -> bool:
        return all(status is Status.OK for status in self.verdicts.values())

    @property
    def unpinned(self) -> bool:
        return Flaw.UNPINNED in self.report.counts

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What both rooms found, in one form."""
        lawful = self.lawful.findings if self.lawful else ()
        return (
            *self.report.findings,
            *(
                Finding(
                    Verdict.LAWFULNESS,
                    found.kind,
                    Where(seq=found.seq),
                    found.message,
                    found.next_step,
                    is_failure=found.status is not Status.OK,
                )
                for found in lawful
            ),
        )

    @property
    def unlisted(self) -> int:
        """How many findings were counted, but are too many to list."""
        rooms = (self.report, self.lawful) if self.lawful else (self.report,)
        return sum(sum(room.counts.values()) - len(room.findings) for room in rooms)

    def to_json(self) -> dict[str, JSON]:
        summary = self.report.summary
        part = None if summary.part is None else part_to_json(summary.part)
        return {
            "ok": self.ok,
            "part": part,
            "verdicts": {verdict.value: status.value for verdict, status in self.verdicts.items()},
            "log": summary.log,
            "entries": summary.entries,
            "head": summary.head,
            "root": summary.root,
            "checkpoint": summary.checkpoint,
            "signers": list(summary.signers),
            "runs": summary.runs,
            "open_runs": summary.open_runs,
            "findings": [finding_json(finding) for finding in self.findings],
            "unlisted": self.unlisted,
        }


def render(judgement: Judgement) -> Iterator[RenderableType]:
    """Lay out verdicts, then failures, then what is merely worth knowing."""
    summary = judgement.report.summary
    known: dict[str, str | Text] = {
        "log": plain(summary.log or "unknown"),
        "covers": "unknown" if summary.part is None else plain(named(summary.part)),
        "entries": str(summary.entries),
        "runs": f"{summary.runs}, {summary.open_runs} of them open",
        "head": summary.head or "none",
    }
    if judgement.lawful is not None:
        checked = judgement.lawful
        known["judged"] = (
            f"{checked.decisions_checked} decisions, {checked.starts_checked} starts,"
            f" {checked.votes_checked} votes"
        )
    yield facts(known)
    yield ""
    for verdict, status in judgement.verdicts.items():
        yield _verdict(verdict, status, judgement)
    failures = [finding for finding in judgement.findings if finding.is_failure]
    notes = [finding for finding in judgement.findings if not finding.is_failure]
    for heading, findings in (("findings", failures), ("to know", notes)):
        if findings:
            yield Text(f"\n{heading}", style=FAINT)
            yield from listed(findings)
    if judgement.unlisted:
        yield f"and {judgement.unlisted} more"
    yield ""
    yield _outcome(judgement)


def _outcome(judgement: Judgement) -> Text:
    part = judgement.report.summary.part
    if not judgement.ok:
        return Text("NOT verified", "bold red")
    if part is None or isinstance(part, WholeLog):
        return Text("verified", "bold green")
    return Text.assemble(
        ("verified", "bold green"), f": {plain(named(part))}, and nothing else of the log"
    )


def _holds(verdict: Verdict, part: Part | None) -> str:
    """What it means that a verdict is `ok`: of a part, for that part only."""
    match verdict, part:
        case Verdict.COMPLETENESS, Span(first, end):
            return f"entries {first} to {end - 1} are all here; the rest of the log is not"
        case Verdict.COMPLETENESS, OneRun(run):
            return f"run {run} is here from start to end; the rest of the log is not"
        case Verdict.LAWFULNESS, OneRun(run):
            return f"every call of run {run} was decided, and approved where it had to be"
        case _:
            return _QUESTIONS[verdict]


def _verdict(verdict: Verdict, status: Status, judgement: Judgement) -> Text:
    glyph, style = GLYPHS[status]
    said = _holds(verdict, judgement.report.summary.part)
    if verdict is Verdict.TRUST and judgement.unpinned:
        said = "UNPINNED: no key was given, so nobody vouches for this log"
    elif verdict is Verdict.LAWFULNESS and judgement.lawful is None:
        said = f"could not be judged: {plain(judgement.unjudged)}"
    elif verdict is Verdict.COMPLETENESS and Flaw.ARCHIVED in judgement.report.counts:
        said = "does not hold" if status is Status.FAILED else _NOT_PRESENTED
    elif status is not Status.OK:
        said = {Status.FAILED: "does not hold", Status.NOT_CHECKED: "not reached"}[status]
    line = Text.assemble((f" {glyph} ", style), f"{verdict.value:<14}")
    return line.append(said, style="" if status is Status.OK else style)


def listed(findings: Sequence[Finding]) -> Iterator[Text]:
    """List findings, and the next step once for all in a row that share it."""
    for next_step, group in groupby(findings, key=lambda finding: finding.next_step):
        for finding in group:
            glyph, style = GLYPHS[Status.FAILED] if finding.is_failure else ("·", FAINT)
            place = f"{plain(finding.where)}  {finding.kind}: {plain(finding.message)}"
            yield Text.assemble((f" {glyph} ", style), place)
        yield Text(f"   next: {plain(next_step)}", style=FAINT)


def finding_json(finding: Finding) -> dict[str, JSON]:
    where = finding.where
    return {
        "verdict": finding.verdict.value,
        "kind": str(finding.kind),
        "file": where.file,
        "line": where.line,
        "seq": where.seq,
        "message": finding.message,
        "next": finding.next_step,
        "failure": finding.is_failure,
    }
