"""docs/policy.md lists every input of a decision, every field of a rule, and every verb."""

from docs.reading import ROOT, blocks, rows, spelled

from governance.cli.entry import app
from governance.cli.policy_bench import ENGINES
from governance.ledger.entry import Kind
from governance.policy.cel import default_engine, engine_by_name
from governance.policy.decide import decide
from governance.policy.document import MATCH_FIELDS, load_policies
from governance.policy.model import VERB_TIERS

PAGE = ROOT / "docs" / "policy.md"
TEXT = PAGE.read_text()
WHOLE = {"args", "args_origin", "now"}


def inputs_of(history) -> list[dict]:
    decisions = [r for r in history if r.entry.kind is Kind.CALL_DECIDED]
    return [r.content("input") for r in decisions if "input" in r.payloads]


def test_every_input_of_a_real_decision_is_listed_and_no_other(history):
    names = set(WHOLE)
    for inputs in inputs_of(history):
        names |= {
            f"{part}.{name}"
            for part, fields in inputs.items()
            if part not in WHOLE
            for name in fields
        }
    assert {spelled(row[0])[0] for row in rows(TEXT, "input")} == names


def test_every_line_of_the_language_compiles():
    lines = [line for block in blocks(PAGE, "cel") for line in block.splitlines()]
    assert lines
    for line in lines:
        default_engine().compile(line)


def test_every_engine_is_listed_and_can_be_had():
    assert [engine_by_name(spelled(row[0])[0]).name for row in rows(TEXT, "engine")] == list(
        ENGINES
    )


def test_every_shipped_policy_is_listed():
    listed = {spelled(row[0])[0] for row in rows(TEXT, "file")}
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "policies").rglob("*.yaml")}
    assert listed == {name for name in shipped if not name.endswith(".test.yaml")}


def test_every_policy_command_is_listed():
    (group,) = [g for g in app.registered_groups if g.name == "policy"]
    commands = {c.name or c.callback.__name__ for c in group.typer_instance.registered_commands}
    assert {spelled(row[0])[0] for row in rows(TEXT, "command")} == {
        f"governance policy {name}" for name in commands
    }


def test_every_way_to_match_is_named():
    assert [field for field in MATCH_FIELDS if f"`{field}`" not in TEXT] == []


def test_every_verb_has_the_tier_that_is_written():
    written = {verb: tier for verbs, tier in rows(TEXT, "verbs") for verb in spelled(verbs)}
    assert written == VERB_TIERS


def test_a_confirmation_is_denied_once_its_payment_was_refused(history):
    """The page's own rule, on an input that a real run has recorded."""
    policies = load_policies({"shop.yaml": blocks(PAGE, "yaml")[0]})
    inputs = {**inputs_of(history)[0], "args": {}}
    inputs["tool"] = {**inputs["tool"], "name": "send_mail"}
    allowed, refused = (
        decide(policies, {**inputs, "run": {**inputs["run"], "turn_refused": count}})
        for count in (0, 1)
    )
    assert (allowed.effect, refused.effect) == ("allow", "deny")
    assert refused.rules == ("shop/no-mail-for-nothing",)
