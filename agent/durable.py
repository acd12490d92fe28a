"""An agent whose runs outlive the process: they suspend for people, and go on wherever they are resumed.

A run's state is its entries in the ledger and nothing else. `run` and `resume` do the same thing, from
another starting point; both may be called again, from anywhere, and do nothing twice.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypedDict, Unpack

import anyio

from agent.booking import Desk
from agent.governed import ledger_log
from agent.logbook import BusyError, LedgerLog
from agent.loop import Input, limits, opening
from agent.models.port import Model
from agent.portal import run_sync
from agent.result import AgentResult, PendingApproval, pending_of, result_of
from agent.runtime import Driver, Failpoint, no_failpoint
from agent.state import RunStarted, RunState
from agent.tools import AnyTool, Secrets, ToolRegistry
from governance.assemble import Governance
from governance.ids import RunId, parse_run_id
from governance.policy.model import Principal

__all__ = ["DurableAgent", "DurableOptions"]

LEASE_SLACK_S: Final = 0.05


class DurableOptions(TypedDict, total=False):
    """As for `create_agent`, `secrets` too. `name` is how ledger, policies and approvers know the agent."""

    system_prompt: str | None
    max_iterations: int
    parallel_tools: bool
    name: str
    failpoint: Failpoint
    secrets: Secrets | None


class DurableAgent:
    """Runs that suspend and resume. Each method has an async form with an `a` before its name."""

    def __init__(
        self,
        model: Model,
        tools: Iterable[AnyTool | object] = (),
        *,
        governance: Governance,
        **options: Unpack[DurableOptions],
    ) -> None:
        name = options.get("name", "agent")
        registry = ToolRegistry(tools, secrets=options.get("secrets", {}))
        self._governed = ledger_log(governance, Desk(registry), name)
        self._model = model
        self._system_prompt = options.get("system_prompt")
        self._limits = limits(
            options.get("max_iterations", 10), options.get("parallel_tools", True)
        )
        self._failpoint = options.get("failpoint", no_failpoint)
        self.governance = governance

    @property
    def name(self) -> str:
        return self._governed.agent

    def through(self, wrap: Callable[[Model], Model]) -> "DurableAgent":
        """The same agent, asking its model through `wrap`."""
        other = copy.copy(self)
        other._model = wrap(self._model)  # noqa: SLF001  # a copy of ourselves
        return other

    def run(
        self, given: Input, *, run_id: str | None = None, principal: Principal | None = None
    ) -> AgentResult:
        """Start a run and drive it until it ends or waits for somebody.

        Raises ConflictError when a run with `run_id` exists, ModelError when the model cannot be
        reached (the run then waits to be resumed), UnavailableError when nothing could be recorded.
        """
        return run_sync(lambda: self.arun(given, run_id=run_id, principal=principal))

    def resume(self, run_id: str, *, wait: bool = True) -> AgentResult:
        """Go on with a run whose answers are in, or whose driver died; else tell how it stands.

        A driver that died holds its lease a few seconds longer; with `wait` these are waited out. Raises
        ConflictError when a live driver has it, InvalidInputError for an unknown run.
        """
        return run_sync(lambda: self.aresume(run_id, wait=wait))

    def pending(self, run_id: str) -> tuple[PendingApproval, ...]:
        """List the calls of a run that wait for people."""
        return run_sync(lambda: self.apending(run_id))

    def cancel(self, run_id: str, *, note: str | None = None) -> AgentResult:
        """End a run. What is in flight is not interrupted; nothing new of it starts."""
        return run_sync(lambda: self.acancel(run_id, note=note))

    async def arun(
        self, given: Input, *, run_id: str | None = None, principal: Principal | None = None
    ) -> AgentResult:
        governed = self._governed
        run = RunId(governed.new_id("run")) if run_id is None else parse_run_id(run_id)
        started = RunStarted(
            agent=governed.agent,
            principal=principal or Principal(governed.agent),
            model=self._model.name,
            tools={t.definition.name: t.definition.digest.hex() for t in governed.log.desk.tools},
            limits=self._limits,
            messages=opening(self._system_prompt, given),
        )
        log = self._log()
        return await self._drive(log, await log.start(run, started))

    async def aresume(self, run_id: str, *, wait: bool = True) -> AgentResult:
        run, log = parse_run_id(run_id), self._log()
        try:
            state = await log.resume(run, "asked")
        except BusyError as busy:
            if not wait:
                raise
            # A driver that died renews no more: its lease is waited out once. One that lives has renewed.
            left_s = (busy.until - self.governance.clock()) / 1_000_000
            await anyio.sleep(max(0.0, left_s) + LEASE_SLACK_S)
            state = await log.resume(run, "asked")
        return await self._drive(log, state)

    async def apending(self, run_id: str) -> tuple[PendingApproval, ...]:
        state = await self._governed.log.load(parse_run_id(run_id))
        return pending_of(state, self._governed.log.desk)

    async def acancel(self, run_id: str, *, note: str | None = None) -> AgentResult:
        state = await self._log().cancel(parse_run_id(run_id), note)
        return result_of(state, self._governed.log.desk)

    def _log(self) -> LedgerLog:
        """Each drive holds its lease under a name of its own, so that two in one process are two."""
        return replace(self._governed.log, holder=self._governed.new_id("driver"))

    async def _drive(self, log: LedgerLog, state: RunState) -> AgentResult:
        driver = Driver(log, log.desk, self._model, failpoint=self._failpoint)
        return result_of(await driver.drive(state), log.desk)
