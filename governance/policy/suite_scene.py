"""What does a case set the scene with? Partial decision inputs, laid over each other and over an empty run.

A scene holds the parts that somebody wrote: `tool` by its name, `now` in microseconds, the others as far
as they were given. Fields that no decision input has are errors, like everywhere.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from governance.canonical import JSON
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.policy.cel import did_you_mean
from governance.policy.model import WINDOWS, RiskProfile, Tier
from governance.policy.risk import tool_input
from governance.policy.yaml_source import Node, PolicyError

__all__ = [
    "EMPTY",
    "PARTS",
    "PINNED_NOW",
    "Path",
    "Scene",
    "Stage",
    "laid_over",
    "moment",
    "read_profile",
    "read_tier",
]

PINNED_NOW: Final = "2026-01-01T00:00:00Z"

EMPTY: Final[Mapping[str, Mapping[str, JSON]]] = {
    "args": {},
    "args_origin": {},
    "principal": {"id": "user:somebody", "roles": [], "tenant": ""},
    "agent": {"id": "agent:somebody", "path": [], "model": ""},
    "run": {
        "id": "run-0",
        "step": 0,
        "calls": {},
        "sums": {},
        "last": {},
        "approved": {},
        "failures": 0,
        "rejected": 0,
        "turn_refused": 0,
        "tokens": 0,
        "elapsed_s": 0,
        "untrusted": False,
        "untrusted_sources": [],
    },
    "window": {window: {} for window in WINDOWS},
    "env": {"name": "", "labels": {}},
}
"""An input in which nothing has happened yet."""
PARTS: Final = ("tool", *EMPTY, "now")
"""What a scene may set."""

Scene: TypeAlias = Mapping[str, JSON]
Path: TypeAlias = tuple[str, ...]

_OPEN: Final = frozenset({"args", "args_origin"})
"""Parts whose fields are whatever the tool takes."""
_PROFILE_FIELDS: Final = (
    *("verb", "risk_tier", "side_effect", "reversibility", "blast_radius", "cost_class"),
    *("scopes", "idempotent", "untrusted_output"),
)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stage:
    """The tools that scenes may name."""

    tools: Mapping[str, RiskProfile]

    def read(self, fields: Mapping[str, Node]) -> Scene:
        """Read the parts among `fields`. Raises PolicyError."""
        scene: dict[str, JSON] = {}
        for part in PARTS:
            if part in fields:
                scene[part] = self._whole(part, fields[part])
        return scene

    def place(self, name: str, at: Node) -> Path:
        """Read `args.to`, `run.sums.refund.amount_cents` or a whole part. Raises PolicyError.

        Dots lead into nested arguments; elsewhere a key may hold dots itself.
        """
        part, *rest = name.split(".")
        if part not in PARTS:
            raise at.wrong(f"`{name[:80]}` is no part of an input", did_you_mean(part, PARTS))
        if not rest:
            return (part,)
        if part in ("tool", "now") or not all(rest):
            raise at.wrong(f"`{name[:80]}` names no field of `{part}`")
        if part == "args":
            return (part, *rest)
        if part == "args_origin":
            return (part, ".".join(rest))
        field, *key = rest
        if field not in EMPTY[part]:
            raise at.wrong(
                f"unknown field `{field[:80]}` in `{part}`", did_you_mean(field, EMPTY[part])
            )
        return (part, field, ".".join(key)) if key else (part, field)

    def put(self, scene: Scene, path: Path, value: Node) -> Scene:
        """Set what stands at `path`; a whole part is laid over what is there."""
        if len(path) == 1:
            return laid_over([scene, {path[0]: self._whole(path[0], value)}])
        return _put(scene, path, value.plain())

    def inputs(self, scene: Scene) -> dict[str, JSON]:
        """The decision input that a scene with a tool stands for."""
        name = str(scene["tool"])
        parts = {part: _merged(EMPTY[part], scene.get(part, {})) for part in EMPTY}
        now = scene.get("now", moment(PINNED_NOW))
        return {"tool": tool_input(name, Digest(bytes(32)), self.tools[name]), **parts, "now": now}

    def _whole(self, part: str, node: Node) -> JSON:
        if part == "tool":
            name = node.text("tool")
            if name not in self.tools:
                raise node.wrong(f"unknown tool `{name[:80]}`", did_you_mean(name, self.tools))
            return name
        if part == "now":
            return _moment(node)
        known = None if part in _OPEN else EMPTY[part]
        given = node.named(part) if known is None else node.fields(f"`{part}`", known)
        return {key: item.plain() for key, item in given.items()}


def laid_over(scenes: Sequence[Scene]) -> Scene:
    """Lay scenes over each other, field by field; the last one wins."""
    laid: dict[str, JSON] = {}
    for scene in scenes:
        for part, value in scene.items():
            laid[part] = _merged(laid[part], value) if part in laid else value
    return laid


def read_profile(node: Node) -> RiskProfile:
    """Read the risk profile of a tool, in the words of `@tool`. Raises PolicyError."""
    fields = node.fields("risk profile", _PROFILE_FIELDS)
    texts = {
        field: fields[field].text(f"`{field}`")
        for field in ("verb", "reversibility", "blast_radius", "cost_class")
        if field in fields
    }
    truths = {
        field: fields[field].truth(f"`{field}`")
        for field in ("side_effect", "idempotent", "untrusted_output")
        if field in fields
    }
    scopes = fields["scopes"].items("`scopes`") if "scopes" in fields else ()
    return RiskProfile(
        verb=texts.get("verb"),
        risk_tier=read_tier(fields["risk_tier"]) if "risk_tier" in fields else None,
        side_effect=truths.get("side_effect"),
        reversibility=texts.get("reversibility"),
        blast_radius=texts.get("blast_radius"),
        cost_class=texts.get("cost_class"),
        scopes=tuple(scope.text("scope") for scope in scopes),
        idempotent=truths.get("idempotent", False),
        untrusted_output=truths.get("untrusted_output", False),
    )


def read_tier(node: Node) -> Tier:
    """Read a tier. Raises PolicyError."""
    given = node.text("tier")
    if given not in list(Tier):
        raise node.wrong(f"unknown tier `{given[:80]}`", did_you_mean(given, Tier))
    return Tier(given)


def _merged(under: JSON, over: JSON) -> JSON:
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **over}
    return over


def _put(within: Mapping[str, JSON], path: Path, value: JSON) -> dict[str, JSON]:
    name, *rest = path
    if rest:
        inner = within.get(name)
        known = inner if isinstance(inner, Mapping) else dict[str, JSON]()
        return {**within, name: _put(known, tuple(rest), value)}
    return {**within, name: value}


def moment(text: str) -> int:
    """Read `2026-01-01T00:00:00Z` as microseconds. Raises InvalidInputError."""
    hint = "write it like 2026-01-01T00:00:00Z"
    if not _MOMENT.fullmatch(text):
        raise InvalidInputError(f"`now` is malformed: `{text[:80]}`", hint=hint)
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"`now` is no moment: `{text}`", hint=hint) from None
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _moment(node: Node) -> int:
    try:
        return moment(node.text("`now`"))
    except PolicyError:
        raise
    except InvalidInputError as exc:
        raise node.wrong(exc.message, exc.hint) from None
