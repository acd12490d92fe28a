"""How one proposed call stands: a sum type whose variants hold only what belongs to them."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from governance.ids import CallUid, Digest, Micros, RequestId
from governance.policy.model import Decision

__all__ = [
    "EPOCH",
    "Allowed",
    "Answered",
    "Call",
    "CallState",
    "Held",
    "Proposed",
    "Ruling",
    "Running",
    "Unknown",
]

EPOCH: Final = Micros(0)


@dataclass(frozen=True, slots=True)
class Call:
    """A proposed call. `id` is ours, so that two calls with one provider id stay two."""

    uid: CallUid
    id: str
    name: str
    arguments: str
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Ruling:
    """The newest decision about a call: `seq` is its entry, `first` the entry that holds the arguments."""

    decision: Decision
    seq: int
    first: int
    definition: Digest
    args: bytes
    commitment: Digest
    side_effect: bool
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Proposed:
    call: Call


@dataclass(frozen=True, slots=True)
class Allowed:
    """May start. `request` names the granted approval it will use up."""

    call: Call
    ruling: Ruling
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Needs people. `request` is None for the moment between the decision and the request."""

    call: Call
    ruling: Ruling
    request: RequestId | None = None
    decide_by: Micros = EPOCH


@dataclass(frozen=True, slots=True)
class Running:
    """Started under `epoch`, with idempotency key `key`. Under a newer epoch nobody performs it any more."""

    call: Call
    ruling: Ruling
    epoch: int
    key: str
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Started, and nobody knows what became of it. `request` is the approval it used up."""

    call: Call
    ruling: Ruling
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """Has its one result. `refused` tells a call that never ran from one that did."""

    call: Call
    text: str
    ok: bool
    refused: bool = False


CallState: TypeAlias = Proposed | Allowed | Held | Running | Unknown | Answered
