"""Joins an agent to a `Governance`: the rules it books by and the log it writes to."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.booking import Desk, Rules
from agent.logbook import LedgerLog, tool_facts
from governance.assemble import Governance
from governance.ids import SubjectId, parse_subject_id

__all__ = ["Ledgered", "ledger_log"]


@dataclass(frozen=True, slots=True)
class Ledgered:
    """A governed agent's log, its name in the ledger, and where its ids come from."""

    log: LedgerLog
    agent: SubjectId
    new_id: Callable[[str], str]


def ledger_log(governance: Governance, desk: Desk, name: str) -> Ledgered:
    """Prepare to drive runs of the agent `name`. Raises InvalidInputError for a name that is none."""
    rules = Rules(
        rulebook=governance.rulebook,
        environment=governance.environment,
        origin=governance.store.origin,
        new_id=governance.new_id,
    )
    agent = parse_subject_id(f"agent:{name}")
    governance.rulebook.serve(tuple(tool_facts(tool) for tool in desk.tools))
    log = LedgerLog(
        store=governance.store,
        clock=governance.clock,
        desk=replace(desk, rules=rules),
        rules=rules,
        signer=governance.signer,
        agent=agent,
        holder=governance.new_id("driver"),
        lease_us=governance.lease_us,
    )
    return Ledgered(log, agent, governance.new_id)
