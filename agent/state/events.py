"""What can happen to a run. One frozen value each; `agent.journal` turns them into entries and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from agent.messages import AIMessage, Message
from governance.canonical import JSON
from governance.ids import CallUid, Digest, Micros, RequestId, SubjectId
from governance.policy.model import Decision, Demands, Principal

__all__ = [
    "ENDED",
    "ApprovalClosed",
    "ApprovalEvent",
    "ApprovalGranted",
    "ApprovalRequested",
    "ApprovalUsed",
    "CallDecided",
    "CallEnded",
    "CallEvent",
    "CallResolved",
    "CallStarted",
    "CallUnknown",
    "Event",
    "InputReceived",
    "Limits",
    "ModelEvent",
    "ModelRequested",
    "ModelResponded",
    "Noted",
    "Place",
    "RunEnded",
    "RunEvent",
    "RunResumed",
    "RunStarted",
    "RunSuspended",
    "Status",
    "VoteCast",
]


class Status(StrEnum):
    """How a run stands. `waiting` is for calls whose result arrives later, through the inbox."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LIMIT_REACHED = "limit_reached"


ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.LIMIT_REACHED})


@dataclass(frozen=True, slots=True)
class Limits:
    """`iterations`: model turns in all, over any number of resumes."""

    iterations: int = 10
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the log an event stands."""

    seq: int
    ts: Micros


@dataclass(frozen=True, slots=True)
class RunStarted:
    agent: SubjectId
    principal: Principal
    model: str
    tools: Mapping[str, str]
    limits: Limits
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RunSuspended:
    because: str
    open: tuple[RequestId, ...] = ()
    unknown: tuple[CallUid, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunResumed:
    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """`status` is one of the ended ones; `reason` says why a failed run failed."""

    status: Status
    iterations: int
    calls: int
    reason: str = ""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class InputReceived:
    """A message for the run's inbox, deduplicated by `id`."""

    id: str
    message: Message


@dataclass(frozen=True, slots=True)
class ModelRequested:
    turn: int
    messages: int


@dataclass(frozen=True, slots=True)
class ModelResponded:
    turn: int
    message: AIMessage


@dataclass(frozen=True, slots=True)
class CallDecided:
    """`commitment` is known once the entry is sealed. Without `definition` the call cannot run."""

    uid: CallUid
    tool: str
    decision: Decision
    definition: Digest | None = None
    args: bytes | None = None
    input: Mapping[str, JSON] | None = None
    working: Mapping[str, JSON] | None = None
    refusal: str | None = None
    first: int | None = None
    commitment: Digest | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    request: RequestId
    uid: CallUid
    subject: Digest
    decision: int
    demands: Demands
    decide_by: Micros


@dataclass(frozen=True, slots=True)
class ApprovalGranted:
    request: RequestId
    votes: tuple[int, ...]
    use_by: Micros


@dataclass(frozen=True, slots=True)
class VoteCast:
    """One person's answer. `note` is what they said."""

    request: RequestId
    verdict: str
    note: str | None


@dataclass(frozen=True, slots=True)
class ApprovalUsed:
    """The call that `request` was granted for is about to start."""

    request: RequestId
    uid: CallUid


@dataclass(frozen=True, slots=True)
class ApprovalClosed:
    """How a request ended without a call: `rejected`, `expired` or `withdrawn`, or `superseded` when the
    demands grew and the call needs a fresh one. `reason` is a code or a clock."""

    request: RequestId
    how: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    uid: CallUid
    attempt: int
    key: str
    decision: int
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class CallEnded:
    """`error` is None for a result, else the code of a failure."""

    uid: CallUid
    attempt: int
    duration_us: int
    content: JSON
    metadata: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CallUnknown:
    uid: CallUid
    attempt: int


@dataclass(frozen=True, slots=True)
class CallResolved:
    """A person's word on an unknown outcome: `happened` (with its result), `again` or `abandoned`."""

    uid: CallUid
    attempt: int
    how: str
    content: JSON = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """An entry of the run that moves nothing in it."""


RunEvent: TypeAlias = RunStarted | RunSuspended | RunResumed | RunEnded | InputReceived
ModelEvent: TypeAlias = ModelRequested | ModelResponded
ApprovalEvent: TypeAlias = (
    ApprovalRequested | VoteCast | ApprovalGranted | ApprovalUsed | ApprovalClosed
)
CallEvent: TypeAlias = CallDecided | CallStarted | CallEnded | CallUnknown | CallResolved
Event: TypeAlias = RunEvent | ModelEvent | ApprovalEvent | CallEvent | Noted
