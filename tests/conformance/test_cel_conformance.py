"""The engines, and decisions made with the default one, beside the official CEL conformance suite."""

import json
from pathlib import Path

import pytest
import yaml
from conformance.cel_suite import CORE, ERROR, EXTENSIONS, Case, same

from governance.ids import Digest
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    Activation,
    CelFailure,
    ConditionError,
    engine_by_name,
)
from governance.policy.closure_engine import compile_program
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import Effect, RiskProfile
from governance.policy.risk import tool_input
from governance.policy.yaml_source import PolicyError

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(3)]

SKIPS = yaml.safe_load((Path(__file__).parent / "cel_skips.yaml").read_text())
REASONS = {id: reason for reason, ids in SKIPS.items() for id in ids}
NOT_CHOSEN = ("string_ext/format", "string_ext/quote", "string_ext/format_errors")
CORE_CASES_MIN = 1090
CORE_PASSING_MIN = 1055
OTHERS_AGREE_MIN = {"celpy": 620, "celexpr": 720}
ENGINE = engine_by_name("closure")


def select(test: str, cases: list[Case]) -> list[object]:
    if test == "test_the_suite_is_whole":
        return [pytest.param(cases, id="all")]
    chosen = [case for case in cases if not case.id.startswith(NOT_CHOSEN)]
    if test == "test_a_rule_of_the_case_decides_as_it_should":
        chosen = [case for case in chosen if is_condition(case)]
    if test == "test_another_engine_says_the_same_or_nothing":
        return [pytest.param([case for case in cases if is_condition(case)], id="all")]
    return [
        pytest.param(
            case,
            id=case.id,
            marks=[pytest.mark.xfail(reason=REASONS[case.id])] if case.id in REASONS else [],
        )
        for case in chosen
    ]


def is_condition(case: Case) -> bool:
    """Whether a policy can ask the same: true, false or an error, over no variables of its own."""
    return not case.bindings and (case.expected is ERROR or type(case.expected) is bool)


def test_the_suite_is_whole(case: list[Case]) -> None:
    ids = {found.id for found in case}
    core = [found for found in case if found.file in CORE]
    assert len(core) >= CORE_CASES_MIN
    assert len([found for found in core if found.id not in REASONS]) >= CORE_PASSING_MIN
    assert {found.file for found in case} == {*CORE, *EXTENSIONS}
    assert REASONS.keys() <= ids, "a skipped case is gone"


def test_case(case: Case) -> None:
    try:
        program = compile_program(case.source, frozenset(case.bindings))
    except ConditionError:
        assert case.expected is ERROR
        return
    outcome = program.evaluate_as(
        Activation(case.bindings), CONDITION_STEPS_MAX, lambda value: value
    )
    if case.expected is ERROR:
        assert isinstance(outcome.value, CelFailure)
    else:
        assert same(outcome.value, case.expected), outcome.value


def test_a_rule_of_the_case_decides_as_it_should(case: Case) -> None:
    """True allows; false and an error deny, whether at load or at the decision."""
    rule = {"id": "it", "effect": "allow", "when": case.source}
    text = json.dumps({"policy": "case", "version": 1, "rules": [rule]}, ensure_ascii=False)
    try:
        policies = load_policies({"case.yaml": text}, ENGINE)
    except PolicyError:
        assert case.expected is ERROR
        return
    decision = decide(
        policies,
        {
            "tool": tool_input("look", Digest(bytes(32)), RiskProfile(verb="READ")),
            "args": {},
            "agent": {"id": "agent:a"},
            "env": {"name": "test"},
        },
    )
    assert decision.effect is (Effect.ALLOW if case.expected is True else Effect.DENY)
    assert bool(decision.errors) is (case.expected is ERROR)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", OTHERS_AGREE_MIN)
def test_another_engine_says_the_same_or_nothing(name: str, case: list[Case]) -> None:
    """Refusing a condition, or failing, is a difference we bear; another value is none."""
    engine, agreed = engine_by_name(name), 0
    otherwise: list[str] = []
    for one in case:
        try:
            program = engine.compile(one.source)
        except ConditionError:
            agreed += one.expected is ERROR
            continue
        value = program.evaluate(engine.bind({}), CONDITION_STEPS_MAX).value
        got = ERROR if isinstance(value, CelFailure) else value
        agreed += got is one.expected
        if got is not ERROR and got is not one.expected:
            otherwise.append(one.id)
    assert otherwise == []
    assert agreed >= OTHERS_AGREE_MIN[name]
