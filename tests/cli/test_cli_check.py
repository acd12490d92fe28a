"""`governance check` on an installation, and what `governance serve` tells about its log."""

import sqlite3

import httpx2
import pytest
from cli.test_cli_serving import serving, until


def alter(home, statement: str) -> None:
    with sqlite3.connect(home / "ledger.db") as raw:
        assert raw.execute(statement).rowcount
    raw.close()


@pytest.fixture
def used(cli, desk, token, home):
    """An installation in which a call was held, approved and run, and a person is known."""
    target, *policy = desk()
    started = cli("run", target, '{"to":"bob"}', *policy, "--run-id", "r1", "--json").json
    request = started["pending"][0]["request"]
    digest = cli("approvals", "show", request, "--json").json["digest"]
    words = ("--by", "Ann", "--token", token, "--card", digest)
    assert cli("approvals", "approve", request, *words).status == 0
    assert cli("runs", "resume", target, "r1", *policy).status == 0
    return home


def test_an_honest_log_holds_and_the_next_check_is_short(cli, used):
    first = cli("check")
    assert (first.status, first.err) == (0, "")
    assert "from entry 0" in first.out
    assert first.out.endswith("the log holds\n")
    second = cli("check", "--json")
    assert second.status == 0
    assert second.json["from"] == second.json["entries"] > 10
    assert (second.json["ok"], second.json["findings"]) == (True, [])
    assert cli("check", "--full", "--json").json["from"] == 0
    assert cli("export", used.parent / "bundle").status == 0
    assert cli("check").status == 0


@pytest.mark.attack
def test_what_it_finds_is_named_with_place_and_next_step(cli, used):
    assert cli("check").status == 0
    alter(used, "UPDATE run SET status = 'suspended'")
    found = cli("check", "--full")
    assert found.status == 5
    assert "run.status (entry " in found.out
    assert "index-differs" in found.out
    assert "next: stop every writer" in found.out
    assert found.out.endswith("the log does NOT hold\n")
    listed = cli("check", "--json")  # nothing is kept of what was verified before: it begins anew
    assert (listed.status, listed.json["ok"], listed.json["from"]) == (5, False, 0)
    (finding,) = listed.json["findings"]
    assert (finding["kind"], finding["file"]) == ("index-differs", "run.status")
    alter(used, "UPDATE run SET status = 'completed'")
    assert cli("check").status == 0


@pytest.mark.attack
def test_a_log_too_broken_to_be_opened_is_still_looked_at(cli, used):
    alter(used, "UPDATE head SET edge = x'00'")
    assert cli("runs", "list").status == 5
    found = cli("check", "--json")
    assert (found.status, [item["file"] for item in found.json["findings"]]) == (5, ["head.edge"])


@pytest.mark.attack
def test_a_forged_account_of_earlier_checks_is_said_and_not_believed(cli, used):
    assert cli("check").status == 0
    kept = used / "verified"
    kept.write_text(kept.read_text().replace('"size":', '"size":1'))
    told = cli("check")
    assert told.status == 0
    assert "from entry 0" in told.out
    assert "not believed" in told.out


def test_without_an_installation_the_next_step_is_named(cli, home):
    (home / "ledger.db").unlink()
    done = cli("check")
    assert (done.status, "governance init" in done.err) == (2, True)


@pytest.mark.parametrize("given", ["0", "-1", "soon", "1e9", "99999999", "٣"])
def test_an_interval_that_is_none_does_not_switch_the_check_off(cli, home, monkeypatch, given):
    monkeypatch.setenv("GOVERNANCE_CHECK_SECONDS", given)
    done = cli("serve", "--port", "0")
    assert (done.status, "GOVERNANCE_CHECK_SECONDS" in done.err) == (2, True)


def test_serve_checks_the_log_it_serves(used, monkeypatch):
    monkeypatch.setenv("GOVERNANCE_CHECK_SECONDS", "1")
    with serving("serve", "--port", "0") as (process, address):
        health = lambda: httpx2.get(f"{address}/health")  # noqa: E731
        until(lambda: health().json()["log"] == "holds" and health().status_code == 200)
        assert "governance_check_ok 1" in httpx2.get(f"{address}/metrics").text
        alter(used, "UPDATE head SET ts = ts + 1")
        until(lambda: health().status_code == 503)
        assert "governance_check_ok 0" in httpx2.get(f"{address}/metrics").text
        assert httpx2.get(f"{address}/healthz").json() == {"ok": True}
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert "index-differs: head.ts" in said


def test_a_log_whose_key_was_rotated_holds_and_what_the_old_key_verified_is_looked_at_again(
    cli, used
):
    assert cli("check").status == 0
    rotated = cli("keys", "rotate", "--by", "Ann", "--reason", "yearly")
    assert rotated.status == 0, rotated.err
    told = cli("check")
    assert (told.status, "not signed by this log's key" in told.out) == (0, True)
    assert cli("check", "--json").json["from"] > 0
