"""What may stand between the brackets of `@tool(…)`, and what each word has to look like."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from agent.tools.schema import parse_tool_name
from governance.errors import InvalidInputError
from governance.policy.model import RiskProfile, Tier

__all__ = ["Options", "ToolOptions", "parse_timeout", "read_options"]


class ToolOptions(TypedDict, total=False):
    """The keyword arguments of `@tool`. `timeout` is in seconds; `display` a template for people."""

    name: str
    risk_tier: Literal["low", "medium", "high", "critical"] | Tier
    verb: str
    reversibility: str
    blast_radius: str
    cost_class: str
    side_effect: bool
    scopes: Sequence[str]
    idempotent: bool
    untrusted_output: bool
    timeout: float | None
    display: str | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Options:
    """`ToolOptions` once they are known to be right."""

    name: str
    profile: RiskProfile
    timeout: float | None
    display: str | None
    strict: bool


_KNOWN: Final = tuple(ToolOptions.__annotations__)


def read_options(given: Mapping[str, object], own_name: str) -> Options:
    """Check `given`, naming the tool `own_name` unless it says otherwise. Raises InvalidInputError."""
    for key in given:
        if key not in _KNOWN:
            near = difflib.get_close_matches(key, _KNOWN, 1)
            hint = f"did you mean `{near[0]}`" if near else f"use one of: {', '.join(_KNOWN)}"
            raise InvalidInputError(f"unknown tool option `{key[:80]}`", hint=hint)
    display = given.get("display")
    if display is not None and not isinstance(display, str):
        raise InvalidInputError("tool option `display` is not text", hint="give a template")
    side_effect = _flag(given, "side_effect") if "side_effect" in given else None
    return Options(
        name=parse_tool_name(given.get("name", own_name)),
        profile=RiskProfile(
            verb=_word(given, "verb"),
            risk_tier=_tier(given.get("risk_tier")),
            side_effect=side_effect,
            reversibility=_word(given, "reversibility"),
            blast_radius=_word(given, "blast_radius"),
            cost_class=_word(given, "cost_class"),
            scopes=_scopes(given.get("scopes", ())),
            idempotent=_flag(given, "idempotent"),
            untrusted_output=_flag(given, "untrusted_output"),
        ),
        timeout=parse_timeout(given.get("timeout")),
        display=display,
        strict=_flag(given, "strict"),
    )


def parse_timeout(value: object) -> float | None:
    """Accept seconds above zero, or None for no limit. Raises InvalidInputError."""
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(seconds := float(str(value))) or seconds <= 0:
        raise InvalidInputError(
            f"malformed tool timeout: `{str(value)[:80]}`", hint="give seconds above 0, or None"
        )
    return seconds


def _tier(value: object) -> Tier | None:
    if value is None:
        return None
    try:
        return Tier(value)  # type: ignore[arg-type]  # Tier() is itself the check
    except ValueError as exc:
        raise InvalidInputError(
            f"unknown risk tier `{str(value)[:80]}`", hint=f"use one of: {', '.join(Tier)}"
        ) from exc


def _word(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"tool option `{key}` is not a word: `{str(value)[:80]}`")
    return value


def _flag(given: Mapping[str, object], key: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise InvalidInputError(
            f"tool option `{key}` is not a yes or no: `{str(value)[:80]}`",
            hint="give True or False",
        )
    return value


def _scopes(value: object) -> tuple[str, ...]:
    """A lone text would otherwise be read as a list of its letters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInputError(
            f"tool option `scopes` is not a list: `{str(value)[:80]}`", hint="give a list of texts"
        )
    for scope in value:
        if not isinstance(scope, str) or not scope.strip():
            raise InvalidInputError(
                f"scope is not text: `{str(scope)[:80]}`", hint="give a list of texts"
            )
    return tuple(value)
