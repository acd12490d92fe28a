r"""What in this text is not what it looks like? Pure: text in, segments out; nothing is dropped.

Whoever reads an approval card must see every character that a model, a tool or an attacker put there.
`reveal` cuts a text into segments; a segment with a mark holds characters that are invisible, reorder
what is beside them, or pass for others. Joined, the segments are the text again, exactly.

Two ways to print a marked segment: `label` for people (`U+202E`), and `escape`, its JSON spelling
(`\u202e`), with which a shown JSON text stays JSON of the same value.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from re import compile as pattern
from typing import Final

from governance.web.lookalikes import ALPHABETS, ascii_twin, script

__all__ = ["Mark", "Segment", "printable", "reveal"]


class Mark(StrEnum):
    """Why a segment is marked."""

    LAYOUT = "layout"
    """A line break or tab: harmless, shown so that it can be counted."""
    CONTROL = "control"
    BIDI = "bidi"
    INVISIBLE = "invisible"
    TAG = "tag"
    SPACE = "space"
    LOOKALIKE = "lookalike"
    STACKED = "stacked"
    UNKNOWN = "unknown"
    """No character is assigned here, or only some private font knows which."""


_WHY: Final = {
    Mark.LAYOUT: "line break or tab",
    Mark.CONTROL: "control character",
    Mark.BIDI: "changes the direction of the text around it",
    Mark.INVISIBLE: "takes no room on the screen",
    Mark.TAG: "invisible copy of ASCII text",
    Mark.SPACE: "not an ordinary space",
    Mark.LOOKALIKE: "not the character it looks like",
    Mark.STACKED: "drawn over its neighbours",
    Mark.UNKNOWN: "no character is assigned here",
}

LABEL_CODES_MAX: Final = 8
COMBINING_RUN_MAX: Final = 2
"""Vietnamese and polytonic Greek need two marks on a letter, decomposed; text that climbs needs more."""

_SUSPECT: Final = pattern(r"[^\x20-\x7e]")
_PLAIN: Final = frozenset(map(chr, range(0x20, 0x7F)))
_PIECE: Final = pattern(r"(?s)[\x20-\x7e]+|.")
"""ASCII, which is what it looks like, goes in one piece; anything else character by character."""
_CHUNK: Final = pattern(r"\S+|\s+")
_BIDI: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_BLANK_LETTERS: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159"
_OVERLAYS: Final = frozenset(
    "\u0334\u0335\u0336\u0337\u0338\u20d2\u20d3\u20d8\u20d9\u20da\u20e5\u20e6"
)
_TAGS: Final = range(0xE0000, 0xE0080)
_TAG_TEXT: Final = range(0xE0020, 0xE007F)
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0x180B, 0x1810), range(0xE0100, 0xE01F0))
_BMP_END: Final = 0x10000


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the text. `twin` is what a look-alike may be read as, `hidden` what tags spell."""

    text: str
    mark: Mark | None = None
    twin: str = ""
    hidden: str = ""

    @property
    def deceptive(self) -> bool:
        return self.mark is not None and self.mark is not Mark.LAYOUT

    @property
    def visible(self) -> bool:
        """Whether the characters themselves can be drawn beside their label."""
        return self.mark is Mark.LOOKALIKE

    @property
    def drawn(self) -> str:
        """Draw a line break or tab as a sign in front of itself."""
        return self.text.replace("\n", "\u21b5\n").replace("\t", "\u21e5\t")

    @property
    def label(self) -> str:
        """Name the characters in ASCII: `U+202E`, `U+200B x3`, `U+E0068 U+E0069`."""
        codes = [
            code if count == 1 else f"{code} x{count}"
            for code, count in (
                (key, len(list(run))) for key, run in groupby(map(_code, self.text))
            )
        ]
        more = len(codes) - LABEL_CODES_MAX
        return " ".join(codes[:LABEL_CODES_MAX]) + (f" and {more} more" if more > 0 else "")

    @property
    def escape(self) -> str:
        """Spell the characters as JSON escapes."""
        return "".join(map(_escape, self.text))

    @property
    def why(self) -> str:
        """Say for people what is odd about it, with the characters' Unicode names where they are few."""
        if self.mark is None:
            return ""
        names = [unicodedata.name(char, "unnamed").lower() for char in dict.fromkeys(self.text)]
        listed = f" ({', '.join(names)})" if len(names) <= COMBINING_RUN_MAX else ""
        twin = f"; looks like {self.twin}" if self.twin else ""
        hidden = f"; spells {self.hidden}" if self.hidden else ""
        return f"{_WHY[self.mark]}{listed}{twin}{hidden}"


def reveal(text: str) -> tuple[Segment, ...]:
    """Cut `text` where something is not as it looks. Total: any string at all, lone surrogates too."""
    if not _SUSPECT.search(text):
        return (Segment(text),) if text else ()
    return tuple(_merge(_marked(text)))


def printable(text: str) -> str:
    """Write `text` for a terminal or a log line: every mark but a look-alike's replaced by `<U+…>`."""
    return "".join(
        segment.text
        if segment.mark is None
        else (segment.text if segment.visible else "") + f"<{segment.label}>"
        for segment in reveal(text)
    )


_Marked = tuple[str, Mark | None]


def _marked(text: str) -> Iterator[_Marked]:
    settled = _settled_scripts(text)
    run = 0
    for chunk in _CHUNK.findall(text):
        odd = set[int]() if chunk.isascii() else _odd_letters(chunk, settled)
        for piece in _PIECE.finditer(chunk):
            char = piece.group()
            run = run + 1 if len(char) == 1 and unicodedata.combining(char) else 0
            mark = None if char[0] in _PLAIN else _mark_of(char, run)
            yield char, mark or (Mark.LOOKALIKE if piece.start() in odd else None)


def _merge(chars: Iterable[_Marked]) -> Iterator[Segment]:
    """Join neighbours of one mark, so that a million zero-width spaces are one segment."""
    for mark, group in groupby(chars, key=lambda pair: pair[1]):
        text = "".join(char for char, _ in group)
        twin = _twins(text) if mark is Mark.LOOKALIKE else ""
        yield Segment(text, mark, twin, _tag_text(text) if mark is Mark.TAG else "")


def _mark_of(char: str, combining_run: int) -> Mark | None:
    """Judge one character by itself; `combining_run` counts the combining marks up to here."""
    if char in _BY_CHAR:
        return _BY_CHAR[char]
    if combining_run > COMBINING_RUN_MAX or char in _OVERLAYS:
        return Mark.STACKED
    return _BY_CATEGORY.get(unicodedata.category(char))


_BY_CHAR: Final[Mapping[str, Mark]] = (
    {chr(code): Mark.INVISIBLE for block in _SELECTORS for code in block}
    | dict.fromkeys(_BLANK_LETTERS, Mark.INVISIBLE)
    | {chr(code): Mark.TAG for code in _TAGS}
    | dict.fromkeys(_BIDI, Mark.BIDI)
    | dict.fromkeys("\n\t", Mark.LAYOUT)
)
_BY_CATEGORY: Final[Mapping[str, Mark]] = {
    "Cc": Mark.CONTROL,
    "Cf": Mark.INVISIBLE,
    "Cn": Mark.UNKNOWN,
    "Co": Mark.UNKNOWN,
    "Cs": Mark.UNKNOWN,
    "Zl": Mark.SPACE,
    "Zp": Mark.SPACE,
    "Zs": Mark.SPACE,
}


def _odd_letters(chunk: str, settled: frozenset[str]) -> set[int]:
    """Find the places in a stretch without spaces where a character passes for another."""
    odd = {
        place
        for place, char in enumerate(chunk)
        if not char.isascii() and _passes_alone(char, settled)
    }
    for places in _words(chunk):
        odd |= _odd_in_word(chunk, places, settled)
    return odd


def _passes_alone(char: str, settled: frozenset[str]) -> bool:
    """Judge forms and marks that imitate ASCII whatever stands beside them, and foreign digits."""
    if _digit(char):
        return script(char) not in settled
    if char.isalpha() and script(char) in ALPHABETS - {"LATIN"}:
        return False
    return ascii_twin(char) is not None


def _odd_in_word(chunk: str, places: list[int], settled: frozenset[str]) -> set[int]:
    """Judge one word: letters of a second alphabet, or a foreign word made of look-alikes only.

    The latter is marked beside ASCII letters (a domain name with an English ending), or where nothing
    else in the text shows that the alphabet is at home: Russian text holds such words honestly.
    """
    scripts = {place: script(chunk[place]) for place in places}
    alphabets = ALPHABETS.intersection(scripts.values())
    if len(alphabets) > 1:
        home = "LATIN" if any(chunk[place].isascii() for place in places) else scripts[places[0]]
        return {place for place in places if scripts[place] in alphabets - {home}}
    foreign = alphabets - {"LATIN"}
    if not foreign or not all(ascii_twin(chunk[place]) for place in places):
        return set()
    beside_ascii = any(char.isascii() and char.isalpha() for char in chunk)
    return set(places) if beside_ascii or not foreign <= settled else set()


def _words(chunk: str) -> Iterator[list[int]]:
    """List the places of each run of letters; a combining mark or an invisible does not end a word."""
    word: list[int] = []
    for place, char in enumerate(chunk):
        if char.isalpha():
            word.append(place)
        elif word and unicodedata.category(char) not in {"Mn", "Cf"}:
            yield word
            word = []
    if word:
        yield word


def _settled_scripts(text: str) -> frozenset[str]:
    """Tell which scripts other than Latin are really written here: with letters that have no twin."""
    return frozenset(
        script(char)
        for char in set(text)
        if not char.isascii() and char.isalpha() and ascii_twin(char) is None
    )


def _digit(char: str) -> str:
    """Write a decimal digit of another script in ASCII: Bengali four looks like an 8."""
    if char.isascii() or unicodedata.category(char) != "Nd":
        return ""
    return str(unicodedata.decimal(char))


def _twins(text: str) -> str:
    """Write a look-alike as it may be read; empty unless each character has a twin."""
    twins = [ascii_twin(char) or _digit(char) for char in text]
    return "".join(twins) if all(twins) else ""


def _tag_text(text: str) -> str:
    return "".join(chr(ord(char) - 0xE0000) for char in text if ord(char) in _TAG_TEXT)


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _escape(char: str) -> str:
    code = ord(char)
    if code < _BMP_END:
        return f"\\u{code:04x}"
    code -= _BMP_END
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
