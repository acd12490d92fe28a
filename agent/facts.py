"""What policy is told of a run, and where the texts in a call's arguments come from."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from agent.messages import SystemMessage, ToolMessage, UserMessage
from agent.state import Allowed, Answered, Call, RunState, content_digest
from governance.canonical import JSON, thaw
from governance.ids import Digest, Micros

__all__ = ["origins", "run_facts"]

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
        "rejected": int(content_digest(call.name, definition, args) in state.rejections),
        "turn_refused": sum(isinstance(c, Answered) and c.refused for c in state.calls),
        "tokens": state.tokens,
        "elapsed_s": max(0, now - state.started) // SECOND,
        "untrusted": bool(state.untrusted),
        "untrusted_sources": list(state.untrusted),
    }


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
    user: list[str] = []
    trusted: list[str] = []
    untrusted: list[str] = []
    for message in state.messages:
        match message:
            case UserMessage() | SystemMessage():
                user.append(message.content)
            case ToolMessage():
                into = untrusted if message.name in state.untrusted_tools else trusted
                into.append(message.content)
            case _:
                pass
    places = (("user", user), ("trusted", trusted), ("untrusted", untrusted))
    found: dict[str, JSON] = {}
    for path, text in _leaves(thaw(args), ""):
        hits = (name for name, texts in places if any(text in said for said in texts))
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
