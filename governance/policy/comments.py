"""Does a comment swallow what stands on the next line? YAML may make one line of several.

Below `>-`, in quotes and in plain text it does, and a `//` comment goes on to the end of its line. What was
written on the next line is then no part of the condition, and nothing says so: it is an error.
"""

import re
from collections.abc import Iterator
from typing import Final

from governance.policy.closure_source import read_source
from governance.policy.flaws import Code, Flaw, Severity
from governance.policy.rules import Written
from governance.policy.yaml_source import place_in

__all__ = ["swallowed"]

_MARK: Final = "//"
_COMMENT: Final = re.compile(rf"{_MARK}[^\n]*")


def swallowed(written: Written, raw: str) -> Iterator[Flaw]:
    """Tell each comment of a condition that holds a line of the file `raw` which is no comment there."""
    lines = raw.splitlines()
    for comment in _COMMENT.finditer(read_source(written.text).masked):
        first = _line(written, raw, comment.start())
        last = _line(written, raw, comment.start() + len(comment[0].rstrip()) - 1)
        inside = [line.strip() for line in lines[first:last]]
        if any(line and not line.startswith(_MARK) for line in inside):
            message = "the comment goes on over the next lines: YAML makes them one line"
            hint = "write `|` in place of `>-`, or leave the comment out"
            yield Flaw(comment.start(), Severity.ERROR, Code.SWALLOWED, message, hint)


def _line(written: Written, raw: str, position: int) -> int:
    return place_in(raw, written.line, written.column, written.text[:position])[0]
