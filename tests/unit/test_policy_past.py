"""Rules about the past: which inputs a set reads, what is wrong with such a rule, and inputs that lack a field."""

import pytest

from governance.policy.cel import engine_by_name
from governance.policy.decide import decide
from governance.policy.declarations import ToolShape
from governance.policy.document import load_policies
from governance.policy.explain import explain
from governance.policy.lint import Severity, check
from governance.policy.model import RiskProfile
from governance.policy.suite_scene import Stage
from governance.policy.yaml_source import PolicyError

PROFILE = RiskProfile(verb="READ")
ENGINES = ("closure", "celpy", "celexpr")
TOOLS = {name: ToolShape(PROFILE, {"type": "object"}) for name in ("look", "send")}
FULL = Stage({"look": PROFILE}).inputs({"tool": "look"})


def policy(when="true", effect="allow", engine="closure", more=""):
    text = f"""
policy: p
version: 1
rules:
  - id: r
    match: {{tools: [look]}}
    when: |
      {when}
    effect: {effect}
{more}"""
    return load_policies({"p.yaml": text}, engine_by_name(engine))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "when",
    [
        "window.hour.look < 3",
        "window['hour']['look'] < 3",
        "(window).day.look < 3",
        "size(window) > 1",
        "'look' in window.day",
        "has(window.hour) && true",
        "[1].exists(n, window.hour.look == n)",
        "run.step > 1 ? true : window.hour.look < 3",
        "run.untrusted || 'look' in window.hour",
    ],
)
def test_a_set_knows_that_it_asks_for_the_window(engine, when):
    assert "window" in policy(when, engine=engine).inputs


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "more",
    [
        "    message: \"'so far ' + string(window.day['look'])\"",
        "  - {id: s, mode: shadow, when: size(window.day) > 1, effect: deny}",
        "  - {id: o, match: {tools: [send]}, when: size(window.day) > 1, effect: deny}",
    ],
)
def test_a_message_a_shadow_rule_and_a_rule_of_another_tool_ask_too(engine, more):
    assert "window" in policy(engine=engine, more=more).inputs


@pytest.mark.parametrize("when", ["args.window > 1", "'window' in run.calls", "true // window"])
def test_what_only_looks_like_the_window_is_not_asked_for(when):
    assert "window" not in policy(when).inputs
    assert policy("args.window > 1 && run.step > 0").inputs == {"args", "run"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("when", "part", "field"),
    [
        ("!('look' in window.hour)", "window", None),
        ("size(window.day) == 0", "window", None),
        ("!('look' in run.last)", "run", "last"),
        ("size(run.approved) == 0", "run", "approved"),
    ],
)
def test_a_rule_that_reads_what_an_old_input_lacks_fails_and_widens_nothing(
    engine, when, part, field
):
    """Decisions recorded before there was such a field, as `explain`, `diff` and `replay` meet them."""
    old = {name: dict(v) if isinstance(v, dict) else v for name, v in FULL.items()}
    if field is None:
        del old[part]
    else:
        del old[part][field]
    assert decide(policy(when, engine=engine), FULL).effect == "allow"
    allow = decide(policy(when, engine=engine), old)
    assert (allow.effect, allow.errors) == ("deny", (("p/r", "missing-key"),))
    deny = decide(policy(f"!({when})", "deny", engine=engine), old)
    assert (deny.effect, deny.errors) == ("deny", (("p/r", "missing-key"),))
    (weighed,) = explain(policy(when, engine=engine), old).rules
    assert (weighed.value, weighed.binds) == ("missing-key", False)


def wrong(when, effect="allow", tools=TOOLS):
    return [(lint.severity, lint.message, lint.hint) for lint in check(policy(when, effect), tools)]


@pytest.mark.parametrize(
    ("when", "message", "hint"),
    [
        ("window.hours.look < 3", "unknown field `window.hours`", "did you mean `hour`?"),
        ("run.lasts['look'] > 3", "unknown field `run.lasts`", "did you mean `last`?"),
        ("run.aproved['look'] > 0", "unknown field `run.aproved`", "did you mean `approved`?"),
    ],
)
def test_a_misspelt_field_is_refused_with_the_nearest_name(when, message, hint):
    with pytest.raises(PolicyError) as refused:
        policy(when)
    assert message in refused.value.message
    assert refused.value.hint == hint


def test_counts_are_whole_numbers():
    for read in ("window.hour['look']", "run.last['look']", "run.approved['look']"):
        ((severity, message, _),) = wrong(f"{read} == '3'")
        assert severity is Severity.ERROR
        assert "compares" in message


def test_a_tool_that_the_agent_has_not_is_told_of_its_run_and_not_of_its_person():
    """Another agent's calls are in the window too."""
    for read in ("run.last", "run.approved"):
        ((severity, message, hint),) = wrong(f"'loook' in {read}")
        assert (severity, hint) == (Severity.WARNING, "did you mean `look`?")
        assert message == f"`{read}` never has `loook` with the tools at hand"
    assert wrong("'refund' in window.day") == []


def test_a_count_that_may_be_missing_is_told_where_it_denies():
    ((severity, message, hint),) = wrong("window.hour['look'] > 3", "deny")
    assert severity is Severity.WARNING
    assert message == "`window.hour.look` may be missing, and then the rule denies"
    assert hint == "ask `has(window.hour.look)` first"
    assert wrong("'look' in window.hour && window.hour['look'] > 3", "deny") == []
