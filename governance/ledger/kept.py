"""Is the log still the one that was seen before? Compared with checkpoints that were kept elsewhere.

A kept checkpoint comes from an earlier bundle, or from a witness. It is compared, never trusted: it vouches
for nothing that the entries do not show. Where the tree over them has its root, nothing up to there was
changed since. Where it has another, or the log is shorter, somebody has told two histories: what no key
and no checkpoint inside the evidence can show, since whoever wrote the second one made these too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.ledger.checkpoint import Checkpoint, note_text, parse_checkpoint
from governance.ledger.report import Findings, Flaw, Verdict, Where

__all__ = ["Kept", "Seen", "judge_kept", "parse_kept"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that the verifier brings along, by the name of its file."""

    file: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Seen:
    """What the entries came to: whose they are, how many, the roots at some sizes; all, or a part."""

    log: str | None
    size: int
    roots: Mapping[int, Digest]
    whole: bool


def parse_kept(file: str, raw: bytes) -> Kept:
    """Read a signed checkpoint as a bundle holds it. Raises InvalidInputError."""
    try:
        return Kept(file, parse_checkpoint(note_text(raw.decode())))
    except (InvalidInputError, UnicodeDecodeError) as exc:
        raise InvalidInputError(
            f"`{file}` is no checkpoint", hint="give the file `checkpoint` of an earlier bundle"
        ) from exc


def judge_kept(kept: Sequence[Kept], seen: Seen, findings: Findings) -> None:
    """Compare each kept checkpoint with the entries; say from where on they part."""
    agreed = 0
    for item in sorted(kept, key=lambda item: item.checkpoint.size):
        size, where = item.checkpoint.size, Where(item.file)
        root = seen.roots.get(size)
        if seen.log not in (None, item.checkpoint.origin):
            message = f"checkpoint is of `{item.checkpoint.origin[:80]}`, not `{seen.log}`"
            findings.add(Verdict.TRUST, Flaw.CHECKPOINT_FOREIGN, where, message)
        elif root == item.checkpoint.root:
            agreed = size
        elif root is not None:
            message = f"entries {agreed} to {size - 1} are not those that it was signed over"
            findings.add(Verdict.INTEGRITY, Flaw.HISTORY_DIFFERS, where, message)
        elif seen.whole:
            message = f"covers {size} entries, and {seen.size} are here"
            findings.add(Verdict.COMPLETENESS, Flaw.HISTORY_SHORTER, where, message)
        else:
            message = f"covers {size} entries, which cannot be compared with these"
            findings.add(Verdict.INTEGRITY, Flaw.CHECKPOINT_BEYOND, where, message)
