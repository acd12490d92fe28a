"""How a file becomes lines, whatever lies in it: bounded, and with nothing left out."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

__all__ = ["Stream", "cut_lines"]

Stream: TypeAlias = tuple[str, Iterable[bytes]]
"""A file by name, and its lines, each with its line end."""


def cut_lines(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Cut chunks into lines with their ends. A line over `limit` bytes is cut there, without an end."""
    rest, skipping = b"", False
    for chunk in chunks:
        *whole, tail = chunk.split(b"\n")
        for part in whole:
            line, rest = rest + part, b""
            if not skipping:
                yield line + b"\n" if len(line) <= limit else line[:limit]
            skipping = False
        rest = b"" if skipping else rest + tail
        if len(rest) > limit:
            yield rest[:limit]
            rest, skipping = b"", True
    if rest:
        yield rest
