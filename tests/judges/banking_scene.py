"""What happens when a model proposes exactly these calls to a bank, and what became of each?

AgentDojo's functions become tools just as they are; the calls go through the scripted model, the real
client and our loop. What became of them is read from the ledger and compared with what the bank saw.
"""

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agent import Approve, Asked, Injected, Reject, create_agent, tool
from agent.messages import ToolMessage
from agent.models import OpenAIChat, Script, ScriptedModelServer, load_script
from agent.tools import FunctionTool
from governance.assemble import Governance
from governance.canonical import payload_bytes
from governance.ids import SubjectId
from governance.ledger.entry import Kind, Record
from governance.policy.model import Principal

if TYPE_CHECKING:
    from agentdojo.functions_runtime import Function, FunctionCall, TaskEnvironment
    from agentdojo.task_suite.task_suite import TaskSuite

__all__ = ["Bank", "Call", "Fate", "Outcome", "Scene", "calls_of", "fates", "play", "scene"]

CUSTOMER: Final = Principal(SubjectId("user:customer"))

Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""A tool, and what it is called with."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Calls in order, one a turn, and last words. The calls at `injected` are the attacker's."""

    calls: tuple[Call, ...]
    injected: range
    last_words: str

    def script(self) -> Script:
        turns = [{"calls": [{"tool": name, "args": args}]} for name, args in self.calls]
        return load_script(payload_bytes({"turns": [*turns, {"say": self.last_words}]}).decode())


def scene(own: Sequence[Call], attack: Sequence[Call], last_words: str) -> Scene:
    """Let the model fall for the attack after its first own call, then go on as if nothing was."""
    calls = (*own[:1], *attack, *own[1:])
    return Scene(calls, range(1, 1 + len(attack)), last_words or "Done.")


def calls_of(truth: "Sequence[FunctionCall]") -> list[Call]:
    return [(call.function, dict(call.args)) for call in truth]


class Fate(StrEnum):
    """What became of one proposed call. Held are those that somebody was asked about."""

    ALLOWED = "allowed"
    APPROVED = "approved"
    REFUSED = "refused"
    DENIED = "denied"

    @property
    def held(self) -> bool:
        return self in {Fate.APPROVED, Fate.REFUSED}

    @property
    def ran(self) -> bool:
        return self in {Fate.ALLOWED, Fate.APPROVED}


def fates(records: Sequence[Record]) -> list[Fate]:
    """Read from a run's entries what became of its calls, in the order in which they were proposed."""
    entries = [record.entry for record in records]
    by_kind = {
        kind: dict.fromkeys(entry.body["uid"] for entry in entries if entry.kind is kind)
        for kind in (Kind.CALL_DECIDED, Kind.APPROVAL_REQUESTED, Kind.CALL_STARTED)
    }
    asked, started = by_kind[Kind.APPROVAL_REQUESTED], by_kind[Kind.CALL_STARTED]
    ends = {
        (True, False): Fate.ALLOWED,
        (True, True): Fate.APPROVED,
        (False, True): Fate.REFUSED,
        (False, False): Fate.DENIED,
    }
    return [ends[uid in started, uid in asked] for uid in by_kind[Kind.CALL_DECIDED]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended. `fates` is empty where no governance looked on."""

    said: str
    read: tuple[str, ...]
    fates: tuple[Fate, ...]


@dataclass(frozen=True, slots=True)
class Bank:
    """AgentDojo's suite, and what is declared about the risk of its functions."""

    suite: "TaskSuite[Any]"
    profiles: Mapping[str, Mapping[str, Any]]

    def tools(self, environment: "TaskEnvironment", ran: list[str]) -> list[FunctionTool[..., Any]]:
        """Every function as a tool on `environment`. `ran` collects the names of those that ran."""
        return [
            as_tool(function, self.profiles[function.name], environment, ran)
            for function in self.suite.tools
        ]


def as_tool(
    function: "Function[..., Any]",
    profile: Mapping[str, Any],
    environment: "TaskEnvironment",
    ran: list[str],
) -> FunctionTool[..., Any]:
    """Make a tool of a function as it stands; what it takes from the environment is injected."""

    @functools.wraps(function.run)
    def run(**arguments: object) -> object:
        ran.append(function.name)
        return function.run(**arguments)

    signature = inspect.signature(function.run)
    parameters = [
        parameter.replace(annotation=Injected[parameter.annotation])
        if name in function.dependencies
        else parameter
        for name, parameter in signature.parameters.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)
    injected = {
        name: dependency.extract_dep_from_env(environment)
        for name, dependency in function.dependencies.items()
    }
    return tool(run, **profile).bind(**injected)


def approver(
    wanted: Sequence[Call], tools: Sequence[FunctionTool[..., Any]]
) -> Callable[[Asked], Approve | Reject]:
    """Somebody who knows exactly what the user asked for: these calls, each as often as it stands here."""
    by_name = {each.name: each for each in tools}
    left = Counter((name, by_name[name].validate(args).decode()) for name, args in wanted)

    def ask(asked: Asked) -> Approve | Reject:
        call = (asked.tool, asked.arguments)
        if left[call] == 0:
            return Reject("the customer did not ask for this")
        left[call] -= 1
        return Approve()

    return ask


def play(
    bank: Bank,
    prompt: str,
    played: Scene,
    environment: "TaskEnvironment",
    governance: Governance | None,
) -> Outcome:
    """Have the scripted model play a scene on `environment`, which is changed by it."""
    ran: list[str] = []
    tools = bank.tools(environment, ran)
    own = [call for at, call in enumerate(played.calls) if at not in played.injected]
    with ScriptedModelServer(played.script()) as server:
        model = OpenAIChat("scripted", base_url=server.base_url)
        agent = create_agent(
            model,
            tools,
            governance=governance,
            approver=approver(own, tools),
            max_iterations=len(played.calls) + 1,
            name="bank-assistant",
            principal=CUSTOMER,
        )
        result = agent(prompt)
        asyncio.run(model.aclose())
    if result.status != "completed":
        raise RuntimeError(f"run ended {result.status}: {result.because}")
    ends: list[Fate] = []
    if governance is not None and (run := result.run_id) is not None:
        ends = fates(governance.store.read(lambda reader: reader.run_records(run)))
        recorded = [name for (name, _), end in zip(played.calls, ends, strict=True) if end.ran]
        if recorded != ran:
            raise RuntimeError(f"the ledger says that {recorded} ran, the bank saw {ran}")
    read = tuple(message.content for message in result.messages if isinstance(message, ToolMessage))
    return Outcome(result.response.text, read, tuple(ends))
