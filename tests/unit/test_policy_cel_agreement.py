"""Both engines that walk a condition themselves say the same of every operator, at the same price as ever."""

import pytest

from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    Activation,
    CelFailure,
    ConditionError,
    Engine,
    FailureKind,
    engine_by_name,
)

ENGINES = [engine_by_name("closure"), engine_by_name("celpy")]
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
INPUTS = {
    "tool": {"name": "pay", "verb": "READ"},
    "args": {
        "amount": 6000,
        "text": "abc",
        "list": [1, 2, 3],
        "words": ["a", "b"],
        "half": 1.5,
        "none": None,
        "map": {"a": 1},
        "yes": True,
    },
    "principal": {"roles": ["clerk"]},
    "run": {"untrusted": False, "calls": {"pay": 2}},
    "now": 1_700_000_000_250_000,
}


def bound(engine: Engine, **args: object) -> Activation:
    return engine.bind({**INPUTS, "args": {**INPUTS["args"], **args}})


def value(engine: Engine, source: str) -> "bool | str":
    outcome = engine.compile(source).evaluate(bound(engine), CONDITION_STEPS_MAX)
    return outcome.value if isinstance(outcome.value, bool) else outcome.value.kind.value


TRUE = r"""
args.amount - 1 == 5999 && args.half - 0.5 == 1.0 && 5u - 3u == 2u && args.amount * 2 == 12000 && 2u * 3u == 6u && args.half * 2.0 == 3.0
size(args.list) == 3 && size(args.map) == 1 && args.map.size() == 1 && args.words.size() == 2 && size(args.text) == 3 && size([]) == 0
args.text.matches('^' + args.text + '$') && !args.text.matches('^' + args.text + 'd')
args.amount <= 6000 && !(args.amount < 6000) && args.amount >= 6000 && !(args.amount > 6000) && 'a' <= 'a' && !('b' <= 'a') && now <= now && !(now < now)
args.amount != 6001 && args.text != 'abd' && now != timestamp(0) && duration('1s') != duration('2s') && !(args.amount != 6000)
duration('90m').getHours() == 1 && duration('90s').getSeconds() == 90 && duration('-90m').getHours() == -1 && duration('2ms').getMilliseconds() == 2
now.getDate('-23:00') == 13 && now.getMinutes('+00:50') == 3 && now.getHours('UTC') == 22 && now.getDayOfMonth('+02:00') == 14
timestamp('2020-01-01T00:00:00.5Z').getMilliseconds() == 500 && string(timestamp('2020-01-01T00:00:00.120Z')) == '2020-01-01T00:00:00.12Z'
timestamp('2020-01-01t10:20:30z') == timestamp('2020-01-01T10:20:30Z') && string(timestamp('2020-01-01T10:20:30Z')) == '2020-01-01T10:20:30Z'
timestamp('2020-01-05T00:00:00Z').getDayOfWeek() == 0 && timestamp('2020-01-04T00:00:00Z').getDayOfWeek() == 6 && timestamp('2020-12-31T00:00:00Z').getDayOfYear() == 365
int('-7') == -7 && int('+7') == 7 && int(-2.9) == -2 && uint(2.9) == 2u && double('-1e3') == -1000.0 && double('.5') == 0.5 && double(7u) == 7.0
duration('-1h') < duration('1s') && duration('1ms') == duration('1000us') && duration('1us') == duration('1000ns') && duration('+1.5h') == duration('90m')
string(duration('0s')) == '0s' && string(duration('1.000001s')) == '1.000001s' && string(duration('1h')) == '3600s' && string(duration('-1.5s')) == '-1.5s'
[1] != [1, 2] && {'a': 1} != {'a': 1, 'b': 2} && {'a': 1} != {'a': 2} && [1, 2] != [2, 1] && args.list != [1, 2, 4] && [[1]] != [['1']]
args.list.exists_one(x, x > 2) && !args.list.exists_one(x, x > 1) && !args.list.exists_one(x, x > 9)
args.list.filter(x, x > 9) == [] && [].map(x, x) == [] && [].all(x, false) && ![].exists(x, true) && args.list.map(x, x - 1) == [0, 1, 2]
1 in args.list && !(4 in args.list) && 2.0 in args.list && !('1' in args.list) && 1u in [1] && 'clerk' in principal.roles
string(1000000.0) == '1000000' && string(1.5e10) == '15000000000' && string(1e21) == '1e+21' && string(1e-7) == '1e-7' && string(-2.5) == '-2.5'
0.0 / 0.0 != 0.0 / 0.0 && !(0.0 / 0.0 == 0.0 / 0.0) && [0.0 / 0.0] != [0.0 / 0.0] && !(0.0 / 0.0 in [0.0 / 0.0])
b'ab' != b'ac' && b'ab' < b'ac' && b'b' > b'ab'
false < true && !(true < false) && true >= true
args.yes == true && args.yes != false && !(args.yes == false)
timestamp('2020-01-01T00:00:00Z') - duration('1h') == timestamp('2019-12-31T23:00:00Z')
(now - timestamp(0)).getHours() == 472222
int(now) == 1700000000
bool('true') == true && bool('false') == false
!args.text.contains('x') && !args.text.startsWith('b') && !args.text.endsWith('b') && args.text.contains('')
args.none == args.none && !(args.none == 1) && args.none != 'null'
(args.yes ? 1 : args.missing) == 1
(args.amount > 1 ? 'many' : 'few') == 'many' && (args.amount > 9000 ? 'many' : 'few') == 'few' && (args.yes ? 1 : 2) == 1
9007199254740993 != 9007199254740992.0 && !(9007199254740993 == 9007199254740992.0) && 9007199254740993 >= 9007199254740992.0 && args.amount < 6000.5
-args.amount == -6000 && -(1.5) == -1.5
-8 / 3 == -2 && -8 % 3 == -2 && 8.0 / 4.0 == 2.0 && 9u / 4u == 2u && 9u % 4u == 1u
args.words.map(w, w + '!') == ['a!', 'b!'] && args.words.filter(w, w == 'b') == ['b']
'é' < 'ê' && size('日本') == 2 && '日本'.startsWith('日')
1.0 / 0.0 > 1e308
!(-(0.0 / 0.0) > 1.0)
args.map.map(k, k) == ['a'] && args.map.all(k, k == 'a')
[1, 2, 3] + [4] == [1, 2, 3, 4]
{'a': {'b': 1}}.a.b == 1
string(b'abc') == 'abc' && bytes('é') == b'\xc3\xa9'
dyn(args.text) == 'abc'
uint('18446744073709551615') == 18446744073709551615u
args.missing || args.yes
!(args.missing && !args.yes)
""".strip().splitlines()


@each_engine
@pytest.mark.parametrize("source", TRUE)
def test_both_find_it_true(engine: Engine, source: str) -> None:
    assert value(engine, source) is True


FAILS = {
    "(args.yes ? args.missing : 1) == 1": "missing-key",
    "18446744073709551615u + 1u == 0u": "range",
    "int('9223372036854775808') == 0": "range",
    "9223372036854775807 * 2 == 0": "range",
    "-9223372036854775808 - 1 == 0": "range",
    "0u - 1u == 0u": "range",
    "-9223372036854775808 / -1 == 0": "range",
    "1u - 1 == 0": "type",
    "args.amount + 1.0 == 6001.0": "type",
    "args.amount - 'a' == 1": "type",
    "true && args.amount": "type",
    "[1, args.missing].size() == 2": "missing-key",
    "{args.missing: 1}.size() == 1": "missing-key",
    "{'a': args.missing}.size() == 1": "missing-key",
    "duration('1h') - now == duration('1s')": "type",
    "duration('1h') * 2 == duration('2h')": "type",
    "now.getHours('+25:00') == 1": "range",
    "now.getHours('x') == 1": "range",
    "now.getFullYear(2020) == 1": "type",
    "timestamp(1.5) == now": "type",
    "timestamp([]) == now": "type",
    "duration(5) == duration('5s')": "type",
    "size(now) == 1": "type",
    "size(null) == 1": "type",
    "size(true) == 1": "type",
    "args.text.matches(5)": "type",
    "args.amount.matches('a')": "type",
    "args.amount.contains('a')": "type",
    "args.text.contains(1)": "type",
    "args.text.startsWith(1)": "type",
    "bytes([1]) == b''": "type",
    "bool(1)": "type",
    "bool([])": "type",
    "uint([]) == 1u": "type",
    "uint('-1') == 1u": "range",
    "uint('x') == 1u": "range",
    "double([]) == 1.0": "type",
    "double('x') == 1.0": "range",
    "double('1e99999') == 1.0": "range",
    "int('0x10') == 16": "range",
    "string({'a': 1}) == ''": "type",
    "string(null) == ''": "type",
    "args.map[1] == 1": "missing-key",
    "args.map[true] == 1": "missing-key",
    "args.map[1u] == 1": "missing-key",
    "args.map[null] == 1": "type",
    "args.map[[1]] == 1": "type",
    "args.list['a'] == 1": "type",
    "args.none.x == 1": "type",
    "args.none[0] == 1": "type",
    "'a' > true": "type",
    "args.list > 1": "type",
    "args.map < args.map": "type",
    "null < null": "type",
    "!args.text": "type",
    "!args.none": "type",
    "-args.text == 1": "type",
    "-args.yes == 1": "type",
    "-now == now": "type",
    "args.text ? true : false": "type",
    "args.list.exists(x, x + 'a' == 'b')": "type",
    "args.list.exists_one(x, x)": "type",
    "args.list.map(x, args.missing) == []": "missing-key",
    "args.amount.map(x, x) == []": "type",
    "timestamp('2020-01-01T25:00:00Z') < now": "range",
    "timestamp('2020-01-01T00:00:00.1234567890Z') < now": "range",
    "timestamp('10000-01-01T00:00:00Z') < now": "range",
    "timestamp(-62135596801) < now": "range",
    "timestamp(253402300800) > now": "range",
    "now + duration('9999999h') > now": "range",
    "duration('1h1') == duration('1h')": "range",
    "duration('h') == duration('1h')": "range",
    "duration('-') == duration('0s')": "range",
    "duration('1.h') == duration('1h')": "range",
    "duration(' 1h') == duration('1h')": "range",
    "duration('1h ') == duration('1h')": "range",
    "duration('--1h') == duration('1h')": "range",
}


@each_engine
@pytest.mark.parametrize(("source", "kind"), FAILS.items())
def test_both_fail_alike(engine: Engine, source: str, kind: str) -> None:
    assert value(engine, source) == kind


DIFFER = {
    "{1: 'a'}[1u] == 'a' && args.list[2u] == 3 && 1u in {1: 'a'} && 1 in {1u: 'a'}": (True, "type"),
    "b'ab' + b'c' == b'abc'": (True, "type"),
    "9007199254740993 > 9007199254740992.0": (True, "range"),
    "9007199254740992.0 < 9007199254740993": (True, "range"),
    "9007199254740993 <= 9007199254740992.0": (False, "range"),
    "timestamp('2020-01-01T00:00:00.1234567Z') == timestamp('2020-01-01T00:00:00.123456Z')": (
        *(False, "range"),
    ),
    "duration('1001ns') == duration('1us')": (False, "range"),
    "args.map[1.5] == 1": ("missing-key", "type"),
    "args.list[1.5] == 1": ("range", "type"),
    "duration('1.1234567890s') == duration('1s')": (False, "range"),
}


@pytest.mark.parametrize(("source", "expected"), DIFFER.items())
def test_where_they_are_known_to_differ(source: str, expected: tuple[object, object]) -> None:
    """The default engine follows the standard in each."""
    assert tuple(value(engine, source) for engine in ENGINES) == expected


@each_engine
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("haz(args.x)", "unknown function `haz`; did you mean `has`?"),
        ("args.list.exsts(x, true)", "unknown function `exsts`; did you mean `exists`?"),
    ],
)
def test_a_slip_of_the_pen_is_guessed(engine: Engine, source: str, words: str) -> None:
    with pytest.raises(ConditionError) as caught:
        engine.compile(source)
    assert f"{caught.value.message}; {caught.value.hint}" == words


@each_engine
@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("(", (1, 1)),
        ("args.a ==", (1, 8)),
        ("args.a == == 1", (1, 11)),
        ("true\n  && )", (2, 6)),
        ("args.a && $", (1, 11)),
        ("{'a':}", (1, 6)),
    ],
)
def test_what_is_no_expression_is_told_where_that_shows(
    engine: Engine, source: str, place: tuple[int, int]
) -> None:
    with pytest.raises(ConditionError, match=r"^not a CEL expression$") as caught:
        engine.compile(source)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize(
    ("before", "inside", "after", "levels"),
    [
        ("!", "true", "", (96, 96)),
        ("", "1", " + 1", (96, 48)),
        ("", "args", ".a", (96, 96)),
        ("", "args", "[0]", (96, 96)),
        ("[", "1", "]", (64, 48)),
        ("true ? true : ", "true", "", (96, 96)),
        ("bool(", "true", ")", (64, 48)),
        ("args.all(x, ", "true", ")", (64, 48)),
        ("", "''", ".size()", (96, 96)),
    ],
)
def test_nesting_up_to_the_limit(
    before: str, inside: str, after: str, levels: tuple[int, int]
) -> None:
    for engine, most in zip(ENGINES, levels, strict=True):
        deepest = before * most + inside + after * most
        assert engine.compile(deepest).references <= {"args" + ".a" * most, "args"}
        with pytest.raises(ConditionError, match=r"nests deeper than 96 levels|64 brackets"):
            engine.compile(before + deepest + after)


COSTLY: dict[str, object] = {
    "text": "tacocat",
    "n": 3,
    "half": 0.5,
    "list": [1, 2, 3],
    "words": ["b", "a"],
    "yes": True,
    "map": {"a": 1},
    "none": None,
    "long": "x" * 1000,
    "many": list(range(200)),
}
COSTS = {
    "true": (1, 1),
    "args.n == 3": (4, 6),
    "3 == args.n": (4, 6),
    "args.n < 4 && args.n > 2": (9, 11),
    "args.n < 4 && args.n > 2 && args.yes": (11, 13),
    "args.yes ? args.n == 3 : false": (8, 9),
    "args.yes ? args.list.exists(x, x == 2) : false": (15, 16),
    "!args.yes || args.half + 1.0 > 1.0": (10, 13),
    "-args.n < 0": (5, 7),
    "args.text == 'tacocat'": (4, 7),
    "args.none == null": (4, 6),
    "args.n in [1, 2, 3]": (7, 12),
    "args.n in args.list": (8, 9),
    "args.text.startsWith('taco')": (4, 6),
    "args.text.contains('coc')": (4, 6),
    "args.long.contains('y')": (19, 21),
    "args.long == args.long": (20, 23),
    "args.text.matches('^t')": (3, 510),
    "args.text.matches('^t') && args.text.matches('^t')": (7, 517),
    "args.text.matches(args.text)": (519, 521),
    "args.text.matches(args.text) && args.text.matches(args.text)": (1039, 529),
    "args.long.matches('y')": (37, 542),
    "args.long.matches(args.text)": (577, 579),
    "args.list.all(x, x > 0)": (15, 15),
    "args.list.exists(x, x == 1)": (7, 8),
    "args.list.exists_one(x, x == 1)": (15, 18),
    "args.list.map(x, x + 1) == [2, 3, 4]": (23, 26),
    "args.list.filter(x, x > 1).size() == 2": (18, 20),
    "args.list.map(x, x > 1, x * 2) == [4, 6]": (30, None),
    "args.list.all(i, v, v == i + 1)": (21, None),
    "args.words.exists(w, w == 'a')": (11, 15),
    "args.list.all(x, args.list.exists(y, x == y))": (39, 42),
    "args.many == args.many": (205, 207),
    "args.many.exists(x, x == 199)": (803, 1003),
    "args.long + args.long == ''": (38, 74),
    "args.many + args.many == []": (407, 410),
    "{'a': args.n} == {'a': 3}": (9, 13),
    "[args.n, 4] == [3, 4]": (10, 14),
    "args.map['a'] == 1": (6, 8),
    "args.map.a == 1": (5, 7),
    "has(args.map.a)": (3, 3),
    "has(args.n)": (2, 2),
    "now > timestamp('2020-01-01T00:00:00Z')": (4, 5),
    "timestamp(args.text) < now": (5, 6),
    "string(args.n) == '3'": (5, 8),
    "string(args.long) == ''": (5, 39),
    "int('3') == args.n": (5, 7),
    "int(args.half) == 0": (5, 7),
    "args.long.replace('x', 'yy') == ''": (53, None),
    "args.long.split('x').size() == 1001": (1023, None),
    "args.words.join('-') == 'b-a'": (8, None),
    "args.long.upperAscii() == ''": (20, None),
    "args.long.indexOf('y') == -1": (21, None),
    "args.long.substring(500) == ''": (13, None),
    "args.long.trim() == ''": (20, None),
    "args.text.charAt(1) == 'a'": (6, None),
    "bytes(args.long) == b''": (35, 39),
    "duration('1h') > duration('1s')": (5, 6),
    "size(args.long) == 1000": (5, 7),
    "type(args.n) == int": (5, None),
    "args.n + 1 == 4": (6, 9),
    "args.long < args.long": (20, 22),
    "1 + 2 == args.n": (6, 9),
    "args.n % 2 == 1": (6, 9),
    "args.text in ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'tacocat']": (12, 30),
    "args.text in args.many": (30, 206),
    "[args.n] in [[1], [2], [3]]": (17, 23),
    "args.yes ? args.list.all(x, args.list.exists(y, y == x)) : args.words.all(w, w != '')": (
        45,
        45,
    ),
    "args.map.map(k, k).size() == 1": (8, 9),
    "args.list.all(x, x > 9)": (7, 7),
    "args.list.exists(x, x > 9)": (15, 15),
    "args.list.exists(x, args.missing)": (12, 9),
}


@pytest.mark.parametrize(("source", "steps"), COSTS.items())
def test_what_a_condition_costs_stays(source: str, steps: tuple[int, int | None]) -> None:
    """Decisions record their steps and are derived again: a change is a new revision of the engine."""
    for engine, cost in zip(ENGINES, steps, strict=True):
        if cost is not None:  # the second opinion does not know every function
            outcome = engine.compile(source).evaluate(bound(engine, **COSTLY), CONDITION_STEPS_MAX)
            assert outcome.steps == cost, engine.name
            short = engine.compile(source).evaluate(bound(engine, **COSTLY), cost - 1)
            assert short == type(short)(CelFailure(FailureKind.BUDGET), cost - 1)
            as_text = engine.compile(source).evaluate_text(bound(engine, **COSTLY), 20_000)
            assert as_text.steps == cost
            assert isinstance(as_text.value, CelFailure)
