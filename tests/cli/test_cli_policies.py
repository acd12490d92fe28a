"""`policy check` and `policy test`: what is wrong, where, and which cases fail."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

GOOD = """
policy: desk
version: 1
rules:
  - {id: reads, match: {tools: [look]}, effect: allow}
"""
TESTS = """
tools: {look: {verb: READ, side_effect: false}}
cases:
  - {name: reads pass, tool: look, expect: {effect: allow}}
"""
SHIPPED = Path(__file__).parents[2] / "policies"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "p" / "deep").mkdir(parents=True)
    (tmp_path / "p" / "desk.yaml").write_text(GOOD)
    (tmp_path / "p" / "desk.test.yaml").write_text(TESTS)
    return tmp_path / "p"


def test_a_good_set_is_checked_and_named_by_its_digest(cli, folder):
    done = cli("policy", "check", folder)
    assert done.status == 0
    assert "desk" in done.out
    got = cli("policy", "check", folder, "--json").json
    assert got["versions"] == {"desk": 1}
    assert got["digest"] in done.out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD.replace("effect: allow", "effect: alow"), "bad.yaml:5: unknown effect `alow`"),
        (GOOD.replace("match:", "mach:"), "bad.yaml:5: unknown field `mach`"),
        (GOOD.replace("version: 1", "version: one"), "bad.yaml:3"),
        ("{", "bad.yaml:"),
        ("", "bad.yaml:"),
        ("\x00", "bad.yaml:"),
        ("policy: a\npolicy: b\n", "bad.yaml:2"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(cli, tmp_path, text, told):
    (tmp_path / "bad.yaml").write_text(text)
    done = cli("policy", "check", tmp_path / "bad.yaml")
    assert done.status == 2
    assert told in done.err


def test_policies_that_pass_their_tests(cli, folder):
    done = cli("policy", "test", folder)
    assert done.status == 0
    assert "1 of 1 passed" in done.out


def test_folders_are_searched_at_any_depth(cli, folder):
    (folder / "deep" / "other.yaml").write_text(GOOD.replace("desk", "other"))
    out = cli("policy", "test", folder).out
    assert "no tests" in out
    assert "other.yaml" in out


def test_a_failing_case_is_named_with_what_was_expected_and_exits_1(cli, folder):
    (folder / "desk.test.yaml").write_text(TESTS.replace("effect: allow", "effect: deny"))
    done = cli("policy", "test", folder)
    assert done.status == 1
    for part in ("0 of 1 passed", "reads pass", "desk.test.yaml:4", '"deny"', '"allow"'):
        assert part in done.out
    got = cli("policy", "test", folder, "--json")
    assert got.status == 1
    (case,) = got.json[0]["cases"]
    assert (case["passed"], case["expected"], case["got"]) == (
        False,
        {"effect": "deny"},
        {"effect": "allow"},
    )


def test_that_nothing_was_tested_is_no_success(cli, folder):
    (folder / "desk.test.yaml").unlink()
    done = cli("policy", "test", folder)
    assert done.status == 2
    assert "no policy here has tests" in done.err


def test_a_folder_without_policies_is_no_success(cli, tmp_path):
    (tmp_path / "only.test.yaml").write_text(TESTS)
    for command in ("check", "test"):
        done = cli("policy", command, tmp_path)
        assert done.status == 2
        assert "holds no policies" in done.err


def test_tests_that_cannot_be_read_are_an_error_not_a_failure(cli, folder):
    (folder / "desk.test.yaml").write_text("cases: [")
    assert cli("policy", "test", folder).status == 2


def test_the_shipped_policies_pass(cli):
    assert cli("policy", "test", SHIPPED).status == 0


# --- what is wrong with a set ------------------------------------------------------------------------

MISSPELT = """
policy: desk
version: 1
rules:
  - {id: reads, match: {tools: [lok]}, when: args.nam == 'x', effect: allow}
"""
MODULE = """
from agent import tool

@tool(verb="READ")
def look(name: str) -> str:
    "Look."
    return name

TOOLS = [look]
number = 7
"""


@pytest.fixture
def tools(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = f"tools_of_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


@pytest.mark.parametrize("attr", ["", ":TOOLS", ":look"])
def test_rules_are_checked_against_the_tools(cli, folder, tools, attr):
    (folder / "desk.yaml").write_text(MISSPELT.replace("lok", "look"))
    assert cli("policy", "check", folder).status == 0
    done = cli("policy", "check", folder, "--tools", tools + attr)
    assert done.status == 2
    assert "nam" in done.out
    assert "1 error(s)" in done.err
    got = cli("policy", "check", folder, "--tools", tools + attr, "--json")
    assert got.status == 2
    (lint,) = [lint for lint in got.json["lints"] if lint["severity"] == "error"]
    assert (lint["line"], lint["rule"]) == (5, "desk/reads")


def test_a_warning_is_told_and_refuses_nothing(cli, folder, tools):
    (folder / "desk.yaml").write_text(MISSPELT.replace("when: args.nam == 'x', ", ""))
    done = cli("policy", "check", folder, "--tools", tools)
    assert done.status == 0
    assert "there is no tool `lok`" in done.out


def test_tools_that_are_none(cli, folder, tools):
    for target in (f"{tools}:number", f"{tools}:nothing", "no_such_module"):
        assert cli("policy", "check", folder, "--tools", target).status == 2


# --- coverage ----------------------------------------------------------------------------------------

HALF = GOOD + "  - {id: late, match: {tools: [look]}, when: run.step > 9, effect: deny}\n"


def test_what_the_tests_have_not_seen_is_named_and_exits_1(cli, folder):
    (folder / "desk.yaml").write_text(HALF)
    done = cli("policy", "coverage", folder)
    assert done.status == 1
    for part in ("60 %", "3 of 5", "desk/late", "it never bound", "never true: run.step > 9"):
        assert part in done.out
    got = cli("policy", "coverage", folder, "--json")
    assert got.status == 1
    assert got.json[0]["percent"] == 60
    assert got.json[0]["missing"][0]["line"] == 6


def test_less_than_all_may_be_enough(cli, folder):
    (folder / "desk.yaml").write_text(HALF)
    assert cli("policy", "coverage", folder, "--min-coverage", 60).status == 0
    assert cli("policy", "coverage", folder, "--min-coverage", 61).status == 1
    assert cli("policy", "coverage", folder, "--min-coverage", 101).status == 2


def test_a_policy_without_tests_is_not_covered(cli, folder):
    (folder / "deep" / "other.yaml").write_text(GOOD.replace("desk", "other"))
    done = cli("policy", "coverage", folder)
    assert done.status == 1
    assert "0 %" in done.out
    (folder / "desk.test.yaml").unlink()
    assert cli("policy", "coverage", folder).status == 2


def test_the_shipped_policies_are_covered(cli):
    assert cli("policy", "coverage", SHIPPED).status == 0


# --- bench -------------------------------------------------------------------------------------------


def test_decisions_are_measured_with_each_engine(cli, folder):
    done = cli("policy", "bench", folder, "--seconds", 0.01)
    assert done.status == 0
    for part in ("closure", "celpy", "p50", "p99"):
        assert part in done.out
    got = cli("policy", "bench", folder, "--seconds", 0.01, "--json").json
    assert {row["engine"] for row in got} >= {"closure", "celpy"}
    assert all(0 < row["p50_ns"] <= row["p99_ns"] and row["decisions"] for row in got)


def test_without_tests_there_is_nothing_to_measure(cli, folder):
    (folder / "desk.test.yaml").unlink()
    assert cli("policy", "bench", folder).status == 2
    assert cli("policy", "bench", folder, "--seconds", 0).status == 2


UNTYPED = """
policy: desk
version: 1
rules:
  - id: reads
    when: (principal.roles + ['a'])[true] == 'a' && run.calls.exists(t, n, n.startsWith(t))
    effect: allow
"""


def test_a_second_type_checker_warns_where_it_is_installed_and_decides_nothing(
    cli, folder, monkeypatch
):
    (folder / "desk.yaml").write_text(UNTYPED)
    installed = cli("policy", "check", folder, "--json")
    version = importlib.metadata.version

    def hidden(name):
        if name == "cel-expr-python":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", hidden)
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    alone = cli("policy", "check", folder, "--json")
    assert (installed.status, alone.status) == (0, 0)
    assert installed.json["digest"] == alone.json["digest"]
    assert installed.json["checker"].startswith("celexpr 0.1.")
    assert alone.json["checker"] is None
    assert alone.json["lints"] == []
    told = [
        (lint["line"], lint["column"], lint["severity"], lint["message"])
        for lint in installed.json["lints"]
    ]
    assert told == [
        (6, 37, "warning", "`[ ]` of a list takes no bool"),
        (6, 78, "warning", "`startsWith` takes no such values: int, text"),
    ]


def test_policies_are_read_for_the_engine_that_will_decide(cli, folder, monkeypatch):
    digests = set()
    for engine in ("closure", "celpy", "celexpr"):
        monkeypatch.setenv("GOVERNANCE_ENGINE", engine)
        digests.add(cli("policy", "check", folder, "--json").json["digest"])
        assert cli("policy", "test", folder).status == 0
    assert len(digests) == 3
    (folder / "desk.yaml").write_text(
        UNTYPED.replace(
            "(principal.roles + ['a'])[true] == 'a'", "args.x.transformMap(k, v, v) == args.x"
        )
    )
    done = cli("policy", "check", folder)
    assert done.status == 2
    assert "desk.yaml:6: engine `celexpr` has no `transformMap`" in done.err
    monkeypatch.setenv("GOVERNANCE_ENGINE", "closure")
    assert cli("policy", "check", folder).status == 0
