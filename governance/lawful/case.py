"""What does an auditor remember of a run? What can still matter while the run goes on.

A `Case` is one run: who it is for, how each call of its current turn stands, and the counts that limits
are checked on. It is kept while the run can still go on, and moves by the entries alone:

    proposed ──decided──▶ allowed ──started──▶ running ──▶ answered
        ▲                   ▲ granted             │
        │                   │                     ▼
        │                  held              unknown ──▶ answered
        └────────────── resolved: again ──────────┘
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from governance.approval.model import SECOND, Approval, State
from governance.canonical import digest
from governance.ids import Digest, RunId, SubjectId, call_uid, parse_subject_id
from governance.lawful.windows import Windows
from governance.ledger.entry import Entry, Record
from governance.policy.model import Demands, RiskProfile

__all__ = ["Asked", "Call", "Case", "Phase"]


class Phase(StrEnum):
    """How a call stands."""

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    HELD = "held"
    RUNNING = "running"
    UNKNOWN = "unknown"
    ANSWERED = "answered"


@dataclass(slots=True)
class Call:
    """One proposed call. `decision` is the newest about it, `first` the one that holds its arguments.

    `proposed` is the tool that the model named, None where its message is not at hand; `refused` tells an
    answer without a run from one after it; `profile` is the tool's, as registered. `request` is the
    approval it waits for or may use, `used` the one that its last start was made under.
    """

    uid: str
    proposed: str | None = None
    tool: str = ""
    phase: Phase = Phase.PROPOSED
    refused: bool = False
    decision: Entry | None = None
    first: Record | None = None
    profile: RiskProfile | None = None
    request: str | None = None
    used: str | None = None
    attempts: int = 0
    key: str | None = None

    @property
    def args(self) -> Any:
        """The frozen arguments, or None when they are not at hand."""
        if self.first is None or "args" not in self.first.payloads:
            return None
        return self.first.content("args")

    @property
    def integers(self) -> Mapping[str, int] | None:
        """The whole-number arguments, which sums are kept of."""
        args = self.args
        if not isinstance(args, dict):
            return None
        return {str(key): value for key, value in args.items() if type(value) is int}

    @property
    def content(self) -> Digest | None:
        """Name what the call would do, whichever turn proposes it."""
        if self.first is None or "args" not in self.first.payloads:
            return None
        text = self.first.payloads["args"].content.decode()
        named = [self.tool, self.first.entry.body["definition"], text]
        return digest("governance/content/v1", named)

    def refuse(self) -> None:
        self.phase, self.refused = Phase.ANSWERED, True


@dataclass(slots=True)
class Asked:
    """One approval request: its records so far, and what they come to.

    `card` is the digest of the card that voters were shown, None where it cannot be laid out again.
    `owed`: its last vote decided it, and the entry that says so is still to come.
    """

    uid: str
    demands: Demands
    approval: Approval
    card: Digest | None
    records: list[Record] = field(default_factory=list[Record])
    owed: Entry | None = None

    @property
    def open(self) -> bool:
        return self.approval.state in {State.PENDING, State.GRANTED}


@dataclass(slots=True)
class Case:
    """One run. `floor` is the policy activation in force when its driver took it; `last` its newest entry.

    `windows` is one for all runs of the log; `latest` is when each tool was last started, `approved` how
    often under an approval.
    `sums` and `rejections` are None once they cannot be recounted, for want of erased arguments.
    `history` is what cards are laid out from: its first record, and after `bare` the current turn's, still
    have their payloads.
    """

    run: RunId
    started: Record
    agent: SubjectId
    floor: int
    last: Entry
    windows: Windows
    turn: int = 0
    tokens: int = 0
    failures: int = 0
    ended: bool = False
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    latest: dict[str, int] = field(default_factory=dict[str, int])
    approved: dict[str, int] = field(default_factory=dict[str, int])
    sums: dict[str, int] | None = field(default_factory=dict[str, int])
    rejections: set[Digest] | None = field(default_factory=set[Digest])
    untrusted: list[str] = field(default_factory=list[str])
    untrusted_tools: set[str] = field(default_factory=set[str])
    user_texts: list[str] = field(default_factory=list[str])
    history: list[Record] = field(default_factory=list[Record])
    bare: int = 1

    @classmethod
    def open(cls, record: Record, floor: int, windows: Windows) -> "Case":
        """Begin with `run.started`."""
        entry = record.entry
        agent = parse_subject_id(entry.body["agent"])
        case = cls(RunId(entry.run or ""), record, agent, floor, entry, windows)
        case.history.append(record)
        if "input" in record.payloads:
            for message in record.content("input")["messages"]:
                case.hear(message)
        return case

    @property
    def principal(self) -> str:
        """On whose behalf the run acts."""
        return str(self.started.entry.body["principal"]["id"])

    @property
    def closed(self) -> bool:
        """Nothing lawful can follow any more."""
        if not self.ended:
            return False
        waits = any(call.phase is Phase.RUNNING for call in self.calls.values())
        return not waits and not any(asked.open for asked in self.asked.values())

    def propose(self, record: Record) -> bool:
        """Begin a turn with the calls of `model.responded`; False when they are not named as they must be."""
        body = record.entry.body
        turn, uids = body["turn"], body["calls"]
        named = [call_uid(self.run, turn, n) for n in range(len(uids))]
        fits: bool = turn == self.turn + 1 and uids == named
        self.turn = turn
        self.tokens += body["tokens"]["input"] + body["tokens"]["output"]
        self.calls = {uid: Call(uid) for uid in uids}
        if "message" in record.payloads:
            made = record.content("message").get("tool_calls", [])
            fits = fits and len(made) == len(uids)
            for call, one in zip(self.calls.values(), made, strict=False):
                call.proposed = one["name"]
        for index in range(self.bare, len(self.history)):
            self.history[index] = Record(self.history[index].entry)
        self.bare = len(self.history)
        return fits

    def hear(self, message: Mapping[str, Any]) -> None:
        """Remember what the user, or whoever set the agent up, said."""
        if message["role"] in {"user", "system"}:
            self.user_texts.append(message["content"])

    def keep(self, record: Record) -> None:
        """Remember an entry that cards are laid out from."""
        if "uid" in record.entry.body or "request" in record.entry.body:
            self.history.append(record)

    def start(self, call: Call, entry: Entry) -> None:
        """Count a start."""
        call.phase, call.attempts = Phase.RUNNING, entry.body["attempt"]
        self.starts[call.tool] = self.starts.get(call.tool, 0) + 1
        self.latest[call.tool] = entry.ts
        if "request" in entry.body:
            self.approved[call.tool] = self.approved.get(call.tool, 0) + 1
        self.sums = _added(self.sums, call)
        self.windows.take(self.principal, call.tool, entry.ts)

    def reject(self, call: Call) -> None:
        """Remember what a person said no to."""
        content = call.content
        if content is None or self.rejections is None:
            self.rejections = None
        else:
            self.rejections.add(content)

    def facts(self, call: Call, now: int) -> dict[str, Any]:
        """Recount what policy was told of the run when it decided about `call` at `now`.

        Counts, sums and `last` hold every started call and every other call of the turn that may start.
        """
        starts, sums = dict(self.starts), self.sums
        last = {tool: max(0, now - then) // SECOND for tool, then in self.latest.items()}
        for other in self._siblings(call):
            starts[other.tool] = starts.get(other.tool, 0) + 1
            last[other.tool] = 0
            sums = _added(sums, other)
        facts: dict[str, Any] = {
            "id": self.run,
            "step": self.turn,
            "calls": starts,
            "last": last,
            "approved": dict(self.approved),
            "failures": self.failures,
            "turn_refused": sum(other.refused for other in self.calls.values()),
            "tokens": self.tokens,
            "elapsed_s": max(0, now - self.started.entry.ts) // SECOND,
            "untrusted": bool(self.untrusted),
            "untrusted_sources": list(self.untrusted),
        }
        if sums is not None:
            facts["sums"] = sums
        if self.rejections is not None:
            facts["rejected"] = int(call.content in self.rejections)
        return facts

    def window(self, call: Call, now: int) -> dict[str, dict[str, int]]:
        """Recount what policy was told of the principal, with siblings as in `facts`."""
        windows = self.windows.counts(self.principal, now)
        for other in self._siblings(call):
            for starts in windows.values():
                starts[other.tool] = starts.get(other.tool, 0) + 1
        return windows

    def _siblings(self, call: Call) -> list[Call]:
        """The other calls of the turn that may start."""
        others = self.calls.values()
        return [one for one in others if one.phase is Phase.ALLOWED and one.uid != call.uid]


def _added(sums: dict[str, int] | None, call: Call) -> dict[str, int] | None:
    integers = call.integers
    if sums is None or integers is None:
        return None
    added = dict(sums)
    for name, value in integers.items():
        added[f"{call.tool}.{name}"] = added.get(f"{call.tool}.{name}", 0) + value
    return added
