"""How are frozen arguments laid out, so that a person sees all of them and can check each? Pure.

Two views of one value: a table of leaf paths and values for reading, and the canonical JSON, exact. In
the JSON every marked character is spelled as a JSON escape, so what is shown is still JSON of the very
same value; where nothing is marked it is the canonical bytes themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from re import compile as pattern
from typing import Final, cast

from governance.canonical import payload_bytes
from governance.web.reveal import Segment, reveal

__all__ = ["FULL_READ_BYTES", "MARKS_MAX", "Leaf", "bounded", "exact", "leaves", "must_read_all"]

FULL_READ_BYTES: Final = 4 * 1024
"""Longer arguments need a word from the approver that they were read to the end."""
MARKS_MAX: Final = 2_000
"""How many marks one view explains one by one."""
PATH_CHARS_MAX: Final = 240
"""A longer path is cut in the table, and said to be: keys nested in keys would grow with the square."""

_NAME: Final = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value and where it stands.

    `kind` is JSON's name for it, `origin` the most trusted place where its text occurred before, where
    that is known; `cut` tells that the path goes on.
    """

    path: tuple[Segment, ...]
    kind: str
    value: tuple[Segment, ...]
    origin: str = ""
    cut: bool = False


def leaves(arguments: object, origins: Mapping[str, str] | None = None) -> tuple[Leaf, ...]:
    """List every leaf in canonical order: `amount_cents`, `to.iban`, `lines[2]["odd key"]`."""
    known = origins or {}
    found = [
        Leaf(
            path=reveal(path or "$"),
            kind=_kind(value),
            value=reveal(value) if isinstance(value, str) else _plain(value),
            origin=known.get(path, ""),
            cut=path.endswith(_CUT),
        )
        for path, value in _walk(arguments, "")
    ]
    values = bounded([leaf.value for leaf in found])
    return tuple(replace(leaf, value=value) for leaf, value in zip(found, values, strict=True))


def exact(arguments: object) -> tuple[Segment, ...]:
    """Spell the canonical JSON; the text of a marked segment is what its escape stands for."""
    return tuple(_merge_plain(_spell(arguments)))


def bounded(texts: Sequence[tuple[Segment, ...]]) -> Sequence[tuple[Segment, ...]]:
    """Write the marks as bare escapes where they are so many that marking each would choke a browser.

    Nothing is lost: escapes are seen as well as marks are, they only do not explain themselves.
    """
    if sum(part.mark is not None for text in texts for part in text) <= MARKS_MAX:
        return texts
    return [
        (Segment("".join(part.escape if part.deceptive else part.text for part in text)),)
        for text in texts
    ]


def must_read_all(size: int, spelled: Sequence[Segment]) -> bool:
    """Tell whether approving takes an extra word: long arguments, or any that are not what they seem."""
    return size > FULL_READ_BYTES or any(part.deceptive for part in spelled)


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    cut = path.endswith(_CUT)
    if isinstance(value, Mapping) and value:
        members = cast("Mapping[str, object]", value)
        for key in _ordered(members):
            yield from _walk(members[key], path if cut else _short(path + _step(path, key)))
    elif isinstance(value, list) and value:
        for place, item in enumerate(cast("list[object]", value)):
            yield from _walk(item, path if cut else _short(f"{path}[{place}]"))
    else:
        yield path, value


def _step(path: str, key: str) -> str:
    if _NAME.fullmatch(key):
        return f".{key}" if path else key
    return f"[{payload_bytes(key[: PATH_CHARS_MAX + 1]).decode()}]"


def _short(path: str) -> str:
    return path if len(path) <= PATH_CHARS_MAX else path[:PATH_CHARS_MAX] + _CUT


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    return "empty" if isinstance(value, Mapping | Sequence) else "number"


def _spell(value: object) -> Iterator[Segment]:
    if isinstance(value, str):
        yield from _spell_text(value)
    elif isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        yield Segment("{")
        for place, key in enumerate(_ordered(members)):
            yield Segment("," if place else "")
            yield from _spell_text(key)
            yield Segment(":")
            yield from _spell(members[key])
        yield Segment("}")
    elif isinstance(value, list):
        yield Segment("[")
        for place, item in enumerate(cast("list[object]", value)):
            yield Segment("," if place else "")
            yield from _spell(item)
        yield Segment("]")
    else:
        yield from _plain(value)


def _spell_text(text: str) -> Iterator[Segment]:
    yield Segment('"')
    for part in reveal(text):
        yield part if part.deceptive else Segment(payload_bytes(part.text).decode()[1:-1])
    yield Segment('"')


def _merge_plain(parts: Iterator[Segment]) -> Iterator[Segment]:
    pending: list[str] = []
    for part in parts:
        if part.mark is None:
            pending.append(part.text)
            continue
        yield Segment("".join(pending))
        pending.clear()
        yield part
    yield Segment("".join(pending))


def _plain(value: object) -> tuple[Segment, ...]:
    return (Segment(payload_bytes(value).decode()),)


def _ordered(members: Mapping[str, object]) -> list[str]:
    """Sort keys as RFC 8785 section 3.2.3 does: by UTF-16 code units."""
    return sorted(members, key=lambda key: key.encode("utf-16-be"))
