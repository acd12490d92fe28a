"""`governance erase`: afterwards the value is nowhere, and everything that was there says `erased`."""

import base64
import copy
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from agents import Plays, call, calls, person, say, vote
from starlette.testclient import TestClient
from traces import files_with, holds, spellings

from agent import DurableAgent, tool
from agent.tools import ToolError
from governance import Governance, Principal, people
from governance.approval.model import Verdict
from governance.ids import SubjectId
from governance.ledger.entry import Draft, Kind
from governance.store.sqlite import SqliteStore
from governance.web import WebSettings, create_app

MARK = 'Kan"arie-Ümlaut-7f3k9q'
NAME = "Annabella Kanarienvogel"
ANA, BEN = SubjectId("user:ana"), SubjectId("user:ben")
RULES = """
policy: desk
version: 1
rules:
  - {id: looks, match: {tools: [look]}, effect: allow}
  - id: pays
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
    message: "'pay ' + args.to"
"""


@tool(verb="READ")
def look(id: str) -> str:
    """Look."""
    return f"{id} found"


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str) -> str:
    """Pay."""
    raise ToolError(f"no account {to}")


class Scene:
    """A home in which everything of Ana's holds the mark, and Ben's run beside it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with self.open() as gov:
            op, self.token = people.add(gov.store, gov.new_id, os.urandom, "Olga", ["operator"])
            self.approver = person(gov, NAME)
            self.requests = self.run(gov, "r1", ANA)
            self.ben = self.run(gov, "r2", BEN, mark="of ben")
        self.operator = op.subject

    def open(self) -> Governance:
        return Governance.open(self.home, policies={"desk.yaml": RULES})

    def run(self, gov: Governance, run: str, who: SubjectId, mark: str = MARK) -> list[str]:
        """Held twice: approved with a note, rejected with a reason."""
        model = Plays(
            calls(call("look", id=mark), call("pay", to=mark), call("pay", to=f"{mark} again")),
            say(f"{mark} answered"),
        )
        agent = DurableAgent(model, [look, pay], governance=gov, name="desk")
        first, second = agent.run(
            f"{mark} asks", run_id=run, principal=Principal(who, ())
        ).pending_approvals
        vote(gov, self.approver, first.request, note=f"yes to {mark}")
        vote(gov, self.approver, second.request, Verdict.REJECT, note=f"no to {mark}")
        assert agent.resume(run).status == "completed"
        return [first.request, second.request]

    def pages(self) -> dict[str, str]:
        """Every page and answer of the web queue that can be asked for."""
        with self.open() as gov:
            who, token = people.add(
                gov.store, gov.new_id, os.urandom, f"W{gov.clock()}", ["approver"]
            )
            app = create_app(
                gov.store,
                signer=gov.signer,
                clock=gov.clock,
                draw=os.urandom,
                settings=WebSettings(),
            )
            browser = TestClient(app, "http://localhost:8700", raise_server_exceptions=False)
            form = browser.get("/login").text
            forgery = form.split('name="forgery" value="')[1].split('"')[0]
            browser.post("/login", data={"forgery": forgery, "token": token, "next": "/"})
            paths = ["/", *(f"/requests/{id}" for id in self.requests)]
            found = {path: browser.get(path).text for path in paths}
            bearer = {"authorization": f"Bearer {token}"}
            for path in ("/api/requests", *(f"/api/requests/{id}" for id in self.requests)):
                found[path] = browser.get(path, headers=bearer).text
            people.deactivate(gov.store, who.subject)
        return found


@pytest.fixture(scope="module")
def made(installed, tmp_path_factory) -> Scene:
    """Made once, to copy: making it waits for the disk."""
    return Scene(shutil.copytree(installed, tmp_path_factory.mktemp("scene") / "home"))


@pytest.fixture
def scene(made, home) -> Scene:
    shutil.rmtree(home)
    shutil.copytree(made.home, home)
    own = copy.copy(made)
    own.home = home
    return own


def said(cli, scene: Scene, bundle: Path) -> dict[str, str]:
    """What the commands say about the run, in every way they can."""
    key = (scene.home / "log.vkey").read_text().strip()
    lines = [
        ("runs", "list"),
        ("runs", "show", "r1"),
        ("runs", "show", "r1", "--json"),
        ("approvals", "list", "--json"),
        *(("approvals", "show", id) for id in scene.requests),
        ("users", "list"),
        ("export", str(bundle)),
        ("verify", str(bundle), "--key", key),
        ("verify", str(bundle), "--key", key, "--json"),
        ("receipt", "r1/1.1", "--out", str(bundle / "r1.receipt")),
        ("verify", str(bundle / "r1.receipt"), "--key", key),
        ("policies", "replay", str(scene.home.parent / "desk.yaml")),
    ]
    told = {}
    for line in lines:
        done = cli(*line)
        assert "Traceback" not in done.err, line
        assert done.status != 70, (line, done.err)
        told[" ".join(line)] = done.out + done.err
    return told


def erase(cli, scene: Scene, subject: str = ANA, *more: str):
    return cli(
        "erase",
        "--subject",
        subject,
        "--by",
        "Olga",
        "--reason",
        "asked for it",
        "--token",
        scene.token,
        *more,
    )


def salts_and_keys(scene: Scene) -> list[bytes]:
    with scene.open() as gov:
        run = gov.store.read(lambda reader: reader.run_records("r1"))
    salts = [payload.salt for record in run for payload in record.payloads.values()]
    ring = sqlite3.connect(scene.home / "ledger.keyring")
    keys = [raw for (raw,) in ring.execute("SELECT secret FROM key WHERE owners LIKE '%user:ana%'")]
    ring.close()
    assert len(salts) > 10
    assert len(keys) == 2
    return salts + keys


def test_what_is_searched_for_would_be_found():
    assert holds(f"before {MARK} after", MARK)
    assert holds(MARK.encode("utf-16-le"), MARK)
    assert holds(b'{"a":"Kan\\"arie-\\u00dcmlaut-7f3k9q"}', MARK)
    for before in range(3):
        assert holds(base64.b64encode(b"y" * before + MARK.encode() + b"tail"), MARK)
    assert holds(MARK.encode().hex(), MARK)
    assert not holds("Kanarie", MARK)
    assert all(len(form) > 10 for form in spellings(MARK))


def test_after_an_erasure_the_value_is_nowhere(cli, scene, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    (tmp_path / "desk.yaml").write_text(RULES)
    # The search can find it: before, it is in what is shown, and in an export.
    before = said(cli, scene, tmp_path / "before")
    shown = {line for line, text in before.items() if holds(text, MARK)}
    assert {"runs show r1", "runs show r1 --json", f"approvals show {scene.requests[0]}"} <= shown
    assert holds(scene.pages()[f"/requests/{scene.requests[0]}"], MARK)
    assert "r1.receipt" in files_with(tmp_path / "before", MARK)
    shutil.rmtree(tmp_path / "before")  # what was handed out before is for its holder to erase
    traces = salts_and_keys(scene)
    assert files_with(scene.home, traces[-1]) == ["ledger.keyring"]
    backup = tmp_path / "backup.db"
    shutil.copy(scene.home / "ledger.db", backup)

    done = erase(cli, scene)
    assert (done.status, done.err) == (0, "")
    after = said(cli, scene, tmp_path / "after")
    pages = scene.pages()

    for text in (done.out, *after.values(), *pages.values(), caplog.text):
        assert not holds(text, MARK)
    assert files_with(tmp_path, MARK) == []
    for trace in traces:
        assert files_with(tmp_path, trace) == []
    # …and it says so wherever it stood.
    assert after["runs show r1"].count("(erased, as entry ") >= 8
    assert "no longer" not in after["runs show r1"]
    assert '"erased":{"args":' in after["runs show r1 --json"]
    for id in scene.requests:
        assert "was erased" in pages[f"/requests/{id}"]
        assert '"erased"' in pages[f"/api/requests/{id}"]
        assert "was erased" in after[f"approvals show {id}"]
    verified = after[next(line for line in after if line.endswith("--json") and "verify" in line)]
    assert '"payload-erased"' in verified
    assert "payload-missing" not in verified
    # What is another's stays.
    with scene.open() as gov:
        ben = gov.store.read(lambda reader: reader.run_records("r2"))
    assert all(not record.erased for record in ben)
    assert ben[0].content("input")["messages"][0]["content"] == "of ben asks"


def test_an_old_backup_with_the_keyring_of_now_yields_nothing(cli, scene, tmp_path):
    backup = tmp_path / "backup.db"
    shutil.copy(scene.home / "ledger.db", backup)
    assert erase(cli, scene).status == 0
    key = scene.open()
    origin = key.store.origin
    key.close()
    old = SqliteStore.open(
        backup, origin=origin, signer=None, salts=os.urandom, keyring=scene.home / "ledger.keyring"
    )
    run = old.read(lambda reader: reader.run_records("r1"))
    assert all(not record.payloads for record in run)
    assert old.read(lambda reader: reader.run_records("r2"))[0].payloads
    old.close()
    assert not holds(backup.read_bytes(), MARK)


def test_a_person_s_name_and_token_leave_every_page_of_the_file(cli, scene, tmp_path):
    subject = scene.approver.subject
    assert files_with(scene.home, NAME) == ["ledger.db"]
    with sqlite3.connect(scene.home / "ledger.db") as database:
        find = "SELECT token_digest FROM person WHERE subject = ?"
        ((digest,),) = database.execute(find, (subject,))
    database.close()
    assert erase(cli, scene, subject).status == 0
    assert files_with(scene.home, NAME) == []
    assert files_with(scene.home, digest) == []
    shown = cli("runs", "show", "r1").out
    assert NAME not in shown
    assert f"{subject} approves" in shown
    assert "yes to" not in shown


def test_a_dry_run_tells_and_changes_nothing(cli, scene):
    before = (scene.home / "ledger.db").read_bytes()
    done = erase(cli, scene, ANA, "--dry-run")
    assert done.status == 0
    assert "would go  " in done.out
    assert "of 1 runs" in done.out
    assert (scene.home / "ledger.db").read_bytes() == before
    told = erase(cli, scene, ANA, "--json").json
    assert (told["runs"], told["person"], told["scrubbed"]) == (1, False, True)
    assert told["payloads"] > 10
    assert erase(cli, scene, ANA, "--json").json["payloads"] == 0


def test_an_open_run_is_not_erased_and_the_next_step_is_said(cli, scene):
    with scene.open() as gov:
        model = Plays(calls(call("pay", to=MARK)), say())
        agent = DurableAgent(model, [look, pay], governance=gov, name="desk")
        agent.run("go", run_id="r3", principal=Principal(ANA, ()))
    done = erase(cli, scene)
    assert done.status == 4
    assert "run `r3` with content of `user:ana` has not ended" in done.err
    assert "next: let it end, or `governance runs cancel AGENT RUN`, then erase" in done.err


def test_who_may_not_erase_does_not(cli, scene):
    with scene.open() as gov:
        _, token = people.add(gov.store, gov.new_id, os.urandom, "Abe", ["approver"])
    arguments = ("erase", "--subject", ANA, "--reason", "x", "--token")
    assert cli(*arguments, token, "--by", "Abe").status == 3
    assert cli(*arguments, "gov_" + "a" * 52, "--by", "Olga").status == 3
    assert cli("erase", "--subject", "not an id", "--reason", "x", "--by", "Olga").status == 2
    assert "r1" in cli("runs", "list").out
    assert "(erased" not in cli("runs", "show", "r1").out


ERASE = """
import os, signal, sys
from governance import Governance
from governance.erasure import erase
from governance.ids import SubjectId
from governance.ledger.erasure import Erasure
from governance.store import keyring, transaction

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

home, operator, where = sys.argv[1:]
if where == "before the commit":
    transaction.Commit.write = die
elif where == "before the keys":
    keyring.Keyring.destroy = die
elif where == "after the keys":
    destroy = keyring.Keyring.destroy
    keyring.Keyring.destroy = lambda self, numbers: (destroy(self, numbers), die())
gov = Governance.open(home)
erase(gov.store, gov.clock, Erasure(SubjectId("user:ana"), SubjectId(operator), "asked for it"), tuple)
"""


@pytest.mark.crash
@pytest.mark.parametrize("where", ["before the commit", "before the keys", "after the keys"])
def test_an_erasure_that_is_killed_is_completed_or_never_was(cli, scene, where):
    traces = salts_and_keys(scene)
    child = subprocess.run(
        [sys.executable, "-c", ERASE, scene.home, scene.operator, where],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    with scene.open() as gov:
        run = gov.store.read(lambda reader: reader.run_records("r1"))
        gone = all(not record.payloads for record in run)
        said_so = all(set(record.erased) == set(record.entry.payloads) for record in run)
        assert gone == said_so == (where != "before the commit")
    if gone:
        for trace in traces:
            assert files_with(scene.home, trace) == []
    assert erase(cli, scene).status == 0
    for trace in traces:
        assert files_with(scene.home, trace) == []
    assert "(erased, as entry" in cli("runs", "show", "r1").out


@pytest.mark.attack
def test_deleting_without_an_entry_is_missing_and_claiming_without_deleting_is_kept(
    cli, scene, tmp_path
):
    key = (scene.home / "log.vkey").read_text().strip()
    with sqlite3.connect(scene.home / "ledger.db") as database:
        find = "SELECT place FROM payload WHERE name = 'result' ORDER BY place LIMIT 1"
        ((place,),) = database.execute(find)
        database.execute("DELETE FROM payload WHERE place = ?", (place,))
    database.close()
    cli("export", str(tmp_path / "silent"))
    verdict = cli("verify", str(tmp_path / "silent"), "--key", key, "--json")
    assert verdict.status == 5
    assert '"payload-missing"' in verdict.out
    # Erasing what is left does not name what somebody else took: it stays missing.
    assert erase(cli, scene).status == 0
    cli("export", str(tmp_path / "after"))
    verdict = cli("verify", str(tmp_path / "after"), "--key", key, "--json")
    assert verdict.status == 5
    assert verdict.out.count('"payload-missing"') == 1
    # An entry that claims what was not done is no failure, and it is seen, with whose it is.
    with scene.open() as gov:
        first = gov.store.read(lambda reader: reader.run_records("r2"))[0].entry.seq
        claim = {"subject": BEN, "targets": [[first, ["input"]]]}
        gov.store.write(
            lambda tx: tx.append(Draft(Kind.PAYLOAD_ERASED, scene.operator, claim), gov.clock())
        )
    cli("export", str(tmp_path / "claimed"))
    verdict = cli("verify", str(tmp_path / "claimed"), "--key", key)
    assert "payload-kept" in verdict.out
    assert f"`{scene.operator}` erased 1 payload of `user:ben`: (no reason here)" in verdict.out


def test_a_keyring_elsewhere_is_used_from_there(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "vault" / "people.keys"
    elsewhere.parent.mkdir()
    monkeypatch.setenv("GOVERNANCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOVERNANCE_KEYRING", str(elsewhere))
    assert cli("init").status == 0
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "home" / "ledger.keyring").exists()
    assert cli("runs", "list").status == 0
    monkeypatch.delenv("GOVERNANCE_KEYRING")
    done = cli("runs", "list")
    assert done.status == 2
    assert "no keyring at" in done.err
    assert "GOVERNANCE_KEYRING" in done.err


def test_a_reader_in_the_way_is_told(cli, scene):
    reader = sqlite3.connect(scene.home / "ledger.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM payload").fetchone()
    done = erase(cli, scene)
    assert done.status == 0
    assert "run this again when it has let go" in done.err
    reader.execute("ROLLBACK")
    reader.close()
    assert erase(cli, scene).err == ""
