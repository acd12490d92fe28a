"""`governance witness`: made once, told which logs, served on a real socket."""

import re
import signal
import stat
import subprocess
import sys

import httpx2
import pytest
from heads import Log
from witnesses import on_socket

from governance.config import WitnessHome
from governance.ledger.checkpoint import open_note
from governance.ledger.cosignature import add_signatures, cosigner
from governance.witness.app import create_witness_app
from governance.witness.book import Book
from governance.witness.found import open_witness

LOG = Log()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOVERNANCE_WITNESS", str(tmp_path / "w"))
    return tmp_path / "w"


@pytest.fixture
def key(cli, folder) -> str:
    return cli("witness", "init", "--name", "bank.example/w", "--json").json["verifier_key"]


def test_init_makes_a_key_of_its_own_kind_once(cli, folder, key):
    assert cosigner(key).name == "bank.example/w"
    for name in ("witness.key", "book.db"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    again = cli("witness", "init", "--name", "bank.example/w")
    assert again.status == 4
    assert "exists already" in again.err
    other = cli("witness", "init", "--name", "other.example/w", "--dir", folder / "other")
    assert "next: name the logs to witness" in other.out


def test_without_a_witness_the_next_step_is_named(cli, folder):
    for words in (("add-log", LOG.signer.verifier_key), ("logs",), ("serve",)):
        done = cli("witness", *words)
        assert done.status == 2
        assert "governance witness init" in done.err


def test_a_key_or_book_that_others_can_read_is_refused(cli, folder, key):
    for name in ("witness.key", "book.db"):
        (folder / name).chmod(0o640)
        done = cli("witness", "serve")
        assert done.status == 3
        assert f"chmod 600 {folder / name}" in done.err
        (folder / name).chmod(0o600)


def test_a_log_s_key_is_no_witness_s(cli, folder, key):
    (folder / "witness.key").write_text(LOG.signer.to_text() + "\n")
    done = cli("witness", "serve")
    assert done.status == 2
    assert "malformed" in done.err


def test_logs_are_told_by_their_keys(cli, folder, key):
    assert "none yet" in cli("witness", "logs").out
    assert cli("witness", "add-log", "no-key").status == 2
    assert "is not a log's" in cli("witness", "add-log", key).err
    assert cli("witness", "add-log", LOG.signer.verifier_key).status == 0
    assert cli("witness", "add-log", LOG.signer.verifier_key).status == 0
    (known,) = cli("witness", "logs", "--json").json
    assert (known["log"], known["size"], known["at"], known["forks"]) == (LOG.origin, 0, None, 0)


def test_it_is_served_and_ends_when_asked(cli, folder, key):
    cli("witness", "add-log", LOG.signer.verifier_key)
    command = [sys.executable, "-m", "governance.cli", "witness", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            told = server.stdout.readline()
            url = re.search(r"http://\S+/", told)[0]
            assert "bank.example/w" in told
            with httpx2.Client(base_url=url) as client:
                good = client.post("/add-checkpoint", content=LOG.submission(0, 3))
                assert good.status_code == 200
                note = add_signatures(LOG.note(3), good.text)
                assert open_note(note, [cosigner(key)]) == ("bank.example/w",)
                stale = client.post("/add-checkpoint", content=LOG.submission(0, 4))
                assert (stale.status_code, stale.text) == (409, "3\n")
                assert stale.headers["content-type"] == "text/x.tlog.size"
                assert client.post("/add-checkpoint", content=b"x").status_code == 400
                assert client.post("/add-checkpoint", content=b"x" * 300_000).status_code == 413
                assert client.get("/add-checkpoint").status_code == 405
                assert client.get("/").status_code == 404
                fork = Log(tale="b").submission(3, 3)
                assert client.post("/add-checkpoint", content=fork).status_code == 409
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    listed = cli("witness", "logs")
    assert "1 contradicting heads" in listed.out


def test_a_witness_without_its_book_signs_nothing(cli, folder, key):
    with on_socket(create_witness_app(open_witness(WitnessHome(folder)))) as url:
        Book.open(folder / "book.db").add_log(LOG.key)
        good = httpx2.post(f"{url}add-checkpoint", content=LOG.submission(0, 3))
        assert good.status_code == 200
        for file in folder.glob("book.db*"):
            file.unlink()
        gone = httpx2.post(f"{url}add-checkpoint", content=LOG.submission(0, 3))
        assert gone.status_code == 503
        assert "\u2014" not in gone.text
        assert not (folder / "book.db").exists()
