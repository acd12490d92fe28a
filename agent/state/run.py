"""What is known of a run at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.messages import AIMessage, Message
from agent.state.calls import EPOCH, CallState
from agent.state.events import ENDED, Limits, Status
from governance.ids import Digest, Micros, RequestId, RunId, SubjectId
from governance.policy.model import Principal

__all__ = ["Heard", "RunState"]

UNNAMED: Final = SubjectId("agent:unnamed")
UNKNOWN: Final = Principal(SubjectId("user:unknown"))


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said in a run, by how far it is trusted: people, trusted tools, untrusted ones."""

    user: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunState:
    """Everything a driver knows. `rseq` is the position the next entry of the run will have.

    `turn` counts the model's answers: a question asked again after a crash is the same turn.
    `calls` are the current turn's; once all are answered they become messages. `tool_starts`, `sums`
    (`tool.argument` -> sum over started calls), `last_starts`, `approved_starts` (tool -> starts that an
    approval carried), `failures` and `tokens` are what limits are checked on.
    `said` are the notes people gave; `rejections` maps what a person said no to, to the refusal.
    `waited`: this turn was suspended.
    """

    run: RunId
    rseq: int = 0
    epoch: int = -1
    status: Status = Status.RUNNING
    because: str = ""
    agent: SubjectId = UNNAMED
    principal: Principal = UNKNOWN
    model: str = ""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    started: Micros = EPOCH
    messages: tuple[Message, ...] = ()
    turn: int = 0
    asked: bool = False
    calls: tuple[CallState, ...] = ()
    waited: bool = False
    calls_made: int = 0
    tool_starts: Mapping[str, int] = field(default_factory=dict[str, int])
    sums: Mapping[str, int] = field(default_factory=dict[str, int])
    last_starts: Mapping[str, Micros] = field(default_factory=dict[str, Micros])
    approved_starts: Mapping[str, int] = field(default_factory=dict[str, int])
    failures: int = 0
    tokens: int = 0
    said: Mapping[RequestId, str] = field(default_factory=dict[RequestId, str])
    rejections: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    untrusted: tuple[str, ...] = ()
    untrusted_tools: frozenset[str] = frozenset()
    heard: Heard = field(default_factory=Heard)
    error: str = ""

    def but(self, **changes: object) -> "RunState":
        """Copy the state with `changes`: what `dataclasses.replace` does, at a tenth of its price: a run is
        replayed entry by entry."""
        new = object.__new__(RunState)
        new.__dict__.update(self.__dict__, **changes)
        return new

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def response(self) -> AIMessage:
        """The last thing the model said."""
        said = (m for m in reversed(self.messages) if isinstance(m, AIMessage))
        return next(said, AIMessage())
