"""How does cel-python decide a condition? Its parser and its interpreted evaluator, bounded and strict.

With the other `celpy_*` files the only importer of cel-python. What is kept: the grammar, the walk over
the parse tree, the value types and their 64-bit arithmetic. What is replaced, and why:

- its `CompiledRunner` is never used: it keeps program and result in module globals;
- names resolve in a plain dictionary, so no package search and no clone of all inputs per element;
- a meter counts every visit, in macros too; `&&`, `||` and macros stop as soon as they are decided;
- only booleans count: as operands of `&&`, `||`, `!`, `?:`, as results of macros and of conditions;
- equality, order, arithmetic, `in`, indexing, conversions: see `celpy_functions`, `celpy_times`;
- its loggers, which print argument values, are silenced for the whole process.

What remains for the author of a rule to know: `error || true` is true by the CEL standard; `matches` is a
search, so anchor it; equal-looking Unicode texts (NFC, NFD, look-alikes) are not equal; `type()`, message
construction, macros with two variables, boolean map keys and named time zones are refused or fail.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import lark
from celpy import celparser, evaluation
from celpy import celtypes as cel
from celpy.evaluation import CELEvalError

from governance.canonical import JSON
from governance.policy.cel import (
    PARSER_LOCK,
    Activation,
    CelFailure,
    ConditionError,
    FailureKind,
    Outcome,
)
from governance.policy.celpy_functions import resolve
from governance.policy.celpy_times import to_timestamp
from governance.policy.celpy_tree import references, shape
from governance.policy.celpy_values import Call, Exhausted, Meter, Value, failure_kind

__all__ = ["Bound", "compile_program"]

T = TypeVar("T")
Node: TypeAlias = Any


class _Silence:
    """A logger that keeps what it is told to itself."""

    def debug(self, *_: object) -> None: ...

    info = warning = error = debug


evaluation.logger = cel.logger = _Silence()


class Bound:
    """The inputs of one decision, each turned into cel-python's values when first read."""

    def __init__(self, inputs: Mapping[str, JSON]) -> None:
        self._inputs = inputs
        self._values: dict[str, Value] = {}

    def value(self, name: str) -> Value:
        """Read input `name`. Raises KeyError when there is none, ValueError when it is no CEL value."""
        if name not in self._values:
            given = self._inputs[name]
            self._values[name] = _moment(given) if name == "now" else _to_cel(given)
        return self._values[name]


def _to_cel(value: object) -> Value:
    if isinstance(value, str):
        return cel.StringType(value)
    if value is None or isinstance(value, bool):
        return None if value is None else cel.BoolType(value)
    if isinstance(value, int):
        return cel.IntType(value)
    if isinstance(value, float):
        return cel.DoubleType(value)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return cel.MapType({cel.StringType(key): _to_cel(item) for key, item in members.items()})
    if isinstance(value, list):
        return cel.ListType([_to_cel(item) for item in cast("list[object]", value)])
    raise TypeError


def _moment(value: JSON) -> Value:
    if type(value) is not int:
        raise ValueError
    seconds, micros = divmod(value, 1_000_000)
    moment = to_timestamp(Meter(1), cel.IntType(seconds))
    return cel.TimestampType(moment.replace(microsecond=micros))


class _Scope:
    """What names mean at one place of a condition. cel-python asks it where it would an activation."""

    __slots__ = ("_inputs", "_local", "meter")

    def __init__(self, inputs: Bound, meter: Meter, local: Mapping[str, Value]) -> None:
        self._inputs = inputs
        self._local = local
        self.meter = meter

    def resolve_variable(self, name: str) -> Value:
        return self._local[name] if name in self._local else self._inputs.value(name)

    def resolve_function(self, name: str) -> Call:
        return resolve(name, self.meter)

    def with_local(self, name: str, value: Value) -> "_Scope":
        return _Scope(self._inputs, self.meter, {**self._local, name: value})


class _Evaluator(evaluation.Evaluator):  # type: ignore[misc] # cel-python's types are not read
    """cel-python's evaluator over a shaped tree. Errors are values until they reach the top."""

    logger = _Silence()
    activation: Any

    def visit(self, tree: Node) -> Value:
        self.activation.meter.charge()
        return getattr(self, tree.data)(tree)

    def visit_children(self, tree: Node) -> list[Value]:
        values: list[Value] = []
        for child in tree.children:
            values.append(self.visit(child) if isinstance(child, lark.Tree) else child)  # noqa: PERF401 - a comprehension is a stack frame
        return values

    def constant(self, tree: Node) -> Value:
        return tree.children[0]

    def conditionalor(self, tree: Node) -> Value:
        return _decide(map(self.visit, tree.children), by=True)

    def conditionaland(self, tree: Node) -> Value:
        return _decide(map(self.visit, tree.children), by=False)

    def member_dot(self, tree: Node) -> Value:
        owner = self.visit(tree.children[0])
        if isinstance(owner, CELEvalError):
            return owner
        if not isinstance(owner, cel.MapType):
            return CELEvalError(FailureKind.TYPE)
        name = cel.StringType(tree.children[1])
        return owner[name] if name in owner else CELEvalError(FailureKind.MISSING_KEY)

    def macro_has_eval(self, exprlist: Node) -> Value:
        """`has(e.f)`: is there an `f` in the map `e`? An `e` that is in error stays one."""
        (select,) = exprlist.children
        owner = self.visit(select.children[0])
        if isinstance(owner, CELEvalError):
            return owner
        if not isinstance(owner, cel.MapType):
            return CELEvalError(FailureKind.TYPE)
        return cel.BoolType(cel.StringType(select.children[1]) in owner)

    def mapinits(self, tree: Node) -> Value:
        values = self.visit_children(tree)
        for value in values:
            if isinstance(value, CELEvalError):
                return value
        if any(isinstance(key, cel.BoolType) for key in values[0::2]):
            return CELEvalError(FailureKind.TYPE)  # Python would find 1 under `true`
        pairs = list(zip(values[0::2], values[1::2], strict=True))
        return cel.MapType(pairs)  # a repeated key is a ValueError, which `primary` makes an error

    def macro(self, tree: Node) -> Value:
        """`list.all(x, p)` and its kin; over a map, `x` goes through the keys."""
        over, name, variable, body = tree.children
        items = self.visit(over)
        if isinstance(items, CELEvalError):
            return items
        if not isinstance(items, (cel.ListType, cel.MapType)):
            return CELEvalError(FailureKind.TYPE)
        outer = self.activation

        def each() -> Iterator[Value]:
            for item in items:
                self.activation = outer.with_local(variable, item)
                yield self.visit(body)

        try:
            return _fold(str(name), list(items), each())
        finally:
            self.activation = outer


def _fold(name: str, items: list[Value], results: Iterator[Value]) -> Value:
    if name in ("all", "exists"):
        return _decide(results, by=name == "exists")
    kept: list[Value] = []
    for item, result in zip(items, results, strict=True):
        if isinstance(result, CELEvalError):
            return result
        if name == "map":
            kept.append(result)
        elif not isinstance(result, cel.BoolType):
            return CELEvalError(FailureKind.TYPE)
        elif result:
            kept.append(item)
    return cel.BoolType(len(kept) == 1) if name == "exists_one" else cel.ListType(kept)


def _decide(results: Iterator[Value], *, by: bool) -> Value:
    """`||` (by True) and `&&` (by False): one deciding operand settles it, past errors too."""
    error: CELEvalError | None = None
    for result in results:
        if not isinstance(result, cel.BoolType):
            failed = isinstance(result, CELEvalError)
            error = error or (result if failed else CELEvalError(FailureKind.TYPE))
        elif bool(result) is by:
            return result
    return cel.BoolType(not by) if error is None else error


class _Program:
    """A shaped tree, never written to after it was made."""

    __slots__ = ("_references", "_tree")

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._references = references(tree)

    @property
    def references(self) -> frozenset[str]:
        return self._references

    def evaluate(self, activation: Activation, budget: int) -> Outcome[bool]:
        return _run(self._tree, activation, budget, _as_condition)

    def evaluate_text(self, activation: Activation, budget: int) -> Outcome[str]:
        return _run(self._tree, activation, budget, _as_text)


def _as_condition(value: Value) -> bool | CelFailure:
    if isinstance(value, cel.BoolType):
        return bool(value)
    return CelFailure(FailureKind.NOT_BOOLEAN)


def _as_text(value: Value) -> str | CelFailure:
    return str(value) if isinstance(value, str) else CelFailure(FailureKind.TYPE)


def _run(
    tree: Node, activation: Activation, budget: int, read: Callable[[Value], T | CelFailure]
) -> Outcome[T]:
    meter = Meter(budget)
    inputs = cast("Bound", activation)
    outcome: T | CelFailure
    try:
        value = _Evaluator(tree, cast("Any", _Scope(inputs, meter, {}))).visit(tree)
        failed = isinstance(value, CELEvalError)
        outcome = CelFailure(failure_kind(value)) if failed else read(value)
    except Exhausted:
        outcome = CelFailure(FailureKind.BUDGET)
    except Exception:  # noqa: BLE001 - whatever a third party's code raises, the answer is a failure
        outcome = CelFailure(FailureKind.INTERNAL)
    return Outcome(outcome, budget - max(meter.left, 0))


def compile_program(source: str) -> _Program:
    """Parse and shape `source`, which has passed `check_source`. Raises ConditionError."""
    try:
        with PARSER_LOCK:
            parsed = cast("Any", celparser.CELParser()).parse(source)
        return _Program(shape(parsed))
    except celparser.CELParseError as exc:
        raise ConditionError(
            "not a CEL expression", line=exc.line or 1, column=exc.column or 1
        ) from None
    except RecursionError:
        raise ConditionError("condition nests too deep", line=1, column=1) from None
