"""`export` of a range or of one run, with payloads kept back: what is shown, and what is not claimed."""

import os
import subprocess
import sys

import pytest

from governance import Governance


@pytest.fixture
def busy(cli, desk, home):
    """An installation with one completed run, one that waits, and another completed one."""
    target, *policy = desk()
    return [
        cli("run", target, given, *policy, "--json").json["run"]
        for given in ('{"to":"friend bob"}', '{"to":"bob"}', '{"to":"friend cy"}')
    ]


@pytest.fixture
def key(home) -> str:
    return (home / "log.vkey").read_text().strip()


def verdicts(cli, folder, key):
    return cli("verify", folder, "--key", key, "--json").json


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_one_run_is_shown_whole_and_lawful_and_nothing_more(cli, busy, key, tmp_path, home):
    done = cli("export", tmp_path / "b", "--run", busy[2])
    assert done.status == 0, done.err
    assert f"run {busy[2]}" in done.out
    got = verdicts(cli, tmp_path / "b", key)
    assert got["verdicts"] == dict.fromkeys(
        ("integrity", "trust", "completeness", "lawfulness"), "ok"
    ), got["findings"]
    assert got["part"] == {"kind": "run", "run": busy[2]}
    said = cli("verify", tmp_path / "b", "--key", key)
    assert said.status == 0
    assert f"verified: run {busy[2]}" in said.out
    assert "nothing else of the log" in said.out
    held = b"".join(v for k, v in files(tmp_path / "b").items() if k.startswith(("entries", "pay")))
    assert busy[0].encode() not in held
    assert busy[1].encode() not in held
    assert b"friend bob" not in held
    with Governance.open(home) as gov:
        size = gov.store.read(lambda r: r.head()).size
    assert got["entries"] < size


def test_a_run_that_waits_cannot_be_called_whole(cli, busy, key, tmp_path):
    cli("export", tmp_path / "b", "--run", busy[1])
    got = cli("verify", tmp_path / "b", "--key", key, "--json")
    assert got.status == 5
    assert got.json["verdicts"]["completeness"] == "not-checked"
    assert got.json["verdicts"]["integrity"] == got.json["verdicts"]["lawfulness"] == "ok"
    assert "run-unended" in {f["kind"] for f in got.json["findings"]}


def test_a_range_is_shown_to_be_of_the_log_and_is_not_judged_as_the_whole(cli, busy, key, tmp_path):
    done = cli("export", tmp_path / "b", "--from", "4", "--to", "9")
    assert done.status == 0, done.err
    got = verdicts(cli, tmp_path / "b", key)
    assert got["verdicts"] == {
        "integrity": "ok",
        "trust": "ok",
        "completeness": "ok",
        "lawfulness": "not-checked",
    }, got["findings"]
    assert (got["ok"], got["entries"]) == (False, 6)
    assert got["part"] == {"kind": "range", "first": 4, "end": 10}
    said = cli("verify", tmp_path / "b", "--key", key)
    assert said.status == 5
    assert "entries 4 to 9 are all here; the rest of the log is not" in said.out


def test_a_range_from_the_start_is_judged_as_far_as_it_goes(cli, busy, key, tmp_path):
    cli("export", tmp_path / "b", "--to", "9")
    got = verdicts(cli, tmp_path / "b", key)
    assert got["ok"], got["findings"]
    assert got["part"] == {"kind": "range", "first": 0, "end": 10}
    assert "part-judged" in {f["kind"] for f in got["findings"]}


@pytest.mark.parametrize("asked", [("--from", "2", "--to", "7"), ("--run",)])
def test_the_same_part_gives_the_same_bytes_later(cli, busy, desk, tmp_path, asked):
    asked = (*asked, busy[0]) if asked == ("--run",) else asked
    cli("export", tmp_path / "a", *asked)
    target, *policy = desk()
    cli("run", target, '{"to":"friend dee"}', *policy)
    cli("export", tmp_path / "b", *asked)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_what_lawfulness_rests_on_may_be_kept_back_and_is_then_not_judged(cli, busy, key, tmp_path):
    cli("export", tmp_path / "b", "--withhold", "message", "--withhold", f"run:{busy[0]}/args")
    assert not any(b"friend bob" in text for text in payloads_named(tmp_path / "b", "message"))
    got = verdicts(cli, tmp_path / "b", key)
    assert got["verdicts"] == {
        "integrity": "ok",
        "trust": "ok",
        "completeness": "ok",
        "lawfulness": "not-checked",
    }, got["findings"]
    kinds = {(f["kind"], f["verdict"]) for f in got["findings"]}
    assert ("payload-withheld", "integrity") in kinds
    assert ("payload-withheld", "lawfulness") in kinds
    assert not {"payload-missing", "payload-altered"} & {kind for kind, _ in kinds}


def payloads_named(folder, name):
    lines = b"".join(p.read_bytes() for p in (folder / "payloads").iterdir()).splitlines()
    return [line for line in lines if b'"name":"%s"' % name.encode() in line]


def test_what_nothing_rests_on_may_be_kept_back_freely(cli, busy, key, tmp_path):
    cli("export", tmp_path / "b", "--withhold", "result")
    assert payloads_named(tmp_path / "b", "result") == []
    assert verdicts(cli, tmp_path / "b", key)["ok"]


def test_everything_may_be_kept_back(cli, busy, key, tmp_path):
    cli("export", tmp_path / "b", "--withhold", "*")
    assert all(p.read_bytes() == b"" for p in (tmp_path / "b" / "payloads").iterdir())
    got = verdicts(cli, tmp_path / "b", key)
    assert (got["verdicts"]["integrity"], got["verdicts"]["lawfulness"]) == ("ok", "not-checked")


@pytest.mark.parametrize(
    "given",
    [
        *("mesage", "entry:0/message", "entry:x/message", "run:/message", "run:nobody/message"),
        *("", "/", "entry:1/", "who:1/message"),
    ],
)
def test_a_rule_that_keeps_nothing_back_gives_nothing_away(cli, busy, tmp_path, given):
    done = cli("export", tmp_path / "b", "--withhold", given)
    assert done.status == 2, done.out
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "asked",
    [
        ("--run", "nobody"),
        ("--run", "two words"),
        ("--from", "9", "--to", "3"),
        ("--to", "100000"),
        ("--from", "-1"),
        ("--run", "r", "--from", "1"),
    ],
)
def test_what_is_not_there_cannot_be_exported(cli, busy, tmp_path, asked):
    done = cli("export", tmp_path / "b", *asked)
    assert done.status == 2, done.out
    assert not (tmp_path / "b").exists()


def test_the_log_remembers_which_part_left_the_house(cli, busy, tmp_path, home):
    import hashlib

    from governance.ledger.entry import Kind

    cli("export", tmp_path / "b", "--run", busy[0])
    with Governance.open(home) as gov:
        left = gov.store.read(lambda r: r.latest((Kind.BUNDLE_EXPORTED,)))
    manifest = (tmp_path / "b" / "manifest.json").read_bytes()
    assert left.entry.body["part"] == {"kind": "run", "run": busy[0]}
    assert left.entry.body["manifest"] == hashlib.sha256(manifest).hexdigest()


def test_other_processes_write_the_same_bytes(cli, busy, tmp_path, home):
    cli("export", tmp_path / "0", "--run", busy[2], "--withhold", "message")
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "governance.cli", "export", str(tmp_path / seed)]
        command += ["--run", busy[2], "--withhold", "message", "--home", str(home)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
    assert files(tmp_path / "0") == files(tmp_path / "1") == files(tmp_path / "2")


def test_writing_is_watched_on_a_terminal_and_only_there(cli, busy, tmp_path, monkeypatch):
    monkeypatch.setattr("governance.cli.evidence.LONG_ENTRIES", 1)
    assert cli("export", tmp_path / "a").err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    watched = cli("export", tmp_path / "b", "--run", busy[0])
    assert watched.status == 0
    assert "writing" in watched.err
    assert len(watched.out.splitlines()) == 2


@pytest.mark.attack
def test_the_operator_cannot_leave_out_what_a_run_rests_on(cli, busy, key, tmp_path, home):
    """Each entry that is no run's own taken out, with honest hashes in its place and a fresh signature."""
    from dataclasses import replace

    from governance.bundle import choose_run, export_part
    from governance.ids import RunId

    with Governance.open(home) as gov:
        chosen = gov.store.read(lambda r: choose_run(r, RunId(busy[2])))
        others = [
            seq
            for start, end in chosen.stretches
            for seq in range(start, end)
            if gov.store.read(lambda r, at=seq: r.records(start=at, limit=1))[0].entry.run is None
        ]
        assert len(others) == 3
        for seq in others:
            cut = [
                piece
                for start, end in chosen.stretches
                for piece in ((start, min(end, seq)), (max(start, seq + 1), end))
                if piece[0] < piece[1]
            ]
            less, folder = replace(chosen, stretches=cut), tmp_path / f"{seq}"
            gov.store.read(lambda r, c=less, f=folder: export_part(r, c, f, gov.signer))
    for seq in others:
        got = verdicts(cli, tmp_path / f"{seq}", key)
        assert got["verdicts"]["integrity"] == "ok", got["findings"]
        assert got["verdicts"]["lawfulness"] != "ok", seq
