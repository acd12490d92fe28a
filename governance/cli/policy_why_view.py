"""How does an explanation look in a terminal? The decision, then each rule with its condition as a tree."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from governance.cli.console import facts, plain, table
from governance.cli.policy_sources import place
from governance.policy.cel import FailureKind
from governance.policy.clauses import Form
from governance.policy.compare import agree
from governance.policy.explain import Clause, Explanation, Value, Weighed
from governance.policy.model import Decision, Demands
from governance.policy.rules import Mode

__all__ = ["render"]

_JOINED: Final[Mapping[Form, str]] = {
    Form.ANY: "any of",
    Form.ALL: "all of",
    Form.NOT: "not",
    Form.CHOICE: "if, then, else",
}
_OTHERS_MAX: Final = 10


def render(explanation: Explanation, recorded: Decision | None = None) -> list[RenderableType]:
    """Lay out an explanation, and how it compares with what was recorded."""
    shown: list[RenderableType] = [_decision(explanation), ""]
    if explanation.rules:
        rows = [row for weighed in explanation.rules for row in _rule(weighed)]
        shown += [table(("rule", "value", "effect", "", "where"), rows), ""]
    others = explanation.passed_over
    if others:
        named = ", ".join(others[:_OTHERS_MAX]) + (", …" if len(others) > _OTHERS_MAX else "")
        shown.append(f"not about this call: {plain(named)}")
    if recorded is not None:
        shown.append(_compared(explanation.decision, recorded))
    return shown


def _decision(explanation: Explanation) -> RenderableType:
    decision = explanation.decision
    signals = [f"{signal.tier}: {signal.what}" for signal in explanation.signals]
    pairs: dict[str, str | Text] = {
        "decision": Text(decision.effect.value, style="bold"),
        "rules": plain(", ".join(decision.rules) or "none"),
        "reasons": plain(", ".join(decision.reasons) or "none"),
        "tier": plain("; ".join([decision.tier.value, *signals])),
    }
    if decision.demands is not None:
        pairs["asks"] = plain(_asks(decision.demands))
    if decision.message is not None:
        pairs["message"] = plain(decision.message)
    pairs["steps"] = str(decision.steps)
    pairs["policy"] = decision.policy.hex()
    return facts(pairs)


def _asks(demands: Demands) -> str:
    seats = ", ".join(f"{seat.count} {seat.role}" for seat in demands.quorum)
    again = ", who sign for themselves" if demands.reauthenticate else ""
    return f"{seats} within {demands.decide_by_s} s, to start within {demands.use_by_s} s{again}"


def _rule(weighed: Weighed) -> Iterator[tuple[str | Text, ...]]:
    name = Text(plain(weighed.rule.name), style="bold" if weighed.determines else "")
    yield (
        name,
        _value(weighed.value),
        weighed.rule.effect.value,
        _role(weighed),
        place(weighed.rule),
    )
    if weighed.condition is not None:
        yield from _clause(weighed.condition, 1)


def _role(weighed: Weighed) -> str:
    if weighed.rule.mode is Mode.SHADOW:
        return "in shadow, would bind" if weighed.binds else "in shadow"
    if weighed.determines:
        return "decides"
    return "binds, and is outweighed" if weighed.binds else "does not bind"


def _clause(clause: Clause, depth: int) -> Iterator[tuple[str | Text, ...]]:
    """A clause as it is written; of what is made of parts, how they are joined."""
    text = plain(clause.text) if clause.form is Form.CLAUSE else _JOINED[clause.form]
    yield Text("  " * depth + text), _value(clause.value), "", "", ""
    for part in clause.parts:
        yield from _clause(part, depth + 1)


def _value(value: Value) -> Text:
    if isinstance(value, FailureKind):
        return Text(value.value, style="yellow")
    return Text("true", style="green") if value else Text("false", style="red")


def _compared(made: Decision, recorded: Decision) -> str:
    if agree(made, recorded):
        return "as it was recorded"
    said = ", ".join((*recorded.rules, *recorded.reasons)) or "no rule"
    return plain(f"recorded otherwise: {recorded.effect}, by {said}, tier {recorded.tier}")
