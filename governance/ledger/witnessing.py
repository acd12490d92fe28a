"""May a witness cosign this head? What is submitted, what was seen before, and the answer that follows.

The body of `add-checkpoint` (C2SP tlog-witness):

    old 20852014                                   the size that the proof starts from
    PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=   at most 63 hashes of a consistency proof
                                                   (empty line)
    <checkpoint>                                   a signed note

A witness signs nothing smaller than, or inconsistent with, what it signed before. The answers are fixed:

| answer | HTTP | when, in this order |
|---|---|---|
| `Unreadable` | 400 | the body is not of that form |
| `UnknownLog` | 404 | the checkpoint's origin is nobody that the witness knows |
| `Unsigned` | 403 | no key of that log signed it, or a signature is wrong or unreadable |
| `Backwards` | 400 | the old size is above the checkpoint's |
| `Stale` | 409 | the old size is not that of the last one cosigned, or its root is another |
| `Inconsistent` | 422 | the proof does not show that the tree contains the one seen before |
| `Fit` | 200 | none of these |
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from governance.base64_text import from_base64, to_base64
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import (
    NOTE_BYTES_MAX,
    Checkpoint,
    VerifierKey,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.merkle import EMPTY_ROOT, proves_consistency

__all__ = [
    "SUBMISSION_BYTES_MAX",
    "Answer",
    "Backwards",
    "Fit",
    "Inconsistent",
    "Refusal",
    "Stale",
    "Submission",
    "UnknownLog",
    "Unreadable",
    "Unsigned",
    "format_submission",
    "judge_submission",
    "parse_submission",
]

PROOF_LINES_MAX: Final = 63
SUBMISSION_BYTES_MAX: Final = NOTE_BYTES_MAX + 4096

_OLD: Final = re.compile(r"old (0|[1-9][0-9]{0,18})")
_HASH_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Submission:
    """A head to be cosigned, and why it continues the tree of size `old`."""

    old: int
    proof: tuple[Digest, ...]
    note: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Fit:
    """Nothing speaks against cosigning."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownLog:
    pass


@dataclass(frozen=True, slots=True)
class Unsigned:
    reason: str


@dataclass(frozen=True, slots=True)
class Backwards:
    pass


@dataclass(frozen=True, slots=True)
class Stale:
    """`size` is that of the last head cosigned. `forks`: the log has signed two heads of that size."""

    size: int
    forks: bool = False


@dataclass(frozen=True, slots=True)
class Inconsistent:
    pass


Refusal: TypeAlias = Unreadable | UnknownLog | Unsigned | Backwards | Stale | Inconsistent
Answer: TypeAlias = Fit | Refusal


def parse_submission(body: bytes) -> Submission:
    """Read a request, its signatures yet unread. Raises InvalidInputError for any other form."""
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInputError("request is not UTF-8") from exc
    head, gap, note = text.partition("\n\n")
    first, *hashes = head.split("\n")
    old = _OLD.fullmatch(first)
    if old is None or not gap:
        raise InvalidInputError(
            "request has no old size, proof and checkpoint",
            hint="send `old N`, the proof, an empty line and the checkpoint",
        )
    if len(hashes) > PROOF_LINES_MAX:
        raise InvalidInputError(f"proof has more than {PROOF_LINES_MAX} lines")
    proof = tuple(_parse_hash(line) for line in hashes)
    text = note[: note.rfind("\n\n") + 1]
    return Submission(int(old[1]), proof, note, parse_checkpoint(text))


def format_submission(old: int, proof: Sequence[Digest], note: str) -> bytes:
    """Write a request. Raises InvalidInputError for what could not be read back."""
    hashes = "".join(f"{to_base64(node)}\n" for node in proof)
    body = f"old {old}\n{hashes}\n{note}".encode()
    parse_submission(body)
    return body


def judge_submission(
    given: Submission, logs: Mapping[str, Sequence[VerifierKey]], seen: Checkpoint | None
) -> Answer:
    """Answer a request. `logs` are the keys by origin, `seen` the last head cosigned of that origin."""
    head = given.checkpoint
    keys = logs.get(head.origin)
    if not keys:
        return UnknownLog()
    try:
        signing_keys(given.note, keys)
    except (InvalidInputError, TamperedError, RefusedError) as exc:
        return Unsigned(exc.message)
    if given.old > head.size:
        return Backwards()
    size, root = (seen.size, seen.root) if seen else (0, EMPTY_ROOT)
    if given.old != size:
        return Stale(size)
    if head.size == size and head.root != root:
        return Stale(size, forks=True) if seen else Inconsistent()
    shown = proves_consistency(size, head.size, given.proof, root, head.root)
    return Fit() if shown else Inconsistent()


def _parse_hash(line: str) -> Digest:
    raw = from_base64(line)
    if raw is None or len(raw) != _HASH_BYTES:
        raise InvalidInputError(f"proof has a malformed line: `{line[:60]}`")
    return Digest(raw)
