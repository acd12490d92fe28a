"""`receipt`, and `verify` of one: one decision leaves the house, and holds without the house."""

import shutil
import sqlite3
import stat

import pytest

CALL = "run-7/1.0"


@pytest.fixture
def paid(cli, desk, token, monkeypatch) -> str:
    """A call that Ann approved and that ran."""
    monkeypatch.setenv("GOVERNANCE_TOKEN", token)
    target, *policy = desk()
    cli("run", target, '{"to":"bob"}', *policy, "--run-id", "run-7")
    (waiting,) = cli("approvals", "list", "--json").json["pending"]
    assert cli("approvals", "approve", waiting["request"], "--as", "Ann").status == 0
    assert cli("runs", "resume", target, "run-7", *policy).status == 0
    return CALL


@pytest.fixture
def key(home) -> str:
    return (home / "log.vkey").read_text().strip()


def test_a_call_s_receipt_tells_the_whole_story_and_how_to_verify_it(cli, paid, key, tmp_path):
    file = tmp_path / "r.json"
    done = cli("receipt", paid, "--out", file)
    assert done.status == 0
    assert f"governance verify {file} --key {key}" in done.out
    assert "discloses: args, input" in done.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = cli("verify", file, "--key", key)
    assert told.status == 0, told.out
    for word in (f"call {paid}", "held", 'to: "bob"', "approves", "granted", "starts", "finished"):
        assert word in told.out
    assert told.out.rstrip().endswith("\nverified")
    assert "not that nothing else did" in told.out
    assert "paid bob" not in told.out + file.read_text()


def test_what_a_script_is_told(cli, paid, key, tmp_path):
    file = tmp_path / "r.json"
    cli("receipt", paid, "--out", file, "--disclose", "args", "--disclose", "result")
    got = cli("verify", file, "--key", key, "--json").json
    assert got["ok"] is True
    assert got["verdicts"] == {
        "integrity": "ok",
        "trust": "ok",
        "completeness": "not-checked",
        "lawfulness": "not-checked",
    }
    assert (got["call"], got["signers"]) == (paid, ["localhost/agents"])
    kinds = [entry["type"] for entry in got["entries"]]
    assert kinds[:2] == ["call.decided", "approval.requested"]
    assert kinds[-1] == "call.finished"
    assert [item["name"] for item in got["payloads"]] == ["args", "result"]
    assert [found["kind"] for found in got["findings"] if found["failure"]] == []


def test_one_entry_goes_to_a_pipe(cli, paid, key, tmp_path):
    done = cli("receipt", "0")
    assert done.status == 0
    (tmp_path / "r").write_text(done.out)
    told = cli("verify", tmp_path / "r", "--key", key)
    assert told.status == 0
    assert "one entry" in told.out
    assert "log.created" in told.out


def test_withheld_content_is_said_to_be_missing(cli, paid, key, tmp_path):
    cli("receipt", paid, "--out", tmp_path / "r", "--withhold", "args", "--withhold", "result")
    told = cli("verify", tmp_path / "r", "--key", key)
    assert told.status == 0
    assert "(not at hand)" in told.out
    assert "payload-withheld" in told.out
    assert "bob" not in (tmp_path / "r").read_text()


def test_verifying_it_needs_no_installation(cli, paid, key, home, tmp_path):
    cli("receipt", paid, "--out", tmp_path / "r")
    shutil.rmtree(home)
    assert cli("verify", tmp_path / "r", "--key", key).status == 0


def test_without_a_pin_it_is_not_verified(cli, paid, tmp_path):
    cli("receipt", paid, "--out", tmp_path / "r")
    told = cli("verify", tmp_path / "r")
    assert told.status == 5
    assert "UNPINNED" in told.out
    assert told.out.rstrip().endswith("NOT verified")


def test_a_changed_receipt_does_not_hold(cli, paid, key, tmp_path):
    file = tmp_path / "r"
    cli("receipt", paid, "--out", file)
    good = file.read_text()
    for old, new in (
        (r"\"to\":\"bob\"", r"\"to\":\"eve\""),
        ("agent:desk", "agent:dusk"),
        ("governance/receipt/v1", "governance/receipt/v2"),
        ("localhost/agents\\n", "localhost/agent5\\n"),
    ):
        assert old in good
        file.write_text(good.replace(old, new, 1))
        told = cli("verify", file, "--key", key)
        assert told.status == 5, (old, told.out)
        assert "NOT verified" in told.out
        assert "next: " in told.out


def test_hostile_text_in_a_receipt_reaches_no_terminal(cli, paid, key, tmp_path):
    file = tmp_path / "r"
    cli("receipt", paid, "--out", file)
    file.write_text(
        file.read_text().replace("agent:desk", "\\u001b[2J\u202e").replace(CALL, "\\u001b[2J/1.0")
    )
    told = cli("verify", file, "--key", key)
    assert told.status == 5
    assert "\x1b" not in told.out
    assert "\u202e" not in told.out


@pytest.mark.parametrize("raw", [b"", b"x", b"{}", b"\x00\xff", b'{"format":"other/v1"}'])
def test_what_is_no_receipt_cannot_be_judged(cli, home, key, tmp_path, raw):
    (tmp_path / "r").write_bytes(raw)
    done = cli("verify", tmp_path / "r", "--key", key)
    assert done.status == 2
    assert "neither a bundle nor a receipt" in done.err


@pytest.mark.parametrize("about", ["run-7/9.0", "run-9/1.0", "999", "9" * 30, "", "run-7"])
def test_nothing_is_written_about_what_is_not_there(cli, paid, tmp_path, about):
    done = cli("receipt", about, "--out", tmp_path / "r")
    assert done.status == 2
    assert "next: " in done.err
    assert not (tmp_path / "r").exists()


def test_a_receipt_overwrites_nothing(cli, paid, tmp_path):
    (tmp_path / "r").write_text("mine")
    done = cli("receipt", paid, "--out", tmp_path / "r")
    assert done.status == 4
    assert (tmp_path / "r").read_text() == "mine"
    assert cli("receipt", paid, "--out", tmp_path / "no" / "r").status == 6


def test_a_name_nobody_committed_to_is_refused(cli, paid, tmp_path):
    done = cli("receipt", paid, "--disclose", "arg")
    assert done.status == 2
    assert "choose among: args, input" in done.err
    assert cli("receipt", paid, "--disclose", "args", "--withhold", "input").status == 2


@pytest.mark.attack
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payload SET content = cast('{\"to\":\"eve\"}' AS BLOB) WHERE name = 'args'",
        "UPDATE entry SET raw = cast(replace(raw, 'agent:desk', 'agent:dusk') AS BLOB)",
        "UPDATE entry SET uid = NULL WHERE uid = '/1.0'",
        "UPDATE checkpoint SET note = replace(note, 'localhost', 'l0calhost')",
    ],
)
def test_an_altered_database_gives_no_receipt(cli, paid, home, tmp_path, statement):
    with sqlite3.connect(home / "ledger.db") as raw:
        assert raw.execute(statement).rowcount > 0
    raw.close()
    done = cli("receipt", paid, "--out", tmp_path / "r")
    assert done.status == 5, done.err
    assert not (tmp_path / "r").exists()


def test_content_that_is_gone_is_left_out_unless_it_was_asked_for(cli, paid, key, home, tmp_path):
    with sqlite3.connect(home / "ledger.db") as raw:
        assert raw.execute("DELETE FROM payload WHERE name = 'args'").rowcount == 1
    raw.close()
    assert cli("receipt", paid, "--out", tmp_path / "r").status == 0
    told = cli("verify", tmp_path / "r", "--key", key)
    assert told.status == 0
    assert "(not at hand)" in told.out
    assert cli("receipt", paid, "--disclose", "args").status == 5


def test_with_the_rules_its_decisions_are_made_again(cli, paid, key, tmp_path):
    file = tmp_path / "r"
    assert cli("receipt", paid, "--rules", "--out", file).status == 0
    told = cli("verify", file, "--key", key)
    assert told.status == 0, told.out
    assert "decided as the rules in it say" in told.out
    got = cli("verify", file, "--key", key, "--json").json
    assert got["verdicts"]["lawfulness"] == "not-checked"
    assert got["decisions_made_again"] >= 1
    assert got["entries"][0]["type"] == "policy.activated"
    plain = cli("receipt", paid).out
    (tmp_path / "plain").write_text(plain)
    assert (
        cli("verify", tmp_path / "plain", "--key", key, "--json").json["decisions_made_again"] == 0
    )
    refused = cli("receipt", "0", "--rules")
    assert refused.status == 2
    assert "rules go with a call" in refused.err


def test_rules_that_were_replaced_since_are_found(cli, desk, paid, key, tmp_path):
    target, *policy = desk()
    (tmp_path / "desk.yaml").write_text((tmp_path / "desk.yaml").read_text().replace("1h", "2h"))
    cli("run", target, '{"to":"bob"}', *policy)
    assert cli("receipt", paid, "--rules", "--out", tmp_path / "r").status == 0
    got = cli("verify", tmp_path / "r", "--key", key, "--json").json
    assert got["decisions_made_again"] >= 1
    (activation,) = [e for e in got["entries"] if e["type"] == "policy.activated"]
    assert activation["body"]["policy"] == got["entries"][1]["body"]["policy"]
