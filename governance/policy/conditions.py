"""What is wrong with a condition, given the types of what it reads? One walk over its syntax.

An error is what can never come out as its author meant: a field that is nowhere, kinds that never compare,
a word that a value never is. It is only said where it is certain, since a policy with an error does not run.
A warning is what comes out, and likely not as meant.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from governance.policy import closure_syntax as syn
from governance.policy.closure_syntax import Syntax
from governance.policy.declarations import (
    ANY,
    BOOL,
    TEXT,
    TIERS,
    Kind,
    Member,
    Type,
    join,
    kinds,
)
from governance.policy.flaws import Code, Flaw, Severity, near, suggest
from governance.policy.model import Effect
from governance.policy.operations import (
    ORDER,
    RESULTS,
    call_flaws,
    index_flaws,
    meet,
    result_of,
)
from governance.policy.phrases import (
    cut,
    literal_type,
    named,
    quoting,
    spell_kinds,
    subject,
)
from governance.policy.presence import Path, assured, path_of, spell

__all__ = ["Ground", "flaws_of"]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a condition is checked on: the types of the inputs, the effect of its rule, and how bad it is
    that it speaks of what the tools at hand do not have."""

    inputs: Mapping[str, Type]
    effect: Effect
    absent: Severity


def flaws_of(syntax: Syntax, ground: Ground, wanted: Type) -> tuple[Flaw, ...]:
    """Everything wrong with an expression that should come to `wanted`."""
    walk = _Walk(ground)
    found = walk.type_of(syntax, _Around())
    if not found.kinds & wanted.kinds:
        what = "condition" if wanted is BOOL else "message"
        message = f"{what} is {spell_kinds(found)}, not {spell_kinds(wanted)}"
        walk.flaw(syntax, Code.NOT_BOOLEAN if wanted is BOOL else Code.TYPE, message)
    if isinstance(syntax, syn.Literal) and isinstance(syntax.value, bool):
        said, hint = (
            ("always holds", "leave `when` out")
            if syntax.value
            else ("never holds", "remove the rule")
        )
        walk.warn(syntax, Code.REDUNDANT, f"condition {said}", hint)
    return tuple(walk.flaws)


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds an expression: variables of macros, fields made sure of, whether `||` absorbs it."""

    variables: Mapping[str, Type] = field(default_factory=dict[str, Type])
    present: frozenset[Path] = frozenset()
    absorbed: bool = False

    def knowing(self, paths: frozenset[Path]) -> "_Around":
        return replace(self, present=self.present | paths)


class _Walk:
    """One walk. `type_of` says what an expression may come to, and notes what is wrong on the way."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.flaws: list[Flaw] = []

    def flaw(
        self,
        syntax: Syntax,
        code: Code,
        message: str,
        hint: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.flaws.append(Flaw(syntax.position, severity, code, message, hint))

    def warn(self, syntax: Syntax, code: Code, message: str, hint: str) -> None:
        self.flaw(syntax, code, message, hint, Severity.WARNING)

    def type_of(self, syntax: Syntax, around: _Around) -> Type:
        match syntax:
            case syn.Literal() | syn.Input() | syn.Local():
                return self._leaf(syntax, around)
            case syn.Field() | syn.Has() | syn.Index():
                return self._part(syntax, around)
            case syn.Not() | syn.And() | syn.Or() | syn.Choice():
                return self._logic(syntax, around)
            case syn.Binary():
                return self._binary(syntax, around)
            case syn.Call():
                return self._call(syntax, around)
            case syn.Macro():
                return self._macro(syntax, around)
            case syn.Negative() | syn.ListOf() | syn.MapOf():
                return self._built(syntax, around)

    def _leaf(self, syntax: syn.Literal | syn.Input | syn.Local, around: _Around) -> Type:
        match syntax:
            case syn.Literal(value=value):
                return literal_type(value)
            case syn.Input(name=name):
                return self._ground.inputs.get(name, ANY)
            case syn.Local(name=name):
                return around.variables.get(name, ANY)

    def _built(self, syntax: syn.Negative | syn.ListOf | syn.MapOf, around: _Around) -> Type:
        types = [self.type_of(part, around) for part in syn.parts(syntax)]
        match syntax:
            case syn.Negative(operand=operand):
                signed = types[0].kinds & {Kind.INT, Kind.DOUBLE}
                if not signed:
                    self.flaw(operand, Code.TYPE, f"`-` takes no {spell_kinds(types[0])}")
                return kinds(*signed) if signed else ANY
            case syn.ListOf():
                return Type(frozenset({Kind.LIST}), items=join(types) if types else None)
            case syn.MapOf():
                return kinds(Kind.MAP)

    # --- fields -------------------------------------------------------------------------------------

    def _part(self, syntax: syn.Field | syn.Has | syn.Index, around: _Around) -> Type:
        owner = self.type_of(syntax.owner, around)
        match syntax:
            case syn.Has(owner=of, name=name):
                self._member(syntax, of, owner, name)
                return BOOL
            case syn.Field(owner=of, name=name):
                return self._read(syntax, owner, name, around)
            case syn.Index(key=syn.Literal(value=str(name))) if owner.only(Kind.MAP):
                return self._read(syntax, owner, name, around)
            case syn.Index(key=key):
                self.flaws += index_flaws(syntax, owner, self.type_of(key, around))
                return owner.item() if owner.only(Kind.LIST) else ANY

    def _read(self, syntax: syn.Field | syn.Index, owner: Type, name: str, around: _Around) -> Type:
        path = path_of(syntax)
        if path in around.present:  # and what is wrong with it was said where it was asked for
            known = owner.member(name)
            return ANY if known is None else known.type
        member = self._member(syntax, syntax.owner, owner, name, asked=False)
        if member is None:
            return ANY
        if path and not member.always and (name in owner.members or not owner.open):
            self._missing(syntax, path, around)
        return member.type

    def _missing(self, syntax: Syntax, path: Path, around: _Around) -> None:
        """A field that not every call has is read and nothing makes sure of it."""
        asked = f"has({spell(path)})"
        if "[" in asked:
            asked = f"'{path[-1]}' in {spell(path[:-1])}"
        ask = f"ask `{asked}` first"
        effect = self._ground.effect
        if effect is not Effect.ALLOW:
            done = "denies" if effect is Effect.DENY else "asks for approval"
            message = f"`{spell(path)}` may be missing, and then the rule {done}"
            self.warn(syntax, Code.MAY_BE_MISSING, message, ask)
        elif around.absorbed:
            message = f"`{spell(path)}` may be missing, and `||` lets the rule allow all the same"
            self.warn(syntax, Code.ERROR_ALLOWS, message, f"{ask}, or give it a rule of its own")

    def _member(
        self, syntax: Syntax, owner: Syntax, type_: Type, name: str, *, asked: bool = True
    ) -> Member | None:
        """The field `name` of `owner`; notes when there is none. `asked`: whether it is there, not
        what it is."""
        if Kind.MAP not in type_.kinds:
            self.flaw(syntax, Code.TYPE, f"{named(owner, type_)} has no fields")
            return None
        member = type_.member(name)
        path = path_of(owner)
        if not path or not type_.only(Kind.MAP):
            return member
        if member is None:
            self._unknown(syntax, path, type_, name, asked=asked)
        elif type_.keys is not None and name not in type_.keys.among:
            message = f"`{spell(path)}` never has `{cut(name)}` with the tools at hand"
            close = near(name, type_.keys.among)
            hint = f"did you mean `{close}`?" if close else ""
            self.flaw(syntax, Code.NO_TOOL, message, hint, self._ground.absent)
        elif type_.open and name not in type_.members and near(name, type_.members):
            message = f"`{spell(path)}` declares no `{cut(name)}`"
            self.warn(syntax, Code.UNKNOWN_FIELD, message, suggest(name, type_.members))
        elif path == ("args_origin",):
            self._origin(syntax, name)
        return member

    def _origin(self, syntax: Syntax, leaf: str) -> None:
        """Origins are told by leaf, `to` or `items[0].id`: it begins with the name of an argument."""
        arguments = self._ground.inputs["args"]
        name = re.split(r"[.\[]", leaf, maxsplit=1)[0]
        if arguments.member(name) is None and leaf not in arguments.members:
            self._unknown(syntax, ("args",), arguments, name, asked=True)

    def _unknown(self, syntax: Syntax, path: Path, owner: Type, name: str, *, asked: bool) -> None:
        hint = suggest(name, owner.members) if owner.members else ""
        whole = spell((*path, name))
        if path[0] != "args":
            return self.flaw(syntax, Code.UNKNOWN_FIELD, f"unknown field `{cut(whole)}`", hint)
        # A rule for many tools may ask whether there is such an argument. Misspelt, it would never hold.
        slip = near(name, owner.members) is not None
        severity = Severity.ERROR if slip or not asked else self._ground.absent
        message = f"no tool that the rule is about has `{cut(whole)}`"
        return self.flaw(syntax, Code.UNKNOWN_FIELD, message, hint, severity)

    # --- logic --------------------------------------------------------------------------------------

    def _logic(self, syntax: syn.Not | syn.And | syn.Or | syn.Choice, around: _Around) -> Type:
        match syntax:
            case syn.Not(operand=operand):
                self._truth(operand, around)
                return BOOL
            case syn.And(terms=terms):
                self._terms(terms, around, when=True)
                return BOOL
            case syn.Or(terms=terms):
                self._terms(terms, replace(around, absorbed=True), when=False)
                return BOOL
            case syn.Choice(condition=condition, then=then, otherwise=otherwise):
                self._truth(condition, around)
                return join(
                    [
                        self.type_of(then, around.knowing(assured(condition, when=True))),
                        self.type_of(otherwise, around.knowing(assured(condition, when=False))),
                    ]
                )

    def _terms(self, terms: Sequence[Syntax], around: _Around, *, when: bool) -> None:
        """Each term may read what the others make sure of; what they say otherwise, they decide alone."""
        sure = [assured(term, when=when) for term in terms]
        for at, term in enumerate(terms):
            others = frozenset[Path]().union(*sure[:at], *sure[at + 1 :])
            self._truth(term, around.knowing(others))

    def _truth(self, syntax: Syntax, around: _Around) -> None:
        found = self.type_of(syntax, around)
        if Kind.BOOL not in found.kinds:
            message = f"{named(syntax, found)} is used as a condition"
            self.flaw(syntax, Code.NOT_BOOLEAN, message, "compare it with something")

    # --- comparisons --------------------------------------------------------------------------------

    def _binary(self, syntax: syn.Binary, around: _Around) -> Type:
        left, right = (self.type_of(side, around) for side in (syntax.left, syntax.right))
        operator = syntax.operator
        if operator == "in":
            self._within(syntax, left, right)
        elif operator in ("==", "!=") or operator in ORDER:
            self._compare(syntax, left, right)
        else:
            made = result_of(operator, left, right)
            if made is None:
                message = f"`{operator}` takes no {spell_kinds(left)} and {spell_kinds(right)}"
                self.flaw(syntax, Code.TYPE, message, _quotes(syntax, left, right))
            return ANY if made is None else made
        return BOOL

    def _compare(self, syntax: syn.Binary, left: Type, right: Type) -> None:
        operator = syntax.operator
        if not meet(operator, left, right):
            message = f"`{operator}` compares {named(syntax.left, left)} with {named(syntax.right, right)}"
            self.flaw(syntax, Code.TYPE, message, _quotes(syntax, left, right))
        elif operator in ORDER:
            if TIERS in (left.words, right.words):
                message = f"`{operator}` compares tiers as texts: `critical` comes before `high`"
                self.warn(syntax, Code.ORDER_OF_TIERS, message, "write `in ['high', 'critical']`")
        else:
            self._word(syntax, syntax.left, left, right)
            self._word(syntax, syntax.right, right, left)
            self._truism(syntax, left, right)

    def _truism(self, syntax: syn.Binary, left: Type, right: Type) -> None:
        for literal, other in ((syntax.left, right), (syntax.right, left)):
            if (
                isinstance(literal, syn.Literal)
                and isinstance(literal.value, bool)
                and other.only(Kind.BOOL)
            ):
                plain = literal.value is (syntax.operator == "==")
                said = f"{syntax.operator} {str(literal.value).lower()}"
                hint = "leave it out" if plain else "write `!(…)`"
                self.warn(syntax, Code.REDUNDANT, f"`{said}` of what is a bool already", hint)

    def _word(self, at: Syntax, literal: Syntax, said: Type, of: Type) -> None:
        """Note a text that the value beside it never is."""
        words = of.words
        if not isinstance(literal, syn.Literal) or not isinstance(literal.value, str):
            return
        if words is None or Kind.TEXT not in said.kinds or literal.value in words.among:
            return
        word = literal.value
        case = any(word.casefold() == known.casefold() for known in words.among)
        severity = Severity.ERROR if words.fixed or case else self._ground.absent
        about = "" if words.fixed else " with the tools at hand"
        message = f"{subject(at)} is never `{cut(word)}`{about}"
        hint = suggest(word, words.among - {""}) if words.among - {""} else ""
        self.flaw(literal, Code.NEVER_EQUAL, message, hint, severity)

    def _within(self, syntax: syn.Binary, item: Type, container: Type) -> None:
        if not container.kinds & {Kind.LIST, Kind.MAP}:
            hint = "write `.contains(…)`" if container.only(Kind.TEXT) else ""
            self.flaw(syntax, Code.TYPE, f"{named(syntax.right, container)} holds nothing", hint)
            return
        if isinstance(syntax.right, syn.ListOf):
            for element in syntax.right.items:
                self._element(syntax, item, element)
        elif container.only(Kind.LIST):
            inside = container.item()
            if not meet("==", item, inside):
                message = f"{named(syntax.left, item)} is in no list of {spell_kinds(inside)}"
                self.flaw(syntax, Code.TYPE, message)
            self._word(syntax, syntax.left, item, inside)
        elif container.only(Kind.MAP):
            if isinstance(syntax.left, syn.Literal) and isinstance(syntax.left.value, str):
                self._member(syntax.left, syntax.right, container, syntax.left.value)
            elif not item.kinds & {Kind.TEXT, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL}:
                self.flaw(syntax, Code.TYPE, f"{named(syntax.left, item)} is no key")

    def _element(self, syntax: syn.Binary, item: Type, element: Syntax) -> None:
        """One element of a literal list: nothing else in it makes good for one that is never found."""
        if not isinstance(element, syn.Literal):
            return
        of = literal_type(element.value)
        if not meet("==", item, of):
            message = f"{named(syntax.left, item)} is never {named(element, of)}"
            self.flaw(element, Code.TYPE, message, quoting(element, item))
        elif item.words is not None:
            self._word(syntax, element, of, item)

    # --- calls and macros ---------------------------------------------------------------------------

    def _call(self, syntax: syn.Call, around: _Around) -> Type:
        types = [self.type_of(argument, around) for argument in syntax.arguments]
        self.flaws += call_flaws(syntax, types)
        return RESULTS.get(syntax.function, ANY)

    def _macro(self, syntax: syn.Macro, around: _Around) -> Type:
        over = self.type_of(syntax.over, around)
        if not over.kinds & {Kind.LIST, Kind.MAP}:
            message = f"{named(syntax.over, over)} has no elements"
            self.flaw(syntax, Code.TYPE, message)
        element = over.item() if over.only(Kind.LIST) else TEXT if over.only(Kind.MAP) else ANY
        given = (ANY, ANY) if len(syntax.variables) > 1 else (element,)
        inner = dict(zip(syntax.variables, given, strict=True))
        inside = replace(around, variables={**around.variables, **inner})
        if syntax.guard is not None:
            self._truth(syntax.guard, inside)
        if syntax.name in ("map", "transformList", "transformMap"):
            made = self.type_of(syntax.body, inside)
            whole = kinds(Kind.MAP) if syntax.name == "transformMap" else None
            return whole or Type(frozenset({Kind.LIST}), items=made)
        self._truth(syntax.body, inside)
        return Type(frozenset({Kind.LIST}), items=element) if syntax.name == "filter" else BOOL


def _quotes(syntax: syn.Binary, left: Type, right: Type) -> str:
    return quoting(syntax.left, right) or quoting(syntax.right, left)
