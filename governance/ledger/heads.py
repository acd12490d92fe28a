"""Who signed which head of the log, and has the tree over its entries that root? Pins decide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    format_verifier_key,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.keys import KeyHistory, Term
from governance.ledger.report import Findings, Flaw, Verdict, Where

__all__ = ["Note", "Signed", "counted", "judge_heads", "judge_notes", "judge_pins", "judge_signers"]

Note: TypeAlias = tuple[str, bytes]
"""A signed note by its file name, as it was found."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A readable checkpoint, and the trusted keys that signed it if the log's own is among them."""

    file: str
    checkpoint: Checkpoint
    note: str
    signers: tuple[str, ...] = ()


def judge_notes(notes: Iterable[Note], findings: Findings) -> list[Signed]:
    """Read every checkpoint, by size. Who signed it is found out once the entries have been seen."""
    read = list[Signed]()
    for file, raw in notes:
        try:
            note = raw.decode()
            read.append(Signed(file, parse_checkpoint(note_text(note)), note))
        except (InvalidInputError, UnicodeDecodeError) as exc:
            reason = exc.message if isinstance(exc, InvalidInputError) else "note is not UTF-8"
            findings.add(Verdict.INTEGRITY, Flaw.CHECKPOINT_MALFORMED, Where(file), reason)
    return sorted(read, key=lambda item: item.checkpoint.size)


def judge_signers(
    read: Sequence[Signed],
    roots: Mapping[int, Digest],
    history: KeyHistory,
    pins: Sequence[VerifierKey] | None,
    findings: Findings,
) -> tuple[list[Signed], Mapping[str, Term]]:
    """Find out which trusted keys signed each checkpoint; give the keys that are trusted, by their spelling.

    Trusted are the pinned keys, and those that the log adds in entries under a head which is trusted
    and true. A head signed before by a key of the log that came to be trusted no other way is vouched
    for by a later head that is: the later one covers the same entries.
    """
    if not pins:
        return list(read), {}
    trust, first = _Trust(history, pins), list[Signed]()
    for item in read:
        signed = replace(item, signers=trust.signers(item, findings))
        if signed.signers and _is_true(signed, roots):
            trust.learn(item.checkpoint.size)
        first.append(signed)
    last = max(
        (item.checkpoint.size for item in first if item.signers and _is_true(item, roots)),
        default=0,
    )
    judged = [item if item.signers else trust.again(item, last, roots, findings) for item in first]
    return judged, trust.terms


def _is_true(item: Signed, roots: Mapping[int, Digest]) -> bool:
    return roots.get(item.checkpoint.size) == item.checkpoint.root


class _Trust:
    """The keys that may be believed so far, each for the sizes that it may sign."""

    def __init__(self, history: KeyHistory, pins: Sequence[VerifierKey]) -> None:
        self._history = history
        named = {format_verifier_key(pin): pin for pin in pins}
        self.terms = {
            key: history.terms.get(key, Term(pin, named=-1)) for key, pin in named.items()
        }
        self._wrong = set[str]()

    def learn(self, size: int) -> None:
        """Believe what the first `size` entries say of the log's keys."""
        for key, term in self._history.terms.items():
            if term.named < size:
                self.terms.setdefault(key, term)

    def signers(self, item: Signed, findings: Findings) -> tuple[str, ...]:
        """Name the trusted keys that signed `item`; none unless one is the log's own."""
        size = item.checkpoint.size
        keys = [term.key for term in self.terms.values() if term.covers(size)]
        try:
            signed = signing_keys(item.note, keys) if keys else ()
        except TamperedError as exc:
            self._wrong.add(item.file)
            findings.add(Verdict.TRUST, Flaw.SIGNATURE_WRONG, Where(item.file), exc.message)
            return ()
        except RefusedError:
            return ()
        own = any(_is_logs(key, item.checkpoint.origin) for key in signed)
        return tuple(key.name for key in signed) if own else ()

    def again(
        self, item: Signed, last: int, roots: Mapping[int, Digest], findings: Findings
    ) -> Signed:
        """Look once more at a head that no trusted key signed: a later one up to `last` may vouch for it."""
        size, log = item.checkpoint.size, item.checkpoint.origin
        if size <= last and _is_true(item, roots):
            keys = [term.key for term in self._history.terms.values() if term.named < last]
            signed = self._try(item, keys)
            if signed:
                return replace(item, signers=signed)
        if item.file in self._wrong:
            return item
        ended = [term for term in self.terms.values() if not term.covers(size)]
        if self._try(item, [term.key for term in ended]):
            message = f"checkpoint of size {size} is signed by a key whose time was over, or had not begun"
            findings.add(Verdict.TRUST, Flaw.KEY_ENDED, Where(item.file), message)
        else:
            message = f"no trusted key of `{log[:80]}` itself signed this checkpoint"
            findings.add(Verdict.TRUST, Flaw.KEY_UNKNOWN, Where(item.file), message)
        return item

    def _try(self, item: Signed, keys: Sequence[VerifierKey]) -> tuple[str, ...]:
        own = [key for key in keys if _is_logs(key, item.checkpoint.origin)]
        try:
            return tuple(key.name for key in signing_keys(item.note, own)) if own else ()
        except (TamperedError, RefusedError):
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
