"""What a regular expression may cost a condition: priced before it is compiled and before it is searched with."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from governance.policy.cel import CONDITION_STEPS_MAX, CelFailure, FailureKind, engine_by_name
from governance.policy.patterns import (
    PATTERN_CHARS_MAX,
    NoPattern,
    Pattern,
    compile_steps,
    computed,
    search_steps,
    written,
)

BOMBS = {
    "many states": "args.k.exists(x, args.big.matches('(a?){900}[a-z]*(b|c)'))",
    "of an argument": "args.k.exists(x, args.big.matches(args.slow))",
    "states without end": "args.k.exists(x, args.mixed.matches('(a|b)*a(a|b){40}c'))",
    "nested repetition": "args.k.exists(x, args.mixed.matches('(x|[a-z]{1,30}){1,30}Z'))",
    "any text, many times": "args.k.exists(x, args.big.matches('.{0,500}Z'))",
    "each compiled anew": "args.patterns.exists(p, 'b'.matches(p))",
    "each of Unicode": "args.classes.exists(p, 'b'.matches(p))",
}

CHILD = """
import json, random, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (15, 15))
from governance.policy.cel import CONDITION_STEPS_MAX, engine_by_name
engine, r = engine_by_name(sys.argv[1]), random.Random(1)
args = {
    "k": list(range(1000)),
    "big": "a" * 100_000,
    "mixed": "".join(r.choices("ab", k=100_000)),
    "slow": "(a?){900}[a-z]*(b|c)",
    "patterns": [f"((a{{1,10}}){{1,10}}){{1,10}}{n}" for n in range(10_000)],
    "classes": [r"(?i)[^\\pL\\pN]" * 70 + str(n) for n in range(1_000)],
}
for source in sys.stdin.read().splitlines():
    outcome = engine.compile(source).evaluate(engine.bind({"args": args}), CONDITION_STEPS_MAX)
    print(outcome.value.kind, outcome.steps)
"""
"""Unbounded, each of most of these takes longer than all of them may."""


@pytest.mark.parametrize("engine", ["closure", "celpy"])
def test_bombs_end_in_a_bounded_time(engine: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, engine],
        input="\n".join(BOMBS.values()),
        capture_output=True,
        check=False,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    found = dict(zip(BOMBS, map(str.split, ended.stdout.splitlines()), strict=True))
    assert {name: kind for name, (kind, _) in found.items()} == dict.fromkeys(BOMBS, "budget")
    assert all(0 <= int(steps) <= CONDITION_STEPS_MAX for _, steps in found.values())


ORDINARY = {
    "^[a-z0-9._-]+@example[.]com$": "somebody.with-a.long-name@example.com",
    "^/srv/[a-z/]+$": "/srv/reports/of/the/year/and/of/many/other/years",
    "^DE[0-9]{20}$": "DE89370400440532013000",
    r"^\d{4}-\d{2}-\d{2}$": "2026-01-02",
    r"^https://([a-z0-9-]+\.)*example\.com(/.*)?$": "https://www.example.com/a/page",
}


@pytest.mark.parametrize(("pattern", "text"), ORDINARY.items())
def test_ordinary_patterns_over_ordinary_texts_cost_nothing_more(pattern: str, text: str) -> None:
    compiled = written(pattern)
    assert compiled.search(text.encode()) is not None
    assert search_steps(compiled, text.encode()) == 0


def test_a_long_text_can_be_searched_for_words() -> None:
    engine = engine_by_name("closure")
    program = engine.compile("args.body.matches('(?i)password|secret|token')")
    body = "nothing of the kind. " * 5_000
    assert program.evaluate(engine.bind({"args": {"body": body}}), CONDITION_STEPS_MAX)[0] is False


def test_a_search_is_priced_by_program_and_bytes() -> None:
    small, large = written("b$"), written("(a?){900}b")
    assert large.size > 100 * small.size
    assert search_steps(large, b"a" * 1000) > 100 * search_steps(small, b"a" * 1000) > 100
    assert search_steps(small, "é".encode() * 5000) == search_steps(small, b"a" * 10_000)
    assert search_steps(written(r"\pL{60}"), b"") > 100  # it is not for nothing that it is set up


def test_what_a_rule_says_may_be_larger_than_what_an_argument_says() -> None:
    names = r"^\pL[\pL -]{0,60}$"
    assert written(names).search("Zoë de Vries".encode()) is not None
    for pattern in (names, "(", "a{1001}", "(?=a)", "\ud800", "a" * (PATTERN_CHARS_MAX + 1)):
        with pytest.raises(NoPattern):
            computed(pattern)
    assert computed("a" * PATTERN_CHARS_MAX).search(b"a" * PATTERN_CHARS_MAX) is not None


@pytest.mark.parametrize(
    ("compiled", "char", "fits", "too_many"),
    [(computed, "a", 10_850, 10_862), (written, ".", 58_220, 58_270)],
)
def test_what_fits_128_kib_of_an_argument_and_8_mib_of_a_rule(
    compiled: Callable[[str], Pattern], char: str, fits: int, too_many: int
) -> None:
    """The edge, but for the few bytes by which one build of RE2 differs from another."""

    def repeated(count: int) -> str:
        whole, rest = divmod(count, 1000)  # RE2 repeats no more often than that
        return "".join(f"{char}{{1000}}{'xy'[n % 2]}" for n in range(whole)) + f"{char}{{{rest}}}"

    assert compiled(repeated(fits)).search(b"q") is None
    with pytest.raises(NoPattern):
        compiled(repeated(too_many))


def test_what_is_slow_to_compile_is_paid_for_before() -> None:
    assert compile_steps("^a$") < 600
    assert compile_steps(r"\pL" * 200) > CONDITION_STEPS_MAX
    assert compile_steps(".{999}" * 170) > 5_000
    engine = engine_by_name("closure")
    program = engine.compile("'b'.matches(args.p)")
    outcome = program.evaluate(engine.bind({"args": {"p": r"\pL" * 300}}), CONDITION_STEPS_MAX)
    assert outcome.value == CelFailure(FailureKind.BUDGET)


def test_the_second_opinion_pays_once_for_a_pattern() -> None:
    engine = engine_by_name("celpy")
    program = engine.compile("args.k.all(x, x.matches('^[a-z]{1,9}$'))")
    inputs = {"args": {"k": ["abc"] * 500}}
    outcome = program.evaluate(engine.bind(inputs), CONDITION_STEPS_MAX)
    assert outcome.value is True
    assert 500 < outcome.steps < 6_000
