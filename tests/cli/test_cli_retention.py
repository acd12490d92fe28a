"""`archive` and `hold`, as an operator types them."""

import shutil
import time
from pathlib import Path

import pytest

from governance import Governance, assemble
from governance.config import Home
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.entry import Draft, Kind

DAY = 24 * 3600 * 1_000_000


def ago(days: int) -> Micros:
    return Micros(time.time_ns() // 1000 - days * DAY)


@pytest.fixture(scope="module")
def aged(tmp_path_factory) -> Path:
    """600 entries of 400 days ago, among them a run's."""
    folder = tmp_path_factory.mktemp("aged") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "now", lambda: ago(400))
        assemble.init(Home(folder, folder / "checkpoint"), Origin("localhost/agents"))
    draft = Draft(Kind.LOG_BEAT, SubjectId("system:test"), {})

    def work(tx):
        while tx.head().size < 600:
            tx.append(draft, ago(400))

    with Governance.open(folder) as gov:
        gov.store.write(work)
    return folder


@pytest.fixture
def old(home, aged, monkeypatch) -> Path:
    shutil.rmtree(home)
    shutil.copytree(aged, home)
    monkeypatch.delenv("GOVERNANCE_RETENTION_DAYS", raising=False)
    return home


@pytest.fixture
def olga(old, cli, monkeypatch) -> list[str]:
    token = cli("users", "add", "Olga", "--role", "operator").out.strip()
    monkeypatch.setenv("GOVERNANCE_TOKEN", token)
    return ["--by", "Olga"]


def held(home: Path) -> int:
    with Governance.open(home) as gov:
        return gov.store.read(lambda r: r.head()).size


def test_a_log_is_archived_exported_and_verified_as_one(cli, old, olga):
    key = (old / "log.vkey").read_text().strip()
    told = cli("archive", "a", "--before", "200d", *olga, "--dry-run", "--json").json
    assert (told["first"], told["end"], told["kept"], told["pins"]) == (0, 512, [0], [])
    assert not Path("a").exists()
    done = cli("archive", "a", "--before", "200d", *olga)
    assert done.status == 0, done.err
    assert "entries 0 to 511 are in a, not in the log" in done.out
    assert cli("export", "live").status == 0
    got = cli("verify", "live", "a", "--key", key, "--json")
    assert got.status == 0, got.out
    assert got.json["part"] == {"kind": "log"}
    assert set(got.json["verdicts"].values()) == {"ok"}
    said = cli("verify", "a", "live", "--key", key)
    assert said.status == 0
    assert "covers all 601 entries" in " ".join(said.out.split())


def test_without_the_archive_it_is_named_and_nothing_is_claimed(cli, old, olga):
    key = (old / "log.vkey").read_text().strip()
    manifest = cli("archive", "a", "--before", "200d", *olga, "--json").json["manifest"]
    cli("export", "live")
    got = cli("verify", "live", "--key", key)
    assert got.status == 5
    assert f"archived, not presented: entries 0 to 511, manifest {manifest}" in got.out
    assert "not reached: entries are archived, not presented" in got.out
    both = cli("verify", "live", "live", "--key", key)
    assert both.status == 5
    assert "part-overlaps" in both.out


def test_exports_of_what_was_archived_name_the_archive(cli, old, olga):
    manifest = cli("archive", "a", "--before", "200d", *olga, "--json").json["manifest"]
    for words in (["--from", "0", "--to", "5"], ["--from", "500"]):
        got = cli("export", "x", *words)
        assert got.status == 2
        assert manifest in got.err
    assert not Path("x").exists()
    got = cli("receipt", "7", "--out", "r")
    assert got.status == 2
    assert manifest in got.err


@pytest.mark.parametrize(
    ("before", "status", "message"),
    [
        ("100d", 3, "at least 183 days"),
        ("2999-01-01", 3, "at least 183 days"),
        ("500d", 2, "nothing to archive"),
        ("1970-01-01", 2, "nothing to archive"),
        ("2026-02-30", 2, "is no moment"),
        ("soon", 2, "is no moment"),
        ("-5d", 2, "is no moment"),
    ],
)
def test_refusals_say_why_and_leave_nothing(cli, olga, before, status, message):
    got = cli("archive", "a", "--before", before, *olga)
    assert got.status == status, got.err
    assert message in got.err
    assert "next: " in got.err
    assert not Path("a").exists()


def test_a_folder_that_exists_is_left_alone(cli, old, olga):
    Path("a").mkdir()
    Path("a", "mine").write_text("x")
    got = cli("archive", "a", "--before", "200d", *olga)
    assert got.status == 4
    assert "exists already" in got.err
    assert [p.name for p in Path("a").iterdir()] == ["mine"]


def test_the_floor_can_be_raised_and_not_lowered(cli, old, olga, monkeypatch):
    monkeypatch.setenv("GOVERNANCE_RETENTION_DAYS", "365")
    got = cli("archive", "a", "--before", "300d", *olga)
    assert got.status == 3
    assert "at least 365 days" in got.err
    for low in ("182", "0", "-1", "1e3", "x"):
        monkeypatch.setenv("GOVERNANCE_RETENTION_DAYS", low)
        got = cli("archive", "a", "--before", "399d", *olga)
        assert got.status == 2, low
        assert "GOVERNANCE_RETENTION_DAYS" in got.err


def test_a_hold_keeps_and_lets_go(cli, old, olga):
    assert "nothing is under hold" in cli("hold", "list").out
    added = cli("hold", "add", "--subject", "system:test", "--reason", "a claim", *olga)
    assert added.status == 0, added.err
    assert (old / "holds").stat().st_mode & 0o777 == 0o600
    (listed,) = cli("hold", "list", "--json").json
    assert (listed["on"], listed["name"], listed["why"]) == ("subject", "system:test", "a claim")
    got = cli("archive", "a", "--before", "200d", *olga)
    assert got.status == 2
    assert "subject `system:test`, which is under hold" in got.err
    again = cli("hold", "add", "--subject", "system:test", "--reason", "more", *olga)
    assert again.status == 4
    assert cli("hold", "lift", "--run", "system-test", *olga).status == 2
    assert cli("hold", "lift", "--subject", "system:test", *olga).status == 0
    assert cli("archive", "a", "--before", "200d", *olga).status == 0
    late = cli("hold", "add", "--run", "run-1", "--reason", "late", *olga)
    assert "entries before 512 are archived" in late.err


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:-1],
        lambda raw: raw + b"\n",
        lambda raw: raw.replace(b'"subject"', b'"nobody"'),
        lambda raw: raw.replace(b"/v1", b"/v2"),
        lambda raw: raw.replace(b'"a claim"', b"7"),
        lambda raw: b"\xff",
        lambda raw: b"[]",
    ],
)
def test_holds_that_cannot_be_read_hold_everything(cli, old, olga, damage):
    cli("hold", "add", "--subject", "system:other", "--reason", "a claim", *olga)
    file = old / "holds"
    file.write_bytes(damage(file.read_bytes()))
    got = cli("archive", "a", "--before", "200d", *olga)
    assert got.status == 2, got.err
    assert "malformed" in got.err
    assert not Path("a").exists()


def test_holds_that_others_can_change_are_refused(cli, old, olga):
    cli("hold", "add", "--subject", "system:other", "--reason", "a claim", *olga)
    (old / "holds").chmod(0o644)
    got = cli("archive", "a", "--before", "200d", *olga)
    assert got.status == 3
    assert "open to others" in got.err


def test_only_an_operator_holds_or_archives(cli, old, monkeypatch):
    token = cli("users", "add", "Bob", "--role", "finance").out.strip()
    monkeypatch.setenv("GOVERNANCE_TOKEN", token)
    for words in (
        ["archive", "a", "--before", "200d"],
        ["archive", "a", "--before", "200d", "--dry-run"],
        ["hold", "add", "--run", "run-1", "--reason", "x"],
        ["hold", "lift", "--run", "run-1"],
    ):
        got = cli(*words, "--by", "Bob")
        assert got.status == 3, (words, got.err)
    monkeypatch.setenv("GOVERNANCE_TOKEN", "gov_" + "a" * 52)
    assert cli("archive", "a", "--before", "200d", "--by", "Bob").status == 3
    assert held(old) == 600


def test_the_verifier_by_itself_takes_several_too(old, olga, cli, capsys):
    from governance.bundle.__main__ import main

    key = (old / "log.vkey").read_text().strip()
    cli("archive", "a", "--before", "200d", *olga)
    cli("export", "live")
    assert main(["live", "a", "--key", key]) == 0
    assert "covers:       all" in capsys.readouterr().out
    assert main(["live", "--key", key]) == 5
    assert "archived, not presented" in capsys.readouterr().out


def test_what_is_held_is_not_erased_either(cli, old, olga):
    with Governance.without_rules(old) as gov:
        started = Draft(
            Kind.RUN_STARTED,
            SubjectId("agent:desk"),
            {"agent": "agent:desk"},
            {"input": {"messages": ["hello"]}},
            RunId("run-1"),
            SubjectId("user:ana"),
        )
        over = Draft(Kind.RUN_COMPLETED, SubjectId("agent:desk"), {}, run=RunId("run-1"))
        gov.store.write(lambda tx: [tx.append(draft, ago(1)) for draft in (started, over)])
    erase = ["erase", "--subject", "user:ana", "--reason", "asked", *olga]
    for held_by in (["--run", "run-1"], ["--subject", "user:ana"]):
        assert cli("hold", "add", *held_by, "--reason", "a claim", *olga).status == 0
        got = cli(*erase)
        assert got.status == 3, got.err
        assert "is under hold" in got.err
        assert cli("hold", "lift", *held_by, *olga).status == 0
    done = cli(*erase)
    assert done.status == 0, done.err
    assert "1 payloads" in done.out
