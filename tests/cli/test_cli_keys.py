"""Keys change on the command line, and whoever pinned any of them can go on verifying."""

import shutil
from pathlib import Path

import pytest

from governance import keys
from governance.assemble import Governance, KeySigner, prepare_key
from governance.config import Home
from governance.ids import SubjectId

BY = ("--by", "user:ines")


def verdict(cli, home: Path, folder: Path, key: str) -> str:
    assert cli("export", folder).status == 0
    got = cli("verify", folder, "--key", key, "--json")
    return got.json["verdicts"]["trust"]


def test_a_rotation_leaves_both_keys_good_and_one_in_the_house(cli, home, tmp_path) -> None:
    old = (home / "log.vkey").read_text().strip()
    done = cli("keys", "rotate", *BY, "--reason", "yearly", "--json")
    assert done.status == 0
    new = done.json["key"]
    assert (home / "log.vkey").read_text().strip() == new != old
    assert (home / "log.key").stat().st_mode & 0o777 == 0o600
    assert not (home / "log.key.next").exists()
    assert cli("keys", "list", "--json").json == [{"here": True, "key": new}]
    assert verdict(cli, home, tmp_path / "a", old) == "ok"
    assert verdict(cli, home, tmp_path / "b", new) == "ok"


def test_the_retired_key_opens_the_log_no_more(cli, home, tmp_path) -> None:
    shutil.copy(home / "log.key", tmp_path / "stolen.key")
    cli("keys", "rotate", *BY, "--reason", "yearly")
    shutil.copy(tmp_path / "stolen.key", home / "log.key")
    refused = cli("export", tmp_path / "bundle")
    assert refused.status == 3
    assert "no longer" in refused.err


def test_an_interrupted_rotation_is_finished_by_asking_again(cli, home, tmp_path) -> None:
    """The log has the change, the key file does not: as after a crash between the two."""
    with Governance.open(home) as governance:
        old = governance.signer.verifier_key
        new = prepare_key(Home.find(home), governance.signer.origin)
        by = SubjectId("user:ines")
        keys.rotate(governance.store, governance.clock, by, new, keys.retire(by, old, "yearly"))
    assert cli("keys", "list").status == 3
    done = cli("keys", "rotate", *BY, "--reason", "yearly", "--json")
    assert (done.status, done.json["key"]) == (0, new.verifier_key)
    assert verdict(cli, home, tmp_path / "bundle", old) == "ok"


def test_one_interrupted_before_the_log_knew_begins_again(cli, home) -> None:
    with Governance.open(home) as governance:
        waiting = prepare_key(Home.find(home), governance.signer.origin)
    done = cli("keys", "rotate", *BY, "--reason", "yearly", "--json")
    assert done.json["key"] == waiting.verifier_key


def test_a_compromised_key_is_replaced_at_once(cli, home, tmp_path) -> None:
    old = (home / "log.vkey").read_text().strip()
    done = cli("keys", "compromised", old, "--since", 1, *BY, "--reason", "laptop stolen", "--json")
    assert done.status == 0
    assert verdict(cli, home, tmp_path / "a", done.json["key"]) == "ok"
    assert verdict(cli, home, tmp_path / "b", old) == "failed"


def test_a_second_key_may_be_added_and_retired(cli, home, tmp_path) -> None:
    other = KeySigner.from_seed(KeySigner.load(home / "log.key").origin, b"\7" * 32)
    file = tmp_path / "other.key"
    file.write_text(other.to_text() + "\n")
    refused = cli("keys", "add", file, *BY)
    assert refused.status == 3
    assert "chmod 600" in refused.err
    file.chmod(0o600)
    assert cli("keys", "add", file, *BY).status == 0
    assert len(cli("keys", "list", "--json").json) == 2
    assert cli("keys", "retire", other.verifier_key, *BY, "--reason", "no need").status == 0
    assert verdict(cli, home, tmp_path / "bundle", other.verifier_key) == "ok"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("keys", "rotate", "--by", "Ines B", "--reason", "x"), 2, "`Ines B`"),
        (("keys", "rotate", *BY, "--reason", ""), 2, "reason"),
        (("keys", "retire", "nonsense", *BY, "--reason", "x"), 2, "neither a verifier key"),
        (("keys", "retire", "{here}", *BY, "--reason", "x"), 2, "signs with that key"),
        (("keys", "compromised", "{here}", "--since", "-1", *BY, "--reason", "x"), 2, "--since"),
    ],
)
def test_nothing_changes_on_bad_input(cli, home, words, status: int, says: str) -> None:
    here = (home / "log.vkey").read_text().strip()
    got = cli(*(word.replace("{here}", here) for word in words))
    assert (got.status, says in got.err) == (status, True), got.err
    assert cli("keys", "list", "--json").json == [{"here": True, "key": here}]


def test_a_lost_log_is_succeeded_by_one_that_names_it(cli, home, tmp_path, monkeypatch) -> None:
    kept = home / "checkpoint"
    again = tmp_path / "again"
    same = cli("init", "--home", again, "--succeeds", kept)
    assert same.status == 2
    assert "a name of its own" in same.err
    made = cli("init", "--home", again, "--origin", "localhost/agents-2", "--succeeds", kept)
    assert made.status == 0
    monkeypatch.setenv("GOVERNANCE_HOME", str(again))
    cli("export", tmp_path / "bundle")
    got = cli("verify", tmp_path / "bundle", "--key", again / "log.vkey", "--json")
    assert got.status == 0
    told = [f["message"] for f in got.json["findings"] if f["kind"] == "log-succeeds"]
    assert told == ["log goes on where another had to end: `localhost/agents` with 1 entries"]


@pytest.mark.parametrize("content", ["", "nonsense", "localhost/agents\n1\n"])
def test_what_is_no_checkpoint_is_not_succeeded(cli, home, tmp_path, content: str) -> None:
    (tmp_path / "note").write_text(content)
    words = ("--home", tmp_path / "again", "--origin", "x/y", "--succeeds", tmp_path / "note")
    assert cli("init", *words).status == 2
    assert not (tmp_path / "again").exists()
