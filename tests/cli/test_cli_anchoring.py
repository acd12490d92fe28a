"""`governance anchor` and `governance status`: done now, told plainly, and late is not zero."""

import json
import time

import pytest
from cli.test_cli_serving import serving, until
from witnesses import running

from governance import Governance
from governance.errors import RefusedError
from governance.ids import SubjectId
from governance.ledger.checkpoint import open_note
from governance.ledger.entry import Draft, Kind


@pytest.fixture
def anchors(home, tmp_path, monkeypatch):
    """A file sink, and a place for it that exists."""
    path = tmp_path / "anchors.yaml"
    path.write_text("every: 1s\noverdue: 5h\nsinks:\n- {name: vault, file: vault.jsonl}\n")
    monkeypatch.setenv("GOVERNANCE_ANCHORS", str(path))
    return path


def happen(home) -> None:
    with Governance.open(home) as gov:
        at = gov.clock()
        gov.store.write(
            lambda tx: tx.append(
                Draft(Kind.BUNDLE_EXPORTED, SubjectId("system:t"), {"size": 1}), at
            )
        )


def test_without_a_place_there_is_nothing_to_anchor(cli, home, monkeypatch):
    monkeypatch.delenv("GOVERNANCE_ANCHORS", raising=False)
    done = cli("anchor", "--once")
    assert done.status == 2
    assert "GOVERNANCE_ANCHORS" in done.err
    told = cli("status")
    assert told.status == 0
    assert "nowhere: set GOVERNANCE_ANCHORS" in told.out


def test_rules_that_nobody_signed_keep_nothing_from_being_anchored(
    cli, home, anchors, tmp_path, monkeypatch
):
    made = cli("policy", "keygen", "acme.example/policies", "--out", tmp_path / "p.key", "--json")
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", made.json["verifier_key"])
    with pytest.raises(RefusedError, match="there is no signature"):
        Governance.open(home)
    done = cli("anchor", "--once", "--json")
    assert (done.status, done.json) == (0, [{"sink": "vault", "size": 1, "error": None}])
    assert cli("status", "--json").json["anchored"] == 1


def test_it_is_anchored_now_and_once(cli, home, anchors, tmp_path):
    before = cli("status", "--json").json
    assert (before["size"], before["anchored"], before["tail"], before["overdue"]) == (
        1,
        0,
        1,
        False,
    )
    assert before["sinks"][0]["waiting_since"] == before["last"]
    done = cli("anchor", "--once", "--json")
    assert (done.status, done.json) == (0, [{"sink": "vault", "size": 1, "error": None}])
    assert json.loads((tmp_path / "vault.jsonl").read_text())["size"] == 1
    after = cli("status", "--json").json
    assert (after["size"], after["anchored"], after["tail"]) == (2, 1, 1)
    (sink,) = after["sinks"]
    assert (sink["size"], sink["waiting_since"], sink["failures"]) == (1, None, 0)
    assert 0 <= sink["age_s"] < 60
    assert "nothing waits" in cli("anchor", "--once").out
    assert "1 entries; 1 are in no sink" in cli("status").out


def test_a_sink_that_fails_is_seen_and_is_not_zero(cli, home, anchors, tmp_path):
    anchors.write_text("sinks:\n- {name: gone, file: absent/f}\n- {name: vault, file: v.jsonl}\n")
    done = cli("anchor", "--once")
    assert done.status == 6
    assert "no folder for" in done.out
    told = cli("status")
    assert "failed 1x: no folder for" in told.out
    assert told.status == 0  # not late yet
    cli("anchor", "--once")
    gone, vault = cli("status", "--json").json["sinks"]
    assert (gone["failures"], gone["size"], vault["failures"], vault["size"]) == (2, 0, 0, 1)


def test_late_is_not_zero(cli, home, anchors):
    happen(home)
    anchors.write_text("overdue: 1s\nsinks:\n- {name: vault, file: vault.jsonl}\n")
    time.sleep(1.1)
    late = cli("status")
    assert late.status == 6
    assert "overdue" in late.out
    cli("anchor", "--once")
    assert cli("status").status == 0


def test_silence_is_not_zero(cli, home, anchors):
    anchors.write_text("beat: 1s\nsinks:\n- {name: vault, file: vault.jsonl}\n")
    time.sleep(2.1)
    told = cli("status", "--json")
    assert (told.status, told.json["silent"]) == (6, True)
    cli("anchor", "--once")
    heard = cli("status", "--json")
    assert (heard.status, heard.json["silent"]) == (0, False)
    assert heard.json["beat"] is not None


def test_a_file_that_says_nonsense_is_named_with_its_line(cli, home, anchors):
    anchors.write_text("sinks:\n- {name: vault, flie: x}\n")
    for words in (("anchor", "--once"), ("status",), ("serve", "--port", "0")):
        done = cli(*words)
        assert done.status == 2
        assert "anchors.yaml:2: unknown field `flie`" in done.err


def test_serve_anchors_beside_the_queue(cli, home, anchors, tmp_path):
    key = (home / "log.vkey").read_text().strip()
    with running(tmp_path / "w", "bank.example/w", key) as witness:
        anchors.write_text(
            "every: 1s\nsinks:\n- {name: vault, file: vault.jsonl}\n"
            f'- {{name: bank, witness: "{witness.url}", key: {witness.signer.verifier_key}}}\n'
        )
        with serving("serve", "--port", "0"):
            until((tmp_path / "vault.jsonl").exists)
            until(lambda: witness.book.known()[0].size >= 1)
            happen(home)
            until(lambda: witness.book.known()[0].size >= 3)
            until(lambda: "bank.example" in (home / "checkpoint").read_text())
    assert open_note((home / "checkpoint").read_text(), [witness.key]) == ("bank.example/w",)
