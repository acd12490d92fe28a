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

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from governance.canonical import ENTRY_BYTES_MAX, parse_json, thaw
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.chain import Chain
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.entry import Kind, leaf_hash, read_entry
from governance.ledger.lines import Stream
from governance.ledger.merkle import Edge
from governance.ledger.payloads import Payloads
from governance.ledger.report import Findings, Flaw, Report, Summary, Verdict, Where
from governance.ledger.screen import Screen

__all__ = ["Note", "Progress", "verify"]

Note: TypeAlias = tuple[str, bytes]
"""A signed note by its file name, as it was found."""

Progress: TypeAlias = Callable[[int], None]
"""Told now and then how many bytes have been verified."""

_LEAVES_MAX: Final = 1_024
"""Leaf hashes collected before they go into the tree."""
_ERASED: Final = Kind.PAYLOAD_ERASED.value
_sha256: Final = hashlib.sha256


def verify(
    entries: Iterable[Stream],
    payloads: Iterable[Stream],
    notes: Iterable[Note],
    pins: Sequence[VerifierKey] | None,
    progress: Progress | None = None,
) -> Report:
    """Judge a log. `pins` are the keys the caller trusts, from outside the evidence; None: none given."""
    findings = Findings()
    signed = _judge_notes(notes, pins, findings)
    walk = _Walk(payloads, [item.checkpoint for item in signed], findings, progress)
    for file, lines in entries:
        walk.file(file, lines)
    walk.finish()
    _judge_heads(walk, signed, findings)
    _judge_pins(walk.chain.log, signed, pins, findings)
    _judge_completeness(walk, _counted(walk.chain.log, signed, pins), findings)
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


@dataclass(frozen=True, slots=True)
class _Signed:
    """A readable checkpoint, and the pinned keys that signed it if the log's own is among them."""

    file: str
    checkpoint: Checkpoint
    signers: tuple[str, ...]


class _Walk:
    """One pass over the entries: screen, hash, follow, grow the tree, compare payloads."""

    def __init__(
        self,
        payloads: Iterable[Stream],
        checkpoints: Sequence[Checkpoint],
        findings: Findings,
        progress: Progress | None,
    ) -> None:
        self.chain = Chain()
        self.edge = Edge()
        self.roots = dict[int, Digest]()
        self.done = 0
        self._findings = findings
        self._progress = progress
        self._screen = Screen()
        self._leaves = list[Digest]()
        self._stops = sorted({checkpoint.size for checkpoint in checkpoints}, reverse=True)
        self._payloads = Payloads(payloads, findings, self._count)
        self._plan()

    @property
    def size(self) -> int:
        return self.edge.size + len(self._leaves)

    def file(self, file: str, lines: Iterable[bytes]) -> None:
        screen, fits, leaves = self._screen.__call__, self.chain.fits, self._leaves
        for number, line in enumerate(lines, 1):
            self.done += len(line)
            raw = line[:-1]
            leaf: Digest = _sha256(b"\0" + raw).digest()  # type: ignore[assignment] # a NewType is a call
            fields = screen(raw)
            if fields is None or line[-1:] != b"\n" or not fits(fields, leaf):
                whole, fields = self._follow(line, Where(file, number))
                if not whole:
                    continue
                leaf = whole
            if fields is not None and (
                fields["payloads"]
                or fields["type"] == _ERASED
                or fields["seq"] >= self._payloads.next_seq
            ):
                self._beside(fields, file, number)
            leaves.append(leaf)
            if len(leaves) >= self._room:
                self._grow()

    def finish(self) -> None:
        self._grow()
        self._payloads.finish()

    def _follow(self, line: bytes, where: Where) -> tuple[Digest | None, dict[str, Any] | None]:
        """Take a line that is out of the ordinary, or wrong: read it in full and say what is.

        Gives its leaf hash, None for an empty line, and its fields, None when it is no entry.
        """
        raw = line.removesuffix(b"\n")
        seq = self.chain.next_seq
        if raw == line:
            self._say(Flaw.LINE_BROKEN, where, seq, "line has no end: cut, or glued to garbage")
        if not raw:
            self._say(Flaw.LINE_BROKEN, where, seq, "line is empty")
            return None, None
        leaf = leaf_hash(raw)
        try:
            read_entry(raw)
        except InvalidInputError as exc:
            self._say(Flaw.ENTRY_MALFORMED, where, seq, _reason(raw, exc))
            self.chain.skip(leaf)
            return leaf, None
        fields: dict[str, Any] = thaw(raw)
        for flaw, message in self.chain.follow(fields, leaf):
            self._say(flaw, where, fields["seq"], message)
        return leaf, fields

    def _beside(self, fields: Mapping[str, Any], file: str, line: int) -> None:
        """Look at what lies beside an entry, and at what it says about others' payloads."""
        self._payloads.match(fields["seq"], fields["payloads"], file, line)
        if fields["type"] == _ERASED:
            self._payloads.erase(fields["seq"], fields["body"])

    def _grow(self) -> None:
        self.edge = self.edge.extend(self._leaves)
        self._leaves.clear()
        self._plan()
        if self._progress is not None:
            self._progress(self.done)

    def _plan(self) -> None:
        """Decide how many leaves to collect: up to the next checkpoint, or a good batch."""
        size = self.edge.size
        while self._stops and self._stops[-1] <= size:
            if self._stops.pop() == size:
                self.roots[size] = self.edge.root()
        self._room = min(self._stops[-1] - size, _LEAVES_MAX) if self._stops else _LEAVES_MAX

    def _count(self, size: int) -> None:
        self.done += size

    def _say(self, flaw: Flaw, where: Where, seq: int, message: str) -> None:
        place = Where(where.file, where.line, seq)
        self._findings.add(Verdict.INTEGRITY, flaw, place, message)


def _reason(raw: bytes, exc: InvalidInputError) -> str:
    """Say what is wrong with an entry; two equal keys are worth naming, and `exc` cannot."""
    try:
        parse_json(raw[:ENTRY_BYTES_MAX])
    except InvalidInputError as closer:
        if "duplicate" in closer.message:
            return closer.message
    return exc.message


def _judge_notes(
    notes: Iterable[Note], pins: Sequence[VerifierKey] | None, findings: Findings
) -> list[_Signed]:
    """Read every checkpoint, by size, and find out which pinned keys signed it."""
    keys = list({(pin.name, pin.id): pin for pin in pins or ()}.values())
    signed = list[_Signed]()
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
        signed.append(_Signed(file, checkpoint, tuple(key.name for key in signers)))
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


def _judge_heads(walk: _Walk, signed: Sequence[_Signed], findings: Findings) -> None:
    """Compare each checkpoint with the tree over the entries; say from where on they part."""
    agreed = 0
    for item in signed:
        size, where = item.checkpoint.size, Where(item.file)
        root = walk.roots.get(size)
        if item.checkpoint.origin != walk.chain.log and walk.chain.log is not None:
            message = f"checkpoint is of `{item.checkpoint.origin[:80]}`, not `{walk.chain.log}`"
            findings.add(Verdict.TRUST, Flaw.CHECKPOINT_FOREIGN, where, message)
        elif root == item.checkpoint.root:
            agreed = size
        elif root is not None:
            message = (
                f"root over the first {size} entries differs; the fault lies in entries"
                f" {agreed} to {size - 1}"
            )
            findings.add(Verdict.INTEGRITY, Flaw.ROOT_DIFFERS, where, message)


def _judge_pins(
    log: str | None,
    signed: Sequence[_Signed],
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


def _counted(
    log: str | None, signed: Sequence[_Signed], pins: Sequence[VerifierKey] | None
) -> list[_Signed]:
    """The checkpoints that can say how long the log is: of this log, and signed, if keys are pinned."""
    return [
        item
        for item in signed
        if log in (None, item.checkpoint.origin) and (pins is None or item.signers)
    ]


def _judge_completeness(walk: _Walk, signed: Sequence[_Signed], findings: Findings) -> None:
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
