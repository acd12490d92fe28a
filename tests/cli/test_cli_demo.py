"""`governance demo`, as a stranger runs it: to a verified bundle, whether the person says yes or no."""

import os
import pty
import re
import subprocess
import sys
import threading

import httpx2
import pytest

from governance.canonical import parse_json

DEMO = [sys.executable, "-m", "governance.cli", "demo"]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GOVERNANCE_HOME", "GOVERNANCE_CHECKPOINT", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return {**os.environ, "COLUMNS": "100"}


def effects(folder) -> list:
    return [parse_json(line) for line in (folder / "effects.jsonl").read_text().splitlines()]


def verified(folder) -> bool:
    key = (folder / "log.vkey").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-m", "governance.cli", "verify", str(folder / "bundle"), "--key", key],
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode == 0


def test_by_itself_it_ends_with_a_verified_bundle_and_two_effects(environment, tmp_path):
    done = subprocess.run(
        [*DEMO, "--yes"], env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    folder = tmp_path / ".governance" / "demo-1"
    assert [(e["effect"], e["amount_cents"]) for e in effects(folder)] == [
        ("refund", 1500),
        ("refund", 48000),
    ]
    assert verified(folder)
    for said in (
        "suspended (approval)",
        "Dana approves card",
        "completed",
        "Dana approves",
        "refund_desk/no-deleting",
        "2 in effects.jsonl, 2 in the ledger",
        "Both refunds are on their way",
        (folder / "log.vkey").read_text().strip(),
    ):
        assert said in done.stdout
    assert "NOT" not in done.stdout
    assert (folder / "log.key").stat().st_mode & 0o777 == 0o600


class Terminal:
    """A pseudo-terminal at which somebody reads what the demo says."""

    def __init__(self, words, environment) -> None:
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            words, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
        )
        os.close(theirs)
        self._ours = ours
        self._read = b""
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        while True:
            try:
                chunk = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            with self._grown:
                self._read += chunk
                self._grown.notify_all()

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self._read.decode(errors="replace"))

    def wait_for(self, pattern: str) -> re.Match[str]:
        with self._grown:
            assert self._grown.wait_for(lambda: re.search(pattern, self.text), 60), self.text
        return re.search(pattern, self.text)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        os.close(self._ours)


def test_at_a_terminal_it_waits_for_the_person_and_a_no_is_a_no(environment, tmp_path):
    folder = tmp_path / "kept"
    terminal = Terminal([*DEMO, "--folder", str(folder)], environment)
    try:
        address = terminal.wait_for(r"queue +(http://\S+)")[1]
        token = terminal.wait_for(r"token +(gov_\w+)")[1]
        terminal.wait_for("sign in there with the token")
        with httpx2.Client(
            base_url=address, headers={"authorization": f"Bearer {token}"}
        ) as client:
            (waiting,) = client.get("/api/requests").json()["pending"]
            path = f"/api/requests/{waiting['request']}"
            ballot = {
                "verdict": "reject",
                "meaning": "reject",
                "note": "no photo",
                "card": client.get(path).json()["digest"],
            }
            assert client.post(f"{path}/votes", json=ballot).json()["state"] == "rejected"
        assert terminal.process.wait(60) == 0, terminal.text
        terminal.wait_for("A colleague decided against refunding the chair")
        terminal.wait_for("1 in effects.jsonl, 1 in the ledger")
    finally:
        terminal.close()
    assert [e["amount_cents"] for e in effects(folder)] == [1500]
    assert verified(folder)


def test_it_touches_no_log_that_is_there(environment, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "log.key").write_text("mine")
    done = subprocess.run(
        [*DEMO, "--yes", "--folder", "taken"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert (tmp_path / "taken" / "log.key").read_text() == "mine"
    outside = {**environment, "GOVERNANCE_CHECKPOINT": str(tmp_path / "mine")}
    done = subprocess.run(
        [*DEMO, "--yes"], env=outside, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert not (tmp_path / "mine").exists()


def test_a_live_model_without_a_key_is_said_to_need_one(environment, tmp_path):
    done = subprocess.run(
        [*DEMO, "--yes", "--model", "some-model"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 6
    assert "OPENAI_API_KEY is not set" in done.stderr
    assert "Traceback" not in done.stderr
