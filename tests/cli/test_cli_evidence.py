"""`export` and `verify`: four verdicts, each finding with its place, and nothing passes unpinned."""

import shutil
import stat

import pytest

from governance.assemble import init
from governance.config import Home
from governance.ids import Origin


@pytest.fixture
def bundle(cli, desk, home, tmp_path):
    """A bundle of one completed and one waiting run."""
    target, *policy = desk()
    cli("run", target, '{"to":"friend bob"}', *policy)
    cli("run", target, '{"to":"bob"}', *policy)
    assert cli("export", tmp_path / "bundle").status == 0
    return tmp_path / "bundle"


@pytest.fixture
def key(home) -> str:
    return (home / "log.vkey").read_text().strip()


def test_export_tells_how_to_verify(cli, home, tmp_path, key):
    done = cli("export", tmp_path / "b")
    assert done.status == 0
    assert f"governance verify {tmp_path / 'b'} --key {key}" in done.out
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
    again = cli("export", tmp_path / "b2", "--json").json
    assert again["size"] >= 1


def test_export_overwrites_nothing(cli, bundle):
    done = cli("export", bundle)
    assert done.status == 4
    assert "exists already" in done.err


def test_an_export_is_recorded(cli, bundle, home):
    from governance import Governance
    from governance.ledger.entry import Kind

    with Governance.open(home) as gov:
        left = gov.store.read(lambda r: r.latest((Kind.BUNDLE_EXPORTED,)))
    assert left.entry.body["size"] == left.entry.seq


def test_a_good_bundle_holds_in_all_four_ways(cli, bundle, key):
    done = cli("verify", bundle, "--key", key)
    assert done.status == 0, done.out
    assert done.out.rstrip().endswith("verified")
    assert "NOT" not in done.out
    got = cli("verify", bundle, "--key", key, "--json").json
    assert got["ok"] is True
    assert got["verdicts"] == dict.fromkeys(
        ("integrity", "trust", "completeness", "lawfulness"), "ok"
    )
    assert [f["kind"] for f in got["findings"] if f["failure"]] == []
    assert got["open_runs"] == 1


def test_the_pin_may_be_a_file(cli, bundle, home):
    assert cli("verify", bundle, "--key", home / "log.vkey").status == 0


def test_without_a_pin_nothing_is_verified(cli, bundle):
    done = cli("verify", bundle)
    assert done.status == 5
    assert "UNPINNED" in done.out
    assert "NOT verified" in done.out
    assert cli("verify", bundle, "--json").json["verdicts"]["trust"] == "not-checked"


def test_another_log_s_key_does_not_vouch(cli, bundle, tmp_path):
    other = init(Home(tmp_path / "other", tmp_path / "other" / "checkpoint"), Origin("other"))
    done = cli("verify", bundle, "--key", other)
    assert done.status == 5
    assert "trust" in done.out
    assert cli("verify", bundle, "--key", other, "--json").json["verdicts"]["trust"] == "failed"


def test_a_changed_byte_is_found_with_its_place_and_a_next_step(cli, bundle, key):
    file = next((bundle / "entries").iterdir())
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b'"agent:desk"', b'"agent:dusk"', 1))
    done = cli("verify", bundle, "--key", key)
    assert done.status == 5
    assert f"entries/{file.name}" in done.out
    assert "(entry " in done.out
    assert "next: " in done.out
    got = cli("verify", bundle, "--key", key, "--json").json
    assert got["verdicts"]["integrity"] == "failed"
    assert got["verdicts"]["lawfulness"] != "ok"


def test_a_cut_tail_is_found(cli, bundle, key):
    file = next((bundle / "entries").iterdir())
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    got = cli("verify", bundle, "--key", key, "--json")
    assert got.status == 5
    assert got.json["verdicts"]["completeness"] == "failed"


def test_a_missing_file_is_found(cli, bundle, key):
    shutil.rmtree(bundle / "payloads")
    assert cli("verify", bundle, "--key", key).status == 5


def test_hostile_bytes_in_a_bundle_reach_no_terminal(cli, bundle, key):
    (bundle / "entries" / "\x1b[2J\u202e").write_bytes(b"\x1b[31m\n")
    done = cli("verify", bundle, "--key", key)
    assert done.status == 5
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out


@pytest.mark.parametrize("given", ["nonsense", "a+b+c", "", "+", "no/such/file", "x" * 500])
def test_a_key_that_is_none_cannot_be_pinned(cli, bundle, given):
    assert cli("verify", bundle, "--key", given).status == 2


def test_what_is_no_bundle_cannot_be_judged(cli, tmp_path, key):
    assert cli("verify", tmp_path / "nowhere", "--key", key).status == 2
    (tmp_path / "file").write_text("x")
    assert cli("verify", tmp_path / "file", "--key", key).status == 2
    (tmp_path / "empty").mkdir()
    done = cli("verify", tmp_path / "empty", "--key", key)
    assert done.status == 5
    assert "NOT verified" in done.out


def test_verifying_needs_no_installation(cli, bundle, key, home):
    shutil.rmtree(home)
    assert cli("verify", bundle, "--key", key).status == 0


def test_long_work_is_watched_on_a_terminal_and_only_there(cli, bundle, key, monkeypatch, capsys):
    monkeypatch.setattr("governance.cli.evidence.LONG_BYTES", 1)
    monkeypatch.setattr("governance.cli.evidence.LONG_ENTRIES", 1)
    assert cli("verify", bundle, "--key", key).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    watched = cli("verify", bundle, "--key", key)
    assert watched.status == 0
    assert "verifying" in watched.err
    assert "judging" in watched.err
    assert "verifying" not in watched.out
