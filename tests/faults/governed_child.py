"""An agent whose disk fails once its model has answered: the next commit would start the call.

    python governed_child.py HOME FAULT      FAULT is none, stop, file-size or fill:PATH

Effects are lines in `HOME/../effects`, which stays writable whatever the fault, so that a call that ran is
seen. Prints `completed`, or the class and text of the error that the caller gets.
"""

import asyncio
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import Governance
from governance.errors import GovernanceError

POLICY = """
policy: faults
version: 1
rules:
  - {id: posts, match: {tools: [post]}, effect: allow, allow_tier: critical}
"""
RUN = "r1"
LEASE_US = 200_000


def agent(governance: Governance, effects: Path, failpoint=lambda name: None, turns=()):
    @tool(verb="WRITE", side_effect=True)
    def post(text: str) -> str:
        """Post a text."""
        with effects.open("a") as file:
            file.write(f"{text}\n")
        return "posted"

    model = Plays(*(turns or (calls(call("post", text="hello")), say())))
    return DurableAgent(model, [post], governance=governance, name="faults", failpoint=failpoint)


def open_governance(home: Path) -> Governance:
    opened = Governance.open(home, policies={"faults.yaml": POLICY})
    return replace(opened, lease_us=LEASE_US)


def arm(home: Path, fault: str) -> None:
    kind, _, where = fault.partition(":")
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "file-size":  # the write-ahead log may not grow by a byte
        size = (home / "ledger.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if kind == "fill":
        fill(Path(where))


def fill(path: Path) -> None:
    """Take every byte that is left on the file system of `path`."""
    with path.open("ab", buffering=0) as file:
        for block in (4096, 1):
            try:
                while True:
                    file.write(bytes(block))
            except OSError:
                continue


def main(home: Path, fault: str) -> None:
    governance = open_governance(home)
    effects = Path(os.environ.get("EFFECTS", home.parent / "effects"))

    def failpoint(name: str) -> None:
        if name == "after-responded":
            arm(home, fault)

    try:
        result = asyncio.run(agent(governance, effects, failpoint).arun("go", run_id=RUN))
        print(result.status)
    except GovernanceError as exc:
        print(f"{type(exc).__name__}: {exc.message}; next: {exc.hint}")
    sys.stdout.flush()
    os._exit(0)  # as after a crash: what the store would still do at its end is not waited for


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
