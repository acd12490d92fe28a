"""Which attack is seen by whom? Each attack before the verifier at four levels of knowledge; the table of it.

`PYTHONPATH=tests .venv/bin/python -m attacks.matrix` prints the table of docs/attacks.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from attacks.attempts import ATTACKS, Attack
from attacks.scene import COSIGNED_AT, Export, Scene, play

from governance.ids import Micros
from governance.ledger.anchoring import Demands, Vouched, judge_anchors
from governance.ledger.checkpoint import parse_verifier_key
from governance.ledger.cosignature import cosigner
from governance.ledger.evidence import Evidence
from governance.ledger.heads import Note
from governance.ledger.kept import parse_kept
from governance.ledger.report import Report
from governance.ledger.trust import threshold
from governance.ledger.verify import judge

COMMAND: Final = "PYTHONPATH=tests .venv/bin/python -m attacks.matrix"


@dataclass(frozen=True)
class Level:
    """What an auditor knows beside the entries."""

    name: str
    checkpoints: bool = False
    kept: bool = False
    witness: bool = False


LEVELS: Final = (
    Level("links alone"),
    Level("its checkpoints, and a key", checkpoints=True),
    Level("a checkpoint kept", checkpoints=True, kept=True),
    Level("a witness", checkpoints=True, kept=True, witness=True),
)


def seen(scene: Scene, shown: Export, level: Level) -> frozenset[str]:
    """The kinds of finding that this attack makes and the honest log does not."""
    return failures(judged(scene, shown, level)) - failures(judged(scene, scene.honest(), level))


def judged(scene: Scene, shown: Export, level: Level) -> Report:
    pins = [parse_verifier_key(scene.signer.verifier_key)]
    kept = [parse_kept(f"kept/{name}", raw) for name, raw in brought(scene, level)]
    evidence = Evidence(
        entries=[("entries", [raw + b"\n" for raw in shown.entries])],
        payloads=[("payloads", list(shown.payloads))],
        notes=shown.notes if level.checkpoints else (),
        kept=kept,
    )
    report = judge(evidence, pins if level.checkpoints else None)
    if not level.witness:
        return report
    quorum = threshold([cosigner(scene.witness.verifier_key)])
    demands = Demands(Micros(COSIGNED_AT * 1_000_000), quorum)
    said = Vouched(report.summary.log, shown.notes)
    return report.with_findings(judge_anchors(said, pins, demands))


def brought(scene: Scene, level: Level) -> Iterator[Note]:
    """What the auditor has from elsewhere: his own checkpoint, and the newest that a witness cosigned."""
    notes = dict(scene.heads)
    if level.kept:
        yield notes[scene.kept]
    if level.witness:
        yield notes[scene.size]


def failures(report: Report) -> frozenset[str]:
    return frozenset(str(item.kind) for item in report.findings if item.is_failure)


def row(scene: Scene, attack: Attack) -> tuple[frozenset[str], ...]:
    shown = attack(scene)
    return tuple(seen(scene, shown, level) for level in LEVELS)


def table() -> str:
    """The table as the page has it: at each level what it adds to the one before."""
    scene = play()
    found = [(attack, row(scene, attack)) for attack in ATTACKS]
    lines = ["| attack | " + " | ".join(level.name for level in LEVELS) + " |"]
    lines.append("|" + "---|" * (len(LEVELS) + 1))
    for attack, cells in found:
        told = " ".join((attack.__doc__ or "").split()).removesuffix(".")
        lines.append(f"| {told} | " + " | ".join(_added(cells)) + " |")
    counts = [str(sum(bool(cells[at]) for _, cells in found)) for at in range(len(LEVELS))]
    lines.append(f"| seen, of {len(found)} | " + " | ".join(counts) + " |")
    return "\n".join(lines) + "\n"


def _added(cells: Sequence[frozenset[str]]) -> Iterator[str]:
    before = frozenset[str]()
    for kinds in cells:
        new = sorted(kinds - before)
        yield ", ".join(f"`{kind}`" for kind in new) or ("seen" if kinds else "no")
        before = kinds


if __name__ == "__main__":
    print(table(), end="")
