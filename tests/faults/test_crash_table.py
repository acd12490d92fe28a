"""Every row of the crash table, with a real kill: effects are counted by a file the tools write to."""

import secrets
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from faults import crash_child

from agent import DurableAgent
from agent.models import ScriptedModelServer, load_script
from governance import Governance, assemble, people, queue, recovery
from governance.approval.model import Verdict
from governance.config import Home
from governance.errors import ConflictError, RefusedError
from governance.ids import Origin
from governance.ledger.entry import Kind

pytestmark = pytest.mark.crash
RUN = "r1"

POST = "turns:\n  - calls: [{tool: post, args: {text: hello}}]\n  - say: done\n"
PAY_AND_MAIL = """
turns:
  - calls:
      - {tool: look_up, args: {id: a}}
      - {tool: pay, args: {to: ann, cents: 900}}
      - {tool: mail, args: {to: ann}}
  - say: done
"""
LIMIT_AND_POST = """
turns:
  - calls:
      - {tool: set_limit, args: {cents: 5}}
      - {tool: post, args: {text: hello}}
  - say: done
"""
TWICE_THE_SAME = """
turns:
  - calls:
      - {tool: post, args: {text: same}}
      - {tool: post, args: {text: same}}
  - say: done
"""


class World:
    """One installation, one model, and processes that come and go."""

    def __init__(self, folder: Path, script: str) -> None:
        self.home = folder / "home"
        assemble.init(Home(self.home, self.home / "checkpoint"), Origin("crash/test"))
        self.server = ScriptedModelServer(load_script(script))

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *exc) -> None:
        self.server.__exit__(*exc)

    def child(self, action: str, failpoint: str = "none") -> subprocess.Popen:
        file = str(Path(crash_child.__file__))
        arguments = [
            sys.executable,
            file,
            str(self.home),
            self.server.base_url,
            action,
            RUN,
            failpoint,
        ]
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def killed(self, action: str, failpoint: str) -> None:
        process = self.child(action, failpoint)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, errors

    def status(self, action: str) -> str:
        process = self.child(action)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return out.strip()

    def governance(self) -> Governance:
        return Governance.open(self.home, policies={"crash.yaml": crash_child.POLICY})

    @property
    def effects(self) -> list[str]:
        file = self.home / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def answer(self, verdict: Verdict = Verdict.APPROVE) -> None:
        """Let a new approver answer whatever is open."""
        with self.governance() as gov:
            name = f"ann{secrets.token_hex(3)}"
            person, _ = people.add(gov.store, gov.new_id, secrets.token_bytes, name, ["approver"])
            for line in queue.pending(gov.store, gov.clock()):
                card = queue.card(gov.store, line.request)
                meaning = "approve" if verdict is Verdict.APPROVE else "reject"
                ballot = queue.Ballot(
                    line.request, person.subject, verdict, meaning, "seen", card.digest
                )
                queue.vote(gov.store, gov.clock, gov.signer, ballot)

    def resolve(self, how: recovery.How, result=None) -> None:
        with self.governance() as gov:
            name = f"op{secrets.token_hex(3)}"
            person, _ = people.add(gov.store, gov.new_id, secrets.token_bytes, name, ["operator"])
            records = gov.store.read(lambda r: r.run_records(RUN))
            uid = next(
                r for r in reversed(records) if r.entry.kind is Kind.CALL_UNKNOWN
            ).entry.body["uid"]
            recovery.resolve(
                gov.store, gov.clock, (RUN, uid), recovery.Resolution(how, result), person
            )

    def kinds(self) -> Counter:
        with self.governance() as gov:
            records = gov.store.read(lambda r: r.run_records(RUN))
            return Counter(r.entry.kind.value for r in records)


@pytest.fixture
def world(tmp_path):
    worlds = []

    def make(script: str) -> World:
        made = World(tmp_path, script).__enter__()
        worlds.append(made)
        return made

    yield make
    for made in worlds:
        made.__exit__(None, None, None)


@pytest.mark.parametrize("failpoint", ["before-model", "after-model"])
def test_before_the_answer_is_recorded_the_model_is_asked_again(world, failpoint):
    w = world(POST)
    w.killed("run", failpoint)
    assert w.effects == []
    assert w.status("resume") == "completed"
    assert w.effects == ["post hello"]
    assert w.kinds()["model.responded"] == 2


def test_after_the_answer_and_before_a_decision_it_decides_without_asking_again(world):
    w = world(POST)
    w.killed("run", "after-responded")
    asked = len(w.server.requests)
    assert w.status("resume") == "completed"
    assert w.effects == ["post hello"]
    assert len(w.server.requests) == asked + 1  # only for the turn after the tool


def test_after_a_decision_and_before_the_start_it_starts_once(world):
    w = world(PAY_AND_MAIL)
    w.killed("run", "after-decided")
    # `pay` is held and `mail` waits for it: both decided, neither started; `look_up` had started.
    kinds = w.kinds()
    assert kinds["call.decided"] == 3
    assert kinds["call.started"] == 1
    assert w.effects == []
    assert w.status("resume") == "suspended"
    w.resolve(recovery.How.AGAIN)
    w.answer()
    assert w.status("resume") == "completed"
    assert Counter(w.effects) == Counter(["look_up a", "pay ann 900", "mail ann"])


def test_a_decided_sibling_of_a_call_that_was_cut_off_starts_once(world):
    w = world(LIMIT_AND_POST)
    (w.home / "in-order").touch()
    w.killed("run", "inside-effect")
    assert w.status("resume") == "completed"
    lines = Counter(w.effects)
    assert lines["post hello"] == 1
    assert len([line for line in lines if line.startswith("set_limit")]) == 1  # one key
    assert sum(lines.values()) == 3


@pytest.mark.parametrize(
    ("failpoint", "effects"), [("before-effect", 0), ("inside-effect", 1), ("after-effect", 1)]
)
def test_after_the_start_the_outcome_is_unknown_and_goes_to_a_person(world, failpoint, effects):
    w = world(POST)
    w.killed("run", failpoint)
    assert len(w.effects) == effects
    assert w.status("resume") == "suspended"
    assert w.status("resume") == "suspended"  # asking again changes nothing
    assert len(w.effects) == effects
    assert w.kinds()["call.unknown"] == 1
    if effects:
        w.resolve(recovery.How.HAPPENED, "posted as 17")
    else:
        w.resolve(recovery.How.AGAIN)
    assert w.status("resume") == "completed"
    assert w.effects == ["post hello"]


def test_an_unknown_call_can_be_given_up_and_the_model_is_told(world):
    w = world(POST)
    w.killed("run", "inside-effect")
    assert w.status("resume") == "suspended"
    w.resolve(recovery.How.ABANDONED)
    assert w.status("resume") == "completed"
    assert w.effects == ["post hello"]
    results = [m for m in w.server.requests[-1]["messages"] if m["role"] == "tool"]
    assert "outcome unknown" in results[0]["content"]


def test_only_somebody_with_the_right_says_what_happened_and_only_once(world):
    w = world(POST)
    w.killed("run", "inside-effect")
    assert w.status("resume") == "suspended"
    with w.governance() as gov:
        eve, _ = people.add(gov.store, gov.new_id, secrets.token_bytes, "eve", ["intern"])
        said = recovery.Resolution(recovery.How.HAPPENED, "fine")
        with pytest.raises(RefusedError, match="may not say"):
            recovery.resolve(gov.store, gov.clock, (RUN, f"{RUN}/1.0"), said, eve)
    w.resolve(recovery.How.HAPPENED, "posted")
    with pytest.raises(ConflictError, match="is not unknown"):
        w.resolve(recovery.How.HAPPENED, "posted again")


@pytest.mark.parametrize("failpoint", ["before-effect", "inside-effect", "after-effect"])
def test_an_idempotent_call_is_repeated_with_the_same_key(world, failpoint):
    w = world("turns:\n  - calls: [{tool: set_limit, args: {cents: 5}}]\n  - say: done\n")
    w.killed("run", failpoint)
    before = len(w.effects)
    assert w.status("resume") == "completed"
    assert len(w.effects) == before + 1
    assert len(set(w.effects)) == 1


def test_after_the_outcome_it_never_runs_again(world):
    w = world(POST)
    w.killed("run", "before-model:2")
    assert w.effects == ["post hello"]
    assert w.status("resume") == "completed"
    assert w.status("resume") == "completed"
    assert w.effects == ["post hello"]


def test_two_identical_calls_of_one_turn_stay_two_over_a_kill(world):
    w = world(TWICE_THE_SAME)
    (w.home / "in-order").touch()
    w.killed("run", "before-effect:2")
    assert w.effects == ["post same"]
    assert w.status("resume") == "suspended"
    w.resolve(recovery.How.AGAIN)
    assert w.status("resume") == "completed"
    assert w.effects == ["post same", "post same"]


@pytest.mark.parametrize(
    ("failpoint", "paid"), [("before-effect", 0), ("inside-effect", 1), ("after-effect", 1)]
)
def test_an_approved_call_that_was_cut_off_needs_a_word_and_a_fresh_yes(world, failpoint, paid):
    w = world("turns:\n  - calls: [{tool: pay, args: {to: ann, cents: 900}}]\n  - say: done\n")
    assert w.status("run") == "suspended"
    w.answer()
    w.killed("resume", failpoint)
    assert len(w.effects) == paid
    assert w.status("resume") == "suspended"
    if paid:
        w.resolve(recovery.How.HAPPENED, "paid")
    else:
        w.resolve(recovery.How.AGAIN)
        assert w.status("resume") == "suspended"  # the old yes was used up by the first start
        assert w.effects == []
        w.answer()
    assert w.status("resume") == "completed"
    assert w.effects == ["pay ann 900"]


def test_two_processes_that_resume_one_run_pay_once(world):
    w = world("turns:\n  - calls: [{tool: pay, args: {to: ann, cents: 900}}]\n  - say: done\n")
    assert w.status("run") == "suspended"
    w.answer()
    children = [w.child("resume") for _ in range(3)]
    ends = [c.communicate(timeout=60) for c in children]
    assert w.effects == ["pay ann 900"], ends
    assert any(out.strip() == "completed" for out, _ in ends)
    for out, errors in ends:
        # On a slow machine a driver may lose its lease meanwhile: then the fence stops it.
        stopped = "is being driven by" in errors or "was taken over by another driver" in errors
        assert out.strip() == "completed" or stopped
    assert w.kinds()["call.started"] == 1


def test_a_failing_model_after_an_approved_call_never_repeats_the_call(world):
    script = """
turns:
  - calls: [{tool: pay, args: {to: ann, cents: 900}}]
  - fault: {status: 400}
"""
    w = world(script)
    assert w.status("run") == "suspended"
    w.answer()
    for _ in range(3):
        process = w.child("resume")
        _, errors = process.communicate(timeout=60)
        assert process.returncode != 0
        assert "ModelRefusedError" in errors
    assert w.effects == ["pay ann 900"]


def test_a_stale_driver_is_fenced(world):
    """A driver that was stopped past its lease comes back after another took the run over."""
    w = world(POST)
    gov = w.governance()
    gov = replace(gov, lease_us=200_000)
    stopped: list[DurableAgent] = []

    def pause(name: str) -> None:
        # While the first driver stands between the model's answer and its record, the second takes over.
        if name == "after-model" and not stopped:
            stopped.append(agent)
            import time

            time.sleep(0.5)
            assert w.status("resume") == "completed"

    agent = crash_child.open_agent(w.home, w.server.base_url, pause, gov)
    with pytest.raises(ConflictError, match="taken over"):
        agent.run("go", run_id=RUN)
    gov.close()
    assert w.effects == ["post hello"]


def test_starting_over_an_existing_run_is_refused(world):
    w = world(POST)
    assert w.status("run") == "completed"
    process = w.child("run")
    _, errors = process.communicate(timeout=60)
    assert "exists already" in errors
    assert w.effects == ["post hello"]
