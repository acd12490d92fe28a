"""docs/runs.md draws how a call moves: no state is missing, and no call moves where there is no arrow."""

import re
from collections import defaultdict
from typing import get_args

from docs.reading import ROOT, blocks

from agent.journal import place, read
from agent.state import RunState, fold
from agent.state.calls import CallState
from agent.state.events import Status

PAGE = ROOT / "docs" / "runs.md"
ARROW = re.compile(r"^    (\S+) --> (\w+)(?::.*)?$", re.MULTILINE)


def arrows() -> set[tuple[str, str]]:
    (drawn,) = blocks(PAGE, "mermaid")
    return {(a, b) for a, b in ARROW.findall(drawn) if "[*]" not in (a, b)}


def test_every_state_of_a_call_is_drawn():
    names = {variant.__name__.lower() for variant in get_args(CallState)}
    assert {name for arrow in arrows() for name in arrow} == names


def test_calls_move_along_the_arrows(history):
    runs = defaultdict(list)
    for record in history:
        if record.entry.run is not None:
            runs[record.entry.run].append(record)
    moved = set()
    for run, records in runs.items():
        state = RunState(run)
        for record in records:
            before = {c.call.uid: type(c).__name__.lower() for c in state.calls}
            state = fold(state, read(record), place(record))
            after = {c.call.uid: type(c).__name__.lower() for c in state.calls}
            moved |= {(old, after[uid]) for uid, old in before.items() if uid in after}
    moved = {(old, new) for old, new in moved if old != new}
    assert len(moved) > 5
    assert moved <= arrows()


def test_every_status_is_explained():
    page = PAGE.read_text()
    assert [status for status in Status if f"| `{status}`" not in page.replace(", ", " | ")] == []
