"""Of which parts is a condition made? For people who ask why, and for coverage.

A condition is split where its own text is: at `||`, `&&`, `!( )`, `? :` and the brackets around them. What
is left is a *clause*, which people think of as one question. Every part is an expression of its own, so
any engine can be asked for its value; the inside of a macro is not, and stays whole.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governance.policy.closure_source import read_source

__all__ = ["Form", "Part", "split"]


class Form(StrEnum):
    """How the parts of an expression are joined."""

    CLAUSE = "clause"
    ANY = "||"
    ALL = "&&"
    NOT = "!"
    CHOICE = "?:"


@dataclass(frozen=True, slots=True)
class Part:
    """One expression: its text on one line and without comments, and what it is made of."""

    text: str
    form: Form = Form.CLAUSE
    parts: "tuple[Part, ...]" = ()


def split(source: str) -> Part:
    """Split a condition that an engine has compiled."""
    return _Splitter(source).part(0, None)


_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+|//[^\n]*)
      | "[^"]*"                       # a literal: its content is masked, so no quote is in it
      | [A-Za-z_][A-Za-z0-9_]*
      | &&|\|\||!=
      | .""",
    re.VERBOSE,
)
_DEPTH: Final[Mapping[str, int]] = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    depth: int
    """How many brackets are open around it; a bracket stands outside itself."""


class _Splitter:
    """The tokens of one condition, and its parts as ranges of them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tuple(_tokens(read_source(source).masked))

    def part(self, first: int, end: int | None) -> Part:
        first, end = self._within_brackets(first, len(self._tokens) if end is None else end)
        text = self._text(first, end)
        choice = self._at(first, end, "?")
        if choice:
            colon = next(at for at in self._at(first, end, ":") if at > choice[0])
            return Part(text, Form.CHOICE, self._parts([choice[0], colon], first, end))
        for form in (Form.ANY, Form.ALL):
            at = self._at(first, end, form.value)
            if at:
                return Part(text, form, self._parts(at, first, end))
        if self._tokens[first].text == "!" and self._closes(first + 1) == end - 1:
            inner = self.part(first + 1, end)
            if inner.form is not Form.CLAUSE:
                return Part(text, Form.NOT, (inner,))
        return Part(text)

    def _parts(self, cuts: Sequence[int], first: int, end: int) -> tuple[Part, ...]:
        starts = [first, *(cut + 1 for cut in cuts)]
        return tuple(map(self.part, starts, [*cuts, end]))

    def _at(self, first: int, end: int, text: str) -> list[int]:
        """Where `text` stands in a range, outside of brackets."""
        depth = self._tokens[first].depth
        return [
            at
            for at in range(first, end)
            if self._tokens[at].text == text and self._tokens[at].depth == depth
        ]

    def _within_brackets(self, first: int, end: int) -> tuple[int, int]:
        while self._closes(first) == end - 1:
            first, end = first + 1, end - 1
        return first, end

    def _closes(self, at: int) -> int:
        """Where the bracket that opens at `at` is closed; -1 where none opens."""
        opening = self._tokens[at]
        if opening.text != "(":
            return -1
        rest = range(at + 1, len(self._tokens))
        return next(i for i in rest if self._tokens[i].depth == opening.depth)

    def _text(self, first: int, end: int) -> str:
        """The range as written, with one space where there was a gap."""
        pieces: list[str] = []
        last = self._tokens[first].start
        for token in self._tokens[first:end]:
            pieces += (" " if token.start > last else "", self._source[token.start : token.end])
            last = token.end
        return "".join(pieces)


def _tokens(masked: str) -> Iterator[_Token]:
    depth = 0
    for found in _TOKEN.finditer(masked):
        if found["gap"]:
            continue
        change = _DEPTH.get(found[0], 0)
        depth += min(change, 0)
        yield _Token(found[0], found.start(), found.end(), depth)
        depth += max(change, 0)
