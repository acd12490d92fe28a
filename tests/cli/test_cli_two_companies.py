"""Two companies cosign each other's logs, over real sockets; then one of them lies."""

import secrets
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.reading import ROOT, blocks
from tsa import Tsa
from witnesses import Running, running

from governance import Governance
from governance.assemble import KeySigner, init, now
from governance.config import Home
from governance.ids import Origin, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.store.sqlite import SqliteStore


@dataclass(frozen=True)
class Company:
    """A log in `home`, anchored at the witnesses of both."""

    home: Path
    key: str
    witness: Running


def happen(home: Path, times: int = 1, size: int = 1) -> None:
    with Governance.open(home) as gov:
        for _ in range(times):
            body = {"size": size}
            gov.store.write(
                lambda tx, body=body: tx.append(
                    Draft(Kind.BUNDLE_EXPORTED, SubjectId("system:t"), body), now()
                )
            )


@pytest.fixture
def companies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GOVERNANCE_HOME", "GOVERNANCE_CHECKPOINT"):
        monkeypatch.delenv(name, raising=False)
    names = ("acme.example", "bank.example")
    homes = {name: tmp_path / name for name in names}
    keys = {
        name: init(Home(home, home / "checkpoint"), Origin(f"{name}/agents"))
        for name, home in homes.items()
    }
    with ExitStack() as stack:
        witnesses = {
            name: stack.enter_context(
                running(tmp_path / "w" / name, f"{name}/w", *keys.values(), seed=seed)
            )
            for seed, name in enumerate(names, 40)
        }
        sinks = "".join(
            f'- {{name: {name.partition(".")[0]}, witness: "{w.url}", key: {w.signer.verifier_key}}}\n'
            for name, w in witnesses.items()
        )
        (tmp_path / "anchors.yaml").write_text(f"sinks:\n{sinks}")
        monkeypatch.setenv("GOVERNANCE_ANCHORS", str(tmp_path / "anchors.yaml"))
        yield [Company(homes[name], keys[name], witnesses[name]) for name in names]


def quorum(companies) -> list[str]:
    return [word for c in companies for word in ("--witness", c.witness.signer.verifier_key)]


def kinds(outcome) -> set[str]:
    return {f["kind"] for f in outcome.json["findings"] if f["failure"]}


def test_each_is_vouched_for_by_the_other(cli, companies, tmp_path):
    for number, company in enumerate(companies):
        happen(company.home, 3)
        bundle = tmp_path / f"bundle{number}"
        assert cli("export", bundle, "--home", company.home).status == 0
        asked = ("verify", bundle, "--key", company.key)
        done = cli(*asked, *quorum(companies), "--fresh", "1h", "--json")
        assert (done.status, done.json["ok"]) == (0, True)
        assert "cosigned" in {f["kind"] for f in done.json["findings"]}
        told = cli(*asked, *quorum(companies), "--quorum", "1")
        assert told.status == 0
        assert "acme.example/w" in told.out
        assert "bank.example/w" in told.out


def test_an_export_asks_the_witnesses_first_and_again_only_for_news(cli, companies, tmp_path):
    acme = companies[0]
    for number in range(3):
        assert cli("export", tmp_path / f"b{number}", "--home", acme.home).status == 0
    status = cli("status", "--home", acme.home, "--json").json
    assert status["overdue"] is False
    # What waits is the note of the last export, which was written after it.
    assert [sink["waiting_since"] is not None for sink in status["sinks"]] == [True, True]


def test_a_trust_policy_says_the_same(cli, companies, tmp_path):
    acme, bank = companies
    happen(acme.home)
    cli("export", tmp_path / "b", "--home", acme.home)
    policy = tmp_path / "trust"
    policy.write_text(
        f"log {acme.key}\n"
        f"witness ours {acme.witness.signer.verifier_key}\n"
        f"witness theirs {bank.witness.signer.verifier_key}\n"
        "group both all ours theirs\nquorum both\n"
    )
    assert cli("verify", tmp_path / "b", "--trust", policy).status == 0
    policy.write_text(policy.read_text().replace(acme.key, bank.key))
    wrong = cli("verify", tmp_path / "b", "--trust", policy, "--json")
    assert wrong.status == 5
    assert {"pin-wrong", "quorum-missing"} <= kinds(wrong)
    policy.write_text("quorum both\n")
    broken = cli("verify", tmp_path / "b", "--trust", policy)
    assert broken.status == 2
    assert "line 1: nothing is named `both`" in broken.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--quorum", "1"), "a quorum of `1` of 0"),
        (("--quorum", "0"), "a quorum of"),
        (("--fresh", "24h"), "nobody is trusted to tell the time"),
        (("--fresh", "soon"), "no length of time"),
        (("--tsa", "none.pem"), "no file"),
        (("--witness", "none"), "neither a verifier key nor a file"),
        (("--trust", "none"), "no file"),
    ],
)
def test_what_asks_for_nothing_is_refused(cli, companies, tmp_path, words, reason):
    cli("export", tmp_path / "b", "--home", companies[0].home)
    done = cli("verify", tmp_path / "b", "--key", companies[0].key, *words)
    assert done.status == 2
    assert reason in done.err


def test_a_log_s_key_is_no_witness(cli, companies, tmp_path):
    acme, bank = companies
    cli("export", tmp_path / "b", "--home", acme.home)
    done = cli("verify", tmp_path / "b", "--key", acme.key, "--witness", bank.key)
    assert done.status == 2
    assert "is not a witness's" in done.err


@pytest.mark.attack
def test_of_two_histories_only_one_is_cosigned(cli, companies, tmp_path):
    """An operator who shows one log to us and another to the rest."""
    acme, bank = companies
    happen(acme.home)
    other = shutil.copytree(acme.home, tmp_path / "other")
    happen(acme.home, 2, size=1)
    happen(other, 2, size=2)
    assert cli("anchor", "--once", "--home", acme.home).status == 0
    lied = cli("anchor", "--once", "--home", other)
    assert lied.status == 6
    assert lied.out.count("another head of 4 entries") + lied.out.count("no head of that size") == 2
    for witness in (acme.witness, bank.witness):
        known = [k for k in witness.book.known() if k.key.name == "acme.example/agents"]
        assert known[0].size == 4
    cli("export", tmp_path / "b", "--home", other)
    done = cli(
        "verify", tmp_path / "b", "--key", acme.key, *quorum(companies), "--quorum", "1", "--json"
    )
    assert done.status == 5
    assert kinds(done) == {"quorum-missing"}


@pytest.mark.attack
def test_a_history_written_anew_with_the_stolen_key_is_noticed(cli, companies, tmp_path):
    acme = companies[0]
    happen(acme.home, 3)
    cli("export", tmp_path / "true", "--home", acme.home)
    forged = tmp_path / "forged"
    forged.mkdir(mode=0o700)
    shutil.copy2(acme.home / "log.key", forged / "log.key")
    signer = KeySigner.load(forged / "log.key")
    SqliteStore.create(
        forged / "ledger.db", origin=signer.origin, signer=signer, clock=now,
        salts=secrets.token_bytes, kept_checkpoint=forged / "checkpoint",
    ).close()  # fmt: skip
    happen(forged, 9, size=7)
    told = cli("export", tmp_path / "lie", "--home", forged)
    assert told.status == 0
    assert "anchor acme: witness" in told.err
    # The log's key alone does not show it, and the product says so in docs/verify.md.
    assert cli("verify", tmp_path / "lie", "--key", acme.key).status == 0
    done = cli("verify", tmp_path / "lie", "--key", acme.key, *quorum(companies), "--json")
    assert done.status == 5
    assert kinds(done) == {"quorum-missing"}
    # Nor does it help to put the true, cosigned head into the forged bundle.
    for name in (p.name for p in (tmp_path / "true" / "checkpoints").iterdir()):
        shutil.copy2(
            tmp_path / "true" / "checkpoints" / name, tmp_path / "lie" / "checkpoints" / name
        )
    mixed = cli("verify", tmp_path / "lie", "--key", acme.key, *quorum(companies), "--json")
    assert mixed.status == 5
    assert "quorum-missing" in kinds(mixed)


def test_a_receipt_is_vouched_for_too(cli, companies, tmp_path):
    acme = companies[0]
    happen(acme.home, 3)
    asked = ("--key", acme.key, *quorum(companies))
    cli("receipt", "2", "--out", tmp_path / "early", "--home", acme.home)
    early = cli("verify", tmp_path / "early", *asked, "--json")
    assert early.status == 5
    assert kinds(early) == {"quorum-missing"}
    cli("anchor", "--once", "--home", acme.home)
    cli("receipt", "2", "--out", tmp_path / "later", "--home", acme.home)
    assert cli("verify", tmp_path / "later", *asked, "--fresh", "1h").status == 0


def test_stamps_travel_with_the_bundle(cli, companies, tmp_path, monkeypatch):
    acme = companies[0]
    (tmp_path / "tsa").mkdir()
    tsa = Tsa.make(tmp_path / "tsa", signers=("tsa",))
    happen(acme.home, 2)
    with tsa.served() as url:
        settings = tmp_path / "stamped.yaml"
        settings.write_text(f'sinks:\n- {{name: clock, stamp: "{url}", authority: {tsa.root}}}\n')
        monkeypatch.setenv("GOVERNANCE_ANCHORS", str(settings))
        assert cli("export", tmp_path / "b", "--home", acme.home).status == 0
    (stamp,) = (tmp_path / "b" / "anchors").iterdir()
    assert stamp.name == "0000000000000003-clock.tsr"
    text = (tmp_path / "b" / "checkpoint").read_bytes().partition(b"\n\n")[0] + b"\n"
    assert tsa.verifies(stamp.read_bytes(), text)
    for typed in blocks(ROOT / "docs" / "anchors.md", "")[-1].splitlines():
        line = typed.replace("tsa-root.pem", str(tsa.root))
        subprocess.run(line, shell=True, check=True, capture_output=True, cwd=tmp_path / "b")
    (tmp_path / "b" / "text").unlink()
    asked = ("verify", tmp_path / "b", "--key", acme.key, "--tsa", tsa.root)
    done = cli(*asked, "--fresh", "1h", "--json")
    assert done.status == 0
    (found,) = (f for f in done.json["findings"] if f["kind"] == "stamped")
    assert "3 entries existed at 20" in found["message"]
    assert "says `CN=tsa`" in found["message"]
    (tmp_path / "other").mkdir()
    other = Tsa.make(tmp_path / "other", signers=())
    wrong = cli("verify", tmp_path / "b", "--key", acme.key, "--tsa", other.root, "--json")
    assert wrong.status == 5
    assert kinds(wrong) == {"stamp-wrong", "stamp-missing"}
    raw = bytearray(stamp.read_bytes())
    raw[-1] ^= 1
    stamp.write_bytes(raw)
    assert kinds(cli(*asked, "--json")) == {"stamp-wrong", "stamp-missing", "file-altered"}
    assert kinds(cli("verify", tmp_path / "b", "--key", acme.key, "--json")) == {"file-altered"}
    stamp.unlink()
    assert kinds(cli(*asked, "--json")) == {"stamp-missing", "file-missing"}


def test_a_stamp_holds_whichever_key_signed_the_head(cli, companies, tmp_path, monkeypatch):
    """Stamped under the second of three keys: whoever pins any of them can verify it."""
    acme = companies[0]
    (tmp_path / "tsa").mkdir()
    tsa = Tsa.make(tmp_path / "tsa", signers=("tsa",))
    keys = [acme.key]

    def rotate() -> None:
        why = ("--by", "user:ines", "--reason", "yearly")
        keys.append(cli("keys", "rotate", *why, "--home", acme.home, "--json").json["key"])

    monkeypatch.delenv("GOVERNANCE_ANCHORS")
    rotate()
    happen(acme.home)
    with tsa.served() as url:
        settings = tmp_path / "stamped.yaml"
        settings.write_text(f'sinks:\n- {{name: clock, stamp: "{url}", authority: {tsa.root}}}\n')
        monkeypatch.setenv("GOVERNANCE_ANCHORS", str(settings))
        assert cli("anchor", "--once", "--home", acme.home).status == 0
    rotate()
    happen(acme.home)  # under the third key; and the authority is not there to stamp the head
    assert cli("export", tmp_path / "b", "--home", acme.home).status == 0
    assert [file.name for file in (tmp_path / "b" / "anchors").iterdir()] == [
        "0000000000000004-clock.tsr"
    ]
    for key in keys:
        done = cli("verify", tmp_path / "b", "--key", key, "--tsa", tsa.root, "--json")
        assert (done.status, kinds(done)) == (0, set())
