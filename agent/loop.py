"""A plain agent: a model that calls your functions until it has an answer.

With `governance` every call goes through the policies and into the ledger; one that needs a person asks
the `approver` at hand, or is refused. `DurableAgent` suspends instead and waits for the queue.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypedDict, Unpack

from agent.approver import Approver, Ask
from agent.booking import Desk
from agent.governed import Ledgered, ledger_log
from agent.logbook import NoLog
from agent.messages import Message, SystemMessage, to_messages
from agent.models.port import Model
from agent.portal import run_sync
from agent.result import AgentResult, result_of
from agent.runtime import Driver
from agent.state import Limits, RunStarted, RunState
from agent.tools import AnyTool, Secrets, ToolRegistry
from governance.assemble import Governance
from governance.errors import InvalidInputError
from governance.ids import RunId, SubjectId
from governance.policy.model import Principal

__all__ = ["Agent", "AgentOptions", "AsyncAgent", "Input", "create_agent", "create_async_agent"]

Input: TypeAlias = str | Message | Sequence[Message]
LOCAL: Final = RunId("local")
ITERATIONS_MAX: Final = 10_000


class AgentOptions(TypedDict, total=False):
    """What `create_agent` and `create_async_agent` take beside model and tools.

    `system_prompt`: the first message. `max_iterations` (10): model turns before it stops. `parallel_tools`
    (True): run the calls of one turn side by side. `governance`: policies and ledger. `approver`: a
    function, or an `Approver`, that is asked about calls which need a person. `name`: how the ledger and
    the approvers know this agent. `principal`: on whose behalf it acts. `secrets`: where tools get theirs.
    """

    system_prompt: str | None
    max_iterations: int
    parallel_tools: bool
    governance: Governance | None
    approver: Ask | Approver | None
    name: str
    principal: Principal | None
    secrets: Secrets | None


Agent: TypeAlias = Callable[[Input], AgentResult]
AsyncAgent: TypeAlias = Callable[[Input], Awaitable[AgentResult]]


def create_agent(
    model: Model, tools: Iterable[AnyTool | object] = (), **options: Unpack[AgentOptions]
) -> Agent:
    """Make a callable agent. Works inside a running event loop too.

    Raises DuplicateToolError and InvalidInputError for tools or options that cannot be.
    """
    agent = _PlainAgent.build(model, tools, options)

    def call(given: Input) -> AgentResult:
        return run_sync(lambda: agent.run(given))

    return call


def create_async_agent(
    model: Model, tools: Iterable[AnyTool | object] = (), **options: Unpack[AgentOptions]
) -> AsyncAgent:
    """Make an agent to be awaited; otherwise `create_agent`."""
    return _PlainAgent.build(model, tools, options).run


@dataclass(frozen=True, slots=True)
class _PlainAgent:
    model: Model
    desk: Desk
    limits: Limits
    system_prompt: str | None
    approver: Approver | None
    governed: Ledgered | None
    principal: Principal | None

    @classmethod
    def build(
        cls, model: Model, tools: Iterable[AnyTool | object], options: AgentOptions
    ) -> "_PlainAgent":
        governance = options.get("governance")
        registry = ToolRegistry(tools, secrets=options.get("secrets", {}))
        desk = Desk(registry, waits=False)
        governed = None
        if governance is not None:
            governed = ledger_log(governance, desk, options.get("name", "agent"))
            desk = governed.log.desk
        asked = options.get("approver")
        return cls(
            model=model,
            desk=desk,
            limits=limits(options.get("max_iterations", 10), options.get("parallel_tools", True)),
            system_prompt=options.get("system_prompt"),
            approver=asked if isinstance(asked, Approver) or asked is None else Approver(asked),
            governed=governed,
            principal=options.get("principal"),
        )

    async def run(self, given: Input) -> AgentResult:
        agent = self.governed.agent if self.governed is not None else SubjectId("agent:local")
        started = RunStarted(
            agent=agent,
            principal=self.principal or Principal(agent),
            model=self.model.name,
            tools={t.definition.name: t.definition.digest.hex() for t in self.desk.tools},
            limits=self.limits,
            messages=opening(self.system_prompt, given),
        )
        if self.governed is None:
            log = NoLog(self.desk)
            state = await log.advance(RunState(LOCAL), [started])
            driver = Driver(log, self.desk, self.model)
        else:
            ledger = replace(self.governed.log, holder=self.governed.new_id("driver"))
            state = await ledger.start(RunId(self.governed.new_id("run")), started)
            driver = Driver(ledger, self.desk, self.model, self.approver)
        return result_of(await driver.drive(state), self.desk)


def limits(iterations: int, parallel: bool) -> Limits:
    """Check the limits people give. Raises InvalidInputError."""
    if not 1 <= iterations <= ITERATIONS_MAX:
        raise InvalidInputError(
            f"max_iterations `{iterations}` is not between 1 and {ITERATIONS_MAX}"
        )
    return Limits(iterations, parallel)


def opening(system_prompt: str | None, given: Input) -> tuple[Message, ...]:
    """Put the system prompt before what was given."""
    messages = to_messages(given)
    if not messages:
        raise InvalidInputError("nothing to say to the model", hint="give a text or messages")
    return messages if system_prompt is None else (SystemMessage(content=system_prompt), *messages)
