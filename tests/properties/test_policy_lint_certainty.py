"""The checks at load are right about what they say: an error never comes out otherwise, and what they
pass never fails on arguments that the schema admits."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from governance.policy.cel import CONDITION_STEPS_MAX, CelFailure
from governance.policy.declarations import ToolShape
from governance.policy.document import read_policies
from governance.policy.lint import Severity, check
from governance.policy.model import RiskProfile

EXAMPLES = settings(derandomize=True, max_examples=400, deadline=None)

TEXTS = st.sampled_from(["", "a", "5", "EUR", "eur"])
INTS = st.integers(-2, 6)
KINDS: dict[str, tuple[dict[str, object], st.SearchStrategy[object]]] = {
    "int": ({"type": "integer"}, INTS),
    "number": ({"type": "number"}, INTS | st.sampled_from([0.5, 5.0])),
    "text": ({"type": "string"}, TEXTS),
    "enum": ({"enum": ["EUR", "a"]}, st.sampled_from(["EUR", "a"])),
    "bool": ({"type": "boolean"}, st.booleans()),
    "null": ({"type": ["string", "null"]}, st.none() | TEXTS),
    "list": ({"type": "array", "items": {"type": "string"}}, st.lists(TEXTS, max_size=3)),
    "map": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        st.dictionaries(TEXTS, INTS, max_size=2),
    ),
}
LITERALS = ["5", "0.5", "'5'", "'EUR'", "'eur'", "true", "null", "['a', 'EUR']", "[5, 'a']", "[]"]
FIELDS = ["args.a", "args.b", "args['a']", "args.a.c", "args.b['a']", "args.b[0]"]
GUARDS = [
    "{}",
    "has(args.a) && {}",
    "{} && 'a' in args",
    "!has(args.a) || {}",
    "has(args.a) ? {} : true",
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[ToolShape, dict[str, object]]:
    """A tool and arguments that it takes."""
    properties, required, args = {}, [], {}
    for name in draw(st.sampled_from(["a", "b", "ab"])):
        schema, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        properties[name] = schema
        if draw(st.booleans()):
            required.append(name)
        if name in required or draw(st.booleans()):
            args[name] = draw(values)
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolShape(RiskProfile(), {**parameters, "additionalProperties": False}), args  # type: ignore[dict-item] # JSON


CALLS = [
    "({}).contains({})",
    "'aEUR'.indexOf({}, {})",
    "({}).substring({})",
    "'a5'.replace({}, {})",
    "({}).split({})",
    "({}).join({})",
    "({}).matches({})",
    "now.getHours({})",
    *("int({})", "double({})", "uint({})", "bool({})", "string({})", "bytes({})", "size({})"),
    *("timestamp({})", "duration({})"),
    "({})[{}]",
]

SIDES = st.sampled_from([*FIELDS, *FIELDS, *LITERALS])
OPERATORS = st.sampled_from(["==", "!=", "<", ">=", "in"])


def looked_at(
    condition: str, shape: ToolShape, args: dict[str, object]
) -> tuple[set[Severity], object]:
    """How bad it is said to be, and what comes out."""
    rule = {"id": "r", "effect": "deny", "when": condition}
    text = json.dumps({"policy": "p", "version": 1, "rules": [rule]})
    policies = read_policies({"p": text})
    (compiled,) = policies.rules
    assert compiled.when is not None
    bound = policies.evaluator.bind({"args": args, "now": 1})  # type: ignore[dict-item] # JSON
    outcome = compiled.when.evaluate(bound, CONDITION_STEPS_MAX).value
    said = {lint.severity for lint in check(policies, {"t": shape}) if lint.code != "redundant"}
    return said, outcome


@EXAMPLES
@given(cases(), SIDES, OPERATORS, SIDES)
def test_an_error_never_comes_out_as_if_it_could_differ(
    case: tuple[ToolShape, dict[str, object]], left: str, operator: str, right: str
) -> None:
    said, outcome = looked_at(f"{left} {operator} {right}", *case)
    listed = operator == "in" and right.startswith("[")  # other elements may still be found
    if Severity.ERROR in said and not listed:
        assert outcome is (operator == "!=") or isinstance(outcome, CelFailure)


@EXAMPLES
@given(cases(), SIDES, OPERATORS, SIDES, st.sampled_from(GUARDS))
def test_what_is_passed_has_a_value(
    case: tuple[ToolShape, dict[str, object]], left: str, operator: str, right: str, guard: str
) -> None:
    said, outcome = looked_at(guard.format(f"{left} {operator} {right}"), *case)
    if not said and "null" not in str(case[0].parameters):
        failure = isinstance(outcome, CelFailure) and outcome.kind.value
        assert failure in (False, "range")  # an index is not looked at


@settings(EXAMPLES, max_examples=200)
@given(cases(), SIDES, st.sampled_from(CALLS), SIDES)
def test_a_call_that_is_an_error_never_comes_out(
    case: tuple[ToolShape, dict[str, object]], left: str, call: str, right: str
) -> None:
    said, outcome = looked_at(f"dyn({call.format(left, right)}) != null", *case)
    if Severity.ERROR in said:
        assert isinstance(outcome, CelFailure)
