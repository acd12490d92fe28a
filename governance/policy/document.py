"""How does YAML text become rules? Strictly: one spelling, every unknown word an error with its line.

    policy: payments            # unique in the set
    version: 3                  # only ever rises
    description: …              # optional
    rules:
      - id: refunds-small       # unique in the policy
        description: …          # optional
        match: {tools: ["refund_*"], verbs: [FINANCIAL]}   # optional; see MATCH_FIELDS
        when: args.amount_cents <= 5000                    # optional CEL condition
        effect: allow           # allow | deny | require_approval
        allow_tier: high        # allow only: calls up to this tier need no approval
        approval: {quorum: [{role: finance, count: 2}], decide_by: 4h, use_by: 1h, reauthenticate: true}
        message: "'refund of ' + string(args.amount_cents)" # optional CEL text, for people
        mode: enforce           # or shadow

`policies/policy.schema.json` says the same to editors. No file at all is a legal set: it denies everything.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from governance import canonical
from governance.policy.cel import ConditionError, Engine, Program, default_engine, did_you_mean
from governance.policy.declarations import ToolShape
from governance.policy.lint import refuse_errors
from governance.policy.model import Demands, Effect, Seat, Tier
from governance.policy.rules import (
    DECIDE_BY_S,
    USE_BY_S,
    Glob,
    Match,
    Mode,
    PolicySet,
    Rule,
    Written,
    default_demands,
)
from governance.policy.yaml_source import Node, PolicyError, need, read_yaml

__all__ = [
    "FORMAT_VERSION",
    "MATCH_FIELDS",
    "RULES_MAX",
    "load_policies",
    "read_demands",
    "read_policies",
]

FORMAT_VERSION: Final = 1
"""Part of every set's digest: raise it when the same text comes to mean something else."""
RULES_MAX: Final = 1000
"""Rules in one file."""
VERSION_MAX: Final = 2**31 - 1
SEATS_MAX: Final = 10
PEOPLE_MAX: Final = 10
DURATION_MAX_S: Final = 365 * 24 * 60 * 60
DESCRIPTION_CHARS_MAX: Final = 2000
FILES_KEPT: Final = 256
"""Files that are kept as they were read, so that a reload parses only what has changed."""
PROGRAMS_KEPT: Final = 4096
"""Compiled conditions that are kept, for files that have changed in part."""
VALUE_CHARS_MAX: Final = 200

_DOCUMENT_LABEL: Final = "governance/policy-set/v1"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NAME_HINT: Final = "use 1 to 64 letters, digits, `_`, `.` or `-`"
_ROLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,63}")
_DURATION: Final = re.compile(r"([1-9][0-9]{0,7})([smhd])")
_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

_POLICY_FIELDS: Final = ("policy", "version", "description", "rules")
_RULE_FIELDS: Final = (
    *("id", "description", "match", "when", "effect", "allow_tier", "approval", "message", "mode"),
)
_APPROVAL_FIELDS: Final = ("quorum", "decide_by", "use_by", "reauthenticate")
_AMONG: Final[Mapping[str, str]] = {
    "verbs": "verb",
    "tiers": "tier",
    "side_effect": "side_effect",
    "reversibility": "reversibility",
    "blast_radius": "blast_radius",
    "cost_class": "cost_class",
    "agents": "agent",
    "environments": "environment",
}
MATCH_FIELDS: Final = ("tools", "scopes", *_AMONG)
"""`tools` are globs; `side_effect` is true or false; the rest are lists of exact values, `verbs` in any
case. `tiers` are effective tiers. Of `scopes` the tool needs any; every field given must hold."""

E = TypeVar("E", bound=StrEnum)


def load_policies(
    files: Mapping[str, str],
    engine: Engine | None = None,
    *,
    tools: Mapping[str, ToolShape] | None = None,
) -> PolicySet:
    """Build the set that `files` (name -> YAML text) say, for use. Raises PolicyError with file and line.

    Refused is what cannot be read, and what `lint.check` calls an error; without `tools`, of that only
    names of fields that no decision input has. Raises UnavailableError when the engine is not
    installed; there is no fallback to another.
    """
    policies = read_policies(files, engine)
    refuse_errors(policies, tools)
    return policies


def read_policies(files: Mapping[str, str], engine: Engine | None = None) -> PolicySet:
    """The same without a look at what the rules mean: for a set that was in force once, and is judged by."""
    chosen = engine or default_engine()
    rules: list[Rule] = []
    versions: dict[str, int] = {}
    origins: dict[str, str] = {}
    for file in sorted(files):
        one = _file(chosen, file, files[file])
        name = one.name.text("policy name")
        if name in versions:
            raise one.name.wrong(f"policy `{name}` is also in `{origins[name]}`", "rename one")
        origins[name] = file
        versions[name] = one.version
        rules += one.rules
    identity: dict[str, canonical.JSON] = {
        "format": FORMAT_VERSION,
        "engine": {"name": chosen.name, "version": chosen.version},
        "files": sorted(files.values()),
    }
    return PolicySet(
        rules=tuple(sorted(rules, key=lambda rule: rule.name)),
        digest=canonical.digest(_DOCUMENT_LABEL, identity),
        versions=versions,
        files=files,
        evaluator=chosen,
    )


@dataclass(frozen=True, slots=True)
class _File:
    """One policy file, read and compiled. Immutable: sets share it."""

    name: Node
    version: int
    rules: tuple[Rule, ...]


@lru_cache(maxsize=FILES_KEPT)
def _file(engine: Engine, file: str, text: str) -> _File:
    """Read a file once: the same text under the same name is the same rules."""
    root = read_yaml(text, file)
    fields = root.fields("policy file", _POLICY_FIELDS)
    name_node = need(fields, "policy", root, "policy file")
    name = name_node.text("policy name", _NAME, _NAME_HINT)
    version = need(fields, "version", root, "policy file").whole("version", 1, VERSION_MAX)
    if "description" in fields:
        _description(fields["description"])
    rules = _rules(need(fields, "rules", root, "policy file"), name, engine)
    return _File(name_node, version, tuple(rules))


def _rules(node: Node, policy: str, engine: Engine) -> list[Rule]:
    nodes = node.items("rules")
    if len(nodes) > RULES_MAX:
        raise node.wrong(f"{len(nodes)} rules exceed {RULES_MAX}", "split the policy")
    first: dict[str, int] = {}
    rules: list[Rule] = []
    for entry in nodes:
        fields = entry.fields("rule", _RULE_FIELDS)
        id_node = need(fields, "id", entry, "rule")
        id = id_node.text("rule id", _NAME, _NAME_HINT)
        if id in first:
            raise id_node.wrong(f"rule `{id}` is also on line {first[id]}", "rename one")
        first[id] = id_node.line
        rules.append(_rule(entry, fields, f"{policy}/{id}", engine))
    return rules


def _rule(entry: Node, fields: Mapping[str, Node], name: str, engine: Engine) -> Rule:
    effect = _word(need(fields, "effect", entry, f"rule `{name}`"), Effect, "effect")
    only_for = {"approval": Effect.REQUIRE_APPROVAL, "allow_tier": Effect.ALLOW}
    for field, wanted in only_for.items():
        if field in fields and effect is not wanted:
            raise fields[field].wrong(f"`{field}` stands only with `effect: {wanted}`")
    demands = None
    if effect is Effect.REQUIRE_APPROVAL:
        demands = read_demands(fields["approval"]) if "approval" in fields else default_demands()
    return Rule(
        name=name,
        effect=effect,
        match=_match(fields["match"]) if "match" in fields else Match(),
        when=_compiled(fields["when"], "condition", engine) if "when" in fields else None,
        demands=demands,
        allow_tier=_word(fields["allow_tier"], Tier, "tier") if "allow_tier" in fields else None,
        message=_compiled(fields["message"], "message", engine) if "message" in fields else None,
        mode=_word(fields["mode"], Mode, "mode") if "mode" in fields else Mode.ENFORCE,
        description=_description(fields["description"]) if "description" in fields else "",
        id=_written(fields["id"]),
        when_text=_written(fields["when"]) if "when" in fields else None,
        message_text=_written(fields["message"]) if "message" in fields else None,
    )


def _written(node: Node) -> Written:
    return Written(node.text("text"), node.file, node.text_line, node.column)


def _match(node: Node) -> Match:
    fields = node.fields("match block", MATCH_FIELDS)
    among: list[tuple[str, frozenset[str | bool]]] = []
    for field, fact in _AMONG.items():
        if field not in fields:
            continue
        given = fields[field]
        if field == "side_effect":
            among.append((fact, frozenset({given.truth("`side_effect`")})))
            continue
        read: Callable[[Node], str] = _values.get(field, _exact)
        among.append((fact, frozenset(map(read, given.items(f"`{field}`")))))
    tools = fields["tools"].items("`tools`") if "tools" in fields else ()
    scopes = fields["scopes"].items("`scopes`") if "scopes" in fields else ()
    return Match(
        tools=tuple(Glob(_exact(tool)) for tool in tools),
        scopes=frozenset(map(_exact, scopes)),
        among=tuple(among),
    )


def _exact(node: Node) -> str:
    value = node.text("a value to match")
    if not 0 < len(value) <= VALUE_CHARS_MAX:
        raise node.wrong(f"a value to match has not 1 to {VALUE_CHARS_MAX} characters")
    return value


_values: Final[Mapping[str, Callable[[Node], str]]] = {
    "verbs": lambda node: _exact(node).upper(),
    "tiers": lambda node: _word(node, Tier, "tier"),
}


def read_demands(node: Node) -> Demands:
    """Read an `approval` block. Raises PolicyError."""
    fields = node.fields("approval", _APPROVAL_FIELDS)
    quorum = need(fields, "quorum", node, "approval")
    seats = [_seat(entry) for entry in quorum.items("quorum")]
    if len({seat.role for seat in seats}) < len(seats):
        raise quorum.wrong("a role stands twice in the quorum", "give it one count")
    if len(seats) > SEATS_MAX:
        raise quorum.wrong(f"{len(seats)} roles exceed {SEATS_MAX}")
    again = fields.get("reauthenticate")
    return Demands(
        quorum=tuple(sorted(seats)),
        decide_by_s=read_duration(fields["decide_by"]) if "decide_by" in fields else DECIDE_BY_S,
        use_by_s=read_duration(fields["use_by"]) if "use_by" in fields else USE_BY_S,
        reauthenticate=again.truth("`reauthenticate`") if again is not None else False,
    )


def _seat(node: Node) -> Seat:
    fields = node.fields("seat", ("role", "count"))
    role = need(fields, "role", node, "seat").text("role", _ROLE, "name a role, like `finance`")
    count = fields["count"].whole("count", 1, PEOPLE_MAX) if "count" in fields else 1
    return Seat(role, count)


def read_duration(node: Node) -> int:
    """Read `30s`, `15m`, `4h` or `2d` as seconds. Raises PolicyError."""
    hint = "write it like 30s, 15m, 4h or 2d"
    found = _DURATION.fullmatch(node.text("duration", _DURATION, hint))
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= DURATION_MAX_S:
        raise node.wrong("duration is longer than 365 days")
    return seconds


def _word(node: Node, words: type[E], what: str) -> E:
    given = node.text(what)
    try:
        return words(given)
    except ValueError:
        raise node.wrong(f"unknown {what} `{given[:80]}`", did_you_mean(given, words)) from None


def _description(node: Node) -> str:
    text = node.text("description")
    if len(text) > DESCRIPTION_CHARS_MAX:
        raise node.wrong(f"description of {len(text)} characters exceeds {DESCRIPTION_CHARS_MAX}")
    return text


def _compiled(node: Node, what: str, engine: Engine) -> Program:
    try:
        return _program(engine, node.text(what))
    except ConditionError as exc:
        raise PolicyError(
            f"{exc.message} (column {exc.column} of the {what})",
            file=node.file,
            line=node.text_line + exc.line - 1,
            hint=exc.hint,
        ) from None


@lru_cache(maxsize=PROGRAMS_KEPT)
def _program(engine: Engine, source: str) -> Program:
    """Compile once: a program is immutable, and equal engines compile alike."""
    return engine.compile(source)
