"""Google's C++ runtime as an engine: what it is not given, what it may cost, and what its absence does."""

import importlib.metadata
import itertools
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from agents import Plays, call, calls, say

from agent import create_agent, tool
from governance import Governance
from governance.errors import UnavailableError
from governance.lawful.check import check
from governance.ledger.report import Status
from governance.policy import celexpr_engine
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    CelFailure,
    ConditionError,
    FailureKind,
    Outcome,
    engine_by_name,
)
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.suite import read_suite

ENGINE = engine_by_name("celexpr")
CLOSURE = engine_by_name("closure")
POLICIES = Path(__file__).parents[2] / "policies"
BUDGET = Outcome(CelFailure(FailureKind.BUDGET), CONDITION_STEPS_MAX)


def outcome(source: str, **args: object) -> Outcome[bool]:
    inputs = {"args": args, "now": 1_700_000_000_250_000}
    return ENGINE.compile(source).evaluate(ENGINE.bind(inputs), CONDITION_STEPS_MAX)  # type: ignore[arg-type] # JSON


def kind(source: str, **args: object) -> object:
    value = outcome(source, **args).value
    return value.kind.value if isinstance(value, CelFailure) else value


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `cel-expr-python` were not installed, and nothing of it imported."""
    version = importlib.metadata.version

    def hidden(name: str) -> str:
        if name == "cel-expr-python":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", hidden)
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)


# --- installed or not -------------------------------------------------------------------------------


@pytest.mark.usefixtures("absent")
def test_an_absent_runtime_names_what_to_install_and_nothing_stands_in() -> None:
    with pytest.raises(UnavailableError, match="engine `celexpr` is not installed") as caught:
        engine_by_name("celexpr")
    assert caught.value.hint == "install `governance[celexpr]`"
    assert engine_by_name("closure").name == "closure"


@tool(verb="READ", side_effect=False)
def look(city: str) -> str:
    """Look at a city."""
    return f"sun in {city}"


def test_a_run_decided_by_it_is_lawful_and_unjudged_where_it_is_absent(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = "policy: p\nversion: 1\nrules: [{id: r, effect: allow, when: args.city == 'Rome'}]"
    monkeypatch.setenv("GOVERNANCE_ENGINE", "celexpr")
    with Governance.in_memory(policies={"p.yaml": text}) as governance:
        agent = create_agent(
            Plays(calls(call("look", city="Rome")), say()), [look], governance=governance
        )
        assert agent("how is Rome?").status == "completed"
        records = governance.store.read(lambda reader: list(reader.records(start=0, limit=100)))
    report = check(records)
    assert report.ok, report.findings
    assert report.verdict is Status.OK
    request.getfixturevalue("absent")
    report = check(records)
    assert report.verdict is Status.NOT_CHECKED
    assert set(report.counts) == {"engine-absent"}
    with pytest.raises(UnavailableError, match="`celexpr` is not installed"):
        Governance.in_memory(policies={"p.yaml": text})


def test_nothing_imports_it_unasked() -> None:
    script = """
import sys
from governance.policy.document import load_policies
from governance.policy.lint import check
from governance.policy.cel import engine_by_name
engine_by_name("celexpr")
check(load_policies({"a": "policy: a\\nversion: 1\\nrules: [{id: b, effect: deny, when: args.x > 1}]"}), {})
assert "cel_expr_python" not in sys.modules
engine_by_name("celexpr").compile("true")
assert "cel_expr_python" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


# --- the same answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(POLICIES.rglob("*.test.yaml")), ids=lambda f: f.name)
def test_the_shipped_policies_decide_alike(file: Path) -> None:
    policy = file.with_name(file.name.replace(".test.yaml", ".yaml"))
    files = {policy.name: policy.read_text()}
    ours, theirs = load_policies(files, CLOSURE), load_policies(files, ENGINE)
    for case in read_suite(file.read_text(), file=file.name).cases:
        one, other = decide(ours, case.inputs), decide(theirs, case.inputs)
        for part in ("effect", "rules", "reasons", "tier", "demands", "message", "errors"):
            assert getattr(one, part) == getattr(other, part), (case.name, part)
    assert ours.digest != theirs.digest


def test_what_it_may_not_be_given_has_no_value() -> None:
    """It would cut the text at NUL and find `a`."""
    assert kind("args.x == 'a'", x="a\0b") == "range"
    assert kind("args.x == 1", x=1, y="\ud800") == "range"
    assert kind("args.x == 1", x=1, y=2**63) == "range"
    assert kind("args.x == 1", x=1, y=(1,)) == "type"
    assert kind("args.x == 1", x=1, y={1: 1}) == "type"
    assert kind("run.x == 1 || args.x == 1", x=1) == "missing-key"
    assert kind("true", y="\0") is True, "of what is not read nothing is known"
    for levels, expected in ((60, True), (70, "range")):
        deep: list[object] = []
        for _ in range(levels):
            deep = [deep]
        assert kind("args.x == args.x", x=deep) == expected


@pytest.mark.parametrize(
    "source",
    [
        "true // \0\n && false",
        "args.x == '\\x00'",
        "args.x == '\\000'",
        "args.x == '\\u0000' || true",
        "args.x == b'\\x00'",
        "[{'k': '\\x00'}] == []",
    ],
)
def test_a_nul_in_a_condition_is_refused(source: str) -> None:
    with pytest.raises(ConditionError):
        ENGINE.compile(source)


def test_what_it_says_in_a_new_way_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celexpr_engine, "_KINDS", ())
    assert kind("1 / 0 == 1") == "internal"
    assert kind("{'a': 1, 'a': 2}.size() == 2") == "internal"
    assert kind("args.list.exists(x, x / 0 == 1)", list=[1]) == "internal"
    monkeypatch.setattr(celexpr_engine, "price", lambda *_: 1 / 0)
    assert kind("true") == "internal"


def test_eight_threads_over_one_activation_get_no_wrong_answer() -> None:
    inputs = {"args": {"list": list(range(50)), "text": "abc", "map": {"k": [1, 2]}}}
    expected = {
        "args.list.exists(x, x == 49) && args.text == 'abc'": True,
        "args.list.all(x, x < 49)": False,
        "args.list.filter(x, x % 2 == 0).size() == 25": True,
        "args.text.matches('^[a-c]+$') && args.map.k[1] == 2": True,
        "args.map.q == 1": CelFailure(FailureKind.MISSING_KEY),
    }
    programs = {source: ENGINE.compile(source) for source in expected}
    wrong: list[object] = []

    def ask(bound: list[object]) -> None:
        for turn in range(250):
            for source, program in programs.items():
                got = program.evaluate(bound[turn % 25], CONDITION_STEPS_MAX).value  # type: ignore[arg-type] # bound below
                if got != expected[source]:
                    wrong.append((source, got))

    bound = [ENGINE.bind(inputs) for _ in range(25)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=ask, args=(bound,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


# --- what it may cost -------------------------------------------------------------------------------

LARGE = {
    "long": list(range(9000)),
    "big": "a" * 900_000,
    "needle": "a" * 400_000 + "b",
    "many": ["a" * 60] * 5000,
    "deep": [[[list(range(20))] * 10] * 5] * 5,
    "map": {f"k{n}": n for n in range(3000)},
    "pattern": "(a?){900}[a-z]*(b|c)",
    "ten": list(range(10)),
}
BOMBS = [
    "args.long.all(a, args.long.all(b, a + b >= 0))",
    "args.ten.all(a, args.ten.all(b, args.ten.all(c, args.ten.all(d, args.ten.all(e, a >= 0)))))",
    "[1]" + ".map(x, [x, x])" * 25 + " == [1]" + ".map(x, [x, x])" * 25,
    "[[1]" + ".map(x, [x, x])" * 25 + "].exists(y, y in [y])",
    "[args.big]" + ".map(x, x + x)" * 20 + ".size() == 1",
    "args.long.map(x, x).size() == 9000",
    "args.long.filter(x, x > 0).size() == 9000",
    "args.long.transformList(i, x, x).size() == 9000",
    "args.map.map(k, k).map(k, k).size() == 9",
    "args.big.contains(args.needle)",
    "args.big.indexOf(args.needle) == 1",
    "args.big.lastIndexOf(args.needle) == 1",
    "args.big.split(args.needle).size() == 1",
    "args.big.split('').map(x, x + x).size() == 1",
    "args.big.replace('a', args.big).size() == 1",
    "args.many.join(args.big).size() == 1",
    "args.big.matches(args.pattern)",
    "args.big.matches('(a?){900}[a-z]*(b|c)')",
    "'abc'.matches(args.ten.size() > 1 ? args.pattern + 'a' : args.many[0])",
    "args.big.matches('((a?){30}){30}(b|c)')",
    "args.big.matches('(' + args.big)",
    "args.big.matches('(\\\\pL?\\\\pL?){99}b')",
    "args.many.all(x, args.big.size() > 1)",
    "args.many.all(x, args.many == args.many)",
    "args.many.all(x, x in args.many || args.many[0] in args.many)",
    "args.many.all(x, (args.long + args.long).size() > 1)",
    "args.deep.all(a, a.all(b, b.all(c, c.all(d, args.big.startsWith(args.big)))))",
    "args.ten.all(x, args.big.lowerAscii().trim() == args.big.upperAscii())",
    "{'a': args.long}.a.all(x, {'b': args.big}.b.endsWith(args.big))",
    "(args.ten.size() > 1 ? args.long : args.ten).all(x, args.long.exists(y, y == x))",
    "args.ten.map(x, args.long).map(l, l.map(y, y)).size() == 10",
    "args.ten.map(x, args.long).exists(l, l.exists(y, y < 0))",
    "dyn(args.long).all(x, dyn(args).long.exists(y, y == x))",
    "args.long.all(x, string(args.big) == '' || bytes(args.big) == b'')",
    "args.long.exists_one(x, args.long.existsOne(i, y, y == x))",
]


@pytest.mark.parametrize("source", BOMBS)
def test_a_bomb_is_not_run(source: str) -> None:
    began = time.process_time()
    assert outcome(source, **LARGE) == BUDGET
    assert time.process_time() - began < 1


def test_bombs_leave_their_process_alone() -> None:
    """Whatever it is given: no crash, no memory of gigabytes, no minute."""
    script = """
import resource, sys
sys.path[:0] = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
from governance.policy.cel import ConditionError, engine_by_name
engine = engine_by_name("celexpr")
deep = []
for _ in range(100_000):
    deep = [deep]
given = {"args": {"deep": deep, "long": list(range(200_000)), "big": "x" * 2_000_000}, "now": 1}
for source in sys.stdin.read().split("\\n\\n"):
    try:
        program = engine.compile(source)
    except ConditionError:
        continue
    for names in (["deep"], ["long"], ["big"], ["long", "big"]):
        bound = engine.bind({"args": {name: given["args"][name] for name in names}, "now": 1})
        assert program.evaluate(bound, 20_000).value is not True, (source, names)
print("alive")
"""
    hostile = [
        *(
            "(" * 5000,
            "[" * 4000 + "]" * 4000,
            "!" * 8000,
            "-" * 8000 + "1 == 1",
            "1" + "+1" * 4000,
        ),
        *("args" + ".x" * 900, "args" + "[0]" * 90, "'a'" + ".trim()" * 90 + " == 'b'"),
        *("args.x ? " * 900, "{" * 60 + "}" * 60, "[1]" + ".map(x, [x])" * 600 + " == []"),
        *(
            "args.deep == args.deep && args.long[0] == 1",
            "args.long.all(x, x in args.long) && false",
        ),
        "args.big.matches(args.big)",
        "duration(args.big) == duration('1s') || timestamp(args.big) == now",
    ]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, root],
        input="\n\n".join(hostile),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "alive\n", (done.returncode, done.stderr[-2000:])


CHEAP = {
    "args.ten.exists(x, x == 9)": 60,
    "args.ten.filter(x, x > 3).map(x, x * 2).all(x, x > 3)": 200,
    "'a' in args.map": 8000,
    "args.big.startsWith('aaa') && args.ten.size() == 10": 15_000,
    "args.many[4999].contains('a') && args.long[7] == 7": 30,
    "args.big == 'x' || args.big != 'y'": 12,
    "args.ten.map(x, [x, x]).exists(p, p[0] == p[1])": 200,
    "args.many[0].split('').all(c, c == 'a')": 400,
    "(args.many[0] + 'b').split('b').size() == 2": 150,
    "args.deep[0][0][0].all(x, x >= 0)": 120,
    "'abc'.matches(args.ten.size() > 1 ? args.many[0] : args.many[1])": 160,
    "args.ten[3].matches('(') || 'abc'.matches('^[a-z]{1,9}$')": 300,
}


@pytest.mark.parametrize(("source", "most"), CHEAP.items())
def test_a_plain_condition_is_priced_by_what_it_reads(source: str, most: int) -> None:
    got = outcome(source, **LARGE)
    assert isinstance(got.value, bool) or got.value.kind is not FailureKind.BUDGET
    assert got.steps <= most


def test_a_price_is_never_below_what_the_default_engine_counts() -> None:
    """The two count in the same steps, the default engine only those that it took."""
    values = ["args.long", "args.many", "args.map", "args.ten", "args.deep", "args.deep[0]"]
    bodies = ["x == x", "x in [x, 1]", "size(string(x)) > 0 || true", "args.ten.all(y, y != x)"]
    heads = ["{v}.all(x, {b})", "{v}.exists(x, !({b}))", "{v}.map(x, x).all(x, {b})"]
    r, seen = random.Random(5), 0
    sizes = itertools.cycle([1, 3, 20, 60])
    for head, value, body in itertools.product(heads, values, bodies):
        size = next(sizes)
        part = {n: v[:size] if isinstance(v, list | str) else v for n, v in LARGE.items()}
        part["map"] = dict(r.sample(sorted(LARGE["map"].items()), size))  # type: ignore[attr-defined] # a map
        source = head.format(v=value, b=body)
        bound = CLOSURE.bind({"args": part})
        counted = CLOSURE.compile(source).evaluate(bound, CONDITION_STEPS_MAX)
        priced = outcome(source, **part)
        assert priced == BUDGET or priced.steps >= counted.steps, source
        assert priced == BUDGET or priced.value == counted.value, source
        seen += priced != BUDGET
    assert seen > 40


def test_the_shipped_conditions_are_within_its_levels() -> None:
    for file in POLICIES.rglob("*.yaml"):
        for rule in yaml.safe_load(file.read_text()).get("rules", ()):
            if "when" in rule:
                ENGINE.compile(rule["when"])


def test_its_refusals_have_a_place() -> None:
    for source, line, column, words in (
        (
            *("args.x == 1 &&\n now.getHours('Europe/Paris') == 1", 2, 15),
            "time zone is no fixed offset; write it as `'+02:00'`",
        ),
        (
            *("args.m.transformMap(k, v, v) == {}", 1, 8),
            "engine `celexpr` has no `transformMap`; ",
        ),
        ("args.x ==\n 'a\\x00'", 2, 2, "engine `celexpr` cuts a text at NUL; "),
        (  # a word of the language to its parser
            *("true &&\n  args.in == 1", 2, 8),
            "not a CEL expression to engine `celexpr`; ",
        ),
        (
            *("(" * 40 + "true" + ")" * 40, 1, 1),
            "condition nests deeper than engine `celexpr` reads; ",
        ),
    ):
        with pytest.raises(ConditionError) as caught:
            ENGINE.compile(source)
        assert (caught.value.line, caught.value.column) == (line, column)
        assert f"{caught.value.message}; {caught.value.hint}" == words
