"""What is left standing when something under the control plane breaks? Nothing half done, nothing done twice.

The failures of real disks and real kills stand in tests/faults; here are those that a program meets
through its ports: a store that says no or says nothing, a key, a policy, a tool.
"""

import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import Plays, call, calls, person, say, vote

from agent import DurableAgent, create_agent, tool
from governance import Governance, GovernanceError, InvalidInputError, assemble, queue
from governance.config import Home
from governance.errors import RefusedError, UnavailableError
from governance.ids import Origin
from governance.ledger.entry import Kind

ALLOW = "policy: all\nversion: 1\nrules: [{id: all, effect: allow, allow_tier: critical}]\n"
HOLD = "policy: all\nversion: 1\nrules: [{id: all, effect: require_approval}]\n"
LEASE_US = 1_500_000  # no heartbeat falls into a test, and it is waited out where a driver "died"


class Failing:
    """A store whose writes fail from the `nth` on. `applied`: whether what failed was kept after all."""

    def __init__(self, store: Any, nth: int, *, applied: bool) -> None:
        self._store, self._left, self._applied = store, nth, applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, work):
        self._left -= 1
        if self._left > 0:
            return self._store.submit(work)
        if self._left == 0 and self._applied:
            self._store.write(work)
        failed: Future = Future()
        failed.set_exception(UnavailableError("disk is gone"))
        return failed

    def write(self, work):
        return self.submit(work).result()


def failing(gov: Governance, nth: int, *, applied: bool) -> Governance:
    return replace(gov, store=Failing(gov.store, nth, applied=applied))


def memory(rules: str) -> Governance:
    return replace(Governance.in_memory(policies={"all.yaml": rules}), lease_us=LEASE_US)


def desk(gov: Governance, ran: list, model: Plays | None = None) -> DurableAgent:
    @tool(verb="WRITE", side_effect=True)
    def post(text: str) -> str:
        """Post."""
        ran.append(text)
        return "posted"

    return DurableAgent(
        model or Plays(calls(call("post", text="a")), say()), [post], governance=gov
    )


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_when_the_start_cannot_be_recorded_nothing_runs(nth, applied):
    ran: list[str] = []
    with pytest.raises(UnavailableError, match="disk is gone"):
        desk(failing(memory(ALLOW), nth, applied=applied), ran).run("go", run_id="r")
    assert ran == []


@pytest.mark.parametrize("applied", [False, True])
def test_when_the_outcome_cannot_be_recorded_the_call_is_not_repeated(applied):
    ran: list[str] = []
    gov = memory(ALLOW)
    with pytest.raises(UnavailableError, match="disk is gone"):
        desk(failing(gov, 4, applied=applied), ran).run("go", run_id="r")
    assert ran == ["a"]
    result = desk(gov, ran, Plays(say())).resume("r")
    assert ran == ["a"]
    if applied:  # it was recorded after all, so the run goes on from there
        assert result.status == "completed"
    else:
        assert (result.status, result.because) == ("suspended", "unknown")
        assert [unknown.uid for unknown in result.unknown_outcomes] == ["r/1.0"]


@pytest.mark.parametrize("applied", [False, True])
def test_a_vote_that_cannot_be_recorded_is_counted_once_or_not_at_all(applied):
    ran: list[str] = []
    gov = memory(HOLD)
    agent = desk(gov, ran)
    (held,) = agent.run("go", run_id="r").pending_approvals
    ann = person(gov)
    with pytest.raises(UnavailableError, match="disk is gone"):
        vote(failing(gov, 1, applied=applied), ann, held.request)
    granted = [line.request for line in queue.granted(gov.store, gov.clock())]
    assert granted == ([held.request] if applied else [])
    assert agent.resume("r").status == ("completed" if applied else "suspended")
    assert ran == (["a"] if applied else [])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", tmp_path / "kept")
    assemble.init(made, Origin("test/failures"))
    return made


def open_home(home: Home, **options) -> None:
    Governance.open(home.folder, **options).close()


@pytest.mark.parametrize(
    ("ruin", "family", "told"),
    [
        ("missing", InvalidInputError, "no key file"),
        ("readable", RefusedError, "can be read by others"),
        ("malformed", InvalidInputError, "is malformed"),
        ("foreign", InvalidInputError, "is `test/failures`, not `test/other`"),
        ("namesake", RefusedError, "is not one of log `test/failures`"),
    ],
)
def test_without_its_own_private_key_a_log_is_not_opened(home, tmp_path, ruin, family, told):
    match ruin:
        case "missing":
            home.key.unlink()
        case "readable":
            home.key.chmod(0o640)
        case "malformed":
            home.key.write_text("PRIVATE+KEY+nonsense\n")
        case "foreign":
            other = Home(tmp_path / "other", tmp_path / "other-kept")
            assemble.init(other, Origin("test/other"))
            home.key.write_text(other.key.read_text())
        case "namesake":
            other = Home(tmp_path / "other", tmp_path / "other-kept")
            assemble.init(other, Origin("test/failures"))
            home.key.write_text(other.key.read_text())
    with pytest.raises(family, match=told):
        open_home(home)


@pytest.mark.parametrize(
    "text",
    [
        "policy: p\nversion: 1\nrules: [{id: a, effect: permit}]\n",
        "policy: p\nversion: 1\nrules: [{id: a, effect: allow, when: 'args.('}]\n",
        "policy: p\nversion: 1\nrules: [{id: a, effect: allow, whn: 'true'}]\n",
        "policy: [",
        None,
    ],
    ids=["word", "condition", "field", "yaml", "no-file"],
)
def test_with_a_policy_that_cannot_be_read_nothing_is_opened(home, tmp_path, text):
    file = tmp_path / "rules.yaml"
    if text is not None:
        file.write_text(text)
    before = home.ledger.read_bytes()
    with pytest.raises(GovernanceError) as caught:
        open_home(home, policies=file)
    assert caught.value.exit_status == 2
    assert "rules.yaml" in str(caught.value)
    assert home.ledger.read_bytes() == before


@tool(verb="WRITE", side_effect=True)
def burst() -> str:
    """Raise."""
    raise RuntimeError("password=hunter2")


@tool(verb="WRITE", side_effect=True)
def babble() -> object:
    """Answer what JSON cannot say."""
    return float("nan")


def sleeper(awake: threading.Event):
    @tool(verb="WRITE", side_effect=True, idempotent=True, timeout=0.05)
    def sleep() -> str:
        """Answer too late."""
        awake.wait(5)
        return "late"

    return sleep


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("burst", "exception", "tool failed: RuntimeError"),
        ("babble", "result", "JSON"),
        ("sleep", "timeout", "it may still take effect"),
    ],
)
def test_a_tool_that_fails_is_recorded_as_failed_and_not_tried_again(name, code, told):
    awake = threading.Event()
    gov = memory(ALLOW)
    model = Plays(calls(call(name)), say())
    try:
        agent = DurableAgent(model, [burst, babble, sleeper(awake)], governance=gov)
        assert agent.run("go", run_id="r").status == "completed"
        assert agent.resume("r").status == "completed"
    finally:
        awake.set()
    records = gov.store.read(lambda reader: reader.run_records("r"))
    starts = [r for r in records if r.entry.kind is Kind.CALL_STARTED]
    (failed,) = [r for r in records if r.entry.kind is Kind.CALL_FAILED]
    assert len(starts) == 1
    assert failed.entry.body["error"] == code
    (result,) = model.results()
    assert told in result
    for record in records:
        kept = [record.entry.raw, *(payload.content for payload in record.payloads.values())]
        assert not any(b"hunter2" in content for content in kept)


@pytest.mark.parametrize("governed", [False, True])
def test_calls_that_end_one_after_another_run_once_each(governed):
    """The first outcome is recorded while the others still run; none of theirs may be lost over it."""
    ran: list[float] = []

    @tool(verb="READ")
    async def wait(seconds: float) -> str:
        """Wait."""
        ran.append(seconds)
        await anyio.sleep(seconds)
        return "done"

    turn = calls(*(call("wait", seconds=seconds) for seconds in (0.0, 0.05, 0.1)))
    model = Plays(turn, say())
    if governed:
        result = DurableAgent(model, [wait], governance=memory(ALLOW)).run("go")
    else:
        result = create_agent(model, [wait])("go")
    assert result.status == "completed"
    assert ran == [0.0, 0.05, 0.1]
