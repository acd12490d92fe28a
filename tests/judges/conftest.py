"""What outside judges are given: the bundle and a receipt of a real governed run, as commands write them."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from agents import Plays, call, calls, person, say, vote

from agent import DurableAgent, tool
from governance import Governance, Principal
from governance.assemble import KeySigner, init
from governance.cli import main
from governance.config import Home
from governance.erasure import ERASER, erase
from governance.ids import Origin, SubjectId
from governance.ledger.erasure import Erasure

RULES = """
policy: desk
version: 1
rules:
  - {id: looks, match: {tools: [look]}, effect: allow}
  - id: payments
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver}], decide_by: 4h, use_by: 1h}
"""
MORE_THAN_A_TILE = 256
GONE = SubjectId("user:gone")
BIG_ID = 2**53 + 1
"""As real systems number things, and JavaScript cannot."""


@tool(verb="READ")
def look(at: str, ratio: float) -> dict:
    """Look."""
    return {"seen": at, "share": ratio / 3, "id": BIG_ID}


@tool(verb="FINANCIAL", side_effect=True)
def pay(cents: int, note: str) -> str:
    """Pay."""
    return f"paid {cents}: {note}"


@dataclass(frozen=True)
class Evidence:
    """A bundle, the receipt of its one approved call, and the key of the log."""

    bundle: Path
    receipt: Path
    signer: KeySigner

    @property
    def key(self) -> str:
        return self.signer.verifier_key


def found(program: str) -> str:
    """Where `program` is. Without it a judgement is skipped here and fails in CI."""
    path = shutil.which(program)
    if path is None:
        absent(f"`{program}` is not installed")
    return str(path)


def absent(reason: str) -> None:
    (pytest.fail if "CI" in os.environ else pytest.skip)(reason)


@pytest.fixture(scope="session")
def evidence(tmp_path_factory) -> Evidence:
    folder = tmp_path_factory.mktemp("judged")
    looks = [
        calls(*(call("look", at=f"{turn}/{n} é €", ratio=0.1 * n) for n in range(20)))
        for turn in range(5)
    ]
    turns = (*looks, calls(call("pay", cents=900, note="für Ana 💶")), say())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GOVERNANCE_CHECKPOINT", raising=False)
        init(Home.find(folder / "home"), Origin("judged.example/agents"))
        with Governance.open(folder / "home", policies={"desk.yaml": RULES}) as gov:
            agent = DurableAgent(Plays(*turns), (look, pay), governance=gov, name="desk")
            (held,) = agent.run("go on", run_id="run-judged").pending_approvals
            vote(gov, person(gov), held.request)
            assert agent.resume("run-judged").status == "completed"
            signer, uid = gov.signer, held.uid
            other = DurableAgent(Plays(say()), (), governance=gov, name="desk")
            other.run("forget me", run_id="run-erased", principal=Principal(GONE))
            eve = person(gov, "eve", ERASER).subject
            erase(gov.store, gov.clock, Erasure(GONE, eve, "asked for it"), tuple)
        where = ["--home", str(folder / "home")]
        assert main(["export", str(folder / "bundle"), *where]) == 0
        assert main(["receipt", uid, "--out", str(folder / "receipt"), *where]) == 0
    made = Evidence(folder / "bundle", folder / "receipt", signer)
    assert lines(made.bundle, "entries") > MORE_THAN_A_TILE
    return made


def lines(bundle: Path, folder: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (bundle / folder).iterdir())
