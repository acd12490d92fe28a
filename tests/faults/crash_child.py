"""The process that the crash tests kill: a durable agent over a real SQLite file and a real model server.

    python crash_child.py HOME BASE_URL run|resume RUN FAILPOINT[:n]

Every effect is a line appended to HOME/effects by the tool itself, so that it counts even when nobody
lives to record it. At the n-th pass of FAILPOINT the process kills itself with SIGKILL.
"""

import os
import signal
import sys
from pathlib import Path

from agent import CallContext, DurableAgent, Injected, tool
from agent.models import OpenAIChat
from governance import Governance

POLICY = """
policy: crash
version: 1
rules:
  - {id: reads, match: {tools: ["look_up"]}, effect: allow}
  - {id: posts, match: {tools: ["post", "set_limit", "mail"]}, effect: allow, allow_tier: critical}
  - id: payments
    match: {tools: ["pay"]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
"""


class Fuse:
    def __init__(self, spec: str) -> None:
        self.name, _, nth = spec.partition(":")
        self.left = int(nth or 1)

    def __call__(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def tools(home: Path, fuse: Fuse):
    def effect(line: str) -> None:
        with (home / "effects").open("a") as file:
            file.write(line + "\n")
        fuse("inside-effect")

    @tool(verb="READ")
    def look_up(id: str) -> str:
        """Look something up."""
        effect(f"look_up {id}")
        return f"{id} is fine"

    @tool(verb="WRITE", side_effect=True)
    def post(text: str) -> str:
        """Post a text."""
        effect(f"post {text}")
        return "posted"

    @tool(verb="WRITE", side_effect=True, idempotent=True)
    def set_limit(cents: int, context: Injected[CallContext]) -> str:
        """Set a limit; saying it twice changes nothing."""
        effect(f"set_limit {cents} {context.idempotency_key}")
        return "set"

    @tool(verb="FINANCIAL", side_effect=True)
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        effect(f"pay {to} {cents}")
        return "paid"

    @tool(verb="WRITE", side_effect=True)
    def mail(to: str) -> str:
        """Mail somebody."""
        effect(f"mail {to}")
        return "mailed"

    return [look_up, post, set_limit, pay, mail]


def open_agent(home: Path, base_url: str, fuse: Fuse, governance: Governance) -> DurableAgent:
    model = OpenAIChat("scripted", base_url=base_url)
    return DurableAgent(
        model,
        tools(home, fuse),
        governance=governance,
        name="crash",
        parallel_tools=not (home / "in-order").exists(),
        failpoint=fuse,
    )


def main() -> None:
    home, base_url, action, run, spec = Path(sys.argv[1]), *sys.argv[2:6]
    fuse = Fuse(spec)
    governance = Governance.open(home, policies={"crash.yaml": POLICY})
    fast = Governance(
        governance.store,
        governance.signer,
        governance.rulebook,
        governance.environment,
        lease_us=300_000,
    )
    agent = open_agent(home, base_url, fuse, fast)
    result = agent.run("go", run_id=run) if action == "run" else agent.resume(run)
    print(result.status)
    governance.close()


if __name__ == "__main__":
    main()
