"""What can be wrong with a policy, and how bad is it? The words that checks at load speak."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governance.policy.cel import did_you_mean

__all__ = ["NEAR", "Code", "Flaw", "Severity", "near", "suggest"]

NEAR: Final = 0.8
"""How alike a word must be to a known one to be a slip of the pen and not another word."""


class Severity(StrEnum):
    """A set with an `error` is refused; a `warning` is told and changes nothing."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """Which check speaks."""

    UNKNOWN_FIELD = "unknown-field"
    TYPE = "type"
    NEVER_EQUAL = "never-equal"
    NOT_BOOLEAN = "not-boolean"
    NO_TOOL = "no-tool"
    UNREACHABLE = "unreachable"
    MAY_BE_MISSING = "may-be-missing"
    ERROR_ALLOWS = "error-allows"
    UNANCHORED = "unanchored"
    FROM_ARGUMENTS = "from-arguments"
    ORDER_OF_TIERS = "order-of-tiers"
    REDUNDANT = "redundant"
    SWALLOWED = "swallowed"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing wrong at offset `position` of a condition."""

    position: int
    severity: Severity
    code: Code
    message: str
    hint: str = ""


def near(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is likely a misspelling of."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=NEAR)
    folded = (name for name in sorted(known) if name.casefold() == word.casefold())
    return next(folded, found[0] if found else None)


def suggest(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is none of `known`."""
    names = sorted(known)
    close = near(word, names)
    return f"did you mean `{close}`?" if close else did_you_mean(word, names)
