"""Who signed which head of the log, and has the tree over its entries that root? Pins decide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.report import Findings, Flaw, Verdict, Where

__all__ = ["Note", "Signed", "counted", "judge_heads", "judge_notes", "judge_pins"]

Note: TypeAlias = tuple[str, bytes]
"""A signed note by its file name, as it was found."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A readable checkpoint, and the pinned keys that signed it if the log's own is among them."""

    file: str
    checkpoint: Checkpoint
    signers: tuple[str, ...]


def judge_notes(
    notes: Iterable[Note], pins: Sequence[VerifierKey] | None, findings: Findings
) -> list[Signed]:
    """Read every checkpoint, by size, and find out which pinned keys signed it."""
    keys = list({(pin.name, pin.id): pin for pin in pins or ()}.values())
    signed = list[Signed]()
    for file, raw in notes:
        where = Where(file)
        try:
            note = raw.decode()
            checkpoint = parse_checkpoint(note_text(note))
        except (InvalidInputError, UnicodeDecodeError) as exc:
            reason = exc.message if isinstance(exc, InvalidInputError) else "note is not UTF-8"
            findings.add(Verdict.INTEGRITY, Flaw.CHECKPOINT_MALFORMED, where, reason)
            continue
        signers = _signers(note, keys, where, findings) if keys else ()
        if signers and not any(_is_logs(key, checkpoint.origin) for key in signers):
            message = f"no pinned key of `{checkpoint.origin[:80]}` itself signed this checkpoint"
            findings.add(Verdict.TRUST, Flaw.KEY_UNKNOWN, where, message)
            signers = ()
        signed.append(Signed(file, checkpoint, tuple(key.name for key in signers)))
    return sorted(signed, key=lambda item: item.checkpoint.size)


def _signers(
    note: str, keys: Sequence[VerifierKey], where: Where, findings: Findings
) -> tuple[VerifierKey, ...]:
    try:
        return signing_keys(note, keys)
    except TamperedError as exc:
        findings.add(Verdict.TRUST, Flaw.SIGNATURE_WRONG, where, exc.message)
    except RefusedError as exc:
        findings.add(Verdict.TRUST, Flaw.KEY_UNKNOWN, where, exc.message)
    return ()


def _is_logs(key: VerifierKey, origin: str) -> bool:
    """A log signs its own head. A witness only says that it has seen it, whatever its name."""
    return key.name == origin and key.kind is KeyType.ED25519


def judge_heads(
    log: str | None, roots: Mapping[int, Digest], signed: Sequence[Signed], findings: Findings
) -> None:
    """Compare each checkpoint with the tree over the entries; say from where on they part."""
    agreed = 0
    for item in signed:
        size, where = item.checkpoint.size, Where(item.file)
        root = roots.get(size)
        if item.checkpoint.origin != log and log is not None:
            message = f"checkpoint is of `{item.checkpoint.origin[:80]}`, not `{log}`"
            findings.add(Verdict.TRUST, Flaw.CHECKPOINT_FOREIGN, where, message)
        elif root == item.checkpoint.root:
            agreed = size
        elif root is not None:
            message = (
                f"root over the first {size} entries differs; the fault lies in entries"
                f" {agreed} to {size - 1}"
            )
            findings.add(Verdict.INTEGRITY, Flaw.ROOT_DIFFERS, where, message)


def judge_pins(
    log: str | None,
    signed: Sequence[Signed],
    pins: Sequence[VerifierKey] | None,
    findings: Findings,
) -> None:
    if pins is None:
        message = "no key was pinned, so nobody vouches for this log"
        findings.add(Verdict.TRUST, Flaw.UNPINNED, Where(), message)
        return
    if not pins:
        message = "the set of pinned keys is empty, which trusts nobody"
        findings.add(Verdict.TRUST, Flaw.PINS_EMPTY, Where(), message)
    elif log is not None and log not in {pin.name for pin in pins}:
        message = f"no pinned key is of log `{log}`"
        findings.add(Verdict.TRUST, Flaw.PIN_WRONG, Where(), message)
    if not signed:
        message = "there is no checkpoint, so nothing is signed"
        findings.add(Verdict.TRUST, Flaw.NOTHING_SIGNED, Where(), message)


def counted(
    log: str | None, signed: Sequence[Signed], pins: Sequence[VerifierKey] | None
) -> list[Signed]:
    """The checkpoints that can say how long the log is: of this log, and signed, if keys are pinned."""
    return [
        item
        for item in signed
        if log in (None, item.checkpoint.origin) and (pins is None or item.signers)
    ]
