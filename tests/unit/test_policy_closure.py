"""What the default engine alone promises: its literals, texts, times and macros, and that it is hard to break."""

import contextlib
import inspect
import itertools
import math
import random
import sys
import threading
import time
from collections.abc import Callable

import pytest

from governance.errors import InvalidInputError
from governance.policy import cel
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    CelFailure,
    ConditionError,
    FailureKind,
    Outcome,
    default_engine,
    engine_by_name,
)
from governance.policy.closure_compile import compile_syntax
from governance.policy.closure_engine import compile_program
from governance.policy.closure_functions import FUNCTIONS, METHODS
from governance.policy.closure_operators import OPERATORS
from governance.policy.closure_parse import parse
from governance.policy.closure_straight import straighten
from governance.policy.closure_syntax import parts
from governance.policy.closure_values import (
    Duration,
    Exhausted,
    Failed,
    Timestamp,
    TypeName,
    Uint,
)
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import Effect

ENGINE = engine_by_name("closure")
INPUTS = {
    "args": {
        "text": "tacocat",
        "n": 3,
        "half": 0.5,
        "list": [1, 2, 3],
        "words": ["b", "a"],
        "map": {"a": 1, "content-type": "x"},
        "none": None,
        "yes": True,
    },
    "run": {"calls": 2},
    "env": {"name": "test"},
    "agent": "no object",
    "tool": object(),
    "now": 1_700_000_000_250_000,
}


def value(source: str, **args: object) -> object:
    inputs = {**INPUTS, "args": {**INPUTS["args"], **args}}
    outcome = ENGINE.compile(source).evaluate(ENGINE.bind(inputs), CONDITION_STEPS_MAX)
    return outcome.value.kind.value if isinstance(outcome.value, CelFailure) else outcome.value


def test_it_is_the_default_and_has_a_name() -> None:
    assert default_engine() == ENGINE
    assert ENGINE.name == "closure"
    assert engine_by_name("celpy").name == "celpy"
    assert engine_by_name("celpy").version.startswith("0.5.")
    with pytest.raises(InvalidInputError, match="unknown policy engine `closures`; did you mean"):
        engine_by_name("closures")


TRUE = r"""
'\x41\u00e9\U0001F431\101' == 'Aé🐱A' && '\a\b\f\n\r\t\v\"\'\\\?\`'.size() == 12
'''it's "so"''' == "it's \"so\"" && r'\d+' == '\\d+' && R"\n".size() == 2
b'\xff\377é'.size() == 4 && br'\x'.size() == 2 && bytes('é') == b'\xc3\xa9' && b'a' + b'b' == b'ab'
0x10 == 16 && -0x10 == -16 && 0xFFu == 255u && 1e3 == 1000.0 && .5 == args.half
3u < 4.5 && 9007199254740993 > 9007199254740992.0 && 9007199254740993 != 9007199254740992.0
5000 > args.n && 3.0 == args.n && 'tacocat' == args.text && null == args.none && !(5 < args.n)
args.n in [1, 2.0, 3u] && args.text in ['x', 'tacocat'] && !(args.none in ['x', 1])
args.none != 1 && args.text != null && args.yes != false && [1] != [2] && {'a': 1} != {'a': 2}
{'a': 1} != {'b': 1} && {'a': 1} != {'a': 1, 'b': 1} && [1] != [1, 2] && args.text != 'taco'
args.n in [args.n] && args.none in [null, 'x'] && !([1] in ['a']) && !(1.5 in {1: 'a'})
3.0 in args.list && !('x' in args.words) && args.half in [0.5]
args.map.`content-type` == 'x' && has(args.map.`content-type`) && !has(args.map.`a/b c`)
type(args.n) == int && type(args.text) == string && type(now) == google.protobuf.Timestamp
type(null) == null_type && type(type(1)) == type && type(args.map) != list && int != string
type(args.n) != 'int' && 'int' != type(args.n)
args.map.exists(k, v, k == 'a' && v == 1) && args.list.all(i, v, v == i + 1)
args.list.existsOne(i, v, v == 2) && args.list.exists_one(i, v, i == 2)
args.list.transformList(i, v, i * v) == [0, 2, 6]
args.list.transformList(i, v, i > 0, v) == [2, 3]
args.map.transformMap(k, v, v == 1, v + 1) == {'a': 2}
args.list.map(x, x > 1, args.list.map(y, y == x, x * y)) == [[4], [9]]
{true: 1, false: 2}.all(k, k || !k) && {true: 1}[true] == 1 && {2u: 'a'}[2] == 'a'
{1: 'a'}[1.0] == 'a' && args.list[2.0] == 3 && args.list[0u] == 1
args.text.charAt(7) == '' && args.text.charAt(0) == 't' && args.text.indexOf('c', 3) == 4
args.text.indexOf('z') == -1 && args.text.lastIndexOf('c') == 4 && args.text.lastIndexOf('c', 3) == 2
args.text.substring(4) == 'cat' && args.text.substring(0, 4) == 'taco' && args.text.substring(7) == ''
args.text.replace('c', 'k') == 'takokat' && args.text.replace('c', '', 1) == 'taocat'
args.text.replace('', '-', 2) == '-t-acocat' && args.text.replace('a', 'b', 0) == 'tacocat'
'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']
'a,b'.split(',', 0) == [] && ''.split('') == [] && 'abc'.split('', 2) == ['a', 'bc'] && ''.split(',') == ['']
args.words.join() == 'ba' && args.words.join('-') == 'b-a' && [].join(',') == ''
'ÀbC'.lowerAscii() == 'Àbc' && 'àbc'.upperAscii() == 'àBC' && ' \t\u2000x\u3000\n'.trim() == 'x'
duration('9223372036854775807ns') > duration('-9223372036854775808ns') && duration('1m1ms1us1ns') == duration('60001001001ns')
duration('0.0000000019s') == duration('1ns') && duration('+1s') == duration('1000ms') && duration('1.5m') == duration('90s')
duration('12h') + duration('-12h') == duration('0s') && duration('1500ms').getMilliseconds() == 500 && duration('1.5s').getSeconds() == 1
timestamp(253402300799) > now && timestamp(-62135596800) < now && now - duration('0.25s') == timestamp(1700000000)
timestamp('2020-01-01T00:00:00.123456789Z').getMilliseconds() == 123 && string(timestamp('2020-01-01T10:09:08Z')) == '2020-01-01T10:09:08Z'
timestamp('2020-12-31T23:59:59z').getDayOfYear() == 365 && timestamp('2021-03-01t00:00:00-00:30').getMinutes() == 30
now.getHours('-23:59') == 22 && now.getMinutes('00:59') == 12 && now.getDayOfWeek('UTC') == 2 && now.getSeconds() == 20
9223372036854775806 + 1 == 9223372036854775807 && 18446744073709551614u + 1u == 18446744073709551615u && 0u - 0u == 0u
1.0 / 0.0 == 1.0 / 0.0 && 1.0 / -0.0 == -1.0 / 0.0 && 1.0 / 4.0 == 0.25 && 0.0 / 1.0 == 0.0 && 7.5 - 0.5 == 7.0
args.text.startsWith('taco') && args.text.endsWith('cat') && !args.text.startsWith('cat') && 'ab'.startsWith('a')
args.text.startsWith(args.text) && !args.text.endsWith('taco') && args.words.exists(w, w == 'a' && w != 'b')
'aaa'.replace('a', 'bb') == 'bbbbbb' && args.words.exists(w, w.startsWith('b')) && args.words.map(w, w == 'a') == [false, true]
now.getHours('01:00') == 23 && now.getHours('+23:59') == 22 && now.getDayOfYear() == 317
timestamp('9999-12-31T23:59:59.999999999Z').getFullYear() == 9999
string(timestamp('0001-01-01T00:00:00.000000001Z')) == '0001-01-01T00:00:00.000000001Z'
timestamp('2020-02-29T12:00:00.5+05:30') == timestamp('2020-02-29T06:30:00.500Z')
string(duration('1h1.5s')) == '3601.5s' && duration('1µs') == duration('1000ns') && string(duration('-1ns')) == '-0.000000001s'
duration('-90m').getHours() == -1 && duration('3730s').getMinutes() == 62 && duration('1s') > duration('-1s')
timestamp(-1) < timestamp(0) && int(timestamp('1969-12-31T23:59:59.5Z')) == -1
string(0.1) == '0.1' && string(1e21) == '1e+21' && string(7u) == '7' && string(6000.0) == '6000'
double('1e400') > 1e308 && int('-7') == -7 && uint('7') == 7u && bool('T' + 'rue') && !bool('f')
1 / 0 == 1 || true
args.missing == 1 ? false : true || true
-7 / 2 == -3 && 7 / -2 == -3 && -7 % 2 == -1 && 7 % -2 == 1 && 7u / 2u == 3u
1.0 / 0.0 > 1e308 && -1.0 / 0.0 < -1e308 && 0.0 / 0.0 != 0.0 / 0.0
false ? args.missing : true
!(args.missing && args.n == 4) && !(args.n && args.missing && !args.yes) && (args.n || args.yes)
args.n == 4 ? args.missing : args.yes
'a' < 'b' && 'B' < 'a' && b'a' <= b'a' && false < true && 2.5 >= 2
args.text.matches('^t.c') && matches(args.text, 'cat$') && !args.text.matches('^cat')
args.n in [3, 'x', 2.5] && !('3' in [3]) && !(3 in ['3']) && 2.5 in [2.5, 'a'] && 3u in [3] && !(args.yes in [1]) && args.none in [1, null]
'b' in args.words && !('z' in args.words) && [1] in [[1], [2]] && !([3] in [[1], [2]]) && {'a': 1} in [{'a': 1}]
args.yes ? args.list.exists(x, x == 2) : args.list.all(x, x == 2)
(args.list.exists(x, x == 2) ? args.list.map(y, y) : args.list.filter(z, false)) == [1, 2, 3]
args.list.exists(x, args.words.exists(y, args.map.exists(z, x == 3 && y == 'a' && z == 'a')))
args.list.map(x, args.list.map(y, y)).map(z, z.size()) == [3, 3, 3] && args.list.filter(x, args.list.exists(y, y > x)) == [1, 2]
args.map == {'a': 1, 'content-type': 'x'} && {'a': args.n, 'b': args.half} == {'a': 3, 'b': 0.5} && {args.text: 1}['tacocat'] == 1
5 == args.n + 2 && 2 < args.n && 3 <= args.n && 4 > args.n && 3 >= args.n && 4 != args.n && !(4 <= args.n) && !(3 < args.n) && !(3 > args.n)
args.n < 4 && args.n <= 3 && args.n > 2 && args.n >= 3 && args.n == 3.0 && args.n != 4.0 && args.half < 1 && !(args.n < 3) && !(args.n > 3)
args.text.indexOf('t') == 0 && args.text.indexOf('t', 1) == 6 && args.text.indexOf('', 7) == 7 && args.text.lastIndexOf('t') == 6 && args.text.lastIndexOf('t', 5) == 0
args.text.split('c') == ['ta', 'o', 'at'] && args.text.split('c', 1) == ['tacocat'] && args.text.split('c', -1).size() == 3 && args.text.split('', 1) == ['tacocat']
args.text.replace('t', 'T', 1) == 'Tacocat' && args.text.replace('x', 'y') == 'tacocat' && args.text.replace('t', 'T', -1) == 'TacocaT' && args.text.replace('t', 'T', 9) == 'TacocaT'
args.text.upperAscii() == 'TACOCAT' && 'ABCXYZ@['.lowerAscii() == 'abcxyz@[' && 'abcxyz`{'.upperAscii() == 'ABCXYZ`{' && args.text.trim() == 'tacocat'
duration('-3730s').getSeconds() == -3730 && duration('-61s').getMinutes() == -1 && duration('-2500ms').getMilliseconds() == -500 && duration('3600s').getHours() == 1
timestamp('2020-03-01T00:00:00Z').getMonth() == 2 && timestamp('2020-03-01T00:00:00Z').getDayOfMonth() == 0 && timestamp('2020-03-01T00:00:00Z').getDate() == 1
timestamp('2020-01-01T23:59:59.999Z').getHours() == 23 && timestamp('2020-01-01T23:59:59.999Z').getSeconds() == 59 && timestamp('2020-01-01T23:59:59.999Z').getMinutes() == 59
int(9007199254740993) == 9007199254740993 && uint(5u) == 5u && int(-0.5) == 0 && uint(0.9) == 0u && int('+5') == 5 && int(3u) == 3 && double('1e-3') == 0.001
bool('1') && bool('t') && bool('TRUE') && bool('True') && !bool('0') && !bool('FALSE') && !bool('False') && bool('true') && !bool('false')
string(true) == 'true' && string(false) == 'false' && string(-0.5) == '-0.5' && string(9223372036854775807) == '9223372036854775807' && string(b'a') == 'a' && string('a') == 'a'
type(1u) == uint && type(1.5) == double && type(b'') == bytes && type([]) == list && type({}) == map && type(true) == bool && type(duration('1s')) == google.protobuf.Duration
-(-9223372036854775807) == 9223372036854775807 && 0 - 1 == -1 && 2 - 3 == -1 && 3 * -2 == -6 && 1.5 - 0.5 == 1.0 && 2.0 * 1.5 == 3.0 && 5u * 2u == 10u && 7u % 4u == 3u
timestamp(0) + duration('1s') == timestamp(1) && duration('1s') + timestamp(0) == timestamp(1) && timestamp(1) - duration('1s') == timestamp(0) && timestamp(1) - timestamp(0) == duration('1s')
{1: 'a', 2u: 'b', true: 'c', 's': 'd'}.size() == 4 && {2u: 'b'}[2.0] == 'b' && 1.0 in {1: 'a'} && true in {true: 1} && !(false in {true: 1}) && !(1 in {true: 1})
""".strip().splitlines()  # fmt: skip


@pytest.mark.parametrize("source", [s for s in TRUE if not s.startswith("args.missing == 1 ?")])
def test_is_true(source: str) -> None:
    assert value(source) is True


FAILS = {
    "args.missing == 1 ? false : true": "missing-key",
    "args.missing || args.n": "missing-key",
    "args.n || args.missing": "type",
    "args.n && true": "type",
    "args.map.exists(k, v, v)": "type",
    "args.list.exists(x, x / 0 == 1)": "range",
    "args.n.all(k, v, true)": "type",
    "args.n.map(x, x) == []": "type",
    "args.list.map(x, x, x) == []": "type",
    "args.list.filter(x, args.missing) == []": "missing-key",
    "{1.5: 1} == {}": "type",
    "{null: 1} == {}": "type",
    "{1: 1, 1u: 2} == {}": "range",
    "{1: 'a'}[1.5] == 'a'": "missing-key",
    "null in {1: 'a'}": "type",
    "args.map.a.b == 1": "type",
    "args.n && args.missing": "type",
    "args.yes && args.n": "type",
    "args.missing && args.n": "missing-key",
    "args.missing && 1 / 0 == 1": "missing-key",
    "args.missing && args.yes": "missing-key",
    "args.yes && 1 / 0 == 1": "range",
    "args.missing || !args.yes || args.n": "missing-key",
    "args.n || !args.yes || args.missing": "type",
    "has(args.map.a.b)": "type",
    "has(principal.id)": "missing-key",
    "has(agent.id)": "type",
    "has(now.x)": "type",
    "args.map.b.c == 1": "missing-key",
    "args.n ? true : false": "type",
    "env.name.x == 1": "type",
    "agent.id == 1": "type",
    "tool == 1": "type",
    "[tool] == [1]": "type",
    "tool == tool": "type",
    "1 in [tool]": "type",
    "tool in ['a']": "type",
    "[1] in args.map": "type",
    "{1: 'a'}[null] == 'a'": "type",
    "args.list[0.5] == 1": "range",
    "args.list['0'] == 1": "type",
    "args.list[null] == 1": "type",
    "args.list[1e300] == 1": "range",
    "args.list[0.0 / 0.0] == 1": "range",
    "args.n[0] == 1": "type",
    "args.text.charAt(8) == ''": "range",
    "args.text.charAt(-1) == ''": "range",
    "args.text.charAt(1u) == ''": "type",
    "args.text.charAt(1.0) == ''": "type",
    "args.n.charAt(0) == ''": "type",
    "args.text.indexOf('c', 8) == 0": "range",
    "args.text.indexOf(1) == 0": "type",
    "args.text.lastIndexOf('c', -1) == 0": "range",
    "args.text.substring(3, 2) == ''": "range",
    "args.text.substring(0, 99) == ''": "range",
    "args.n.substring(0) == ''": "type",
    "args.text.split(1) == []": "type",
    "args.text.split('a', 'b') == []": "type",
    "args.text.replace('a', 1) == ''": "type",
    "args.list.join() == ''": "type",
    "args.text.join() == ''": "type",
    "args.words.join(1) == ''": "type",
    "args.n.trim() == ''": "type",
    "1u - 2u == 0u": "range",
    "18446744073709551615u + 1u == 0u": "range",
    "-1u == 1u": "refused",
    "-(1u) == 1u": "type",
    "1 + 1u == 2": "type",
    "[1] + 'a' == [1]": "type",
    "'a' + b'a' == 'a'": "type",
    "null < null": "type",
    "type(1) < type(2)": "type",
    "int(9223372036854775808.0) == 1": "range",
    "int(-9223372036854775808.0) == 1": "range",
    "uint(18446744073709551616.0) == 1u": "range",
    "int(0.0 / 0.0) == 1": "range",
    "int(18446744073709551615u) == 1": "range",
    "int('') == 1": "range",
    "int(true) == 1": "type",
    "double(true) == 1.0": "type",
    "double('NaN') == 1.0": "range",
    "string(0.0 / 0.0) == ''": "range",
    r"string(b'\xff') == ''": "range",
    "string(null) == ''": "type",
    "string({}) == ''": "type",
    "timestamp(true) == now": "type",
    "timestamp('0000-01-01T00:00:00Z') < now": "range",
    "timestamp('2020-02-30T00:00:00Z') < now": "range",
    "timestamp('2020-01-01T00:00:60Z') < now": "range",
    "timestamp('2020-01-01T00:00:00+24:00') < now": "range",
    "timestamp('0001-01-01T00:00:00+00:01') < now": "range",
    "timestamp('2020-01-01 00:00:00Z') < now": "range",
    "timestamp('２020-01-01T00:00:00Z') < now": "range",
    "timestamp('9999-12-31T23:00:00Z').getDate('+23:00') == 1": "range",
    "now.getHours('25:00') == 1": "range",
    "now.getHours('1:00') == 1": "range",
    "now.getHours(null) == 1": "type",
    "now - timestamp('0001-01-01T00:00:00Z') > duration('1s')": "range",
    "duration('1s').getDate() == 1": "type",
    "duration('9223372036s') + duration('9223372036s') > duration('1s')": "range",
    "duration(1) == duration('1s')": "type",
    "duration('1h 1m') == duration('1s')": "range",
    "duration('-') == duration('1s')": "range",
    "duration('" + "1ns" * 21 + "1s') == duration('1s')": "range",
    "duration('9223372036854775808ns') > duration('1s')": "range",
    "timestamp('2020-01-01T00:60:00Z') < now": "range",
    "timestamp('2020-01-01T00:00:00+01:60') < now": "range",
    "now.getHours('24:00') == 1": "range",
    "now.getHours('00:60') == 1": "range",
    "timestamp(253402300800) > now": "range",
    "timestamp(-62135596801) > now": "range",
    "9223372036854775807 + 1 > 0": "range",
    "-9223372036854775808 - 1 < 0": "range",
    "-9223372036854775808 / -1 > 0": "range",
    "4611686018427387904 * 2 > 0": "range",
    "1u / 0u == 1u": "range",
    "1u % 0u == 1u": "range",
    "args.hundred.x": "missing-key",
    "args.n.startsWith('a')": "type",
    "args.n.endsWith('a')": "type",
    "args.text.startsWith(args.n)": "type",
    "args.text.endsWith(1)": "type",
    "duration('1s') * 2 == duration('2s')": "type",
    "args.text.matches(args.n)": "type",
    "args.n.matches('a')": "type",
    "args.text.substring(0, null) == ''": "type",
    "args.text.lastIndexOf('a', null) == 1": "type",
    "dyn(args.missing) == 1": "missing-key",
    "now.x == 1": "type",
    "has(args.n.x)": "type",
    "principal.id == ''": "missing-key",
    "principal == {}": "missing-key",
    "args.n < b'a'": "type",
    "args.n >= duration('1s')": "type",
    "args.n < timestamp(0)": "type",
    "args.half > [1]": "type",
    "args.text < 1": "type",
    "args.text in b'a'": "type",
    "args.none in 'a'": "type",
    "[1] in {'a': 1}": "type",
    "{1: 'a'}[2.5] == 'a'": "missing-key",
    "{args.half: 1} == {}": "type",
    "args.text.charAt('a') == ''": "type",
    "args.text.indexOf('a', 1.0) == 1": "type",
    "args.text.lastIndexOf('a', 'b') == 1": "type",
    "args.text.substring('a') == ''": "type",
    "args.text.substring(8) == ''": "range",
    "args.text.substring(-1) == ''": "range",
    "args.text.lastIndexOf('c', 8) == 0": "range",
    "args.text.replace(1, 'a') == ''": "type",
    "args.text.replace('a', 'b', 'c') == ''": "type",
    "args.n.replace('a', 'b') == ''": "type",
    "args.n.split('a') == []": "type",
    "args.n.upperAscii() == ''": "type",
    "args.n.indexOf('a') == 1": "type",
    "args.n.lastIndexOf('a') == 1": "type",
    "args.words.join(args.n) == ''": "type",
    "bytes(args.n) == b''": "type",
    "args.lone.size() == 1 && bytes(args.lone) == b''": "missing-key",
    "duration('1s').getDayOfWeek() == 1": "type",
    "duration('1s').getHours('UTC') == 1": "type",
    "args.n.getHours() == 1": "type",
    "args.text.getSeconds() == 1": "type",
    "type(tool) == int": "type",
    "-args.none == 1": "type",
    "!args.half": "type",
    "args.half % 2.0 == 0.5": "type",
    "args.yes - args.yes == 1": "type",
    "args.half / 'a' == 1.0": "type",
    "1 / args.half == 1.0": "type",
}


@pytest.mark.parametrize(("source", "kind"), FAILS.items())
def test_fails_with_a_kind(source: str, kind: str) -> None:
    try:
        assert value(source) == kind
    except ConditionError:
        assert kind == "refused"


REFUSED = {
    "'a' \"b\" == ''": ("not a CEL expression; ", (1, 5)),
    "''''' == ''": ("text literal does not end on its line; write `\\n`", (1, 1)),
    "''\"\"'' == ''": ("two text literals stand side by side; ", (1, 1)),
    "'a\nb' == ''": ("text literal does not end on its line; write `\\n`", (1, 1)),
    "rb'a' == b'a'": ("unknown prefix `rb` of a text literal; ", (1, 1)),
    r"b'\u0041' == b'A'": ("unknown escape in a text literal; write `\\\\`", (1, 3)),
    r"'\400' == ''": ("unknown escape in a text literal; write `\\\\`", (1, 2)),
    r"'\x4' == ''": ("unknown escape in a text literal; write `\\\\`", (1, 2)),
    r"'\U00110000' == ''": ("escape is beyond the last character; ", (1, 2)),
    r"true && '\ud800' == ''": ("text literal holds a lone surrogate; ", (1, 9)),
    "b'\ud800' == b''": ("text literal holds a lone surrogate; ", (1, 1)),
    r"r'''a\''' == ''": ("raw text literal has a backslash before a quote; ", (1, 6)),
    "args.`` == 1": ("malformed field name ``; ", (1, 6)),
    "args.`a;b` == 1": ("malformed field name `a;b`; ", (1, 6)),
    "`args` == 1": ("`args` is no field: back quotes stand only around fields; ", (1, 1)),
    "true && `size`(args.text) == 1": (
        "`size` is no field: back quotes stand only around fields; ",
        (1, 9),
    ),
    "args.list.`all`(x, true)": (
        "`all` is no field: back quotes stand only around fields; ",
        (1, 11),
    ),
    "args.list.all(`x`, ___ > 0)": (
        "`x` is no field: back quotes stand only around fields; ",
        (1, 15),
    ),
    "args.text.substring(`b c`) == 'a'": (
        "`b c` is no field: back quotes stand only around fields; ",
        (1, 21),
    ),
    "args.`" + "x" * 200 + "`() == 1": (
        f"`{'x' * 80}` is no field: back quotes stand only around fields; ",
        (1, 6),
    ),
    "args.`split`(1) == 1": (
        "`split` is no field: back quotes stand only around fields; ",
        (1, 6),
    ),
    "18446744073709551616u == 1u": ("literal is out of range; ", (1, 1)),
    "1e999 == 1.0": ("literal is out of range; ", (1, 1)),
    "1" * 500 + ".0 == 1.0": ("literal is out of range; ", (1, 1)),
    "1. == 1.0": ("not a number; ", (1, 1)),
    "true &&\n args.text.matches('(')": (
        "pattern is no regular expression; RE2 syntax, no look-around",
        (2, 20),
    ),
    "args.text.matches('a{1001}')": (
        "pattern is no regular expression; RE2 syntax, no look-around",
        (1, 19),
    ),
    "matches(args.text, '(?=a)')": (
        "pattern is no regular expression; RE2 syntax, no look-around",
        (1, 20),
    ),
    "args.text.matches('" + "a" * 1025 + "')": (
        "pattern is no regular expression; RE2 syntax, no look-around",
        (1, 19),
    ),
    "args.list.all(x, x, true)": ("`all` names `x` twice; ", (1, 11)),
    "args.list.filter(x, y, true)": ("`filter` takes a variable and an expression; ", (1, 11)),
    "args.list.exists(x, y, x) && y": (
        "unknown name `y`; use one of agent, args, args_origin, env, now, principal, run, tool, window",
        (1, 30),
    ),
    "args.text.substrin(1)": ("unknown function `substrin`; did you mean `substring`?", (1, 11)),
    "args.text.substring()": ("`substring` takes 1 or 2 arguments, not 0; ", (1, 11)),
    "args.text.contains()": ("`contains` takes 1 argument, not 0; ", (1, 11)),
    "args.text.trim(1) == ''": ("`trim` takes 0 arguments, not 1; ", (1, 11)),
    "string == 'string' && google == 1": ("unknown name `google`; did you mean `tool`?", (1, 23)),
    "google.protobuf.Any == 1": ("unknown name `google`; did you mean `tool`?", (1, 1)),
    ".int(1) == 1": ("names do not begin with a dot; ", (1, 1)),
    "int{} == 1": ("conditions construct no messages; ", (1, 1)),
    "args.yes ||\n  true{a: 1}": ("conditions construct no messages; ", (2, 3)),
    "true && arg": ("unknown name `arg`; did you mean `args`?", (1, 9)),
    "false ? true : tru": ("unknown name `tru`; did you mean `run`?", (1, 16)),
    "1 == 1 || true.foo()": (
        "unknown function `foo`; use one of all, charAt, contains, endsWith, exists, existsOne, exists_one, filter, getDate, getDayOfMonth, getDayOfWeek, getDayOfYear, getFullYear, getHours, getMilliseconds, getMinutes, getMonth, getSeconds, indexOf, join, lastIndexOf, lowerAscii, map, matches, replace, size, split, startsWith, substring, transformList, transformMap, trim, upperAscii",
        (1, 16),
    ),
    "has(args.true)": ("not a CEL expression; ", (1, 10)),
    "args.yes &&\n  == 1": ("not a CEL expression; ", (2, 3)),
    "'a' intrue": ("not a CEL expression; write `in` as a word of its own", (1, 1)),
    "'a' intrue{a: 1}": ("conditions construct no messages; ", (1, 1)),
    "'a'true": ("not a CEL expression; ", (1, 4)),
    "true" + "[0]" * 100: ("condition nests deeper than 96 levels; ", (1, 1)),
}


@pytest.mark.parametrize(("source", "expected"), REFUSED.items(), ids=range(len(REFUSED)))
def test_is_refused_where_it_stands(source: str, expected: tuple[str, tuple[int, int]]) -> None:
    with pytest.raises(ConditionError) as caught:
        ENGINE.compile(source)
    assert f"{caught.value.message}; {caught.value.hint}" == expected[0]
    assert (caught.value.line, caught.value.column) == expected[1]


MEBI = 1024 * 1024
EDGES = {
    "(args.text + 'x').size() > 0": ({"text": "x" * (MEBI - 1)}, {"text": "x" * MEBI}),
    "(b'x' + bytes(args.text)).size() > 0": ({"text": "x" * 500_000}, {"text": "x" * MEBI}),
    "(args.list + [1]).size() > 0": ({"list": [1] * 9_999}, {"list": [1] * 10_000}),
    "args.text.split(',').size() > 0": ({"text": "," * 9_999}, {"text": "," * 10_000}),
    "args.text.split('').size() > 0": ({"text": "x" * 10_000}, {"text": "x" * 10_001}),
    "args.text.replace('x', 'yy').size() > 0": (
        {"text": "x" * (MEBI // 4)},
        {"text": "x" * (MEBI // 2 + 1)},
    ),
    "args.words.join('-').size() > 0": (
        {"words": ["x" * (MEBI - 2), "y"]},
        {"words": ["x" * (MEBI - 2), "yy"]},
    ),
    "double(args.text) > -1.0": ({"text": "0" * 399 + "1"}, {"text": "0" * 400 + "1"}),
    "int(args.text) > -1": ({"text": "0" * 19 + "1"}, {"text": "0" * 20 + "1"}),
    "duration(args.text) > duration('0s')": (
        {"text": "1h" * 30 + "1m1s"},
        {"text": "1h" * 30 + "1m1ss"},
    ),
    "args.list[args.n] > 0": ({"list": [1, 2], "n": 1}, {"list": [1, 2], "n": 2}),
}


@pytest.mark.parametrize(("source", "edge"), EDGES.items())
def test_the_last_that_passes_and_the_first_that_does_not(
    source: str, edge: tuple[dict[str, object], dict[str, object]]
) -> None:
    assert value(source, **edge[0]) is True
    assert value(source, **edge[1]) == "range"


def test_patterns_from_arguments_are_bounded() -> None:
    assert value("args.text.matches(args.text)", text="a" * 1024) is True
    assert value("args.text.matches(args.text)", text="a" * 1025) == "regex"


@pytest.mark.parametrize("engine", ["closure", "celpy"])
def test_a_source_up_to_the_limit(engine: str) -> None:
    longest = "true" + " " * 8188
    assert engine_by_name(engine).compile(longest).references == frozenset()
    with pytest.raises(ConditionError, match="condition of 8193 bytes exceeds 8192"):
        engine_by_name(engine).compile(longest + " ")
    with pytest.raises(ConditionError, match="condition of 8193 bytes exceeds 8192"):
        engine_by_name(engine).compile("'é'" + " " * 8189)  # bytes count, not characters


@pytest.mark.parametrize("engine", ["closure", "celpy"])
def test_who_asks_from_deep_in_the_stack_is_refused_with_a_place(engine: str) -> None:
    compile_ = engine_by_name(engine).compile
    compile_("true")  # what is loaded at first use is loaded

    def sink(levels: int) -> object:
        return compile_("!" * 90 + "true") if levels == 0 else sink(levels - 1)

    room = sys.getrecursionlimit() - len(inspect.stack(0))
    with pytest.raises(ConditionError) as caught:
        sink(room - 60)
    assert caught.value.message == "condition nests too deep"
    assert (caught.value.line, caught.value.column) == (1, 1)


def test_trim_takes_off_what_the_standard_calls_space_and_no_more() -> None:
    spaces = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\u2000\u200a"
    assert value("args.text.trim() == 'x'", text=f"{spaces}x{spaces}") is True
    for other in ("\x1c", "\x1f", "\u200b", "\ufeff", "\u180e"):
        assert value("args.text.trim() == args.text", text=f"{other}x{other}") is True


def test_a_text_that_no_file_can_hold_is_a_failure() -> None:
    assert value("bytes(args.text) == b''", text="\ud800") == "range"
    assert value("args.text.matches('a')", text="\ud800") == "regex"
    assert value("args.text.matches(args.text)", text="\ud800") == "regex"


LONG_NAME = "x" * 100


@pytest.mark.parametrize("engine", ["closure", "celpy"])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (LONG_NAME, f"unknown name `{'x' * 80}`"),
        (f"{LONG_NAME}(1)", f"unknown function `{'x' * 80}`"),
        (f"args.{LONG_NAME}()", f"unknown function `{'x' * 80}`"),
    ],
)
def test_a_long_name_is_cut_in_a_message(engine: str, source: str, words: str) -> None:
    with pytest.raises(ConditionError) as caught:
        engine_by_name(engine).compile(source)
    assert caught.value.message == words


@pytest.mark.parametrize(
    "brackets",
    ["[] == [] && ", "{} == {} && ", "(true) && ", "args.list[0] == 1 && ", "'([{' != '' && "],
)
@pytest.mark.parametrize("engine", ["closure", "celpy"])
def test_brackets_that_are_closed_are_no_depth(engine: str, brackets: str) -> None:
    """Nor do brackets that close nothing make room for more."""
    compile_ = engine_by_name(engine).compile
    compile_(brackets * 100 + "(" * 60 + "true" + ")" * 60)
    with pytest.raises(ConditionError, match="more than 64 brackets"):
        compile_(brackets * 10 + "(" * 65 + "true" + ")" * 65)


WORDS = [
    *(
        "true",
        "false",
        "null",
        "args",
        "x",
        "now",
        "has",
        "exists",
        "map",
        "all",
        "size",
        "in",
        "matches",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "<",
        "&&",
        "||",
        "!",
    ),
    *(
        "'a'",
        "b'a'",
        "r'a'",
        "'''a'''",
        "'('",
        '"',
        "'",
        "\\",
        "`a`",
        "//c\n",
        "\n",
        " ",
        "é",
        "\x00",
    ),
    *("1", "1.5", "2u", "-3", "0x1", "1.", "google.protobuf.Timestamp", "A{a:1}"),
]


def test_any_heap_of_words_is_a_condition_or_refused_with_its_place() -> None:
    r = random.Random(5)
    read, places = 0, [1]
    for _ in range(4000):
        source = "".join(r.choice(WORDS) + r.choice(["", " "]) for _ in range(r.randint(1, 8)))
        try:
            open_nodes = [parse(source, cel.INPUTS)]
            ENGINE.compile(source).evaluate(ENGINE.bind(INPUTS), 1000)
        except ConditionError as exc:
            places.append(min(exc.line, exc.column))
            continue
        read += 1
        while open_nodes:
            node = open_nodes.pop()
            assert 0 <= node.position < len(source), (source, node)
            open_nodes += parts(node)
    assert read > 100
    assert min(places) == 1


def test_a_duration_is_spelled_in_64_characters_at_most() -> None:
    longest = "1ns" * 20 + "10ms"
    assert value("duration(args.d) == duration('10000020ns')", d=longest) is True
    assert value("duration(args.d) > duration('0s')", d=longest + "1ns") == "range"


def test_a_misspelt_method_is_guessed() -> None:
    with pytest.raises(ConditionError) as caught:
        ENGINE.compile("args.text.startswith('a')")
    assert caught.value.hint == "did you mean `startsWith`?"


def test_inputs_are_read_in_place_and_left_alone() -> None:
    inputs = dict(INPUTS)
    assert ENGINE.bind(inputs) is inputs
    program = ENGINE.compile("args.list.exists(x, x == 3) && now > timestamp(0)")
    assert program.evaluate(ENGINE.bind(inputs), CONDITION_STEPS_MAX).value is True
    assert inputs == INPUTS


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("true", 1),
        ("args.n > 1", 4),
        ("[args.n].size() == 1 && true", 8),
        ("args.list.exists(x, x == 9)", 3 + 3 * 4),
        ("args.list.map(x, x > 1, x * 2) == [4, 6]", 3 + 1 + 3 + 3 * 7 + 2),
        ("args.text + args.text == args.text", 8),
        ("args.text.replace('a', args.text).size() > 0", 9),
        ("args.big.startsWith('x')", 4),
        ("args.big.contains('y')", 4 + 100),
        ("args.text.startsWith(args.big)", 5 + 100),
        ("true ? args.n > 1 : args.text == 'a'", 4),
        ("args.big == args.big", 5 + 100),
        ("args.big < args.text", 5 + 100),
        ("args.big.matches('y')", 3 + 100 + 6401 * 5 // 256),
        ("args.text.matches('^[a-z]{3}$')", 3),
        ("(args.big + args.text).size() > 0", 8 + 100),
        ("(args.list + args.list).size() > 0", 8 + 6),
        ("args.list == args.list", 5 + 3),
        ("args.map == args.map", 5 + 2),
        ("args.n in args.list", 5 + 3),
        ("args.text in args.hundred", 5 + 12),
        ("args.big.split('x', 3).size() == 3", 8 + 3 + 100),
        ("args.hundred.join().size() == 100", 6 + 100 + 1),
        ("args.text.matches(args.text)", 5 + 500 + 2 * 7),
    ],
)
def test_steps_are_what_is_written_and_what_is_looped_over(source: str, steps: int) -> None:
    args = {**INPUTS["args"], "big": "x" * 6400, "hundred": ["a"] * 100}
    activation = ENGINE.bind({**INPUTS, "args": args})
    outcome = ENGINE.compile(source).evaluate(activation, CONDITION_STEPS_MAX)
    assert outcome.steps == steps
    assert ENGINE.compile(source).evaluate(activation, steps) == outcome
    short = ENGINE.compile(source).evaluate(activation, steps - 1)
    assert short.value == CelFailure(FailureKind.BUDGET)
    assert short.steps == steps - 1


LONG = list(range(200_000))
DEEP: list[object] = []
for _ in range(10_000):
    DEEP = [DEEP]

BOMBS = {
    "nested macros": ("args.long.exists(a, args.long.exists(b, a == -b - 1))", "budget"),
    "triple macros": ("args.k.all(a, args.k.all(b, args.k.all(c, a < 1000)))", "budget"),
    "two variables": ("args.long.all(i, v, i == v)", "budget"),
    "guards": ("args.long.map(x, false, x) == []", "budget"),
    "maps": ("args.long.transformMap(i, v, v) == {}", "budget"),
    "long list against itself": ("args.long == args.long", "budget"),
    "long list, one number": ("-1 in args.long", "budget"),
    "long list, one text": ("'x' in args.long", "budget"),
    "joined lists": ("(args.long + args.long).size() == 1", "range"),
    "joined texts": ("(args.big + args.big).size() == 1", "range"),
    "one text after another": ("args.k.exists(x, args.big < args.big)", "budget"),
    "split": ("args.big.split('').size() == 1", "range"),
    "replace": ("args.big.replace('x', 'xxxxxxxxxx') == ''", "range"),
    "replaced nothing": ("args.big.replace('', args.big) == ''", "range"),
    "join": ("args.k.map(x, args.big).join() == ''", "range"),
    "cut per element": ("args.k.exists(x, args.big.substring(1) == '')", "budget"),
    "trimmed per element": ("args.k.exists(x, args.big.upperAscii().trim() == '')", "budget"),
    "evil pattern": ("args.big.matches('^(x+x+)+y$') || args.big.matches('(.*)*y')", "budget"),
    "hostile patterns": ("args.k.exists(x, args.text.matches(args.evil))", "budget"),
    "huge pattern": ("args.text.matches(args.big)", "budget"),
    "hostile duration": ("duration(args.evil) > duration('1s')", "range"),
    "hostile units": ("duration('h' + args.evil.substring(0, 40)) > duration('1s')", "range"),
    "hostile moment": ("timestamp(args.big) > now", "range"),
    "hostile number": ("int(args.big) == 1 || double(args.big) == 1.0", "range"),
    "deep value": ("args.deep == args.same", "internal"),
    "bytes": ("args.k.exists(x, bytes(args.big) == b'')", "budget"),
    "text of bytes": ("args.k.exists(x, string(bytes(args.big)) == '')", "budget"),
}


@pytest.mark.parametrize(("source", "kind"), BOMBS.values(), ids=BOMBS)
def test_bombs_end_soon_as_failures(source: str, kind: str) -> None:
    same: list[object] = []
    for _ in range(10_000):
        same = [same]
    inputs = {
        "args": {
            "long": LONG,
            "k": LONG[:1000],
            "big": "x" * 900_000,
            "evil": "(((a{30}){30}){1})" * 50,
            "text": "a",
            "deep": DEEP,
            "same": same,
        },
        "now": 0,
    }
    program = ENGINE.compile(source)
    began = time.process_time()
    outcome = program.evaluate(ENGINE.bind(inputs), CONDITION_STEPS_MAX)
    assert time.process_time() - began < 1
    assert outcome.value == CelFailure(FailureKind(kind))
    assert 0 <= outcome.steps <= CONDITION_STEPS_MAX


def test_deep_arguments_that_nothing_looks_into_cost_nothing() -> None:
    assert value("args.deep.size() == 1 && args.n == 3", deep=DEEP) is True


def test_a_bomb_denies() -> None:
    bomb = "args.k.exists(a, args.k.exists(b, a == -b - 1))"
    policies = load_policies(
        {"p.yaml": f"policy: p\nversion: 1\nrules: [{{id: r, effect: deny, when: '{bomb}'}}]"}
    )
    tool = {
        **dict.fromkeys(("name", "verb", "reversibility", "blast_radius", "cost_class"), "x"),
        "risk_tier": "low",
        "side_effect": False,
        "scopes": [],
    }
    args = {"k": list(range(9000))}
    decision = decide(
        policies, {"tool": tool, "args": args, "agent": {"id": "a"}, "env": {"name": "e"}}
    )
    assert decision.effect is Effect.DENY
    assert decision.errors == (("p/r", "budget"),)
    assert decision.steps <= CONDITION_STEPS_MAX


def test_a_stack_that_is_nearly_full_is_a_failure() -> None:
    program = ENGINE.compile("1 - (" * 60 + "args.n" + ")" * 60 + " == 1")
    limit = sys.getrecursionlimit()

    def deep(levels: int) -> object:
        if levels:
            return deep(levels - 1)
        return program.evaluate(ENGINE.bind(INPUTS), 1000).value

    assert isinstance(deep(10), bool)
    used = len(inspect.stack())
    assert deep(limit - used - 40) == CelFailure(FailureKind.INTERNAL)

    def compile_deep(levels: int) -> None:
        if levels:
            compile_deep(levels - 1)
        else:
            ENGINE.compile("!" * 90 + "true")

    compile_deep(10)
    with pytest.raises(ConditionError, match="nests too deep"):
        compile_deep(limit - used - 90)


def test_a_thousand_brackets_are_refused_before_the_parser() -> None:
    began = time.process_time()
    for source in ("(" * 100_000, "[" * 8000, "{" * 8000 + "'", "`" * 8000, "'" * 7999, "-" * 8000):
        with pytest.raises(ConditionError):
            ENGINE.compile(source)
    assert time.process_time() - began < 2


def test_eight_threads_over_one_activation_get_no_wrong_answer() -> None:
    program = ENGINE.compile(
        "args.list.exists(x, args.list.all(i, y, x >= y) && x == args.n) && args.text + '!' == 'tacocat!'"
    )
    other = ENGINE.compile("args.list.map(x, x * 2).exists(x, x == 7)")
    shared = ENGINE.bind(INPUTS)
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(2000):
            if program.evaluate(shared, CONDITION_STEPS_MAX).value is not True:
                wrong.append(program)
            if other.evaluate(shared, CONDITION_STEPS_MAX).value is not False:
                wrong.append(other)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "apply", "counts"),
    [
        *((name, it.apply, it.arguments) for name, it in FUNCTIONS.items()),
        *((name, it.apply, {n + 1 for n in it.arguments}) for name, it in METHODS.items()),
        *((name, apply, {2}) for name, apply in OPERATORS.items()),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_any_mix_of_types_is_a_value_or_a_failure(
    name: str, apply: Callable[..., object], counts: set[int]
) -> None:
    operands = [
        *(None, True, 1, -(2**63), Uint(2), -0.5, math.nan, math.inf, "a", "9" * 30, "\ud800"),
        *(b"a", [1], ["a"], {"a": 1}, TypeName("int"), Timestamp(1), Duration(-1), object()),
    ]
    for count in counts:
        for mix in itertools.product(operands, repeat=count):
            with contextlib.suppress(Failed, Exhausted):
                apply([{}, 10_000], *mix)


def test_a_program_tells_its_value_to_who_asks_for_it() -> None:
    program = compile_program("type(x)", frozenset({"x"}))
    assert program.references == {"x"}
    bound = {"x": 1}
    assert program.evaluate_as(bound, 10, lambda it: it).value == TypeName("int")  # type: ignore[arg-type]
    assert program.evaluate_as(bound, 1, lambda it: it).value == CelFailure(FailureKind.BUDGET)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source",
    [
        "args.n == 1 && 9 in args.long && 1 == 2",
        "args.n == 2 || 9 in args.long || 1 == 1",
        "!(9 in args.long && 1 == 2)",
        "9 in args.long && (1 == 1 && args.n == 1)",
        "9 in args.long || !(1 == 1 || args.absent)",
        "args.n == 1 && now > timestamp('2000-01-01T00:00:00Z')",
        "has(args.absent) || args.long.exists(x, x == 9)",
        "args.n + 1 && args.n == 1",
        "args.n - 1 || args.n == 2",
        "args.n == 1 && args.n",
    ],
)
def test_a_shortcut_costs_what_the_closures_cost(source: str) -> None:
    """Steps are recorded: what decides a chain when it is compiled spares the rest, whoever evaluates."""
    program = compile_program(source)
    given = ENGINE.bind({"args": {"n": 1, "long": list(range(500))}, "now": 1_767_323_045_000_000})
    for budget in (0, 3, 40, 700, 20_000):
        assert program.evaluate(given, budget) == program.evaluate_exactly(given, budget)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("args.n == 1 && args.text == 'x'", True),
        ("has(args.n) && args.text.startsWith('y')", False),
        ("args.n == 1 && 1 == 2", False),
        ("args.n == 1 || 1 == 1", True),
        ("args.n == 1 && 9 in args.long", True),
        ("args.n == 2 || now.getFullYear() == 2000", False),
        ("!(args.n in ['a']) || args.text in ['x', 'y']", None),
        ("args.n == 1 && args.absent == 2", None),
    ],
)
def test_a_straight_function_leaves_to_the_closures_only_what_is_out_of_the_ordinary(
    source: str, expected: bool | None
) -> None:
    syntax = parse(source, cel.INPUTS)
    unusual: Outcome[bool] = Outcome(CelFailure(FailureKind.TYPE), 7)
    asked: list[object] = []

    def exactly(*given: object) -> Outcome[bool]:
        asked.append(given)
        return unusual

    evaluate = straighten(syntax, compile_syntax(syntax), exactly)
    assert evaluate is not None
    given = ENGINE.bind(
        {"args": {"n": 1, "text": "x", "long": [1, 9]}, "now": 1_767_323_045_000_000}
    )
    outcome = evaluate(given, CONDITION_STEPS_MAX)
    if expected is None:
        assert (outcome, asked) == (unusual, [(given, CONDITION_STEPS_MAX)])
    else:
        assert (outcome.value, asked) == (expected, [])
