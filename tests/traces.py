"""Looking for a value wherever it could have stayed: in any spelling, in any file."""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

__all__ = ["files_with", "holds", "spellings"]

_PLAIN = re.compile(r"[A-Za-z0-9-]{10,}")


def spellings(value: str | bytes) -> set[bytes]:
    """The ways in which text or bytes are written down without being encrypted."""
    if isinstance(value, bytes):
        return {value, *_spelled(value)}
    text = value
    found = {text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")}
    found.add(text.encode("latin-1", "ignore"))
    for escaped in (
        json.dumps(text)[1:-1],  # a stranger's spelling, not ours
        json.dumps(text, ensure_ascii=False)[1:-1],  # the same
        html.escape(text),
        urllib.parse.quote(text),
        urllib.parse.quote_plus(text),
        repr(text)[1:-1],
    ):
        found |= {escaped.encode(), *_spelled(escaped.encode())}
    # A page may set marks and tags anywhere but between plain letters.
    for part in _PLAIN.findall(text):
        found |= {part.encode(), part.encode("utf-16-le"), *_spelled(part.encode())}
    return found | set(_spelled(text.encode()))


def _spelled(raw: bytes) -> Iterator[bytes]:
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield base64.b32encode(raw).rstrip(b"=")[:-1]
    for shift in range(3):
        # What stands before decides where the groups of three begin; the edges hold neighbours' bits.
        whole = base64.b64encode(b"x" * shift + raw)
        middle = whole[4 if shift else 0 : len(whole) - 4]
        yield middle
        yield middle.translate(bytes.maketrans(b"+/", b"-_"))


def holds(where: bytes | str, value: str | bytes) -> bool:
    raw = where.encode() if isinstance(where, str) else where
    return any(form in raw for form in spellings(value))


def files_with(folder: Path, value: str | bytes) -> list[str]:
    """Name every file under `folder` that holds `value`, by content or by its own name."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [
        str(file.relative_to(folder))
        for file in files
        if holds(file.read_bytes(), value) or holds(file.name, value)
    ]
