"""Random conditions over random inputs, asked of every engine there is: none may contradict another.

`closure` decides, `celpy` is the second opinion, and Google's C++ runtime is the judge where `cel-expr-python` is
installed. A failure for a value is a difference we bear, since a failure never allows; what we do not bear is
true for false, or a value where the C++ runtime has none.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from governance.errors import UnavailableError
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    Activation,
    CelFailure,
    ConditionError,
    FailureKind,
    engine_by_name,
)
from governance.policy.closure_engine import compile_program

CASES = 1000
DEPTHS = (0, 0, 0, 1, 1, 2)
SEEDS = range(4)
NOW_US = 1_767_323_045_000_000

VALUES = [
    *(0, 1, -3, 2**53 + 1, 1.0, 2.5, -0.0, "a", "", "ab", "é", "10", True, False, None),
    *([1, 2], [], ["a", 1, None], [[1], "a"], {"k": 1}, {}, {"k": {"z": "a"}}, {"1": 1}),
]
TEXTS = ["'a'", "'ab'", "''", "'é'", "'b'"]
NUMBERS = [
    *("0", "1", "-3", "1.0", "2.5", "9007199254740993", "2u"),
    *("(0.0 / 0.0)", "-9223372036854775808", "1e300"),
]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]

Random = random.Random


def atom(r: Random) -> str:
    paths = [f"args.{r.choice('xyzw')}", f"args['{r.choice('xyzw')}']", "args.m.k", "args.m.k.z"]
    literals = ["true", "false", "null", "[1, 'a']", "{'k': 1}", "[]"]
    return r.choice(
        [*paths * 3, "tool.verb", "run.calls", "principal.roles", *TEXTS, *NUMBERS, *literals]
    )


def chosen(r: Random, *texts: str) -> str:
    return r.choice(texts)


def compared(r: Random) -> str:
    return f"{atom(r)} {r.choice(COMPARISONS)} {atom(r)}"


def calculated(r: Random) -> str:
    return f"{atom(r)} {r.choice('+-*/%')} {atom(r)} {r.choice(COMPARISONS)} {atom(r)}"


def membership(r: Random) -> str:
    lists = [
        "principal.roles",
        "args.x",
        "args.m",
        "[1, 2.0, 'a']",
        "['a', 'ab']",
        "{'a': 2}",
        "{1: 2, 3: 'a'}",
        "'ab'",
    ]
    return f"{atom(r)} in {r.choice(lists)}"


def presence(r: Random) -> str:
    return f"has(args.{chosen(r, 'x', 'y', 'z', 'm', 'm.k', 'm.k.z', 'q')})"


def text_test(r: Random) -> str:
    method = chosen(r, "startsWith", "endsWith", "contains", "matches")
    return f"{chosen(r, 'args.x', 'args.y', 'tool.verb', atom(r))}.{method}({r.choice(TEXTS)})"


def sized(r: Random) -> str:
    return f"size({atom(r)}) {chosen(r, '==', '>')} {r.choice('0123')}"


def converted(r: Random) -> str:
    function = chosen(r, "int", "double", "string", "uint", "dyn", "timestamp", "duration")
    return f"{function}({atom(r)}) {chosen(r, '==', '!=')} {atom(r)}"


def quantified(r: Random) -> str:
    macro = chosen(r, "exists", "all", "exists_one")
    over = chosen(r, "args.x", "args.y", "args.m", "principal.roles", "[1, 'a', 2.5]")
    return f"{over}.{macro}(e, {chosen(r, 'e', atom(r))} {r.choice(COMPARISONS)} {atom(r)})"


def made(r: Random) -> str:
    return chosen(
        r,
        f"args.x.map(e, e + {atom(r)}).size() == {r.choice('012')}",
        f"args.{r.choice('xy')}.filter(e, e == {atom(r)}) == {chosen(r, '[]', '[1]', 'args.x')}",
        f"principal.roles.filter(s, s != {r.choice(TEXTS)}).size() > 0",
    )


def timed(r: Random) -> str:
    return chosen(
        r,
        "now > timestamp('2026-01-01T00:00:00Z')",
        f"now.getHours() == {r.choice('23')}",
        "now - duration('1h') < timestamp('2026-01-02T02:04:05.5Z')",
        f"duration('{r.choice('123')}s') < duration('{chosen(r, '2', '1.5', '-1')}s')",
        f"timestamp({atom(r)}) < now",
        f"now + duration('{chosen(r, '1ns', '-1.5us', '2000ns', '9223372036s')}') > now",
    )


def indexed(r: Random) -> str:
    key = chosen(r, "0", "1", "-1", "5", "'k'", "1u", "args.y")
    return f"args.{r.choice('xym')}[{key}] == {atom(r)}"


def plain(r: Random) -> str:
    """A test that conditions are mostly made of, which the engine has shortcuts for."""
    field = f"{chosen(r, 'args', 'args', 'tool', 'run')}.{chosen(r, *'xyzw', 'verb', 'calls')}"
    literal = chosen(r, "['a', 'ab']", "['a', 1]", "[1, 2]", "[]")
    return chosen(
        r,
        f"{field} {chosen(r, *COMPARISONS)} {r.choice(['1', '2.5', '-3', '9007199254740993'])}",
        f"{field} {chosen(r, '==', '!=')} {chosen(r, *TEXTS, 'true', 'null')}",
        f"{field} in {literal}",
        f"has({field})",
        f"{field}.{chosen(r, 'startsWith', 'endsWith')}({chosen(r, *TEXTS)})",
        field,
    )


LEAVES: list[Callable[[Random], str]] = [
    *(compared, compared, calculated, membership, presence, text_test, sized, converted),
    *(quantified, made, timed, indexed, atom, plain),
]


def condition(r: Random, depth: int) -> str:
    if depth == 0:
        return r.choice(LEAVES)(r)
    left, right = condition(r, depth - 1), condition(r, depth - 1)
    return r.choice(
        [
            *[f"({left}) {chosen(r, '&&', '||')} ({right})"] * 5,
            *[f"!({left})"] * 2,
            f"({left}) ? ({right}) : ({condition(r, depth - 1)})",
        ]
    )


def inputs(r: Random) -> dict[str, object]:
    return {
        "tool": {"verb": chosen(r, "a", "ab")},
        "args": {name: r.choice(VALUES) for name in "xyzwm" if r.random() < 0.8},
        "principal": {"roles": r.sample(["a", "ab", "c"], r.randint(0, 2))},
        "run": {"calls": r.choice([0, 1, 3])},
        "now": NOW_US,
    }


Ask = Callable[[str, dict[str, object]], object]


def asking(name: str) -> Ask | None:
    """What engine `name` says of a condition: its value, or "none"; None where it is not installed."""
    try:
        engine = engine_by_name(name)
    except UnavailableError:
        return None

    def ask(source: str, given: dict[str, object]) -> object:
        try:
            program = engine.compile(source)
        except ConditionError:
            return "none"
        bound = engine.bind(given)  # type: ignore[arg-type] # JSON, as drawn
        value = program.evaluate(bound, CONDITION_STEPS_MAX).value
        if isinstance(value, CelFailure):
            assert value.kind is not FailureKind.INTERNAL, (name, source, given)
            return "none"
        return value

    return ask


@pytest.mark.parametrize("seed", SEEDS)
def test_no_engine_contradicts_another(seed: int) -> None:
    closure, celpy, runtime = asking("closure"), asking("celpy"), asking("celexpr")
    assert closure is not None
    assert celpy is not None
    r = random.Random(seed)
    seen: Counter[object] = Counter()
    for _ in range(CASES):
        source, given = condition(r, r.choice(DEPTHS)), inputs(r)
        got, second = closure(source, given), celpy(source, given)
        seen[got] += 1
        seen["second agrees"] += got == second
        assert "none" in (got, second) or got == second, (source, given, got, second)
        if runtime is None:
            continue
        judged = runtime(source, given)
        seen["judge agrees"] += got == judged
        assert got in ("none", judged), (source, given, got, judged)
    assert min(seen[True], seen[False], seen["none"]) > CASES / 20, "the conditions say too little"
    assert seen["second agrees"] > 0.95 * CASES, seen
    assert runtime is None or seen["judge agrees"] > 0.98 * CASES, seen


@pytest.mark.parametrize("seed", SEEDS)
def test_shortcuts_change_neither_an_outcome_nor_its_steps(seed: int) -> None:
    """Of any inputs, a missing one or one of another type included, and however few steps there are."""
    r = random.Random(seed)
    seen: Counter[object] = Counter()
    for _ in range(CASES):
        parts = [chosen(r, *[plain(r)] * 4, condition(r, 0)) for _ in range(r.randint(1, 4))]
        try:
            program = compile_program(joined(r, parts))
        except ConditionError:
            continue
        given = inputs(r)
        for name in r.sample(sorted(given), r.choice([0, 0, 0, 1])):
            given[name] = r.choice(VALUES)
        activation = Activation(given)
        for budget in (0, r.randint(1, 30), CONDITION_STEPS_MAX):
            outcome = program.evaluate_exactly(activation, budget)
            assert program.evaluate(activation, budget) == outcome, (parts, given, budget)
            seen[outcome.value] += 1
    assert min(seen[True], seen[False]) > CASES / 5, "the conditions say too little"
    assert len(seen) > 4, "too few kinds of failures"


def joined(r: Random, parts: list[str]) -> str:
    """The parts in a random tree."""
    if len(parts) == 1:
        return parts[0]
    cut = r.randint(1, len(parts) - 1)
    whole = f"({joined(r, parts[:cut])} {chosen(r, '&&', '||')} {joined(r, parts[cut:])})"
    return chosen(r, whole, whole, f"!{whole}")
