"""Whether a log is whole, unaltered, and signed by whom we think: three verdicts, findings with places.

`verify` takes lines, not files, so that a bundle, a live store and a test can all be judged by it. It
streams: memory does not grow with the number of entries. It never raises on what it is given to judge,
it does not stop at the first finding, and it needs no secret.

- **integrity**: bytes are canonical, entries link, the tree over them has the root that each checkpoint
  states, payloads are what was committed to.
- **trust**: every checkpoint bears a good signature of a *pinned* key of this very log. The keys named
  inside a log are information. Without pins the verdict is not reached (`UNPINNED`).
- **completeness**: from entry 0, up to the newest checkpoint and not beyond. Open runs are named.

What it cannot see: a tail cut off together with its checkpoints, and a rewrite with the log's own key.
For these the auditor needs a checkpoint kept elsewhere.
"""

from collections.abc import Iterable, Sequence

from governance.ledger.checkpoint import VerifierKey
from governance.ledger.heads import Note, Signed, counted, judge_heads, judge_notes, judge_pins
from governance.ledger.lines import Stream
from governance.ledger.report import Findings, Flaw, Report, Summary, Verdict, Where
from governance.ledger.walk import Progress, Walk

__all__ = ["Note", "Progress", "verify"]


def verify(
    entries: Iterable[Stream],
    payloads: Iterable[Stream],
    notes: Iterable[Note],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None = None,
) -> Report:
    """Judge a log. `pins` are the keys the caller trusts, from outside the evidence; None: none given."""
    findings = Findings()
    signed = judge_notes(notes, pins, findings)
    walk = Walk(payloads, [item.checkpoint for item in signed], findings, progress)
    for file, lines in entries:
        walk.file(file, lines)
    walk.finish()
    judge_heads(walk.chain.log, walk.roots, signed, findings)
    judge_pins(walk.chain.log, signed, pins, findings)
    _judge_completeness(walk, counted(walk.chain.log, signed, pins), findings)
    open_runs = sum(1 for _ in walk.chain.open_runs())
    return findings.report(
        Summary(
            log=walk.chain.log,
            entries=walk.size,
            bytes=walk.done,
            head=walk.chain.head,
            root=walk.edge.root().hex(),
            checkpoint=signed[-1].checkpoint.size if signed else None,
            signers=tuple(sorted({name for item in signed for name in item.signers})),
            runs=walk.chain.runs,
            open_runs=open_runs,
        )
    )


def _judge_completeness(walk: Walk, signed: Sequence[Signed], findings: Findings) -> None:
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
    for name, started in walk.chain.open_runs():
        message = f"run `{name}` has no ending"
        findings.add(Verdict.COMPLETENESS, Flaw.RUN_OPEN, Where(seq=started), message)
