r"""What one hands over about one decision: a small file that shows, alone and offline, what the log says.

    {"call":"run-7k3f/1.0",                    the call it is about; null: about the one entry in it
     "checkpoint":"acme.example/agents\n…",    a signed note, with whatever signatures it has collected
     "entries":[{"entry":"{…}","path":[0,1]}], envelopes as they were hashed, by seq; and the way to the root
     "format":"governance/receipt/v1",
     "hashes":["9f86d0…"],                     what the paths are made of: each once, in order of first use
     "payloads":[{"content":"…","name":"args","salt":"…","seq":6}]}

Canonical JSON and a line end, and nothing else parses. `path` is the inclusion proof of RFC 9162 section
2.1.3.1 as places in `hashes`, from the leaf upwards: the entries of one call stand close together, so
they share most of it. A payload that an entry commits to and that is not here was withheld.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from governance.canonical import JSON, PAYLOAD_BYTES_MAX, parse_json, payload_bytes
from governance.errors import InvalidInputError
from governance.ids import Digest, parse_digest
from governance.ledger.entry import Payload

__all__ = ["FORMAT", "RECEIPT_BYTES_MAX", "Disclosed", "Proven", "Receipt"]

FORMAT: Final = "governance/receipt/v1"
RECEIPT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
ENTRIES_MAX: Final = 1_000
PATH_HASHES_MAX: Final = 64
"""More than any tree of 2^63 entries asks for."""

_FIELDS: Final = {"call", "checkpoint", "entries", "format", "hashes", "payloads"}


@dataclass(frozen=True, slots=True)
class Proven:
    """An envelope, byte for byte, and its inclusion proof."""

    raw: bytes
    path: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Disclosed:
    """Content that entry `seq` commits to."""

    seq: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class Receipt:
    """Some entries of one log, under one checkpoint: all about `call`, or one alone.

    Nothing in it is believed before `verify_receipt` has looked at it.
    """

    call: str | None
    checkpoint: str
    entries: tuple[Proven, ...]
    payloads: tuple[Disclosed, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        places = dict[Digest, int]()
        entries: list[JSON] = [
            {
                "entry": item.raw.decode(),
                "path": [places.setdefault(hash, len(places)) for hash in item.path],
            }
            for item in self.entries
        ]
        return {
            "call": self.call,
            "checkpoint": self.checkpoint,
            "entries": entries,
            "format": FORMAT,
            "hashes": [hash.hex() for hash in places],
            "payloads": [
                {
                    "content": item.payload.content.decode(),
                    "name": item.payload.name,
                    "salt": item.payload.salt.hex(),
                    "seq": item.seq,
                }
                for item in self.payloads
            ],
        }

    def to_bytes(self) -> bytes:
        """Write the file. Raises CanonicalError when it would be larger than a receipt may be."""
        return payload_bytes(self.to_json(), limit=RECEIPT_BYTES_MAX - 1) + b"\n"

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Receipt":
        """Read what `to_bytes` wrote, and nothing else. Raises InvalidInputError."""
        fields = _object(parse_json(raw, limit=RECEIPT_BYTES_MAX), _FIELDS)
        if fields["format"] != FORMAT:
            raise InvalidInputError(
                f"receipt is of format `{fields['format']!s:.80}`", hint=f"this reads `{FORMAT}`"
            )
        hashes = [parse_digest(_text(item)) for item in _list(fields["hashes"])]
        receipt = cls(
            call=None if fields["call"] is None else _text(fields["call"]),
            checkpoint=_text(fields["checkpoint"]),
            entries=tuple(_entries(fields["entries"], hashes)),
            payloads=tuple(_payloads(fields["payloads"])),
        )
        if not receipt.entries or len(receipt.entries) > ENTRIES_MAX:
            raise InvalidInputError(f"receipt holds `{len(receipt.entries)}` entries")
        if receipt.call is None and len(receipt.entries) != 1:
            raise InvalidInputError("receipt of one entry holds several")
        if receipt.to_bytes() != raw:
            raise InvalidInputError("receipt is not in canonical form")
        return receipt


def _entries(value: object, hashes: Sequence[Digest]) -> Iterator[Proven]:
    for item in _list(value):
        fields = _object(item, {"entry", "path"})
        places = [_count(place) for place in _list(fields["path"])]
        if len(places) > PATH_HASHES_MAX or any(place >= len(hashes) for place in places):
            raise InvalidInputError("receipt has a path that leads nowhere")
        yield Proven(_text(fields["entry"]).encode(), tuple(hashes[place] for place in places))


def _payloads(value: object) -> Iterator[Disclosed]:
    before = (-1, "")
    for item in _list(value):
        fields = _object(item, {"content", "name", "salt", "seq"})
        seq, name = _count(fields["seq"]), _text(fields["name"])
        if (seq, name) <= before:
            raise InvalidInputError("receipt has payloads twice, or out of order")
        before = seq, name
        salt = parse_digest(_text(fields["salt"]))  # 32 bytes, spelled like a digest
        yield Disclosed(seq, Payload(name, salt, _text(fields["content"]).encode()))


def _object(value: object, names: set[str]) -> Mapping[str, Any]:
    if type(value) is not dict or cast("dict[str, Any]", value).keys() != names:
        raise InvalidInputError("receipt has missing or unknown fields")
    return cast("dict[str, Any]", value)


def _list(value: object) -> list[object]:
    if type(value) is not list:
        raise InvalidInputError("receipt has a field of another type")
    return cast("list[object]", value)


def _text(value: object) -> str:
    if type(value) is not str:
        raise InvalidInputError("receipt has a field of another type")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInputError("receipt has a field of another type")
    return value
