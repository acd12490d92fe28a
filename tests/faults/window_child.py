"""One of several processes that want the last places of one person's window, all at once."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import Governance, Principal
from governance.ids import SubjectId

home, policy, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
TURNS = 4


@tool(verb="FINANCIAL", side_effect=True)
def refund(cents: int) -> str:
    """Pay back."""
    with (home / "effects").open("a") as file:
        file.write(f"{name}\n")
    return "paid"


def wait(messages):
    """Begin the turn when everybody is there."""
    (home / f"ready-{name}").touch()
    while not (home / "go").exists():
        time.sleep(0.001)
    return calls(call("refund", cents=0), call("refund", cents=1))


turns = [calls(call("refund", cents=n)) for n in range(1, TURNS)]
with Governance.open(home, policies=policy) as gov:
    agent = DurableAgent(Plays(wait, *turns, say()), [refund], governance=gov, name="desk")
    result = agent.run("go", run_id=f"r-{name}", principal=Principal(SubjectId("user:ann")))
    assert result.status == "completed", result
