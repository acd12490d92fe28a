"""The refund desk of `governance demo`: a small agent whose tools leave traces that can be counted.

Every effect is one line in a file, so that anybody can see what really happened, and how often. The file
stands for the shop's own systems: it knows nothing of the ledger.
"""

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from agent.durable import DurableAgent
from agent.models import OpenAIChat
from agent.tools import ToolError, tool
from governance.assemble import Governance
from governance.canonical import JSON, payload_bytes

__all__ = ["EFFECTS", "NAME", "QUESTION", "RefundDesk", "desk_agent", "effects", "script_text"]

NAME: Final = "refund-desk"
EFFECTS: Final = "effects.jsonl"
QUESTION: Final = (
    "Order 1001 arrived two days late, please refund 15.00 for it. Order 1002 arrived broken, please"
    " refund all 480.00. And then delete my customer account C-7."
)
_SYSTEM: Final = (
    "You work at the refund desk of a shop. Look an order up before you refund it. Amounts are in cents."
    " When a tool says no, do not try it again; tell the customer what happened and what did not."
)
_ORDERS: Final[Mapping[str, Mapping[str, JSON]]] = {
    "1001": {"order": "1001", "item": "desk lamp", "paid_cents": 6900, "customer": "C-7"},
    "1002": {"order": "1002", "item": "office chair", "paid_cents": 48000, "customer": "C-7"},
}
_PRIVATE: Final = 0o600


class RefundDesk:
    """The tools of the desk, over one file of effects."""

    def __init__(self, effects: Path) -> None:
        self._effects = effects

    @tool(verb="READ", side_effect=False)
    def look_up_order(self, order: str) -> dict[str, JSON]:
        """Look up what was bought, and what was paid for it."""
        found = _ORDERS.get(order)
        if found is None:
            raise ToolError(f"there is no order {order}")
        return dict(found)

    @tool(
        verb="FINANCIAL",
        side_effect=True,
        reversibility="hard",
        display="refund {amount_cents} cents for order {order}",
    )
    def refund(self, order: str, amount_cents: int) -> dict[str, JSON]:
        """Pay money back for an order."""
        self._record({"effect": "refund", "order": order, "amount_cents": amount_cents})
        return {"refunded_cents": amount_cents, "order": order}

    @tool(verb="DELETE", side_effect=True, reversibility="none")
    def delete_customer(self, customer: str) -> str:
        """Delete a customer's account."""
        self._record({"effect": "delete", "customer": customer})
        return f"customer {customer} is deleted"

    def _record(self, effect: Mapping[str, JSON]) -> None:
        handle = os.open(self._effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE)
        try:
            os.write(handle, payload_bytes(dict(effect)) + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


def desk_agent(
    governance: Governance, effects: Path, model: str, *, base_url: str | None
) -> DurableAgent:
    """Put the desk behind `model`; without `base_url` where the client finds it."""
    desk = RefundDesk(effects)
    return DurableAgent(
        OpenAIChat(model, base_url=base_url),
        [desk.look_up_order, desk.refund, desk.delete_customer],
        governance=governance,
        name=NAME,
        system_prompt=_SYSTEM,
    )


def effects(file: Path) -> list[str]:
    """List what has really happened, one canonical JSON text for each effect."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def script_text() -> str:
    """Read what the scripted model says."""
    return (resources.files("agent") / "demo_script.yaml").read_text(encoding="utf-8")
