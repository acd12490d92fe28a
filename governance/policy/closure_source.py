"""Where does a condition's text begin to mean something? Limits, comments, literals: before any parser.

Every text literal is read here and hidden from the parser behind a blank of its own length, so that escapes,
quotes and line ends have one meaning, ours, and every position stays right. So are `true` and `false`, of
which the parser would lose the place. A field in back quotes (``args.`content-type` ``) is hidden likewise,
behind a name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from governance.policy.cel import BRACKETS_MAX, CONDITION_BYTES_MAX, ConditionError, error_at

__all__ = ["Hidden", "Source", "read_source"]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What stands behind a blank: a literal, or the name of a field in back quotes."""

    value: str | bytes | bool
    length: int
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A condition as written, as the parser is to see it, and what was hidden, by position."""

    text: str
    masked: str
    hidden: Mapping[int, Hidden]

    def refuse(self, position: int, problem: str, hint: str = "") -> ConditionError:
        return error_at(self.text, position, problem, hint)


_TOKEN: Final = re.compile(
    r"""//[^\n]*                                      # a comment
      | (?P<prefix>[rRbB]{0,2})(?P<quote>'''|\"\"\"|'|\")
      | `(?P<name>[^`\r\n]*)`
      | [_a-zA-Z][_a-zA-Z0-9]*
      | .""",
    re.VERBOSE | re.DOTALL,
)
_TRUTHS: Final = {"true": True, "false": False}
_PREFIXES: Final = frozenset({"", "r", "b", "br"})
_FIELD_NAME: Final = re.compile(r"[a-zA-Z0-9_.\-/ ]+")
_BRACKETS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def read_source(text: str) -> Source:
    """Check the limits of `text` and hide its literals. Raises ConditionError."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > CONDITION_BYTES_MAX:
        raise error_at(text, 0, f"condition of {size} bytes exceeds {CONDITION_BYTES_MAX}")
    if not text.strip():
        raise error_at(text, 0, "condition is empty")
    masked: list[str] = []
    hidden: dict[int, Hidden] = {}
    position = depth = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        assert token is not None  # noqa: S101 - the last alternative matches any character
        found = _hide(text, token)
        if found is None:
            depth += _BRACKETS.get(token[0], 0)
            if depth > BRACKETS_MAX:
                raise error_at(text, position, f"condition nests more than {BRACKETS_MAX} brackets")
            masked.append(token[0])
            position = token.end()
            continue
        hidden[position] = found
        blank = "_" * (found.length - 2)
        masked.append(f"_{blank}_" if found.is_name else f'"{blank}"')
        position += found.length
    return Source(text, "".join(masked), hidden)


def _hide(text: str, token: "re.Match[str]") -> Hidden | None:
    if token["quote"]:
        return _literal(text, token)
    if token[0] in _TRUTHS:
        return Hidden(_TRUTHS[token[0]], len(token[0]))
    name = token["name"]
    if name is None:
        return None
    if not _FIELD_NAME.fullmatch(name):
        raise error_at(text, token.start(), f"malformed field name `{name[:80]}`")
    return Hidden(name, len(token[0]), is_name=True)


_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<plain>[abfnrtv"'`?\\])
          | [xX](?P<byte>[0-9a-fA-F]{2})
          | u(?P<short>[0-9a-fA-F]{4})
          | U(?P<long>[0-9a-fA-F]{8})
          | (?P<octal>[0-3][0-7]{2}))""",
    re.VERBOSE,
)
_PLAIN: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_CODE_POINT_MAX: Final = 0x10FFFF


def _literal(text: str, token: "re.Match[str]") -> Hidden:
    """Read one literal. A backslash before the end of a raw one is refused: readers differ."""
    start, prefix, quote = token.start(), token["prefix"].lower(), token["quote"]
    if prefix not in _PREFIXES:
        raise error_at(text, start, f"unknown prefix `{token['prefix']}` of a text literal")
    position = token.end()
    pieces: list[str | bytes] = []
    while not text.startswith(quote, position):
        if position >= len(text) or (len(quote) == 1 and text[position] in "\r\n"):
            raise error_at(text, start, "text literal does not end on its line", r"write `\n`")
        if text[position] != "\\":
            pieces.append(text[position])
            position += 1
        elif "r" in prefix:
            if text.startswith(quote, position + 1):
                raise error_at(text, position, "raw text literal has a backslash before a quote")
            pieces.append("\\")
            position += 1
        else:
            piece, position = _escape(text, position, in_bytes="b" in prefix)
            pieces.append(piece)
    length = position + len(quote) - start
    if "b" in prefix:
        return Hidden(_as_bytes(text, start, pieces), length)
    return Hidden(_as_text(text, start, pieces), length)


def _escape(text: str, position: int, *, in_bytes: bool) -> tuple[str | bytes, int]:
    r"""Read one escape: what it stands for, and where it ends. In bytes, `\x` and octal are bytes."""
    found = _ESCAPE.match(text, position)
    if found is None or (in_bytes and (found["short"] or found["long"])):
        raise error_at(text, position, "unknown escape in a text literal", r"write `\\`")
    if found["plain"]:
        return _PLAIN.get(found["plain"], found["plain"]), found.end()
    octal = found["octal"]
    digits = found["byte"] or found["short"] or found["long"]
    code = int(octal, 8) if octal else int(digits, 16)
    if code > _CODE_POINT_MAX:
        raise error_at(text, position, "escape is beyond the last character")
    return bytes([code]) if in_bytes else chr(code), found.end()


def _as_text(text: str, start: int, pieces: list[str | bytes]) -> str:
    value = "".join(piece for piece in pieces if isinstance(piece, str))
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise error_at(text, start, "text literal holds a lone surrogate")
    return value


def _as_bytes(text: str, start: int, pieces: list[str | bytes]) -> bytes:
    try:
        return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
    except UnicodeEncodeError:
        raise error_at(text, start, "text literal holds a lone surrogate") from None
