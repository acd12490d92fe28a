"""What tests of the command line share: a way to type commands, an installation, an agent to name."""

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from governance.assemble import init
from governance.canonical import parse_json
from governance.cli import main
from governance.config import Home
from governance.ids import Origin

AGENT = '''
from pathlib import Path

from agent import AIMessage, DurableAgent, tool
from agent.messages import ToolCall
from agent.models import ModelError


class Model:
    """Proposes one payment with the user's text as arguments, then answers."""

    name = "fake"

    async def respond(self, messages, tools):
        asked = [m.content for m in messages if m.role == "user"][-1]
        if messages[-1].role == "user" and asked.startswith("{"):
            call = ToolCall(id="x", name="pay", arguments=asked)
            return AIMessage(tool_calls=(call,), stop="tool_calls")
        results = [m.content for m in messages if m.role == "tool"]
        return AIMessage(content=f"so: {results[-1] if results else asked}", stop="stop")


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str) -> str:
    """Pay."""
    with Path("paid").open("a") as file:
        file.write("x")
    return f"paid {to}"


def agent(governance):
    return DurableAgent(Model(), [pay], governance=governance, name="desk")


def dies(governance):
    def die(name):
        if name == "after-effect":
            raise KeyboardInterrupt

    return DurableAgent(Model(), [pay], governance=governance, name="desk", failpoint=die)


def loops(governance):
    return DurableAgent(Model(), [pay], governance=governance, name="desk", max_iterations=1)


class Away(Model):
    async def respond(self, messages, tools):
        raise ModelError("model away", code="unreachable")


def away(governance):
    return DurableAgent(Away(), [pay], governance=governance, name="desk")


def fails(governance):
    raise RuntimeError("no database")


def returns_none(governance):
    return None


number = 7
'''
POLICY = """
policy: desk
version: 1
rules:
  - id: pays
    match: {tools: [pay]}
    when: "!args.to.startsWith('friend')"
    effect: require_approval
    approval: {quorum: [{role: finance, count: 1}], decide_by: 4h, use_by: 1h}
  - id: friends
    match: {tools: [pay]}
    when: args.to.startsWith('friend')
    effect: allow
    allow_tier: critical
"""


@dataclass(frozen=True)
class Outcome:
    """What one command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return parse_json(self.out)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys, monkeypatch) -> Cli:
    """Type a command; what was printed before is forgotten."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("GOVERNANCE_TOKEN", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def type_(*args: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        status = main([str(arg) for arg in args])
        got = capsys.readouterr()
        return Outcome(status, got.out, got.err)

    return type_


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """One installation, made once, to copy: making one waits for the disk."""
    folder = tmp_path_factory.mktemp("installed") / "home"
    init(Home(folder, folder / "checkpoint"), Origin("localhost/agents"))
    return folder


@pytest.fixture
def home(installed, tmp_path, monkeypatch) -> Path:
    """An installation of the test's own, found without being named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOVERNANCE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GOVERNANCE_CHECKPOINT", raising=False)
    return shutil.copytree(installed, tmp_path / "home")


@pytest.fixture
def desk(home, tmp_path) -> Callable[..., tuple[str, ...]]:
    """Give the words that name an agent in a module of this test's own, and its policy."""
    module = "desk_" + "".join(
        c if c.isalnum() else "_" for c in tmp_path.parent.name + tmp_path.name
    )
    (tmp_path / f"{module}.py").write_text(AGENT)
    (tmp_path / "desk.yaml").write_text(POLICY)

    def words(attr: str = "agent") -> tuple[str, ...]:
        return (f"{module}:{attr}", "--policy", str(tmp_path / "desk.yaml"))

    return words


@pytest.fixture
def token(cli, home) -> str:
    """The token of Ann, of finance and an operator."""
    added = cli("users", "add", "Ann", "--role", "finance", "--role", "operator")
    return added.out.strip()
