"""`policy explain`, `diff` and `replay`: what was decided, why, and what other rules would have said."""

import pytest

STRICT = """
policy: desk
version: 2
rules:
  - {id: nobody, match: {tools: [pay]}, when: args.to == 'bob', effect: deny}
  - {id: all, match: {tools: [pay]}, effect: allow, allow_tier: critical}
"""


@pytest.fixture
def log(cli, desk, home, tmp_path):
    """An installation whose log holds one allowed payment and one that is held; the new rules beside."""
    target, *policy = desk()
    cli("run", target, '{"to":"friend bob"}', *policy, "--run-id", "r1")
    cli("run", target, '{"to":"bob"}', *policy, "--run-id", "r2")
    (tmp_path / "new.yaml").write_text(STRICT)
    return home


@pytest.fixture
def bundle(cli, log, tmp_path):
    assert cli("export", tmp_path / "bundle").status == 0
    return tmp_path / "bundle"


@pytest.fixture
def decided(cli, log):
    """The seqs of the two decisions."""
    seqs = []
    for run in ("r1", "r2"):
        entries = cli("runs", "show", run, "--json").json["entries"]
        seqs += [e["seq"] for e in entries if e["type"] == "call.decided"]
    return seqs


# --- replay ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["ledger", "bundle", "found"])
def test_replay_lists_what_new_rules_change(cli, bundle, decided, tmp_path, source):
    named = {"ledger": [tmp_path / "home"], "bundle": [bundle], "found": []}[source]
    done = cli("policy", "replay", *named, "--policies", tmp_path / "new.yaml")
    assert done.status == 1
    for part in ("approval to deny: 1", f"{decided[1]} r2/1.0", "desk/pays", "desk/nobody"):
        assert part in done.out
    assert "2 decided, 1 changed" in done.out


def test_replay_of_a_rule_that_asks_for_what_was_not_recorded(cli, log, decided, tmp_path):
    """Under the old rules nobody asked for the window, so it is in no recorded input."""
    few = STRICT.replace("args.to == 'bob'", "window.hour.pay > 3")
    (tmp_path / "few.yaml").write_text(few)
    done = cli("policy", "replay", log, "--policies", tmp_path / "few.yaml", "--json")
    assert done.status == 1
    changes = {change["seq"]: change["after"] for change in done.json["changes"]}
    assert list(changes) == decided
    for after in changes.values():
        assert (after["effect"], after["reasons"]) == ("deny", ["rule-error"])
    shown = cli("policy", "explain", tmp_path / "few.yaml", "--entry", decided[0], "--home", log)
    assert shown.status == 0
    assert "missing-key" in shown.out


def test_replay_for_a_script(cli, bundle, decided, tmp_path):
    done = cli("policy", "replay", bundle, "--policies", tmp_path / "new.yaml", "--json")
    assert done.status == 1
    (change,) = done.json["changes"]
    assert done.json["shifts"] == {"approval-to-deny": 1}
    assert {k: change[k] for k in ("shift", "seq", "run", "call", "tool")} == {
        "shift": "approval-to-deny",
        "seq": decided[1],
        "run": "r2",
        "call": "r2/1.0",
        "tool": "pay",
    }
    assert (change["before"]["rules"], change["after"]["rules"]) == (["desk/pays"], ["desk/nobody"])


def test_replay_under_the_same_rules_changes_nothing(cli, bundle, tmp_path):
    done = cli("policy", "replay", bundle, "--policies", tmp_path / "desk.yaml")
    assert done.status == 0
    assert "2 decided, 0 changed" in done.out


def test_replay_of_what_is_no_log(cli, tmp_path, log):
    (tmp_path / "empty").mkdir()
    done = cli("policy", "replay", tmp_path / "empty", "--policies", tmp_path / "new.yaml")
    assert done.status == 2
    assert "neither a bundle nor an installation" in done.err
    assert cli("policy", "replay", log).status == 2
    assert cli("policy", "replay", log, "--policies", tmp_path / "none.yaml").status == 2


def test_replay_of_an_altered_bundle_ends_in_an_error(cli, bundle, tmp_path):
    (file,) = sorted((bundle / "entries").iterdir())
    file.write_bytes(file.read_bytes().replace(b'"deny"', b'"DENY"').replace(b"r2", b"r3"))
    done = cli("policy", "replay", bundle, "--policies", tmp_path / "new.yaml")
    assert done.status == 5


def test_what_was_decided_again_before_it_started_is_decided_again_too(
    cli, desk, log, token, tmp_path
):
    target, *policy = desk()
    pending = cli("approvals", "list", "--json").json["pending"][0]["request"]
    said = ("--as", "Ann", "--token", token, "--reason", "fine")
    assert cli("approvals", "approve", pending, *said).status == 0
    assert cli("runs", "resume", target, "r2", *policy).status == 0
    got = cli("policy", "replay", log, "--policies", tmp_path / "new.yaml", "--json").json
    assert [change["run"] for change in got["changes"]] == ["r2", "r2"]
    assert got["decided"] == 3


def test_what_cannot_be_decided_again_is_counted(cli, log, tmp_path):
    from governance import Governance
    from governance.cli.policy_sources import History
    from governance.ledger.entry import Record

    with Governance.open(log) as governance:
        records = governance.store.read(lambda reader: reader.records())
    history = History()
    assert list(history.decisions(Record(record.entry) for record in records)) == []
    assert (history.erased, history.unasked) == (2, 0)


def test_what_never_reached_the_policy_is_told(cli, desk, log, tmp_path):
    target, *policy = desk()
    cli("run", target, '{"nobody": 1}', *policy)
    done = cli("policy", "replay", log, "--policies", tmp_path / "desk.yaml")
    assert done.status == 0
    assert "1 never reached the policy" in done.out
    assert (
        cli("policy", "replay", log, "--policies", tmp_path / "desk.yaml", "--json").json["unasked"]
        == 1
    )


# --- diff --------------------------------------------------------------------------------------------


def test_diff_over_a_log(cli, log, bundle, tmp_path):
    old, new = tmp_path / "desk.yaml", tmp_path / "new.yaml"
    done = cli("policy", "diff", old, new, "--bundle", bundle, "--json")
    assert done.status == 1
    assert done.json["shifts"] == {"approval-to-deny": 1}
    assert cli("policy", "diff", old, new, "--home", log).status == 1
    assert cli("policy", "diff", new, new, "--home", log).status == 0
    both = cli("policy", "diff", old, new, "--home", log, "--bundle", bundle)
    assert both.status == 2
    assert "give one of" in both.err


CASES = """
tools: {pay: {verb: FINANCIAL}}
cases:
  - {name: to bob, tool: pay, args: {to: bob}, expect: {effect: deny}}
  - {name: to a friend, tool: pay, args: {to: friend}, expect: {effect: allow}}
"""


def test_diff_over_the_cases_beside(cli, desk, tmp_path):
    desk()
    (tmp_path / "new.yaml").write_text(STRICT)
    (tmp_path / "new.test.yaml").write_text(CASES)
    (tmp_path / "desk.test.yaml").write_text(CASES.replace("to bob, tool", "again bob, tool"))
    done = cli("policy", "diff", tmp_path / "desk.yaml", tmp_path / "new.yaml")
    assert done.status == 1
    assert "approval to deny: 1" in done.out
    assert "2 decided, 1 changed" in done.out  # the same input is looked at once
    got = cli("policy", "diff", tmp_path / "desk.yaml", tmp_path / "new.yaml", "--json").json
    assert (got["changes"][0]["case"], got["changes"][0]["line"]) == ("again bob", 4)


def test_a_long_list_of_changes_is_cut_in_the_terminal_alone(cli, tmp_path):
    for name, effect in (("a", "allow"), ("b", "deny")):
        text = f"policy: p\nversion: 1\nrules:\n  - {{id: r, effect: {effect}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    values = ", ".join(map(str, range(60)))
    (tmp_path / "a.test.yaml").write_text(
        "tools: {get: {verb: READ}}\ncases:\n"
        f"  - {{name: c, tool: get, matrix: {{args.n: [{values}]}}, expect: {{effect: allow}}}}\n"
    )
    words = ("policy", "diff", tmp_path / "a.yaml", tmp_path / "b.yaml")
    done = cli(*words)
    assert "allow to deny: 60" in done.out
    assert "… and 10 more" in done.out
    assert len(cli(*words, "--json").json["changes"]) == 60


def test_diff_without_cases_is_no_success(cli, desk, tmp_path):
    desk()
    done = cli("policy", "diff", tmp_path / "desk.yaml", tmp_path / "desk.yaml")
    assert done.status == 2
    assert "no policy here has tests" in done.err


# --- explain -----------------------------------------------------------------------------------------


def test_a_recorded_decision_is_explained_by_the_rules_it_was_made_under(cli, log, decided):
    done = cli("policy", "explain", "--entry", decided[1])
    assert done.status == 0
    for part in (
        "require_approval",
        "desk/pays",
        "!args.to.startsWith('friend')",
        "as it was recorded",
    ):
        assert part in done.out


def test_a_recorded_decision_is_explained_by_other_rules(cli, bundle, decided, tmp_path):
    new = tmp_path / "new.yaml"
    done = cli("policy", "explain", new, "--entry", decided[1], "--bundle", bundle)
    assert done.status == 0
    assert "recorded otherwise: require_approval, by desk/pays" in done.out
    got = cli("policy", "explain", new, "--entry", decided[1], "--bundle", bundle, "--json").json
    assert (got["decision"]["effect"], got["recorded"]["effect"]) == ("deny", "require_approval")
    assert got["same"] is False


def test_other_rules_that_say_the_same_agree_with_the_record(cli, log, decided, tmp_path):
    text = (tmp_path / "desk.yaml").read_text()
    (tmp_path / "again.yaml").write_text(text.replace("version: 1", "version: 2"))
    done = cli("policy", "explain", tmp_path / "again.yaml", "--entry", decided[0])
    assert "as it was recorded" in done.out


def test_an_entry_that_holds_no_decision(cli, log):
    for seq in (0, 9999):
        done = cli("policy", "explain", "--entry", seq)
        assert done.status == 2
        assert f"entry {seq} is no decision" in done.err


def test_a_call_is_explained(cli, desk, tmp_path):
    desk()
    words = (
        "policy",
        "explain",
        tmp_path / "desk.yaml",
        "--tool",
        "pay",
        "--args",
        '{"to": "bob"}',
    )
    done = cli(*words, "--profile", "verb=FINANCIAL", "--profile", "scopes=[pay, send]")
    assert done.status == 0
    for part in ("desk/pays", "decides", "desk/friends", "does not bind", "verb FINANCIAL"):
        assert part in done.out
    got = cli(*words, "--json").json
    assert [(r["rule"], r["value"]) for r in got["rules"]] == [
        ("desk/pays", True),
        ("desk/friends", False),
    ]
    undeclared = {"what": "nothing is declared about the tool", "source": "unprofiled"}
    assert got["signals"] == [{**undeclared, "tier": "high"}]


def test_the_profile_is_that_of_the_tests_and_the_rest_of_the_input_can_be_given(cli, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "policy: p\nversion: 1\nrules:\n"
        "  - id: a\n    when: >-\n"
        "      run.untrusted && 'clerk' in principal.roles && env.name == 'x' && agent.id == 'agent:x'\n"
        "      && args_origin['to'] == 'user' && now.getHours() == 7\n"
        "      && window.hour['pay'] == 2 && run.last['pay'] > 60\n    effect: allow\n"
    )
    (tmp_path / "p.test.yaml").write_text(CASES)
    given = {
        "--run": '{"untrusted": true, "last": {"pay": 61}}',
        "--window": '{"hour": {"pay": 2}}',
        "--principal": '{"roles": ["clerk"]}',
        "--env": '{"name": "x"}',
        "--agent": '{"id": "agent:x"}',
        "--args-origin": '{"to": "user"}',
        "--now": "2026-01-01T07:00:00Z",
    }
    options = [word for pair in given.items() for word in pair]
    got = cli("policy", "explain", tmp_path / "p.yaml", "--tool", "pay", *options, "--json").json
    assert got["decision"]["rules"] == ["p/a"]
    assert got["decision"]["tier"] == "critical"
    assert len(got["rules"][0]["when"]["parts"]) == 8


def test_a_case_is_explained(cli, desk, tmp_path):
    desk()
    (tmp_path / "desk.test.yaml").write_text(CASES)
    done = cli("policy", "explain", tmp_path / "desk.yaml", "--case", "to a friend")
    assert done.status == 0
    assert "allow" in done.out
    wrong = cli("policy", "explain", tmp_path / "desk.yaml", "--case", "to a freind")
    assert wrong.status == 2
    assert "did you mean `to a friend`?" in wrong.err


LOUD = """
policy: p
version: 1
rules:
  - id: ask
    when: "args.n > 1 ? run.step == 0 : false"
    effect: require_approval
    approval: {quorum: [{role: finance, count: 2}], decide_by: 4h, reauthenticate: true}
    message: "'please \\u202e look'"
  - {id: gone, when: "!(run.untrusted || args.n > 9)", effect: allow}
  - {id: trial, when: args.m > 1, effect: deny, mode: shadow}
  - {id: quiet, when: args.n > 9, effect: deny, mode: shadow}
"""


def test_an_explanation_tells_who_is_asked_what_is_outweighed_and_what_is_in_shadow(cli, tmp_path):
    (tmp_path / "p.yaml").write_text(LOUD)
    words = ("policy", "explain", tmp_path / "p.yaml", "--tool", "pay")
    out = cli(*words, "--args", '{"n": 5}').out
    for part in (
        "2 finance within 14400 s, to start within 3600 s, who sign for themselves",
        "if, then, else",
        "binds, and is outweighed",
        "in shadow, would bind",
        "missing-key",
        "any of",
    ):
        assert part in out
    assert "\u202e" not in out


def test_arguments_that_nobody_decides_about_are_told_as_rejected(cli, tmp_path):
    (tmp_path / "p.yaml").write_text(LOUD)
    done = cli(
        "policy", "explain", tmp_path / "p.yaml", "--tool", "t", "--args", '{"n": "\\u0000"}'
    )
    assert done.status == 0
    assert "input-rejected" in done.out
    assert "not about this call: p/ask" in done.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give one of `--tool`, `--case` and `--entry`"),
        (("--tool", "pay", "--case", "x"), "give one of"),
        (("--case", "x", "--args", "{}"), "bring their own input"),
        (("--tool", "pay", "--home", "h"), "no entry is named"),
        (("--tool", "pay", "--args", "{"), "not JSON"),
        (("--tool", "pay", "--args", "[]"), "`--args` is no JSON object"),
        (("--tool", "pay", "--run", '{"untrustd": true}'), "did you mean `untrusted`?"),
        (("--tool", "pay", "--profile", "verb"), "`verb` declares nothing"),
        (("--tool", "pay", "--profile", "vreb=READ"), "did you mean `verb`?"),
        (("--tool", "pay", "--now", "noon"), "`now` is malformed"),
    ],
)
def test_what_cannot_be_explained_says_why(cli, desk, tmp_path, words, told):
    desk()
    done = cli("policy", "explain", tmp_path / "desk.yaml", *words)
    assert done.status == 2
    assert told in done.err


def test_without_policies_there_is_nothing_to_explain_by(cli):
    done = cli("policy", "explain", "--tool", "pay")
    assert done.status == 2
    assert "no policies are named" in done.err
