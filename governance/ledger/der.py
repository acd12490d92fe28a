"""What do these DER bytes hold? A reader that takes one spelling only (X.690 section 10).

Definite lengths in their shortest form, single-byte tags, nothing left over. Whatever else turns up is
refused: a stamp that two programs read differently proves nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from governance.errors import InvalidInputError

__all__ = [
    "BOOLEAN",
    "INTEGER",
    "NULL",
    "OCTETS",
    "OID",
    "SEQUENCE",
    "SET",
    "TIME",
    "Item",
    "Reading",
    "encode",
    "encode_int",
    "read_der",
]

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
OCTETS: Final = 0x04
NULL: Final = 0x05
OID: Final = 0x06
TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG_TAG: Final = 0x1F
_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4
_ARC_MAX: Final = 2**64


@dataclass(frozen=True, slots=True)
class Item:
    """One value: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    raw: bytes

    def inside(self) -> "Reading":
        """Read what a constructed value holds."""
        return Reading(self.content)

    def integer(self) -> int:
        content = self.content
        redundant = content[:1] in (b"\0", b"\xff") and len(content) > 1
        if not content or (redundant and (content[0] ^ content[1]) < _LONG_LENGTH):
            raise _malformed("an integer")
        return int.from_bytes(content, "big", signed=True)

    def oid(self) -> str:
        """An object identifier in its dotted form."""
        arcs, value, open_arc = list[int](), 0, True
        for byte in self.content:
            if (open_arc := bool(byte & 0x80)) and value == 0 and byte == _LONG_LENGTH:
                raise _malformed("an object identifier")
            value = value << 7 | byte & 0x7F
            if value >= _ARC_MAX:
                raise _malformed("an object identifier")
            if not open_arc:
                arcs.append(value)
                value = 0
        if open_arc or not arcs:
            raise _malformed("an object identifier")
        first = min(arcs[0] // 40, 2)
        return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


class Reading:
    """Takes values one after another from `data`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def take(self, tag: int) -> Item:
        """The next value, which has to be of `tag`."""
        item = self.any()
        if item.tag != tag:
            raise _malformed(f"tag {item.tag:#04x} where {tag:#04x} belongs")
        return item

    def maybe(self, tag: int) -> Item | None:
        """The next value if it is of `tag`."""
        return self.take(tag) if self._data[self._at : self._at + 1] == bytes([tag]) else None

    def any(self) -> Item:
        data, start = self._data, self._at
        if len(data) < start + 2 or data[start] & _LONG_TAG == _LONG_TAG:
            raise _malformed("a value")
        length, at = data[start + 1], start + 2
        if length & _LONG_LENGTH:
            count = length & 0x7F
            spelled = data[at : at + count]
            length, at = int.from_bytes(spelled, "big"), at + count
            shortest = length >= _LONG_LENGTH and spelled[:1] != b"\0"
            if not 0 < count <= _LENGTH_BYTES_MAX or len(spelled) != count or not shortest:
                raise _malformed("a length")
        if at + length > len(data):
            raise _malformed("a value that ends too early")
        self._at = at + length
        return Item(data[start], data[at : at + length], data[start : at + length])

    def rest(self) -> Iterator[Item]:
        while self.more:
            yield self.any()

    def end(self) -> None:
        """There is nothing left. Raises InvalidInputError if there is."""
        if self.more:
            raise _malformed("more than it should hold")


def read_der(data: bytes, tag: int) -> Item:
    """Read `data` as exactly one value of `tag`. Raises InvalidInputError."""
    reading = Reading(data)
    item = reading.take(tag)
    reading.end()
    return item


def encode(tag: int, *parts: bytes) -> bytes:
    """Write a value that holds `parts`."""
    content = b"".join(parts)
    size = len(content)
    if size < _LONG_LENGTH:
        return bytes([tag, size]) + content
    spelled = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG_LENGTH | len(spelled)]) + spelled + content


def encode_int(value: int) -> bytes:
    """Write an integer that is not negative."""
    return encode(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _malformed(what: str) -> InvalidInputError:
    return InvalidInputError(f"stamp is not DER: {what}")
