"""May this call happen, now? The questions a driver asks inside its transaction, and what it records
about the rules and tools it works under.

Nothing here performs anything. A driver decides with `judge`, and before a call starts it asks
`standing` whether the yes it holds is still one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from governance.approval.model import Approval, Deadline, State, Use
from governance.approval.quorum import stands
from governance.approval.transitions import overdue, step
from governance.canonical import JSON, thaw
from governance.errors import ConflictError, RefusedError
from governance.ids import CallUid, Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.lawful.approvals import fold_approval
from governance.ledger.entry import Draft, Entry, Kind
from governance.policy.admit import admits
from governance.policy.decide import decide_admitted, reject
from governance.policy.lint import Toolbox, ToolShape, refuse_unfit
from governance.policy.model import Decision, Principal, RiskProfile
from governance.policy.risk import registered_tool_input
from governance.policy.rules import PolicySet, refuse_rollback
from governance.policy.working import working
from governance.ports import Reader, Transaction

__all__ = [
    "GATE",
    "Environment",
    "Judgement",
    "Question",
    "Standing",
    "ToolFacts",
    "Usable",
    "Void",
    "activate",
    "fit",
    "idempotency_key",
    "in_force",
    "judge",
    "register",
    "standing",
]

GATE: Final = SubjectId("system:gate")
INLINE: Final = "approver:"
"""Subjects of approvers that the embedding program brings; it vouches for their roles."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where this process runs, as policies may ask: `env.name == "production"`."""

    name: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a decision is made from, but for the clock and the environment.

    `args` are the frozen arguments, `origin` where each text in them comes from, `run` the facts of
    the run so far, `window` those of the principal, where a rule of the set may ask for them.
    """

    tool: str
    definition: Digest
    profile: RiskProfile
    args: bytes
    origin: Mapping[str, JSON]
    principal: Principal
    agent: Mapping[str, JSON]
    run: Mapping[str, JSON]
    window: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision, the input it was made from as it is recorded: all but the arguments, and its working."""

    decision: Decision
    input: Mapping[str, JSON]
    working: Mapping[str, JSON] | None


def judge(
    policies: PolicySet, environment: Environment, question: Question, now: Micros
) -> Judgement:
    """Decide, and keep what the decision was made from. Never raises; an error is a no."""
    recorded: dict[str, JSON] = {
        "tool": registered_tool_input(question.tool, question.definition, question.profile),
        "args_origin": dict(question.origin),
        "principal": question.principal.to_json(),
        "agent": dict(question.agent),
        "run": dict(question.run),
        "env": {"name": environment.name, "labels": dict(environment.labels)},
        "now": now,
    }
    if question.window is not None:
        recorded["window"] = dict(question.window)
    inputs = {**recorded, "args": thaw(question.args)}
    decide = decide_admitted if admits(question.args) else reject
    decision = decide(policies, inputs)
    return Judgement(decision, recorded, working(policies, inputs, decision))


@dataclass(frozen=True, slots=True)
class Usable:
    """The approval stands; `again` when this very call has used it before."""

    approval: Approval
    again: bool = False


@dataclass(frozen=True, slots=True)
class Void:
    """The approval no longer carries the call. `deadline` is set when its time ran out."""

    reason: str
    deadline: Deadline | None = None


Standing: TypeAlias = Usable | Void


def standing(reader: Reader, run: RunId, request: RequestId, use: Use, now: Micros) -> Standing:
    """Tell whether the granted approval `request` may be used for exactly this call at `now`.

    Checked: the clocks, that it is unused (or was used by this very call), that `use` is what the
    people saw, that those who said yes still may. Raises TamperedError when its records contradict
    each other.
    """
    approval = fold_approval(reader.about(run, request))
    deadline = overdue(approval, now)
    if deadline is not None:
        return Void("expired", deadline)
    again = approval.state is State.USED and approval.uid == use.uid
    if again:
        same = approval.subject == use.subject
        return Usable(approval, again=True) if same else Void("subject-changed")
    if not stands(approval, _roles_now(reader, approval)):
        return Void("approver-lost-right")
    try:
        step(approval, use, now)
    except RefusedError:
        return Void("subject-changed")
    except ConflictError:
        return Void(f"approval-{approval.state}")
    return Usable(approval)


def _roles_now(reader: Reader, approval: Approval) -> dict[SubjectId, frozenset[str]]:
    roles: dict[SubjectId, frozenset[str]] = {}
    for vote in approval.votes:
        if vote.voter.startswith(INLINE):
            roles[vote.voter] = vote.roles
            continue
        person = reader.people.by_subject(vote.voter)
        if person is not None and person.active:
            roles[vote.voter] = person.roles
    return roles


def idempotency_key(origin: Origin, uid: CallUid) -> str:
    """Name a call to the outside world: the same for each attempt, another for any other call."""
    text = f"governance/idempotency/v1\0{origin}\0{uid}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def activate(tx: Transaction, policies: PolicySet, at: Micros) -> None:
    """Record that decisions are made under `policies` from here on, unless that is what stands.

    Raises RefusedError when a policy would go back to a lower version.
    """
    latest = tx.latest((Kind.POLICY_ACTIVATED,))
    before: dict[str, int] = {}
    if latest is not None:
        if _names(latest.entry, policies):
            return
        # What was left out meanwhile may not come back in a lower version either.
        before = {**latest.entry.body.get("earlier", {}), **latest.entry.body["versions"]}
        refuse_rollback(before, policies.versions)
    body: dict[str, JSON] = {
        "policy": policies.digest.hex(),
        "versions": dict(policies.versions),
        "engine": policies.engine,
    }
    payloads: dict[str, JSON] = {"text": dict(policies.files)}
    earlier: dict[str, JSON] = {n: v for n, v in before.items() if n not in policies.versions}
    if earlier:
        body["earlier"] = earlier
    if policies.signature is not None:
        body["key"] = policies.signature.key
        payloads["signature"] = policies.signature.signed
    tx.append(Draft(Kind.POLICY_ACTIVATED, GATE, body, payloads), at)


def in_force(reader: Reader, policies: PolicySet) -> bool:
    """Tell whether `policies` are what the log's newest activation names."""
    latest = reader.latest((Kind.POLICY_ACTIVATED,))
    return latest is not None and _names(latest.entry, policies)


def _names(activation: Entry, policies: PolicySet) -> bool:
    key = None if policies.signature is None else policies.signature.key
    body = activation.body
    return (body["policy"], body.get("key")) == (policies.digest.hex(), key)


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What the ledger keeps of a tool's definition."""

    name: str
    definition: Digest
    profile: RiskProfile
    schema: Mapping[str, JSON]


def fit(policies: PolicySet, tools: tuple[ToolFacts, ...]) -> None:
    """Raise PolicyError, with file and line, when `policies` can never mean what they say with `tools`.

    Looked at once for each pair, so it may be asked at every start.
    """
    shapes = {
        tool.name: ToolShape(tool.profile, cast("Mapping[str, JSON]", tool.schema["parameters"]))
        for tool in tools
    }
    refuse_unfit(policies, Toolbox(frozenset(tool.definition for tool in tools), shapes))


def register(tx: Transaction, tools: tuple[ToolFacts, ...], at: Micros) -> None:
    """Record each tool that the log does not know yet, or knows with another definition."""
    for tool in tools:
        kinds = (Kind.TOOL_REGISTERED, Kind.TOOL_CHANGED)
        latest = tx.latest(kinds, tool=tool.name)
        if latest is not None and latest.entry.body["definition"] == tool.definition.hex():
            continue
        body: dict[str, JSON] = {
            "tool": tool.name,
            "definition": tool.definition.hex(),
            "profile": tool.profile.to_json(),
        }
        kind = Kind.TOOL_REGISTERED if latest is None else Kind.TOOL_CHANGED
        tx.append(Draft(kind, GATE, body, {"schema": dict(tool.schema)}), at)
