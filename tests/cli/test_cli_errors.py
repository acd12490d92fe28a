"""No input, however odd, ends in a traceback; every family of error has its own exit status."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = "\x1b[31m\u202e\u200b"
GARBAGE = [
    ["nonsense"],
    ["--nonsense"],
    ["init", "--origin", "two words"],
    ["init", "--origin", ""],
    ["init", "--origin", HOSTILE],
    ["init", "extra"],
    ["users"],
    ["users", "add"],
    ["users", "add", "Ann"],
    ["users", "add", "", "--role", "finance"],
    ["users", "add", " Ann", "--role", "finance"],
    ["users", "add", HOSTILE, "--role", "finance"],
    ["users", "add", "x" * 10_000, "--role", "finance"],
    ["users", "add", "Ann", "--role", "Not A Role"],
    ["users", "add", "Ann", *["--role=a"] * 3, "--role", ""],
    ["users", "remove", "Nobody"],
    ["users", "roles", "Nobody", "--role", "finance"],
    ["users", "roles", "Ann"],
    ["users", "token", "Nobody"],
    ["users", "token", HOSTILE],
    ["users", "remove", HOSTILE],
    ["run"],
    ["run", "nocolon", "hi"],
    ["run", ":", "hi"],
    ["run", "a:b:c", "hi"],
    ["run", "../x:y", "hi"],
    ["run", "os:system", "hi"],
    ["run", "os:path", "hi"],
    ["run", "os:nothing.here", "hi"],
    ["run", "no.such.module:agent", "hi"],
    ["run", f"{HOSTILE}:agent", "hi"],
    ["runs", "show"],
    ["runs", "show", ""],
    ["runs", "show", HOSTILE],
    ["runs", "show", "../../etc/passwd"],
    ["runs", "show", "x" * 5_000],
    ["runs", "resume", "os:path", "r1"],
    ["runs", "cancel", "no.such:agent", "r1"],
    ["runs", "resolve", "r1", "1.0"],
    ["runs", "resolve", "r1", "1.0", "--by", "Ann", "--happened", "NaN"],
    ["runs", "resolve", "r1", "1.0", "--by", "Ann", "--happened", "[" * 20_000],
    ["runs", "resolve", "r1", "1.0", "--by", "Ann", "--happened", '{"a":1,"a":2}'],
    ["approvals", "show", HOSTILE],
    ["approvals", "show", ""],
    ["approvals", "approve", "apr-x"],
    ["approvals", "approve", "apr-x", "--as", HOSTILE],
    ["approvals", "approve", "apr-x", "--as", "Ann", "--card", "zz"],
    ["approvals", "reject", "apr-x", "--as", "Ann"],
    ["policy", "check"],
    ["policy", "check", "/nowhere"],
    ["policy", "check", "/dev/null"],
    ["policy", "test", "/nowhere"],
    ["policy", "test", HOSTILE],
    ["export"],
    ["export", "/dev/null/x"],
    ["verify"],
    ["verify", "/nowhere"],
    ["verify", "/dev/null"],
    ["verify", ".", "--key", HOSTILE],
    ["demo-model"],
    ["demo-model", "/nowhere"],
    ["demo-model", "/dev/null"],
    ["demo-model", "/dev/null", "--port", "99999999"],
    ["demo-model", "/dev/null", "--port", "x"],
    ["serve", "--port", "-1"],
    ["serve", "--agent", "nocolon"],
    ["serve", "--host", "256.256.256.256", "--port", "0"],
    ["serve", "--host", HOSTILE, "--port", "0"],
    ["serve", "--policy", "/nowhere"],
    ["demo", "--port", "99999999"],
    ["demo", "--folder", "/dev/null/x", "--yes"],
]


@pytest.mark.parametrize(
    "words", GARBAGE, ids=lambda words: " ".join(words)[:40].encode("unicode_escape").decode()
)
def test_garbage_is_refused_in_one_line_with_a_status_of_its_family(cli, home, words):
    done = cli(*words)
    assert done.status in {2, 3, 4, 5, 6}
    assert "Traceback" not in done.out + done.err
    assert "unexpected `" not in done.err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u200b\u202e]", done.out + done.err)
    if done.err:
        first, *rest = done.err.splitlines()
        assert first.startswith("error: ")
        assert first == first.rstrip(".")
        assert len(first) < 600
        assert all(line.startswith("next: ") for line in rest)


@pytest.mark.parametrize("words", [["users", "list"], ["runs", "list"], ["approvals", "list"]])
@pytest.mark.parametrize("ruin", ["empty", "garbage", "cut", "folder", "gone", "key"])
def test_a_ruined_installation_is_an_error_of_a_family(cli, home, words, ruin):
    ledger = home / "ledger.db"
    match ruin:
        case "empty":
            ledger.write_bytes(b"")
        case "garbage":
            ledger.write_bytes(b"not a database" * 1000)
        case "cut":
            ledger.write_bytes(ledger.read_bytes()[:5000])
        case "folder":
            ledger.unlink()
            ledger.mkdir(0o700)
        case "gone":
            ledger.unlink()
        case "key":
            (home / "log.key").write_text("PRIVATE+KEY+nonsense")
    done = cli(*words)
    assert done.status in {2, 3, 5, 6}
    assert done.err.startswith("error: ")
    assert "unexpected" not in done.err


@pytest.mark.parametrize(
    ("attr", "told"),
    [
        ("nothing", "has no `nothing`"),
        ("number", "is a int, not an agent"),
        ("fails", "failed with `RuntimeError`: no database"),
        ("returns_none", "returned a NoneType, not an agent"),
        ("Model", "is a type, not an agent"),
    ],
)
def test_a_target_that_is_no_agent_is_explained(cli, desk, attr, told):
    target, *policy = desk(attr)
    done = cli("run", target, "hi", *policy)
    assert done.status == 2
    assert told in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def (:", "cannot be imported: `SyntaxError`"),
        ("import no_such_library", "needs `no_such_library`, which is not installed"),
        ("raise SystemExit(0)", "cannot be imported: `SystemExit`"),
        ("1/0", "cannot be imported: `ZeroDivisionError`"),
        ("raise RuntimeError('\\x1b[31m')", "<U+001B>"),
    ],
)
def test_a_module_that_cannot_be_imported_is_explained(cli, home, tmp_path, text, told):
    name = f"bad_{abs(hash((text, str(tmp_path))))}"
    (tmp_path / f"{name}.py").write_text(text)
    done = cli("run", f"{name}:agent", "hi")
    assert done.status == 2
    assert told in done.err


def test_an_agent_with_an_installation_of_its_own_takes_no_other(cli, home, tmp_path):
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(
        "from agent import AIMessage, DurableAgent\n"
        "from governance import Governance\n"
        "class Model:\n"
        "    name = 'fake'\n"
        "    async def respond(self, messages, tools):\n"
        "        return AIMessage(content='hello', stop='stop')\n"
        "agent = DurableAgent(Model(), governance=Governance.open())\n"
    )
    done = cli("run", f"{name}:agent", "hi", "--policy", "x.yaml")
    assert done.status == 2
    assert "installation of its own" in done.err


def test_debug_shows_where_an_error_came_from(cli, desk):
    target, *policy = desk("fails")
    assert "Traceback" in cli("--debug", "run", target, "hi", *policy).err
    assert "Traceback" not in cli("run", target, "--debug", *policy).err


def test_an_error_nobody_foresaw_is_one_line(cli, home, monkeypatch):
    def broken(*_args, **_kwargs):
        raise ZeroDivisionError("a bug\x1b")

    monkeypatch.setattr("governance.assemble.Governance.without_rules", broken)
    done = cli("runs", "list")
    assert done.status == 70
    assert done.err.splitlines()[0] == "error: unexpected `ZeroDivisionError`: a bug<U+001B>"
    assert "governance --debug" in done.err


def governance(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "governance.cli", *words],
        capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_a_real_process_exits_with_the_status(home):
    done = governance("runs", "show", "nope")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: no run `nope`",
        "next: list them with `governance runs list`",
    ]


@pytest.mark.parametrize(
    "words",
    [
        (b"users", b"remove", b"\xff"),
        (b"users", b"add", b"\xff", b"--role", b"x"),
        (b"runs", b"show", b"\xff"),
        (b"run", b"os:path", b"\xff"),
        (b"policy", b"check", b"\xff"),
        (b"verify", b"\xff"),
    ],
)
def test_words_that_are_no_text_are_refused(home, words):
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"governance.cli", *words],
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: ")
    assert b"unexpected `" not in done.stderr


def test_closed_streams_are_no_bug(home):
    for closed in ("<&-", ">&-", "2>&-"):
        words = f"exec {sys.executable} -m governance.cli approvals approve apr-x --as Ann {closed}"
        assert subprocess.run(["/bin/sh", "-c", words], timeout=60, check=False).returncode == 3


def test_a_reader_that_went_away_is_no_error(home):
    process = subprocess.Popen(
        [sys.executable, "-m", "governance.cli", "users", "list", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert said == b""


def test_a_terminal_that_cannot_spell_a_character_still_gets_the_rest(home):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    done = governance("users", "list", env=environment)
    assert done.returncode == 0
    done = governance("runs", "show", "\u202ex", env=environment)
    assert done.returncode == 2
    assert "<U+202E>" in done.stderr


def test_the_help_of_every_command_is_there(cli):
    seen = cli("--help").out
    for command in (
        "init",
        "serve",
        "run",
        "runs",
        "approvals",
        "policy",
        "export",
        "verify",
        "users",
        "demo",
        "demo-model",
    ):
        assert re.search(rf"\b{command}\b", seen)
        assert cli(command, "--help").status == 0
    assert "Exit status" in seen


def test_help_and_cold_start_load_no_engine_and_no_web_stack():
    heavy = ("celpy", "cel_expr_python", "sqlmodel", "sqlalchemy", "fastapi", "openai", "uvicorn")
    heavy += ("cryptography",)
    code = (
        "import sys; from governance.cli import main; main(['--help']);"
        f" print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.strip() == "[]"
    assert Path(sys.executable).exists()
