"""What runs a condition made of plain tests? One Python function for all of it, made when it is compiled.

Closures cost a call a node. Nearly every condition consists of the same few tests, though: a field of an
input compared with what is known, `has`, `in` over literals, how a text begins, joined by `&&`, `||` and
`!`. A *straight* function does all of them in one go, and asks the closures about the parts it does not know.

It only ever takes the ordinary way. At whatever is out of the ordinary, a field that is absent or a value of
another type, it stops, and the closures evaluate the whole condition: they alone say what an error means.

The function's text is made of its own names; what a policy says never becomes part of it, but stands in the
namespace that it runs in, as values.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from governance.policy import closure_syntax as syn
from governance.policy.cel import Evaluate, Outcome
from governance.policy.closure_compile import Code, compile_syntax
from governance.policy.closure_parse import FIRST_PLACE
from governance.policy.closure_syntax import Syntax
from governance.policy.closure_values import kind_of

__all__ = ["straighten"]

_COMPARED: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_BEGINS: Final[Mapping[str, str]] = {"startsWith": "startswith", "endsWith": "endswith"}

_TRUE, _FALSE = "True", "False"
_OPPOSITE: Final[Mapping[str, str]] = {_TRUE: _FALSE, _FALSE: _TRUE}

_TEXT: Final = """
def evaluate(activation, budget):
    left = budget - steps
    if left >= 0:
        try:
            {roots}
            if {checks}:
                {frame}
                value = {test}
                if {unspent}:
                    return yes if value else no
                return Outcome(value, budget - frame[1])
        except Exception:
            pass
    return exactly(activation, budget)
"""


def straighten(syntax: Syntax, code: Code, exactly: Evaluate) -> Evaluate | None:
    """Make the function for `syntax`, whose closures are `code`; `exactly` runs those.

    None where it would be no faster. It gives the outcomes that `exactly` gives, of every activation
    and budget, and shares the commonest two.
    """
    made = _Function()
    test = made.test(syntax)
    if not made.roots:
        return None
    blank = [None] * max(0, code.places + 1 - FIRST_PLACE)
    namespace: dict[str, Any] = {
        **made.values,
        "steps": code.steps,
        "yes": Outcome(value=True, steps=code.steps),
        "no": Outcome(value=False, steps=code.steps),
        "Outcome": Outcome,
        "blank": blank,
        "exactly": exactly,
        "unusual": _unusual,
    }
    text = _TEXT.format(
        roots="; ".join(f"{name} = activation[{key}]" for key, name in made.roots.values()),
        checks=" and ".join(f"type({name}) is dict" for _, name in made.roots.values()),
        frame="frame = [activation, left, *blank]" if made.asks else "pass",
        test=test,
        unspent="frame[1] == left" if made.asks else "True",
    )
    exec(compile(text, "<condition>", "exec"), namespace)  # noqa: S102 - names of our own only: see above
    return cast("Evaluate", namespace["evaluate"])


def _unusual() -> bool:
    raise ValueError


class _Function:
    """The text of one function as it is put together, and the values that its names stand for."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.roots: dict[str, tuple[str, str]] = {}
        self.asks = False

    def test(self, syntax: Syntax) -> str:
        """The text of an expression that is true or false, or raises."""
        match syntax:
            case syn.And(terms=terms):
                return self._joined(terms, "and", _FALSE)
            case syn.Or(terms=terms):
                return self._joined(terms, "or", _TRUE)
            case syn.Not(operand=operand):
                return _OPPOSITE.get(asked := self.test(operand), f"(not {asked})")
            case syn.Has(owner=syn.Input(name=root), name=name) if root != "now":
                return f"({self._value(name)} in {self._root(root)})"
            case syn.Field(owner=syn.Input(name=root)) if root != "now":
                name, value = self._field(syntax)
                return f"({name} if {value} is True or {name} is False else unusual())"
            case syn.Binary(operator, syn.Field() as field, right) if _is_of_input(field):
                return self._compared(operator, field, right) or self._asked(syntax)
            case syn.Call(function, (syn.Field() as field, syn.Literal(value=str() as part))) if (
                function in _BEGINS and _is_of_input(field)
            ):
                name, value = self._field(field)
                asked = f"{name}.{_BEGINS[function]}({self._value(part)})"
                return f"({asked} if type({value}) is str else unusual())"
            case _:
                return self._asked(syntax)

    def _joined(self, terms: Iterable[Syntax], word: str, decides: str) -> str:
        """The text of a chain. As for the closures, what decides it when compiled is the result."""
        tests = [self.test(term) for term in terms]
        if decides in tests:
            return decides
        left = [test for test in tests if test not in _OPPOSITE]
        return f"({f' {word} '.join(left)})" if left else _OPPOSITE[decides]

    def _compared(self, operator: str, field: syn.Field, right: Syntax) -> str | None:
        """The text of a comparison with what is known; None where the closures must do it."""
        if operator == "in" and isinstance(right, syn.ListOf):
            return self._one_of(field, right)
        if not isinstance(right, syn.Literal) or operator not in _COMPARED:
            return None
        kind = kind_of(right.value)
        if kind is int or kind is float:
            name, value = self._field(field)
            asked = f"{name} {operator} {self._value(right.value)}"
            return f"({asked} if type({value}) is float or type({name}) is int else unusual())"
        if kind is str and operator in ("==", "!="):
            _, value = self._field(field)
            return f"({value} {operator} {self._value(right.value)})"
        return None

    def _one_of(self, field: syn.Field, right: syn.ListOf) -> str | None:
        texts = [item.value for item in right.items if isinstance(item, syn.Literal)]
        if len(texts) != len(right.items) or not all(type(text) is str for text in texts):
            return None
        name, value = self._field(field)
        known = self._value(frozenset(texts))
        return f"({name} in {known} if type({value}) is str else unusual())"

    def _field(self, field: syn.Field) -> tuple[str, str]:
        """A name of its own for the value of `field`, and the text that gives it the value."""
        assert isinstance(field.owner, syn.Input)  # noqa: S101 - both callers have looked
        root = self._root(field.owner.name)
        key = self._value(field.name)
        name = f"v{len(self.values)}"
        return name, f"({name} := {root}[{key}])"

    def _asked(self, syntax: Syntax) -> str:
        """What the closures say of a part, if it is true or false."""
        code = compile_syntax(syntax)
        if code.constant is True or code.constant is False:
            return _TRUE if code.constant else _FALSE
        self.asks = True
        asked = self._value(code.run)
        name = f"v{len(self.values)}"
        return f"({name} if ({name} := {asked}(frame)) is True or {name} is False else unusual())"

    def _root(self, root: str) -> str:
        if root not in self.roots:
            self.roots[root] = self._value(root), f"r{len(self.roots)}"
        return self.roots[root][1]

    def _value(self, value: object) -> str:
        name = f"c{len(self.values)}"
        self.values[name] = value
        return name


def _is_of_input(field: syn.Field) -> bool:
    return isinstance(field.owner, syn.Input) and field.owner.name != "now"
