"""How does Google's C++ runtime decide a condition? Priced before it runs, on inputs that were looked at.

With `celexpr_check` the only importer of `cel-expr-python`. Our own parser reads a condition first, so
names, functions and limits are those of every engine; what the runtime would read otherwise than we do is
refused. Then the runtime compiles the text itself, without its type checker, and evaluates it: a third
opinion on what the text means.

A condition that might cost more than its budget is not run (`celexpr_price`); its steps are what it might
have cost. What the runtime says of an error is read for its kind and never shown: it quotes arguments.

What remains for the author of a rule to know: it reads 32 levels of brackets, has no `transformMap`, takes
only fixed offsets as time zones, and spells doubles (`2.5e+06`) and times (`20.250Z`) in its own way.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs] # of the package itself

from governance.canonical import JSON
from governance.policy import closure_syntax as syn
from governance.policy.cel import (
    INPUTS,
    Activation,
    CelFailure,
    ConditionError,
    FailureKind,
    Outcome,
    check_source,
    error_at,
)
from governance.policy.celexpr_price import TooDear, price
from governance.policy.celexpr_values import Bound
from governance.policy.closure_parse import parse
from governance.policy.closure_syntax import Syntax, references

__all__ = ["bind", "compile_program", "environment"]

T = TypeVar("T")

_LIBRARIES: Final = "extensions:\n- name: strings\n- name: two-var-comprehensions\n"


def environment(variables: Mapping[str, Any]) -> Any:
    """An environment of the runtime with the functions and macros that conditions may use."""
    config = cel.NewEnvConfigFromYaml(_LIBRARIES)
    return cel.NewEnv(config=config, variables=dict(variables))


@functools.cache
def _inputs() -> Any:
    return environment({**dict.fromkeys(INPUTS, cel.Type.DYN), "now": cel.Type.TIMESTAMP})


def bind(inputs: Mapping[str, JSON]) -> Bound:
    """Make the inputs of a decision readable for programs."""
    return Bound(inputs, _inputs().Activation)


class _Program:
    """A compiled condition, never written to after it was made."""

    __slots__ = ("_expression", "_names", "_references", "_syntax")

    def __init__(self, syntax: Syntax, expression: Any) -> None:
        self._syntax = syntax
        self._expression = expression
        self._references = references(syntax)
        self._names = sorted({name.partition(".")[0] for name in self._references})

    @property
    def references(self) -> frozenset[str]:
        return self._references

    def evaluate(self, activation: Activation, budget: int) -> Outcome[bool]:
        return self._run(activation, budget, _as_condition)

    def evaluate_text(self, activation: Activation, budget: int) -> Outcome[str]:
        return self._run(activation, budget, _as_text)

    def _run(
        self, activation: Activation, budget: int, read: Callable[[Any], T | CelFailure]
    ) -> Outcome[T]:
        inputs = cast("Bound", activation)
        steps = 0
        outcome: T | CelFailure
        try:
            faults = [fault for name in self._names if (fault := inputs.fault(name))]
            if faults:
                return Outcome(CelFailure(faults[0]), steps)
            steps = price(self._syntax, inputs, budget)
            outcome = read(self._expression.eval(inputs.runtime))
        except TooDear:
            return Outcome(CelFailure(FailureKind.BUDGET), budget)
        except RuntimeError as exc:  # what nothing in a condition can absorb
            outcome = CelFailure(_kind(str(exc)))
        except Exception:  # noqa: BLE001 - whatever a third party's code raises, the answer is a failure
            outcome = CelFailure(FailureKind.INTERNAL)
        return Outcome(outcome, steps)


def _as_condition(value: Any) -> bool | CelFailure:
    if value.type() == cel.Type.BOOL:
        return value.value() is True
    return _failure(value, FailureKind.NOT_BOOLEAN)


def _as_text(value: Any) -> str | CelFailure:
    if value.type() == cel.Type.STRING:
        return str(value.value())
    return _failure(value, FailureKind.TYPE)


def _failure(value: Any, otherwise: FailureKind) -> CelFailure:
    if value.type() == cel.Type.ERROR:
        return CelFailure(_kind(str(value.value())))
    unknown = value.type() == cel.Type.UNKNOWN
    return CelFailure(FailureKind.INTERNAL if unknown else otherwise)


_KINDS: Final = (
    ("NOT_FOUND: Key not found in map", FailureKind.MISSING_KEY),
    ("UNKNOWN: No matching overloads found", FailureKind.TYPE),
    ("UNKNOWN: Index error: expected", FailureKind.TYPE),
    ("INVALID_ARGUMENT: Applying SELECT to non-message type", FailureKind.TYPE),
    ("INVALID_ARGUMENT: Invalid container type", FailureKind.TYPE),
    ("INVALID_ARGUMENT: Invalid map key type", FailureKind.TYPE),
    ("INVALID_ARGUMENT: invalid regular expression", FailureKind.REGEX),
    ("INTERNAL: Iteration budget exceeded", FailureKind.BUDGET),
    ("OUT_OF_RANGE: ", FailureKind.RANGE),
    ("UNKNOWN: Index error", FailureKind.RANGE),
    ("ALREADY_EXISTS: duplicate key in map", FailureKind.RANGE),
    ("INVALID_ARGUMENT: divide by zero", FailureKind.RANGE),
    ("INVALID_ARGUMENT: modulus by zero", FailureKind.RANGE),
    ("INVALID_ARGUMENT: cannot convert string to", FailureKind.RANGE),
    ("INVALID_ARGUMENT: String to ", FailureKind.RANGE),
    ("INVALID_ARGUMENT: Duration ", FailureKind.RANGE),
    ("INVALID_ARGUMENT: Type conversion error", FailureKind.RANGE),
    ("INVALID_ARGUMENT: malformed UTF-8", FailureKind.RANGE),
    ("INVALID_ARGUMENT: <string>.", FailureKind.RANGE),
    ("INVALID_ARGUMENT: index out of range", FailureKind.RANGE),
)
"""How the runtime begins to say a thing, and what that is to us. It quotes arguments only after that."""


def _kind(said: str) -> FailureKind:
    return next((kind for begins, kind in _KINDS if said.startswith(begins)), FailureKind.INTERNAL)


# --- compiling --------------------------------------------------------------------------------------


def compile_program(source: str) -> _Program:
    """Compile `source` over the inputs. Raises ConditionError."""
    check_source(source)
    if "\0" in source:  # in a comment: the runtime would read no further
        raise error_at(source, source.index("\0"), "condition holds a NUL")
    syntax = parse(source, INPUTS)
    _refuse_what_is_read_otherwise(source, syntax)
    try:
        return _Program(syntax, _inputs().compile(source, disable_check=True))
    except RuntimeError as exc:
        raise _refusal(str(exc)) from None


def _refuse_what_is_read_otherwise(source: str, syntax: Syntax) -> None:
    match syntax:
        case syn.Literal(value=str() | bytes() as value):
            if "\0" in value if isinstance(value, str) else b"\0" in value:
                raise error_at(source, syntax.position, "engine `celexpr` cuts a text at NUL")
        case syn.Macro(name="transformMap"):
            raise error_at(source, syntax.position, "engine `celexpr` has no `transformMap`")
        case syn.Call(function=function, arguments=(_, zone)) if function.startswith("get"):
            if not (isinstance(zone, syn.Literal) and _OFFSET.fullmatch(str(zone.value))):
                hint = "write it as `'+02:00'`"
                raise error_at(source, zone.position, "time zone is no fixed offset", hint)
        case _:
            pass
    for part in syn.parts(syntax):
        _refuse_what_is_read_otherwise(source, part)


_OFFSET: Final = re.compile(r"UTC|[+-]?(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_PLACE: Final = re.compile(r"ERROR: <input>:([0-9]+):([0-9]+):")


def _refusal(said: str) -> ConditionError:
    """What the runtime's parser has against a condition, in our words and with its place."""
    found = _PLACE.search(said)
    line, column = (int(found[1]), int(found[2])) if found else (1, 1)
    problem = "not a CEL expression to engine `celexpr`"
    if "recursion" in said:
        problem = "condition nests deeper than engine `celexpr` reads"
    return ConditionError(problem, line=line, column=column)
