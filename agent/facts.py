"""What policy is told of a run and of its principal, and where the texts in a call's arguments come from."""

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Final, cast

from agent.state import Allowed, Answered, Call, RunState, content_digest
from governance.canonical import JSON, thaw
from governance.ids import Digest, Micros
from governance.policy.model import WINDOWS
from governance.ports import Reader

__all__ = ["origins", "rejected_before", "run_facts", "window_facts"]

SECOND: Final = 1_000_000


def run_facts(
    state: RunState, call: Call, definition: Digest, args: bytes, now: Micros
) -> dict[str, JSON]:
    """The `run` part of the decision input.

    Counts, sums and `last` hold every started call and every sibling already allowed in this turn, so that
    two calls of one turn cannot each pass a limit that only one of them fits. `call` itself is not counted.
    `approved` holds only what started: a yes that nobody has used gives no leave to anything else.
    """
    calls, sums = dict(state.tool_starts), dict(state.sums)
    last = {tool: max(0, now - then) // SECOND for tool, then in state.last_starts.items()}
    for sibling in _siblings(state, call):
        name = sibling.call.name
        calls[name] = calls.get(name, 0) + 1
        last[name] = 0
        for key, value in integers(sibling.ruling.args):
            sums[f"{name}.{key}"] = sums.get(f"{name}.{key}", 0) + value
    return {
        "id": state.run,
        "step": state.turn,
        "calls": calls,
        "sums": sums,
        "last": last,
        "approved": dict(state.approved_starts),
        "failures": state.failures,
        "rejected": int(rejected_before(state, call, definition, args) is not None),
        "turn_refused": sum(isinstance(c, Answered) and c.refused for c in state.calls),
        "tokens": state.tokens,
        "elapsed_s": max(0, now - state.started) // SECOND,
        "untrusted": bool(state.untrusted),
        "untrusted_sources": list(state.untrusted),
    }


def window_facts(state: RunState, call: Call, reader: Reader, now: Micros) -> dict[str, JSON]:
    """The `window` part of the decision input: what was started for the run's principal of late, in any run.

    Read in the transaction that decides, so no other run can start a call in between. Siblings count as
    in `run_facts`.
    """
    facts: dict[str, JSON] = {}
    for window, seconds in WINDOWS.items():
        since = Micros(now - seconds * SECOND)
        starts = dict(reader.starts(state.principal.id, since))
        for sibling in _siblings(state, call):
            starts[sibling.call.name] = starts.get(sibling.call.name, 0) + 1
        facts[window] = starts
    return facts


def _siblings(state: RunState, call: Call) -> Iterator[Allowed]:
    """The other calls of this turn that may start."""
    for sibling in state.calls:
        if isinstance(sibling, Allowed) and sibling.call.uid != call.uid:
            yield sibling


def rejected_before(state: RunState, call: Call, definition: Digest, args: bytes) -> str | None:
    """What was said when a person rejected this very call earlier in the run, if anybody did."""
    if not state.rejections:  # as in nearly every run: nothing to name the call for
        return None
    return state.rejections.get(content_digest(call.name, definition, args))


def integers(args: bytes) -> Iterator[tuple[str, int]]:
    """Yield the whole-number arguments of a call, by name: what sums are kept of."""
    for key, value in cast("Mapping[str, JSON]", thaw(args)).items():
        if type(value) is int:
            yield key, value


def origins(state: RunState, args: bytes) -> dict[str, JSON]:
    """Tell for each leaf of `args`, by path, the most trusted place where its text occurred.

    `user`: the user's own messages (or the system prompt), `trusted`: a trusted tool's result, `untrusted`:
    only in untrusted content, `unknown`: nowhere. Texts are compared as they are; booleans and nulls
    have no origin.
    """
    heard = state.heard
    places = (("user", heard.user), ("trusted", heard.trusted), ("untrusted", heard.untrusted))
    found: dict[str, JSON] = {}
    for path, text in _leaves(thaw(args), ""):
        # No generator of our own: this looks through everything that was ever said in the run.
        hits = (n for n, texts in places if any(map(str.__contains__, texts, repeat(text))))
        found[path] = next(hits, "unknown")
    return found


def _leaves(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value:
            yield path, value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield path, str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    else:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
