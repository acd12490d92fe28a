"""A matrix stands for every combination, fixtures are laid over each other, and the whole input can be set."""

import pytest

from governance.policy.document import load_policies
from governance.policy.suite import read_suite, run_cases
from governance.policy.yaml_source import PolicyError

POLICY = """
policy: p
version: 1
rules:
  - id: small
    when: args.cents <= 5 && !run.untrusted && 'clerk' in principal.roles
    effect: allow
    allow_tier: critical
  - {id: trial, when: args.cents > 3, effect: deny, mode: shadow}
"""
HEAD = """
tools: {pay: {verb: FINANCIAL}, get: {verb: READ}}
fixtures:
  clerk: {principal: {roles: [clerk], tenant: acme}}
  pay: {tool: pay, args: {cents: 3, note: x}, now: 2026-02-01T00:00:00Z}
  late: {now: 2026-03-01T00:00:00Z}
cases:
"""


def suite(case: str):
    return HEAD + "  - {name: mine, " + case + "}\n"


def cases(case: str):
    return read_suite(suite(case)).cases


def results(case: str):
    return run_cases(load_policies({"p": POLICY}), read_suite(suite(case))).cases


def test_a_matrix_is_every_combination_the_last_value_first():
    got = cases(
        "tool: pay, with: [clerk], expect: {effect: allow}, "
        "matrix: {args.cents: [1, 2], run.untrusted: [false, true]}"
    )
    assert [(c.inputs["args"]["cents"], c.inputs["run"]["untrusted"]) for c in got] == [
        (1, False),
        (1, True),
        (2, False),
        (2, True),
    ]
    assert got[1].name == "mine [args.cents=1, run.untrusted=true]"
    assert {c.line for c in got} == {8}


def test_one_expectation_is_for_all_of_them():
    got = results("tool: pay, with: [clerk], matrix: {args.cents: [5, 6]}, expect: {effect: allow}")
    assert [case.passed for case in got] == [True, False]


def test_a_list_has_one_for_each_in_order():
    got = results(
        "tool: pay, with: [clerk], matrix: {args.cents: [5, 6]}, "
        "expect: [{effect: allow, rules: [p/small]}, {effect: deny, reasons: [no-rule]}]"
    )
    assert [case.passed for case in got] == [True, True]


def test_in_a_table_the_first_row_that_fits_counts_and_the_last_is_for_the_rest():
    got = results(
        "tool: pay, matrix: {args.cents: [5, 6], principal.roles: [[clerk], []]}, expect: ["
        "{when: {args.cents: 5, principal.roles: [clerk]}, effect: allow}, {effect: deny}]"
    )
    assert [case.passed for case in got] == [True] * 4
    assert [case.expected["effect"] for case in got] == ["allow", "deny", "deny", "deny"]


def test_values_of_a_table_are_compared_with_their_type():
    with pytest.raises(PolicyError, match=r"no expectation for `args\.cents=true`"):
        cases(
            "tool: pay, matrix: {args.cents: [true]}, expect: [{when: {args.cents: 1}, effect: deny}]"
        )


def test_fixtures_are_laid_over_each_other_and_the_case_over_all():
    (got,) = cases(
        "with: [pay, clerk, late], args: {cents: 9}, principal: {tenant: other}, expect: {effect: deny}"
    )
    inputs = got.inputs
    assert got.tool == inputs["tool"]["name"] == "pay"
    assert inputs["args"] == {"cents": 9, "note": "x"}
    assert inputs["principal"] == {"id": "user:somebody", "roles": ["clerk"], "tenant": "other"}
    assert inputs["now"] == 1_772_323_200_000_000


@pytest.mark.parametrize(
    ("axis", "path", "value"),
    [
        ("args.a.b: [7]", ("args", "a"), {"b": 7}),
        ("'args_origin.items[0].id': [user]", ("args_origin",), {"items[0].id": "user"}),
        ("agent.id: ['agent:x']", ("agent", "id"), "agent:x"),
        ("run.sums.pay.cents: [7]", ("run", "sums"), {"pay.cents": 7}),
        ("run.calls: [{pay: 2}]", ("run", "calls"), {"pay": 2}),
        ("run.last.pay: [60]", ("run", "last"), {"pay": 60}),
        ("run.approved: [{pay: 1}]", ("run", "approved"), {"pay": 1}),
        ("window.hour.pay: [3]", ("window",), {"hour": {"pay": 3}, "day": {}}),
        ("window: [{day: {pay: 4}}]", ("window",), {"hour": {}, "day": {"pay": 4}}),
        ("env.labels.region: [eu]", ("env", "labels"), {"region": "eu"}),
        ("run: [{step: 4}]", ("run", "step"), 4),
        ("now: [2026-01-01T00:00:01Z]", ("now",), 1_767_225_601_000_000),
        ("tool: [get]", ("tool", "verb"), "READ"),
    ],
)
def test_every_part_of_the_input_can_be_set(axis, path, value):
    (got,) = cases(f"tool: pay, matrix: {{{axis}}}, expect: {{effect: deny}}")
    found = got.inputs
    for name in path:
        found = found[name]
    assert found == value


def test_origins_and_the_agent_are_set_in_a_case_too():
    (got,) = cases(
        'tool: pay, args_origin: {"to[0]": user}, agent: {id: "agent:x"}, expect: {effect: deny}'
    )
    assert got.inputs["args_origin"] == {"to[0]": "user"}
    assert got.inputs["agent"] == {"id": "agent:x", "path": [], "model": ""}


def test_what_shadow_rules_would_have_said_can_be_expected():
    given = "tool: pay, with: [clerk], args: {cents: 4}, expect: {effect: allow, shadow: "
    assert results(given + "{p/trial: deny}}")[0].passed
    wrong = results(given + "{p/trial: no-match}}")[0]
    assert (wrong.passed, wrong.got["shadow"]) == (False, {"p/trial": "deny"})


WIDE = "matrix: {args.a: [%s], args.b: [%s], args.c: [%s]}" % (
    (", ".join(map(str, range(22))),) * 3
)


@pytest.mark.parametrize(
    ("case", "message", "hint"),
    [
        (
            "tool: pay, with: [clrk], expect: {effect: deny}",
            "unknown fixture `clrk`",
            "did you mean `clerk`?",
        ),
        (
            "tool: pay, with: [], expect: {effect: deny}",
            "`with` is empty",
            "leave it out or name something",
        ),
        (
            "expect: {effect: deny}",
            "case has no `tool`",
            "name it here, in a fixture or in the matrix",
        ),
        (
            "tool: pay, expect: [{effect: deny}]",
            "a list of expectations stands only with `matrix`",
            "",
        ),
        (
            "tool: pay, matrix: {}, expect: {effect: deny}",
            "matrix is empty",
            "write `args.amount: [1, 2]`",
        ),
        (
            "tool: pay, matrix: {args.a: []}, expect: {effect: deny}",
            "`args.a` is empty",
            "leave it out or name something",
        ),
        (
            "tool: pay, matrix: {arg.a: [1]}, expect: {effect: deny}",
            "`arg.a` is no part of an input",
            "did you mean `args`?",
        ),
        (
            "tool: pay, matrix: {run.untrustd: [1]}, expect: {effect: deny}",
            "unknown field `untrustd` in `run`",
            "did you mean `untrusted`?",
        ),
        (
            "tool: pay, matrix: {args.: [1]}, expect: {effect: deny}",
            "`args.` names no field of `args`",
            "",
        ),
        (
            "tool: pay, matrix: {now.x: [1]}, expect: {effect: deny}",
            "`now.x` names no field of `now`",
            "",
        ),
        (
            "matrix: {tool: [pya]}, expect: {effect: deny}",
            "unknown tool `pya`",
            "did you mean `pay`?",
        ),
        (
            "tool: pay, matrix: {now: [noon]}, expect: {effect: deny}",
            "`now` is malformed: `noon`",
            "write it like 2026-01-01T00:00:00Z",
        ),
        ("tool: pay, now: 5, expect: {effect: deny}", "`now` is not text", "put it in quotes"),
        (
            "tool: pay, agent: {name: x}, expect: {effect: deny}",
            "unknown field `name` in `agent`",
            "use one of id, model, path",
        ),
        (
            "tool: pay, matrix: {args.a: [1, 2]}, expect: [{effect: deny}]",
            "1 expectations for 2 combinations",
            "give one for each, in the order of the matrix, or rows with `when`",
        ),
        (
            "tool: pay, matrix: {args.a: [1, 2]}, expect: [{when: {args.a: 1}, effect: deny}]",
            "no expectation for `args.a=2`",
            "add a row for it",
        ),
        (
            "tool: pay, matrix: {args.a: [1]}, expect: [{effect: deny}, {when: {args.a: 1}, effect: deny}]",
            "expectation is for no combination",
            "drop it, or put it further up",
        ),
        (
            "tool: pay, matrix: {args.a: [1]}, expect: [{when: {args.b: 1}, effect: deny}]",
            "`args.b` is not in the matrix",
            "did you mean `args.a`?",
        ),
        (
            f"tool: pay, {WIDE}, expect: {{effect: deny}}",
            "10648 combinations exceed 10000",
            "split the case",
        ),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_line(case, message, hint):
    with pytest.raises(PolicyError) as caught:
        read_suite(suite(case), file="p.test.yaml")
    assert caught.value.message == f"p.test.yaml:8: {message}"
    assert caught.value.hint == hint


NAMED = {
    "tool: pay, matrix: 1, expect: {effect: deny}": "matrix is not a mapping",
    "tool: pay, matrix: {args.a: 1}, expect: {effect: deny}": "`args.a` is not a list",
    "tool: pay, matrix: {args.a: [1]}, expect: []": "expectations is empty",
    "tool: pay, matrix: {args.a: [1]}, expect: [1]": "expectation is not a mapping",
    "tool: pay, matrix: {args.a: [1]}, expect: [{when: 1, effect: deny}]": "`when` is not a mapping",
    "tool: pay, matrix: {args.a: [1], args.b: [x]}, expect: [{when: {args.a: 2}, effect: deny}]": (
        'no expectation for `args.a=1, args.b="x"`'
    ),
    f"tool: pay, matrix: {{{'x' * 100}: [1]}}, expect: {{effect: deny}}": (
        f"`{'x' * 80}` is no part of an input"
    ),
    f"tool: pay, matrix: {{run.{'x' * 100}: [1]}}, expect: {{effect: deny}}": (
        f"unknown field `{'x' * 80}` in `run`"
    ),
    f"tool: pay, matrix: {{now.{'x' * 100}: [1]}}, expect: {{effect: deny}}": (
        f"`now.{'x' * 76}` names no field of `now`"
    ),
    f"tool: pay, matrix: {{args.a: [1]}}, expect: [{{when: {{{'x' * 100}: 1}}, effect: deny}}]": (
        f"`{'x' * 80}` is not in the matrix"
    ),
}


@pytest.mark.parametrize(("case", "words"), NAMED.items())
def test_each_part_of_a_matrix_is_called_by_its_name(case, words):
    with pytest.raises(PolicyError) as caught:
        read_suite(suite(case))
    assert caught.value.message == f"tests:8: {words}"


def test_as_many_combinations_as_are_let_pass():
    hundred = ", ".join(map(str, range(100)))
    wide = (
        f"tool: pay, matrix: {{args.a: [{hundred}], args.b: [{hundred}]}}, expect: {{effect: deny}}"
    )
    assert len(cases(wide)) == 10_000


def test_a_fixture_that_nothing_reads_is_an_error():
    text = (
        HEAD.replace("late: {now:", "late: {nwo:")
        + "  - {name: a, tool: pay, expect: {effect: deny}}\n"
    )
    with pytest.raises(PolicyError, match="unknown field `nwo` in fixture `late`"):
        read_suite(text)
