"""Is a policy set what its authors meant? Checked before it decides anything, against the tools at hand.

`check` tells everything that is wrong, with its place in the files; `refuse_errors` and `refuse_unfit` raise
what must not run. Without tools, only what holds with any tools is said: nothing of arguments, and
nothing of which tool a rule is about.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.cel import INPUTS, ConditionError
from governance.policy.comments import swallowed
from governance.policy.declarations import (
    BOOL,
    TEXT,
    ToolShape,
    Type,
    declared_inputs,
)
from governance.policy.flaws import Code, Flaw, Severity, near
from governance.policy.index import Call, Glob, Match
from governance.policy.model import Effect, RiskProfile
from governance.policy.risk import effective_tier
from governance.policy.rules import Mode, PolicySet, Rule, Written
from governance.policy.yaml_source import PolicyError, place_in

__all__ = [
    "Code",
    "Lint",
    "Severity",
    "ToolShape",
    "Toolbox",
    "TypeChecker",
    "check",
    "refuse_errors",
    "refuse_unfit",
]

SETS_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Lint:
    """One thing wrong with a policy set, and where. Lines and columns count from 1; `rule` is `policy/id`."""

    file: str
    line: int
    column: int
    severity: Severity
    code: Code
    rule: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, JSON]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": self.severity.value,
            "code": self.code.value,
            "rule": self.rule,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one agent. Two with the same definitions are the same."""

    definitions: frozenset[Digest]
    shapes: Mapping[str, ToolShape]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Toolbox) and self.definitions == other.definitions

    def __hash__(self) -> int:
        return hash(self.definitions)


TypeChecker: TypeAlias = Callable[[str, Mapping[str, Type], Iterable[Flaw]], tuple[Flaw, ...]]
"""A second reader of a condition: its text, its inputs, and what was found so far -> what was not."""


def check(
    policies: PolicySet,
    tools: Mapping[str, ToolShape] | None = None,
    *,
    absent: Severity = Severity.WARNING,
    second: TypeChecker | None = None,
) -> tuple[Lint, ...]:
    """Tell what is wrong with a set, in the order of its text. Of `tools` None means that they are not known.

    `absent`: how bad it is that a rule speaks of what these tools do not have. One set may serve many agents.
    `second`: another reader of each condition, which can add warnings and nothing else.
    """
    found = [
        lint
        for rule in policies.rules
        for lint in _Checked(policies, rule, tools, absent, second).lints()
    ]
    found += _unreachable(policies, tools)
    return tuple(
        sorted(set(found), key=lambda lint: (lint.file, lint.line, lint.column, lint.message))
    )


def refuse_errors(policies: PolicySet, tools: Mapping[str, ToolShape] | None = None) -> None:
    """Raise PolicyError for the first error. Without tools only names and comments are looked at: where
    there is nothing to find, that costs no parser."""
    if tools is not None or any(_misnames(r) or _comments(r) for r in policies.rules):
        _raise(_first_error(check(policies, tools)))


def refuse_unfit(policies: PolicySet, toolbox: Toolbox) -> None:
    """The same for one agent's tools, looked at once for each pair."""
    _raise(_unfit(policies, toolbox))


@lru_cache(maxsize=SETS_KEPT)
def _unfit(policies: PolicySet, toolbox: Toolbox) -> Lint | None:
    return _first_error(check(policies, toolbox.shapes))


def _first_error(lints: Iterable[Lint]) -> Lint | None:
    return next((lint for lint in lints if lint.severity is Severity.ERROR), None)


def _raise(lint: Lint | None) -> None:
    if lint is not None:
        problem = f"{lint.message} (rule `{lint.rule}`, column {lint.column})"
        raise PolicyError(problem, file=lint.file, line=lint.line, hint=lint.hint)


def _misnames(rule: Rule) -> bool:
    """Tell whether a rule reads a field that no decision input has."""
    programs = [program for program in (rule.when, rule.message) if program is not None]
    return any(not _declared(name) for program in programs for name in program.references)


def _comments(rule: Rule) -> bool:
    """Tell whether there may be a comment in a rule."""
    return any("//" in text.text for text in (rule.when_text, rule.message_text) if text)


def _declared(reference: str) -> bool:
    first, *rest = reference.split(".")
    type_ = declared_inputs(None, None)[first]
    for name in rest:
        member = type_.member(name)
        if member is None:
            return False
        type_ = member.type
    return True


@dataclass(frozen=True, slots=True)
class _Checked:
    """One rule under the lens."""

    policies: PolicySet
    rule: Rule
    tools: Mapping[str, ToolShape] | None
    absent: Severity
    second: TypeChecker | None

    def lints(self) -> Iterator[Lint]:
        about = None if self.tools is None else _about(self.rule.match, self.tools)
        if self.tools is not None:
            yield from self._match(self.tools, about or {})
        if self.rule.when is not None and self.rule.when_text is not None:
            yield from self._expression(self.rule.when_text, about, is_message=False)
        if self.rule.message is not None and self.rule.message_text is not None:
            yield from self._expression(self.rule.message_text, about, is_message=True)

    def _match(
        self, tools: Mapping[str, ToolShape], about: Mapping[str, ToolShape]
    ) -> Iterator[Lint]:
        globs = self.rule.match.tools
        unknown = [glob for glob in globs if not any(map(glob.matches, tools))]
        for glob in unknown:
            close = near(glob.pattern, tools)
            hint = f"did you mean `{close}`?" if close else ""
            yield self._at_rule(
                Code.NO_TOOL, f"there is no tool `{glob.pattern}`", hint, self.absent
            )
        if not about and len(unknown) < max(len(globs), 1):
            message = f"rule `{self.rule.name}` is about none of the tools"
            yield self._at_rule(Code.NO_TOOL, message, "look at its match block", self.absent)

    def _expression(
        self, written: Written, about: Mapping[str, ToolShape] | None, *, is_message: bool
    ) -> Iterator[Lint]:
        raw = self.policies.files.get(written.file, "")
        try:
            flaws = (
                *self._flaws(written.text, about, is_message=is_message),
                *swallowed(written, raw),
            )
        except ConditionError as exc:
            # Another engine takes what our parser does not; then nothing is known of it.
            flaws = (Flaw(0, Severity.WARNING, Code.UNCHECKED, exc.message, exc.hint),)
        for flaw in flaws:
            before = written.text[: flaw.position or 0]
            line, column = place_in(raw, written.line, written.column, before)
            # A message that fails is left out: that is no reason to refuse the rule.
            severity = Severity.WARNING if is_message else flaw.severity
            yield Lint(
                *(written.file, line, column, severity, flaw.code),
                *(self.rule.name, flaw.message, flaw.hint),
            )

    def _flaws(
        self, text: str, about: Mapping[str, ToolShape] | None, *, is_message: bool
    ) -> tuple[Flaw, ...]:
        from governance.policy.closure_parse import parse
        from governance.policy.conditions import Ground, flaws_of
        from governance.policy.presence import named_tools

        syntax = parse(text, INPUTS)
        named = None if is_message else named_tools(syntax)
        narrowed = about
        if about is not None and named is not None:
            narrowed = {name: about[name] for name in sorted(named & about.keys())} or about
        inputs = dict(declared_inputs(narrowed, self.tools))
        if named is not None:  # of the names themselves all tools of the rule are known
            inputs["tool"] = declared_inputs(about, self.tools)["tool"]
        ground = Ground(inputs, self.rule.effect, self.absent)
        flaws = flaws_of(syntax, ground, TEXT if is_message else BOOL)
        return flaws if self.second is None else (*flaws, *self.second(text, inputs, flaws))

    def _at_rule(self, code: Code, message: str, hint: str, severity: Severity) -> Lint:
        return _at_rule(self.rule, code, message, hint, severity)


def _at_rule(rule: Rule, code: Code, message: str, hint: str, severity: Severity) -> Lint:
    at = rule.id or Written("", "", 1, 1)
    return Lint(at.file, at.line, at.column, severity, code, rule.name, message, hint)


# --- which rules a call can reach -------------------------------------------------------------------

_OF_THE_MOMENT: Final = ("agent", "environment")


def _about(match: Match, tools: Mapping[str, ToolShape]) -> Mapping[str, ToolShape]:
    """The tools that a match block is about, by whatever agent and wherever."""
    lasting = Match(
        match.tools, match.scopes, tuple(a for a in match.among if a[0] not in _OF_THE_MOMENT)
    )
    return {name: s for name, s in tools.items() if lasting.hits(_call_of(name, s.profile))}


def _call_of(name: str, profile: RiskProfile) -> Call:
    return Call(
        tool=name,
        verb=(profile.verb or "").upper(),
        tier=effective_tier(profile),
        side_effect=profile.side_effect is True,
        reversibility=profile.reversibility or "",
        blast_radius=profile.blast_radius or "",
        cost_class=profile.cost_class or "",
        scopes=frozenset(profile.scopes),
        agent="",
        environment="",
    )


_STRENGTH: Final = {Effect.ALLOW: 0, Effect.REQUIRE_APPROVAL: 1, Effect.DENY: 2}


def _unreachable(policies: PolicySet, tools: Mapping[str, ToolShape] | None) -> Iterator[Lint]:
    """Rules that a stronger one without a condition always beats."""
    enforced = [rule for rule in policies.rules if rule.mode is Mode.ENFORCE]
    absolute = [rule for rule in enforced if rule.when is None and rule.effect is not Effect.ALLOW]
    reach = {rule.name: _reach(rule.match, tools) for rule in enforced}
    for rule in enforced:
        for other in absolute:
            if _STRENGTH[other.effect] > _STRENGTH[rule.effect] and _covers(
                other, rule, reach[other.name], reach[rule.name]
            ):
                message = (
                    f"rule `{rule.name}` is never heard: `{other.name}` is about the same calls"
                )
                does = "denies them all" if other.effect is Effect.DENY else "holds them all"
                hint = f"`{other.name}` {does}; give it a condition, or remove this rule"
                yield _at_rule(rule, Code.UNREACHABLE, message, hint, Severity.WARNING)
                break


def _reach(match: Match, tools: Mapping[str, ToolShape] | None) -> frozenset[str] | None:
    return None if tools is None else frozenset(_about(match, tools))


def _covers(
    wider: Rule, narrower: Rule, wide: frozenset[str] | None, narrow: frozenset[str] | None
) -> bool:
    """Tell whether every call that `narrower` is about, `wider` is about too; no when in doubt."""
    of_narrower = dict(narrower.match.among)
    for fact, values in wider.match.among:
        known = narrow is not None and fact not in _OF_THE_MOMENT
        if not known and (fact not in of_narrower or not of_narrower[fact] <= values):
            return False
    if wide is not None and narrow is not None:
        return bool(narrow) and narrow <= wide
    scopes = wider.match.scopes
    if scopes and not (narrower.match.scopes and narrower.match.scopes <= scopes):
        return False
    globs = narrower.match.tools or (Glob("*"),)
    return not wider.match.tools or all(
        any(_is_within(glob, wide_glob) for wide_glob in wider.match.tools) for glob in globs
    )


def _is_within(glob: Glob, wider: Glob) -> bool:
    if "*" not in glob.pattern:
        return wider.matches(glob.pattern)
    head = wider.pattern.removesuffix("*")
    plain_head = wider.pattern.endswith("*") and "*" not in head
    return glob == wider or (plain_head and glob.pattern.startswith(head))
