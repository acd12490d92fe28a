"""`serve` and `demo-model` in processes of their own: they answer, drive runs, and end quietly."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command that serves; gives it and its address once it answers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "governance.cli", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert " at http://127.0.0.1:" in line, process.communicate()[1]
        address = line.split()[-1].rstrip("/")
        until(lambda: answers(address))
        yield process, address
    finally:
        process.kill()
        process.communicate()


def answers(address: str) -> bool:
    try:
        return httpx2.get(address).status_code > 0
    except httpx2.HTTPError:
        return False


def until(holds, within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_queue_answers_and_ends_quietly(home, sent, status):
    with serving("serve", "--port", "0") as (process, address):
        assert httpx2.get(f"{address}/healthz").json() == {"ok": True}
        assert httpx2.get(f"{address}/api/requests").status_code == 401
        process.send_signal(sent)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (status, "", "")


def test_a_run_goes_on_in_serve_as_soon_as_it_is_approved_over_http(cli, desk, token):
    target, *policy = desk()
    started = cli("run", target, '{"to":"bob"}', *policy, "--run-id", "r1", "--json").json
    path = f"/api/requests/{started['pending'][0]['request']}"
    words = ("serve", "--port", "0", "--agent", target, *policy)
    with serving(*words) as (process, address):
        bearer = {"authorization": f"Bearer {token}"}
        shown = httpx2.get(address + path, headers=bearer).json()
        ballot = {"verdict": "approve", "meaning": "approve", "note": "", "card": shown["digest"]}
        assert httpx2.post(f"{address}{path}/votes", json=ballot, headers=bearer).json()[
            "state"
        ] == ("granted")
        until(lambda: cli("runs", "list", "--json").json[0]["status"] == "completed")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30) == ("", "")
    assert "so: paid bob" in cli("runs", "show", "r1").out


def test_two_servers_on_one_port_is_said(cli, home):
    with serving("serve", "--port", "0") as (_, address):
        done = cli("serve", "--port", address.rpartition(":")[2])
    assert done.status == 6
    assert "cannot listen on" in done.err


def test_a_script_is_played_as_a_model(tmp_path):
    (tmp_path / "script.yaml").write_text("turns: [{say: hello there}]")
    with serving("demo-model", str(tmp_path / "script.yaml")) as (process, address):
        asked = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
        got = httpx2.post(f"{address}/chat/completions", json=asked).json()
        assert got["choices"][0]["message"]["content"] == "hello there"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode in {0, 130}
