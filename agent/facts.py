"""What policy is told of a run, and where the texts in a call's arguments come from."""

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Final, cast

from agent.state import Allowed, Answered, Call, RunState, content_digest
from governance.canonical import JSON, thaw
from governance.ids import Digest, Micros

__all__ = ["origins", "rejected_before", "run_facts"]

SECOND: Final = 1_000_000


def run_facts(
    state: RunState, call: Call, definition: Digest, args: bytes, now: Micros
) -> dict[str, JSON]:
    """The `run` part of the decision input.

    Counts and sums hold every started call and every sibling already allowed in this turn, so that two
    calls of one turn cannot each pass a limit that only one of them fits. `call` itself is not counted.
    """
    calls, sums = dict(state.tool_starts), dict(state.sums)
    for sibling in state.calls:
        if isinstance(sibling, Allowed) and sibling.call.uid != call.uid:
            name = sibling.call.name
            calls[name] = calls.get(name, 0) + 1
            for key, value in integers(sibling.ruling.args):
                sums[f"{name}.{key}"] = sums.get(f"{name}.{key}", 0) + value
    return {
        "id": state.run,
        "step": state.turn,
        "calls": calls,
        "sums": sums,
        "failures": state.failures,
        "rejected": int(rejected_before(state, call, definition, args) is not None),
        "turn_refused": sum(isinstance(c, Answered) and c.refused for c in state.calls),
        "tokens": state.tokens,
        "elapsed_s": max(0, now - state.started) // SECOND,
        "untrusted": bool(state.untrusted),
        "untrusted_sources": list(state.untrusted),
    }


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
