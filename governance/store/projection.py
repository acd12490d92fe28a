"""How does one entry move what is indexed beside the log? Pure; every store uses it.

place      gives a draft its position behind the tip of the log and the head of its run
extend     the tip after an entry
advance    the head of a run after an entry
request_of what an entry does to an approval request: `approval.requested` opens it, a final entry
           closes it, a grant leaves it open until it is used
start_of   what an entry adds to the counts of started calls
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from governance.canonical import SALT_BYTES, payload_bytes
from governance.errors import InvalidInputError
from governance.ids import Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Entry,
    Kind,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    seal,
)
from governance.ledger.merkle import Edge
from governance.ports import Head, RunHead, Signer

__all__ = [
    "PAYLOADS_MAX",
    "RequestMove",
    "Start",
    "Tip",
    "advance",
    "extend",
    "is_about",
    "latest_key",
    "latest_keys",
    "log_created",
    "place",
    "request_of",
    "start",
    "start_of",
]

PAYLOADS_MAX: Final = 16
"""The most payloads beside one entry."""

SYSTEM: Final = SubjectId("system:governance")

_STATUS: Final[Mapping[Kind, str]] = {
    Kind.RUN_STARTED: "running",
    Kind.RUN_RESUMED: "running",
    Kind.RUN_SUSPENDED: "suspended",
    Kind.RUN_COMPLETED: "completed",
    Kind.RUN_FAILED: "failed",
    Kind.RUN_CANCELLED: "cancelled",
}
_TAKES_THE_RUN: Final = frozenset({Kind.RUN_STARTED, Kind.RUN_RESUMED})
_CLOSES_A_REQUEST: Final = frozenset(
    {
        Kind.APPROVAL_REJECTED,
        Kind.APPROVAL_EXPIRED,
        Kind.APPROVAL_WITHDRAWN,
        Kind.APPROVAL_USED,
    }
)


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a log: where the next entry attaches, and what the next root is computed from."""

    origin: Origin
    size: int
    last: Digest
    ts: Micros
    edge: Edge

    @property
    def head(self) -> Head:
        return Head(size=self.size, last=self.last, root=self.edge.root(), ts=self.ts)


@dataclass(frozen=True, slots=True)
class RequestMove:
    """An entry opens this request of a run, or closes it."""

    run: RunId
    request: RequestId
    opens: bool


@dataclass(frozen=True, slots=True)
class Start:
    """A call has started on behalf of `principal`; `decision` is the earlier entry, of the same run, that
    names its tool."""

    principal: SubjectId
    decision: int


def start(origin: Origin) -> Tip:
    """Give the tip of a log that has no entry yet."""
    return Tip(origin=origin, size=0, last=genesis(origin), ts=Micros(0), edge=Edge())


def log_created(signer: Signer | None, succeeds: str | None = None) -> Draft:
    """The first entry of every log: the keys it will sign with, and the last head of the log before it.

    They inform; a verifier pins its own.
    """
    keys = [signer.verifier_key] if signer is not None else []
    before = {} if succeeds is None else {"succeeds": succeeds}
    return Draft(Kind.LOG_CREATED, SYSTEM, {"keys": keys, **before})


def extend(tip: Tip, entry: Entry) -> Tip:
    return Tip(
        origin=tip.origin,
        size=tip.size + 1,
        last=entry.hash,
        ts=entry.ts,
        edge=tip.edge.append(entry.hash),
    )


def place(
    draft: Draft, at: Micros, tip: Tip, run: RunHead | None, salts: Callable[[int], bytes]
) -> Record:
    """Seal `draft` behind `tip`, and behind `run`, the head of its run so far. Time never goes back.

    Raises InvalidInputError when the draft is outside the entry profile, a payload is no JSON value,
    or an approval request has no name or no run.
    """
    if len(draft.payloads) > PAYLOADS_MAX:
        raise InvalidInputError(f"`{draft.kind}` has more than {PAYLOADS_MAX} payloads")
    payloads = {
        name: Payload(name, salts(SALT_BYTES), payload_bytes(content))
        for name, content in draft.payloads.items()
    }
    entry = seal(
        draft,
        tip.origin,
        Link(seq=tip.size, prev=tip.last, ts=max(at, tip.ts)),
        _run_link(draft, run),
        {name: payload.commitment for name, payload in payloads.items()},
    )
    if entry.kind is Kind.APPROVAL_REQUESTED and request_of(entry) is None:
        raise InvalidInputError(f"`{entry.kind}` needs a run and a `request`")
    return Record(entry, payloads)


def advance(run: RunHead | None, entry: Entry) -> RunHead | None:
    """Move the head of `entry`'s run past `entry`; None when the entry belongs to no run."""
    if entry.run is None or entry.rseq is None:
        return None
    agent = entry.body.get("agent")
    return RunHead(
        run=entry.run,
        agent=run.agent if run else SubjectId(agent) if isinstance(agent, str) else entry.actor,
        principal=run.principal if run else entry.on_behalf_of or entry.actor,
        rseq=entry.rseq + 1,
        last=entry.hash,
        epoch=entry.seq if run is None or entry.kind in _TAKES_THE_RUN else run.epoch,
        status=_STATUS.get(entry.kind, run.status if run else "running"),
        started=run.started if run else entry.ts,
        updated=entry.ts,
    )


def request_of(entry: Entry) -> RequestMove | None:
    """Tell which approval request `entry` opens or closes, if any."""
    request = entry.body.get("request")
    opens = entry.kind is Kind.APPROVAL_REQUESTED
    if entry.run is None or not isinstance(request, str):
        return None
    if not opens and entry.kind not in _CLOSES_A_REQUEST:
        return None
    return RequestMove(entry.run, RequestId(request), opens)


def start_of(entry: Entry) -> Start | None:
    """Tell for whom `entry` starts a call, if it does."""
    decision = entry.body.get("decision")
    if entry.kind is not Kind.CALL_STARTED or entry.run is None or type(decision) is not int:
        return None
    if not 0 <= decision < entry.seq:
        return None
    return Start(entry.on_behalf_of or entry.actor, decision)


def latest_keys(entry: Entry) -> tuple[str, ...]:
    """The keys under which `entry` is now the newest: its kind, and outside runs its kind with the tool or
    sink that it is about."""
    name = entry.body.get("sink" if entry.kind is Kind.ANCHOR_RECORDED else "tool")
    if entry.run is not None or not isinstance(name, str):
        return (entry.kind.value,)
    return (entry.kind.value, latest_key(entry.kind, name))


def latest_key(kind: Kind, name: str | None) -> str:
    return kind.value if name is None else f"{kind.value} {name}"


def is_about(entry: Entry, key: str) -> bool:
    """Tell whether the body names `key` as its `uid` or `request`."""
    return key in (entry.body.get("uid"), entry.body.get("request"))


def _run_link(draft: Draft, run: RunHead | None) -> RunLink | None:
    if draft.run is None:
        return None
    return RunLink(run.rseq, run.last) if run else RunLink(0, RUN_START)
