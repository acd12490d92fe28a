"""Two processes want the last places of one person's window in one file: exactly as many start."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from governance import Governance, assemble
from governance.config import Home
from governance.ids import Micros, Origin, SubjectId
from governance.lawful.check import check
from governance.ledger.entry import Kind

CHILD = Path(__file__).parent / "window_child.py"
PLACES = 4
POLICY = f"""
policy: p
version: 1
rules:
  - id: within
    match: {{tools: [refund]}}
    when: "('refund' in window.hour ? window.hour.refund : 0) < {PLACES}"
    effect: allow
    allow_tier: critical
"""


@pytest.mark.attack
def test_two_processes_fill_a_window_exactly(tmp_path):
    home = Home(tmp_path, tmp_path / "checkpoint")
    assemble.init(home, Origin("test/race"))
    policy = tmp_path / "p.yaml"
    policy.write_text(POLICY)
    command = [sys.executable, str(CHILD), str(tmp_path), str(policy)]
    children = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in "ab"]
    deadline = time.monotonic() + 60
    while not all((tmp_path / f"ready-{name}").exists() for name in "ab"):
        assert all(child.poll() is None for child in children), children
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (tmp_path / "go").touch()
    for child in children:
        _, problem = child.communicate(timeout=60)
        assert child.returncode == 0, problem.decode()
    assert len((tmp_path / "effects").read_text().splitlines()) == PLACES
    with Governance.open(tmp_path, policies=policy) as gov:
        records = gov.store.read(lambda reader: reader.records())
        counted = gov.store.read(lambda reader: reader.starts(SubjectId("user:ann"), Micros(0)))
    decisions = [r for r in records if r.entry.kind is Kind.CALL_DECIDED]
    effects = [r.entry.body["effect"] for r in decisions]
    assert (effects.count("allow"), effects.count("deny")) == (PLACES, 10 - PLACES)
    # No two were allowed by the same count.
    allowed = [r for r in decisions if r.entry.body["effect"] == "allow"]
    told = [r.content("input")["window"]["hour"].get("refund", 0) for r in allowed]
    assert told == list(range(PLACES))
    assert counted == {"refund": PLACES}
    assert check(records).ok
