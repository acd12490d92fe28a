r"""Whether content is what its entry committed to, and whether its absence is excused.

A payload line is canonical JSON, one line, in the order of (seq, name):

    {"content":"{\"amount\":5}","name":"args","salt":"<64 hex>","seq":9}

`content` is the stored canonical JSON as text. An absent payload is a failure unless a *later*
`payload.erased` entry names it (`ledger.erasure`). Until one comes, absences are remembered, up to a large
bound (`ledger.absent`); beyond it a log is judged as if no excuse followed. One that the signed manifest
lists as withheld is neither missing nor erased: it was kept back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from governance.canonical import PAYLOAD_BYTES_MAX, payload_bytes
from governance.errors import InvalidInputError
from governance.ids import parse_digest
from governance.ledger.absent import Absent
from governance.ledger.entry import Payload
from governance.ledger.erasure import erasure_targets
from governance.ledger.lines import Stream
from governance.ledger.report import Findings, Flaw, Verdict, Where
from governance.ledger.screen import is_plain_json
from governance.spelling import read, spell

__all__ = ["PAYLOAD_LINE_BYTES_MAX", "Payloads", "payload_line", "read_payload_line"]

PAYLOAD_LINE_BYTES_MAX: Final = 2 * PAYLOAD_BYTES_MAX + 1024 * 1024
"""Quoting at most doubles canonical JSON; the rest of the line is small."""
_LINE_BITS: Final = 40
_NEVER: Final = 2**64

_FIELDS: Final = ("content", "name", "salt", "seq")


class _Line(NamedTuple):
    key: tuple[int, str]
    payload: Payload
    file: str
    line: int

    @property
    def where(self) -> Where:
        return Where(self.file, self.line, self.key[0])


def payload_line(seq: int, payload: Payload) -> bytes:
    """Write a payload as a line. Raises CanonicalError when it is no text."""
    return (
        payload_bytes(
            {
                "content": payload.content.decode(),
                "name": payload.name,
                "salt": payload.salt.hex(),
                "seq": seq,
            },
            limit=PAYLOAD_LINE_BYTES_MAX,
        )
        + b"\n"
    )


def read_payload_line(line: bytes) -> tuple[int, Payload]:
    """Read what `payload_line` wrote, and nothing else. Raises InvalidInputError."""
    if not line.endswith(b"\n") or len(line) > PAYLOAD_LINE_BYTES_MAX:
        raise InvalidInputError("payload line has no end, or is too long")
    try:
        value: object = read(line)
    except ValueError as exc:
        raise InvalidInputError("payload line is not JSON") from exc
    if type(value) is not dict or tuple(cast("dict[str, Any]", value)) != _FIELDS:
        raise InvalidInputError("payload line has missing, unknown or unordered fields")
    fields = cast("dict[str, Any]", value)
    content, name, salt, seq = (fields[field] for field in _FIELDS)
    if not type(content) is type(name) is type(salt) is str or type(seq) is not int or seq < 0:
        raise InvalidInputError("payload line has a field of another type")
    if not _is_canonical(fields, line):
        raise InvalidInputError("payload line is not in canonical form")
    payload = Payload(name, parse_digest(salt), content.encode())  # 32 bytes, spelled like a digest
    if not is_plain_json(payload.content):
        _check_content(payload.content)
    return seq, payload


def _is_canonical(fields: Mapping[str, Any], line: bytes) -> bool:
    try:
        return spell(fields) + b"\n" == line
    except TypeError:  # half a character
        return False


def _check_content(content: bytes) -> None:
    try:
        spelled = payload_bytes(read(content))
    except (ValueError, InvalidInputError) as exc:
        raise InvalidInputError("payload content is not JSON") from exc
    if spelled != content:
        raise InvalidInputError("payload content is not in canonical form")


class Payloads:
    """Walks payload lines beside the entries that commit to them, once, in order."""

    def __init__(
        self,
        streams: Iterable[Stream],
        withheld: Mapping[str, Sequence[int]],
        findings: Findings,
        count: Callable[[int], None],
    ) -> None:
        self._findings = findings
        self._count = count
        self._lines = self._in_order(streams)
        self._next: _Line | None = None
        self.next_seq = 0
        self._advance()
        self._absent = Absent()
        self._files = list[str]()
        """Where something was absent: a mark is a place in here, and a line."""
        self._withheld = {name: set(seqs) for name, seqs in withheld.items()}

    def match(self, seq: int, commitments: Mapping[str, str], file: str, line: int) -> None:
        """Compare the payloads at hand for entry `seq` with what it commits to."""
        present = set[str]()
        for item in self._take(seq):
            expected = commitments.get(item.payload.name)
            if expected is None:
                self._say(Flaw.PAYLOAD_UNEXPECTED, item.where, f"entry {seq} has no such payload")
                continue
            present.add(item.payload.name)
            if item.payload.commitment.hex() != expected:
                message = f"payload `{item.payload.name[:80]}` is not what was recorded"
                self._say(Flaw.PAYLOAD_ALTERED, item.where, message)
        for name in commitments:
            if name in present:
                continue
            if seq in self._withheld.get(name, ()):
                self._withheld[name].remove(seq)
                message = f"payload `{name[:80]}` was withheld from this bundle"
                self._say(Flaw.PAYLOAD_WITHHELD, Where(file, line, seq), message)
            elif not self._absent.add(seq, name, self._mark(file, line)):
                self._miss(name, Where(file, line, seq))

    def erase(self, seq: int, by: str, body: Mapping[str, Any], since: int) -> None:
        """Take note of the `payload.erased` entry at `seq`: it excuses earlier absences.

        What it says of content that is not absent is told only of entries from `since` on: the others are
        not at hand.
        """
        for target, name in erasure_targets(seq, body):
            mark = self._absent.pop(target, name)
            if mark is None and target < since:
                continue
            if mark is None:
                message = f"entry {seq} erases payload `{name[:80]}`, which was not absent"
                self._say(Flaw.PAYLOAD_KEPT, Where(seq=target), message)
            else:
                message = f"payload `{name[:80]}` was erased by `{by}`, as entry {seq} records"
                self._say(Flaw.PAYLOAD_ERASED, self._where(target, mark), message)

    def finish(self) -> None:
        """Report what no entry claimed and what no erasure excused."""
        while self._next is not None:
            self._unclaimed()
        for seq, name, mark in self._absent.left():
            self._miss(name, self._where(seq, mark))
        for name, seqs in self._withheld.items():
            for seq in sorted(seqs):
                message = f"payload `{name[:80]}` is listed as withheld, and is here or never was"
                self._say(Flaw.MANIFEST_DIFFERS, Where(seq=seq), message)

    def _take(self, seq: int) -> Iterator[_Line]:
        while self._next is not None and self.next_seq < seq:
            self._unclaimed()
        while self._next is not None and self.next_seq == seq:
            yield self._next
            self._advance()

    def _unclaimed(self) -> None:
        if self._next is not None:
            message = f"no entry {self.next_seq} stands where this payload belongs"
            self._say(Flaw.PAYLOAD_UNEXPECTED, self._next.where, message)
        self._advance()

    def _advance(self) -> None:
        self._next = next(self._lines, None)
        self.next_seq = _NEVER if self._next is None else self._next.key[0]

    def _mark(self, file: str, line: int) -> int:
        if not self._files or self._files[-1] != file:
            self._files.append(file)
        return len(self._files) - 1 << _LINE_BITS | line

    def _where(self, seq: int, mark: int) -> Where:
        return Where(self._files[mark >> _LINE_BITS], mark & (1 << _LINE_BITS) - 1, seq)

    def _miss(self, name: str, where: Where) -> None:
        message = f"payload `{name[:80]}` is missing, and no later entry records its erasure"
        self._say(Flaw.PAYLOAD_MISSING, where, message)

    def _in_order(self, streams: Iterable[Stream]) -> Iterator[_Line]:
        """Drop the lines that stand out of order, so that one wrong number hides no other line."""
        held, done = None, (-1, "")
        for file, lines in streams:
            for number, raw in enumerate(lines, 1):
                line = self._read(raw, file, number)
                if line is None:
                    continue
                if held is None or line.key > held.key:
                    if held is not None:
                        done = held.key
                        yield held
                    held = line
                else:
                    held = self._out_of_order(held, line, done)
        if held is not None:
            yield held

    def _read(self, raw: bytes, file: str, number: int) -> _Line | None:
        self._count(len(raw))
        try:
            seq, payload = read_payload_line(raw)
        except InvalidInputError as exc:
            self._say(Flaw.PAYLOAD_MALFORMED, Where(file, number), exc.message)
            return None
        return _Line((seq, payload.name), payload, file, number)

    def _out_of_order(self, held: _Line, line: _Line, done: tuple[int, str]) -> _Line:
        """Say which of two lines is misplaced, and keep the other.

        It is the held one, if the new one still follows what came before both.
        """
        if line.key == held.key:
            self._say(Flaw.PAYLOAD_REPEATED, line.where, "the same payload again")
            return held
        moved, kept = (held, line) if line.key > done else (line, held)
        self._say(Flaw.PAYLOAD_MOVED, moved.where, "payload stands out of order")
        return kept

    def _say(self, flaw: Flaw, where: Where, message: str) -> None:
        self._findings.add(Verdict.INTEGRITY, flaw, where, message)
