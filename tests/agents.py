"""What tests of agents share: a model that says what it is told to, over no socket, and people."""

import secrets
from collections.abc import Callable, Sequence

from agent import AIMessage
from agent.messages import Message, ToolCall
from governance import Governance, people, queue
from governance.approval.model import Verdict
from governance.canonical import payload_bytes

Turn = AIMessage | Exception | Callable[[Sequence[Message]], AIMessage]


class Plays:
    """A model that plays `turns`, one a request; then it repeats the last one."""

    name = "plays"

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.asked: list[tuple[Message, ...]] = []
        self.tools: list = []

    async def respond(self, messages, tools) -> AIMessage:
        turn = self.turns[min(len(self.asked), len(self.turns) - 1)]
        self.asked.append(tuple(messages))
        self.tools = list(tools)
        check_conversation(messages)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, AIMessage) else turn(messages)

    def results(self) -> list[str]:
        """The tool results in the last request."""
        return [m.content for m in self.asked[-1] if m.role == "tool"]


def check_conversation(messages: Sequence[Message]) -> None:
    """Refuse what a strict provider refuses: a call without exactly one result, an id used twice."""
    owed: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id in owed, f"a result for nothing: {message}"
            owed.remove(message.tool_call_id)
            continue
        assert not owed, f"calls without a result: {owed}"
        if message.role == "assistant":
            owed = [call.id for call in message.tool_calls]
            assert len(set(owed)) == len(owed)
    assert not owed, f"calls without a result: {owed}"


def say(text: str = "done") -> AIMessage:
    return AIMessage(content=text, stop="stop")


def call(name: str, /, **arguments) -> ToolCall:
    return ToolCall(id="x", name=name, arguments=payload_bytes(arguments).decode())


def calls(*made: ToolCall) -> AIMessage:
    return AIMessage(tool_calls=made, stop="tool_calls")


def person(gov: Governance, name: str = "ann", *roles: str):
    somebody, _ = people.add(
        gov.store, gov.new_id, secrets.token_bytes, name, roles or ("approver",)
    )
    return somebody


def vote(gov: Governance, who, request, verdict: Verdict = Verdict.APPROVE, note="because"):
    card = queue.card(gov.store, request)
    meaning = "approve" if verdict is Verdict.APPROVE else "reject"
    ballot = queue.Ballot(request, who.subject, verdict, meaning, note, card.digest)
    return queue.vote(gov.store, gov.clock, gov.signer, ballot)


def kinds(gov: Governance, run: str) -> list[str]:
    return [r.entry.kind.value for r in gov.store.read(lambda r: r.run_records(run))]
