"""Whether a log is whole, unaltered, and signed by whom we think: three verdicts, findings with places.

`verify` takes lines, not files, so that a bundle, a live store and a test can all be judged by it. It
streams: memory does not grow with the number of entries. It never raises on what it is given to judge,
it does not stop at the first finding, and it needs no secret.

- **integrity**: bytes are canonical, entries link, the tree over them has the root that each checkpoint
  states, payloads are what was committed to.
- **trust**: every checkpoint bears a good signature of a *pinned* key of this very log, or of one that came
  after it: a key is believed once a head under a believed one covers the entry that adds it (`keys`).
  Without pins the verdict is not reached (`UNPINNED`).
- **completeness**: of a log, from entry 0, up to the newest checkpoint and not beyond; of a range, that all
  of it is here; of a run, that it is here from its start to its end. A part is never judged as the whole.

What it cannot see: a tail cut off together with its checkpoints, and a rewrite with the log's own key.
For these the auditor brings a checkpoint kept elsewhere (`Evidence.kept`).
"""

from collections.abc import Iterable, Sequence

from governance.ledger.checkpoint import VerifierKey
from governance.ledger.evidence import Evidence
from governance.ledger.heads import (
    Note,
    Signed,
    counted,
    judge_heads,
    judge_notes,
    judge_pins,
    judge_signers,
)
from governance.ledger.kept import Seen, judge_kept
from governance.ledger.lines import Stream
from governance.ledger.parts import OneRun, Span
from governance.ledger.report import Findings, Flaw, Report, Summary, Verdict, Where
from governance.ledger.walk import Progress, Walk

__all__ = ["Evidence", "Note", "Progress", "judge", "verify"]


def verify(
    entries: Iterable[Stream],
    payloads: Iterable[Stream],
    notes: Iterable[Note],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None = None,
) -> Report:
    """Judge lines that claim nothing of themselves as a whole log: `judge` of that evidence."""
    return judge(Evidence(entries, payloads, notes), pins, progress)


def judge(
    evidence: Evidence, pins: Sequence[VerifierKey] | None, progress: Progress | None = None
) -> Report:
    """Judge a log, or a part of one.

    `pins` are the keys the caller trusts, from outside the evidence; None: none were given.
    """
    findings = Findings()
    read = judge_notes(evidence.notes, findings)
    marks = [item.checkpoint for item in read] + [item.checkpoint for item in evidence.kept]
    walk = Walk(evidence, marks, findings, progress)
    for file, lines in evidence.entries:
        walk.file(file, lines)
    walk.finish()
    signed, terms = judge_signers(read, walk.roots, walk.keys, pins, findings)
    judge_heads(walk.chain.log, walk.roots, signed, findings)
    judge_pins(walk.chain.log, signed, pins, findings)
    heads = counted(walk.chain.log, signed, pins)
    newest = signed[-1].checkpoint.size if signed else 1
    whole = not isinstance(evidence.part, Span | OneRun)
    judge_kept(evidence.kept, Seen(walk.chain.log, walk.size, walk.roots, whole), findings)
    match evidence.part:
        case Span() | OneRun() as part:
            _judge_part(part, walk, heads, findings)
        case _:
            _judge_whole(walk, heads, findings)
    return findings.report(
        Summary(
            log=walk.chain.log,
            entries=walk.entries,
            bytes=walk.done,
            head=walk.chain.head,
            root=walk.edge.root().hex(),
            checkpoint=signed[-1].checkpoint.size if signed else None,
            signers=tuple(sorted({name for item in signed for name in item.signers})),
            keys=tuple(sorted(key for key, term in terms.items() if term.covers(newest))),
            believed=tuple(sorted(terms)),
            runs=walk.chain.runs,
            open_runs=sum(1 for _ in walk.chain.open_runs()),
            part=evidence.part,
            archived=walk.archived,
        )
    )


def _judge_whole(walk: Walk, signed: Sequence[Signed], findings: Findings) -> None:
    covered = signed[-1].checkpoint.size if signed else 0
    file = Where(signed[-1].file) if signed else Where()
    if walk.size == 0:
        findings.add(Verdict.COMPLETENESS, Flaw.LOG_EMPTY, Where(), "there are no entries")
    if walk.chain.first:
        message = f"the log starts at entry {walk.chain.first}, not 0"
        findings.add(Verdict.COMPLETENESS, Flaw.LOG_PARTIAL, Where(seq=walk.chain.first), message)
    if walk.size < covered:
        message = f"the newest checkpoint covers {covered} entries, and {walk.size} are here"
        findings.add(Verdict.COMPLETENESS, Flaw.TAIL_CUT, file, message)
    if walk.size > covered:
        message = f"entries {covered} to {walk.size - 1} are under no checkpoint"
        findings.add(Verdict.COMPLETENESS, Flaw.TAIL_UNCOVERED, Where(seq=covered), message)
    _name_open_runs(walk, None, findings)


def _judge_part(
    part: Span | OneRun, walk: Walk, signed: Sequence[Signed], findings: Findings
) -> None:
    """Judge whether what a part claims to be is all here, under the checkpoint that it claims."""
    if walk.entries == 0:
        findings.add(Verdict.COMPLETENESS, Flaw.LOG_EMPTY, Where(), "there are no entries")
    if walk.size > part.size or not any(item.checkpoint.size == part.size for item in signed):
        message = f"no checkpoint over {part.size} entries covers these"
        findings.add(Verdict.COMPLETENESS, Flaw.TAIL_UNCOVERED, Where(), message)
    for item in signed:
        if item.checkpoint.size not in walk.roots:
            message = f"covers {item.checkpoint.size} entries, which cannot be compared with these"
            findings.add(Verdict.INTEGRITY, Flaw.CHECKPOINT_BEYOND, Where(item.file), message)
    archived = walk.archived
    if isinstance(part, Span) and part.end == part.size and archived and archived.end == part.first:
        # All that the log still holds: what it says of the rest is believed as far as it is signed.
        for segment in archived.segments:
            message = f"archived, not presented: {segment}"
            findings.add(Verdict.COMPLETENESS, Flaw.ARCHIVED, Where(), message)
    run = part.run if isinstance(part, OneRun) else None
    if run is not None and not walk.chain.has(run):
        message = f"no entry of run `{run}` is here"
        findings.add(Verdict.COMPLETENESS, Flaw.RUN_MISSING, Where(), message)
    _name_open_runs(walk, run, findings)


def _name_open_runs(walk: Walk, asked: str | None, findings: Findings) -> None:
    """Name the runs without an ending; the one that was `asked` about cannot be called whole then."""
    for name, started in walk.chain.open_runs():
        flaw = Flaw.RUN_UNENDED if name == asked else Flaw.RUN_OPEN
        message = f"run `{name}` has no ending"
        findings.add(Verdict.COMPLETENESS, flaw, Where(seq=started), message)
