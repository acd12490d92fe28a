"""`verify --kept FILE`: the checkpoint of an earlier bundle, and what it shows that no signature can."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.attack


@pytest.fixture
def key(home) -> str:
    return (home / "log.vkey").read_text().strip()


@pytest.fixture
def exports(cli, desk, home, tmp_path):
    """Two bundles of one log: the second of when it had grown."""
    target, *policy = desk()
    for name in ("older", "newer"):
        cli("run", target, '{"to":"friend bob"}', *policy)
        assert cli("export", tmp_path / name).status == 0
    return tmp_path / "older", tmp_path / "newer"


def test_a_log_that_only_grew_is_verified(cli, exports, key):
    older, newer = exports
    kept = ("--kept", older / "checkpoint", "--kept", newer / "checkpoint")
    done = cli("verify", newer, "--key", key, *kept)
    assert (done.status, done.out.rstrip().endswith("verified")) == (0, True)


def test_an_older_copy_is_good_by_itself_and_shorter_than_what_was_kept(cli, exports, key):
    older, newer = exports
    assert cli("verify", older, "--key", key).status == 0
    done = cli("verify", older, "--key", key, "--kept", newer / "checkpoint")
    assert done.status == 5
    assert "history-shorter" in done.out
    assert str(newer / "checkpoint") in done.out


def test_the_verifier_by_itself_compares_too(exports, key):
    older, newer = exports
    command = [sys.executable, "-m", "governance.bundle", str(older), "--key", key]
    good = subprocess.run(
        [*command, "--kept", older / "checkpoint"], capture_output=True, check=False
    )
    cut = subprocess.run(
        [*command, "--kept", newer / "checkpoint"], capture_output=True, check=False
    )
    assert (good.returncode, cut.returncode) == (0, 5)
    assert b"history-shorter" in cut.stdout


def test_what_cannot_be_compared_is_said_before_anything_is_judged(cli, exports, key, tmp_path):
    older, _ = exports
    for wrong in (tmp_path / "nothing", older / "manifest.json"):
        done = cli("verify", older, "--key", key, "--kept", wrong)
        assert done.status == 2, done.out
        assert "`checkpoint` of an earlier bundle" in done.err
    assert cli("receipt", "0", "--out", tmp_path / "receipt").status == 0
    done = cli("verify", tmp_path / "receipt", "--key", key, "--kept", older / "checkpoint")
    assert done.status == 2
    assert "receipt cannot be compared" in done.err
