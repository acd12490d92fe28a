# ruff: noqa: RUF001 - telling these characters apart is what the table is for
"""Which letters pass for an ASCII one? A small table, chosen by hand for the alphabets used in attacks.

The full Unicode confusables table (UTS 39) marks `m` as a look-alike of `rn`; what a person reading an
amount or an address can be fooled by is much less. Compatibility forms (fullwidth, mathematical) need
no table: Unicode itself says which character they stand for.
"""

import unicodedata
from functools import lru_cache
from typing import Final

__all__ = ["ALPHABETS", "ascii_twin", "script"]

ALPHABETS: Final = frozenset(
    {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"}
)
"""The alphabets with letters of one shape. A word that mixes two of them is marked."""

_TWINS: Final = {
    # Latin letters outside ASCII, and marks that read as one
    "ıɩǀⅼ": "iill", "ɑɡʏȷⲟ": "agyjo", "ꞌʼ": "''",
    # Cyrillic
    "асԁеһіјӏоԛрѕԝхуѵг": "acdehijloqpswxyvr", "АВСЕНІЈӀКМОРԚЅТԜХҮѴ": "ABCEHIJIKMOPQSTWXYV",
    # Greek
    "αγνορυικχ": "ayvopuikx", "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳϲ": "ABEZHIKMNOPTYXCjc",
    # Armenian, Cherokee, Coptic, Lisu
    "օսհոզցյ": "ouhnqgj", "ՕՍԼ": "OUL", "ᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ": "ABCDEHJKLMPRSTVWZ",
    "ⲞⲢⲤⲬ": "OPCX", "ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓤꓥꓦꓧꓨꓪꓫꓬꓮꓰꓲꓳꓴ": "BPdDTGKJCZFMNLSRRVVHGWXYAEIOU",
    # Punctuation that changes where an address or a path ends
    "⁄∕⧸": "///", "․。": "..", "։꞉∶ː": "::::", "‐‑": "--", "٪": "%", "ǃ": "!",
}  # fmt: skip

_TABLE: Final = {
    odd: plain for odds, plains in _TWINS.items() for odd, plain in zip(odds, plains, strict=True)
}

_SHAPE_TAGS: Final = ("<font>", "<wide>", "<narrow>", "<compat>")
_ASCII_END: Final = 0x80

CACHED_MAX: Final = 4_096
"""How many characters are remembered: more than any honest text uses, at any size."""


@lru_cache(CACHED_MAX)
def ascii_twin(char: str) -> str | None:
    """Tell which ASCII character `char` may be taken for, if any."""
    return _TABLE.get(char) or _compatible(char)


@lru_cache(CACHED_MAX)
def script(char: str) -> str:
    """Name the script of a letter or digit, by the first word of its Unicode name."""
    name = unicodedata.name(char, "UNNAMED").removeprefix("EXTENDED ")
    return name.replace("-", " ").split(" ", 1)[0]


def _compatible(char: str) -> str | None:
    """Follow Unicode's own word for another form of one ASCII character: fullwidth, bold, Kelvin."""
    parts = unicodedata.decomposition(char).split()
    if parts and parts[0] in _SHAPE_TAGS:
        parts = parts[1:]
    if len(parts) != 1 or parts[0].startswith("<"):
        return None
    plain = chr(int(parts[0], 16))
    return plain if " " < plain < chr(_ASCII_END) else None
