"""Which tool this is, exactly.

Everything that a policy, an approver or a model is told about a tool, under one digest. An approval
names that digest, so a tool that changed while a call waited is another tool.
"""

import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from agent.tools.schema import ToolSchema, own_copy
from governance.canonical import JSON, digest, payload_bytes, thaw
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.policy.model import RiskProfile

__all__ = ["Definition", "check_display"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as it is registered. `display` is a template over the arguments, `timeout` in seconds."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    profile: RiskProfile = field(default_factory=RiskProfile)
    timeout: float | None = None
    display: str | None = None
    strict: bool = False
    digest: Digest = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", own_copy(self.parameters))
        object.__setattr__(self, "digest", digest("governance/tool/v1", self.to_json()))

    def to_json(self) -> dict[str, JSON]:
        """The definition as it is hashed."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "profile": self.profile.to_json(),
            "timeout": self.timeout,
            "display": self.display,
            "strict": self.strict,
        }

    def schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, self.parameters, self.strict)

    def render(self, frozen: bytes) -> str:
        """Say a call in the words of its template; without one that fits, name and raw arguments."""
        members: dict[str, JSON] = thaw(frozen)
        if self.display is not None:
            try:
                return "".join(
                    literal + ("" if name is None else _words(members[name]))
                    for literal, name in _pieces(self.display)
                )
            except KeyError:  # an object's schema may leave an argument out
                pass
        return f"{self.name} {frozen.decode()}"


def check_display(template: object, names: Collection[str] | None = None) -> None:
    """Refuse a template that is more than text and plain `{name}` fields, or names what is not there.

    None is no template. Raises InvalidInputError.
    """
    if template is None:
        return
    if not isinstance(template, str):
        raise InvalidInputError("display template is not text")
    for _, name in _pieces(template):
        if name is not None and names is not None and name not in names:
            raise InvalidInputError(
                f"display template names no argument of the tool: `{name[:80]}`",
                hint=f"use one of: {', '.join(names)[:200]}" if names else "the tool has none",
            )


def _pieces(template: str) -> list[tuple[str, str | None]]:
    """Split a template into (text, field after it). Conversions and format specs could run code or
    blow a short value up to gigabytes, so there are none."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as exc:
        raise InvalidInputError(f"malformed display template: `{template[:80]}`") from exc
    for _, name, spec, conversion in parsed:
        if name is not None and (spec or conversion or not name.isidentifier()):
            raise InvalidInputError(
                f"display template holds more than a name: `{name[:80]}`",
                hint="use plain `{name}` fields",
            )
    return [(literal, name) for literal, name, _, _ in parsed]


def _words(value: JSON) -> str:
    return value if isinstance(value, str) else payload_bytes(value).decode()
