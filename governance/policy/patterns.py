"""What may a regular expression cost? Known before a text is searched: nothing can stop a search then.

RE2 searches in one pass, so none takes for ever. But where it cannot keep the states of its automaton,
each byte costs it some nanoseconds for each instruction of the compiled program, and `(a?){900}` has
1,800. So a search is priced by the product of both, and the compiling of a pattern that an argument may
have made by what that pattern says.

Nothing is captured: a condition asks only whether there is a match.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import re2  # pyright: ignore[reportMissingTypeStubs] # it has none

__all__ = [
    "PATTERN_CHARS_MAX",
    "NoPattern",
    "Pattern",
    "compile_steps",
    "computed",
    "search_steps",
    "written",
]

PATTERN_CHARS_MAX: Final = 1024

_RE2: Final = cast("Any", re2)

_STATES_BYTES: Final = 1024 * 1024
"""Of program and states. With more, making states may take longer than a search without them."""
_WRITTEN_BYTES_MAX: Final = 8 * 1024 * 1024
"""RE2's own limit: what needs more is `(\\pL{9}){99}`, and nothing that anybody writes."""
_COMPUTED_BYTES_MAX: Final = 128 * 1024
"""Some 10,000 instructions. It is what bounds how long a hostile pattern takes to compile."""

_WORK_PER_STEP: Final = 256
"""Instructions times bytes: a microsecond or two at worst, and commonly a few nanoseconds."""
_WORK_FREE: Final = 2048
"""What the step of the node itself pays for: a mail address, a path, an account number."""

_COMPILE_STEPS: Final = 500
_STEPS_PER_CHAR: Final = 2
_STEPS_PER_REPETITION: Final = 40
_STEPS_PER_CLASS: Final = 100
"""`\\pL` alone is 600 ranges of characters."""


class NoPattern(Exception):  # noqa: N818 - a signal inside the engines: it ends as a CelFailure
    """It is no regular expression, or too large a one. It carries no text on purpose."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. `search` answers None where UTF-8 text has no match; `size` counts instructions."""

    search: Callable[[bytes], object]
    size: int


def written(pattern: str) -> Pattern:
    """Compile a pattern that somebody wrote in a rule. Raises NoPattern."""
    try:
        return _compile(pattern, _STATES_BYTES)
    except NoPattern:
        return _compile(pattern, _WRITTEN_BYTES_MAX)


def computed(pattern: str) -> Pattern:
    """Compile a pattern made while a condition is evaluated; pay `compile_steps` first. Raises NoPattern."""
    return _compile(pattern, _COMPUTED_BYTES_MAX)


def compile_steps(pattern: str) -> int:
    """Price `computed`."""
    classes = pattern.count("\\p") + pattern.count("\\P")
    return (
        _COMPILE_STEPS
        + _STEPS_PER_CHAR * len(pattern)
        + _STEPS_PER_REPETITION * pattern.count("{")
        + _STEPS_PER_CLASS * classes
    )


def search_steps(pattern: Pattern, text: bytes) -> int:
    """Price a search, over what the node itself costs."""
    work = (len(text) + 1) * pattern.size
    return work // _WORK_PER_STEP if work > _WORK_FREE else 0


def _compile(pattern: str, memory: int) -> Pattern:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise NoPattern
    options = _RE2.Options()
    options.log_errors = False  # it would print the pattern, which may be an argument
    options.never_capture = True
    options.max_mem = memory
    try:
        compiled = _RE2.compile(pattern, options)
    except (_RE2.error, UnicodeError):
        raise NoPattern from None
    # The reverse one, which finds where a match begins, is -1 where it does not fit: then none is used.
    return Pattern(compiled.search, max(compiled.programsize, compiled.reverseprogramsize))
