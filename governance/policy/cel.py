"""What may a condition say, and what comes out of one? The one interface that every CEL engine meets.

A condition is CEL text in a rule. An engine compiles it once, at load, and evaluates it for each decision:

    program = default_engine().compile("args.amount_cents <= 5000")
    program.evaluate(engine.bind(inputs), budget=20_000)    # -> Outcome(True, steps=7)

Evaluating is total: whatever goes wrong is a `CelFailure` with a kind and nothing else, so that no
argument leaks into a message or a log. A result that is not a boolean is such a failure. `bind` turns
the decision input into whatever the engine reads, at most once per decision.

Limits hold before any parser sees the text: 8 KiB, 64 brackets, terminated literals. An unknown input,
function or method is refused at compile time by every engine. The functions here are in each of them;
`closure`, the default, knows more (`closure_functions`, `closure_macros`).

Engines are imported when the first condition is compiled, never before: a policy of match blocks alone
costs no engine. Engine name and version are part of the policy digest; one that is absent fails the
load, and none is ever replaced by another.
"""

import difflib
import importlib.metadata
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, NamedTuple, NewType, Protocol, TypeAlias, TypeVar

from governance.canonical import JSON
from governance.errors import InvalidInputError, UnavailableError

__all__ = [
    "BRACKETS_MAX",
    "CONDITION_BYTES_MAX",
    "CONDITION_DEPTH_MAX",
    "CONDITION_STEPS_MAX",
    "FUNCTIONS",
    "INPUTS",
    "MACROS",
    "METHODS",
    "PARSER_LOCK",
    "Activation",
    "CelFailure",
    "ConditionError",
    "Engine",
    "Evaluate",
    "FailureKind",
    "Outcome",
    "Program",
    "check_source",
    "default_engine",
    "did_you_mean",
    "engine_by_name",
    "error_at",
    "miscounted",
]

CONDITION_BYTES_MAX: Final = 8 * 1024
BRACKETS_MAX: Final = 64
CONDITION_DEPTH_MAX: Final = 96
"""How deep an expression may nest once brackets and chains of `&&` and `||` are counted as one level.

It keeps an evaluation within Python's own stack, so that a decision never depends on who asks for it."""
CONDITION_STEPS_MAX: Final = 20_000
"""What one condition may cost. A step is a node visited, an element looked at, or 64 characters read."""

INPUTS: Final = frozenset(
    {"tool", "args", "args_origin", "principal", "agent", "run", "window", "env", "now"}
)
"""The variables of a condition (DESIGN, appendix A)."""

_TIME_PARTS: Final = (
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
_NONE, _ONE, _TWO = frozenset({0}), frozenset({1}), frozenset({2})

FUNCTIONS: Final[Mapping[str, frozenset[int]]] = {
    **dict.fromkeys(("int", "uint", "double", "bool", "string", "bytes"), _ONE),
    **dict.fromkeys(("timestamp", "duration", "size", "dyn", "has"), _ONE),
    "matches": _TWO,
}
"""Function -> how many arguments it takes."""

METHODS: Final[Mapping[str, frozenset[int]]] = {
    "size": _NONE,
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), _ONE),
    **dict.fromkeys(_TIME_PARTS, _NONE | _ONE),
}
MACROS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
"""`list.macro(name, expression)`."""

PARSER_LOCK: Final = threading.Lock()
"""cel-python keeps one parser for the whole process: an engine that parses with it holds this."""

T_co = TypeVar("T_co", covariant=True)

Activation = NewType("Activation", object)
"""What an engine made of the inputs of one decision. It belongs to that engine and that decision."""


class FailureKind(StrEnum):
    """Why a condition has no value. Recorded in entries: never rename or reuse one."""

    MISSING_KEY = "missing-key"
    TYPE = "type"
    RANGE = "range"
    BUDGET = "budget"
    REGEX = "regex"
    NOT_BOOLEAN = "not-boolean"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class CelFailure:
    """A condition that has no value. It carries no text on purpose."""

    kind: FailureKind


class Outcome(NamedTuple, Generic[T_co]):
    """What an evaluation came to, and the steps it took."""

    value: T_co | CelFailure
    steps: int


Evaluate: TypeAlias = Callable[[Activation, int], Outcome[bool]]
"""A condition, of an activation and within a budget of steps. Never raises."""


class Program(Protocol):
    """One compiled expression: immutable, and safe to evaluate from many threads at once."""

    @property
    def references(self) -> frozenset[str]:
        """The inputs it reads, as dotted names: `args.amount_cents`, `run.calls`."""
        ...

    @property
    def evaluate(self) -> Evaluate:
        """Evaluates as a condition."""
        ...

    def evaluate_text(self, activation: Activation, budget: int) -> Outcome[str]:
        """Evaluate as a text for people; a result that is no text is a failure. Never raises."""
        ...


class Engine(Protocol):
    """A CEL implementation. Cheap to make; it loads its library at the first `compile`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same condition might come out otherwise."""
        ...

    def __hash__(self) -> int: ...

    def compile(self, source: str) -> Program:
        """Compile `source`. Raises ConditionError with line and column."""
        ...

    def bind(self, inputs: Mapping[str, JSON]) -> Activation:
        """Make `inputs` readable for this engine's programs. Lazy and total; do it once per decision.

        `now`, whole microseconds in the record, is a timestamp to a condition.
        """
        ...


class ConditionError(InvalidInputError):
    """A condition that cannot be compiled. `line` and `column` count from 1 within its text."""

    def __init__(self, message: str, *, line: int, column: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class _Closure:
    """cel-python's parser and our own evaluator: closures that read the inputs in place."""

    version: str
    name: str = "closure"

    def compile(self, source: str) -> Program:
        from governance.policy import closure_engine

        return closure_engine.compile_program(source)

    def bind(self, inputs: Mapping[str, JSON]) -> Activation:
        return Activation(inputs)


@dataclass(frozen=True, slots=True)
class _Celpy:
    """cel-python's parser and interpreted evaluator, bounded and made strict: a second opinion."""

    version: str
    name: str = "celpy"

    def compile(self, source: str) -> Program:
        check_source(source)
        from governance.policy import celpy_engine

        return celpy_engine.compile_program(source)

    def bind(self, inputs: Mapping[str, JSON]) -> Activation:
        from governance.policy import celpy_engine

        return Activation(celpy_engine.Bound(inputs))


@dataclass(frozen=True, slots=True)
class _Celexpr:
    """Google's C++ runtime, where it is installed. It runs only what is cheap on the inputs at hand."""

    version: str
    name: str = "celexpr"

    def compile(self, source: str) -> Program:
        from governance.policy import celexpr_engine

        return celexpr_engine.compile_program(source)

    def bind(self, inputs: Mapping[str, JSON]) -> Activation:
        from governance.policy import celexpr_engine

        return Activation(celexpr_engine.bind(inputs))


@dataclass(frozen=True, slots=True)
class _Listed:
    """An engine there is: what makes it, and the distribution it needs and what to install for that.

    `revision` is that of our own part: raise it when the engine may give another outcome for some condition.
    """

    make: Callable[[str], Engine]
    revision: int
    distribution: str = "cel-python"
    install: str = "cel-python"


_ENGINES: Final[Mapping[str, _Listed]] = {
    "closure": _Listed(_Closure, 2),
    "celpy": _Listed(_Celpy, 2),
    "celexpr": _Listed(_Celexpr, 1, "cel-expr-python", "governance[celexpr]"),
}


def default_engine() -> Engine:
    """The engine that policies use unless told otherwise. Raises UnavailableError when it is absent."""
    return engine_by_name("closure")


def engine_by_name(name: str) -> Engine:
    """Find an engine. Raises InvalidInputError for an unknown one, UnavailableError for one absent."""
    if name not in _ENGINES:
        raise InvalidInputError(
            f"unknown policy engine `{name[:80]}`", hint=did_you_mean(name, _ENGINES)
        )
    listed = _ENGINES[name]
    try:
        installed = importlib.metadata.version(listed.distribution)
    except importlib.metadata.PackageNotFoundError as exc:
        raise UnavailableError(
            f"policy engine `{name}` is not installed", hint=f"install `{listed.install}`"
        ) from exc
    return listed.make(f"{installed}-{listed.revision}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint for a misspelt name, or what there is to choose from."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean `{close[0]}`?" if close else f"use one of {', '.join(names)}"


def miscounted(name: str, allowed: Iterable[int], given: int) -> str:
    """What is wrong with a call of `name` that gives it more or fewer arguments than it takes."""
    counts = " or ".join(map(str, sorted(allowed)))
    return f"`{name}` takes {counts} argument{'' if counts == '1' else 's'}, not {given}"


_TOKEN: Final = re.compile(
    r"""//[^\n]*                                      # a comment
      | (?P<prefix>[rRbB]{0,2})(?P<quote>'''|\"\"\"|'|\")
      | [_a-zA-Z][_a-zA-Z0-9]*
      | .""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"""\\(?:[abfnrtv"'\\]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
)


def check_source(source: str) -> None:
    """Refuse text that no parser should be given. Raises ConditionError."""
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > CONDITION_BYTES_MAX:
        raise error_at(source, 0, f"condition of {size} bytes exceeds {CONDITION_BYTES_MAX}")
    if not source.strip():
        raise error_at(source, 0, "condition is empty")
    position = depth = 0
    while position < len(source):
        token = _TOKEN.match(source, position)
        assert token is not None  # noqa: S101 - the last alternative matches any character
        if token["quote"]:
            position = _end_of_literal(source, token)
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > BRACKETS_MAX:
            raise error_at(source, position, f"condition nests more than {BRACKETS_MAX} brackets")
        position = token.end()


def _end_of_literal(source: str, token: "re.Match[str]") -> int:
    """Find where a text literal ends. Spellings that CEL parsers read differently are refused."""
    quote, raw = token["quote"], "r" in token["prefix"].lower()
    position = token.end()
    while not source.startswith(quote, position):
        if position >= len(source) or (source[position] in "\r\n"):
            raise error_at(
                source, token.start(), "text literal does not end on its line", r"write `\n`"
            )
        if source[position] != "\\":
            position += 1
            continue
        escape = _ESCAPE.match(source, position)
        if raw and source.startswith(quote[0], position + 1):
            raise error_at(source, position, "raw text literal has a backslash before a quote")
        if not raw and escape is None:
            raise error_at(source, position, "unknown escape in a text literal", r"write `\\`")
        position = position + 1 if raw or escape is None else escape.end()
    return position + len(quote)


def error_at(source: str, position: int, problem: str, hint: str = "") -> ConditionError:
    """Make the error about what stands at offset `position` of `source`."""
    line = source.count("\n", 0, position) + 1
    column = position - source.rfind("\n", 0, position)
    return ConditionError(problem, line=line, column=column, hint=hint)
