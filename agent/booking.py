"""What a driver writes down before it acts: each `Book…` effect as the events that record it.

Everything here happens inside one transaction, reads the clock once and performs nothing. Calls are
booked one at a time, so that each is judged in the light of those before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from agent.facts import origins, rejected_before, run_facts, window_facts
from agent.state import (
    Allowed,
    ApprovalClosed,
    ApprovalRequested,
    ApprovalUsed,
    AskModel,
    BookDecisions,
    BookEnd,
    BookRequest,
    BookStarts,
    BookSuspension,
    BookUnknown,
    Call,
    CallDecided,
    CallStarted,
    CallUnknown,
    Effects,
    Event,
    Held,
    ModelRequested,
    Perform,
    Proposed,
    Rest,
    RunEnded,
    RunState,
    RunSuspended,
    Unknown,
    still_covered,
)
from agent.tools import RegisteredTool, ToolArgumentsError, ToolRegistry
from governance.approval.model import Use
from governance.canonical import JSON, CanonicalError
from governance.gate import (
    Environment,
    Question,
    Usable,
    Void,
    idempotency_key,
    judge,
    standing,
)
from governance.ids import Digest, Micros, Origin, RequestId
from governance.lawful.approvals import Subject, subject_digest
from governance.policy.model import Decision, Effect, Tier
from governance.policy.rules import PolicySet
from governance.ports import NewId, Reader
from governance.rulebook import Rulebook

__all__ = ["Desk", "Moment", "Rules", "book", "subject_of_call"]

SECOND: Final = 1_000_000
TOOL_NAME_CHARS: Final = 64
UNGOVERNED: Final = Decision(Effect.ALLOW, Tier.LOW, Digest(bytes(32)), reasons=("ungoverned",))

Startable: TypeAlias = Allowed | Unknown


@dataclass(frozen=True, slots=True)
class Rules:
    """What a governed driver decides by."""

    rulebook: Rulebook
    environment: Environment
    origin: Origin
    new_id: NewId


@dataclass(frozen=True, slots=True)
class Desk:
    """What a driver books with. Without `rules` every valid call is allowed and nothing is recorded.

    `waits`: whether a call that needs people suspends the run, or is put to an approver at hand.
    """

    tools: ToolRegistry
    rules: Rules | None = None
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Moment:
    """One transaction's view: what it books with, what it reads, when. A decision at or after
    `fresh_from` was made in this transaction; `policies` are in force in all of it, whatever is swapped."""

    desk: Desk
    reader: Reader | None
    at: Micros
    fresh_from: int
    policies: PolicySet | None = None


def book(state: RunState, effect: Effects, moment: Moment) -> tuple[Event, ...]:
    """Write down the next part of `effect`; nothing when it is not a booking."""
    match effect:
        case BookRequest():
            return (ModelRequested(effect.turn, len(state.messages)),)
        case BookDecisions(proposed=proposed, held=held):
            if proposed:
                return (_decide(state, proposed[0], moment),)
            return tuple(_request(state, call, moment) for call in held)
        case BookStarts():
            return _start(state, effect.calls[0], moment)
        case BookUnknown():
            return tuple(CallUnknown(c.call.uid, c.call.attempts) for c in effect.calls)
        case BookSuspension():
            return _suspend(effect, moment)
        case BookEnd():
            made = state.calls_made
            return (RunEnded(effect.status, state.turn, made, effect.reason),)
        case Rest() | AskModel() | Perform():
            return ()


def subject_of_call(state: RunState, uid_call: Allowed | Held | Unknown) -> Digest:
    """Digest exactly what would run: what an approval must have been for."""
    principal = state.principal.id
    return subject_digest(
        Subject(
            run=state.run,
            uid=uid_call.call.uid,
            tool=uid_call.call.name,
            definition=uid_call.ruling.definition,
            args=uid_call.ruling.commitment,
            principal=principal if principal != state.agent else None,
            agent=state.agent,
        )
    )


# --- deciding ---------------------------------------------------------------------------------------


def _decide(state: RunState, proposed: Proposed, moment: Moment) -> CallDecided:
    """Validate and freeze, then ask the rules. What cannot be asked is refused, and that is recorded."""
    call = proposed.call
    tool = moment.desk.tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(t.definition.name for t in moment.desk.tools))
        text = f"not run: there is no tool `{call.name[:TOOL_NAME_CHARS]}`; known: {known}"
        return _refused(moment, proposed, "unknown-tool", text)
    try:
        args = tool.validate(call.arguments)
    except ToolArgumentsError as exc:
        return _refused(moment, proposed, "invalid-arguments", f"not run: {exc.message}")
    except CanonicalError as exc:
        return _refused(moment, proposed, "input-rejected", f"not run: {exc.message}")
    definition = tool.definition.digest
    said = rejected_before(state, call, definition, args)
    if said is not None:
        text = f"{said} (the same call was proposed again; propose another)"
        return _refused(moment, proposed, "rejected-before", text)
    return _ask(state, proposed, tool, args, moment)


def _ask(
    state: RunState,
    subject: Proposed | Startable,
    tool: RegisteredTool,
    args: bytes,
    moment: Moment,
) -> CallDecided:
    call, definition = subject.call, tool.definition.digest
    first = None if isinstance(subject, Proposed) else subject.ruling.first
    rules, policies = moment.desk.rules, moment.policies
    if rules is None:
        return CallDecided(call.uid, call.name, UNGOVERNED, definition, args, first=first)
    if policies is None:
        raise TypeError("a governed call is decided without a policy set")
    question = Question(
        tool=call.name,
        definition=definition,
        profile=tool.definition.profile,
        args=args,
        origin=origins(state, args),
        principal=state.principal,
        agent={"id": state.agent, "path": [state.agent], "model": state.model},
        run=run_facts(state, call, definition, args, moment.at),
        window=_window(state, call, policies, moment),
    )
    judged = judge(policies, rules.environment, question, moment.at)
    return CallDecided(
        uid=call.uid,
        tool=call.name,
        decision=judged.decision,
        definition=definition,
        args=args,
        input=judged.input,
        working=judged.working,
        first=first,
    )


def _window(
    state: RunState, call: Call, policies: PolicySet, moment: Moment
) -> Mapping[str, JSON] | None:
    """Count only where a rule may ask: the set itself says so, and an auditor knows when it is owed."""
    if "window" not in policies.inputs:
        return None
    if moment.reader is None:
        raise TypeError(f"call {call.uid} is governed without a log")
    return window_facts(state, call, moment.reader, moment.at)


def _refused(moment: Moment, subject: Proposed | Startable, reason: str, text: str) -> CallDecided:
    policy = UNGOVERNED.policy if moment.policies is None else moment.policies.digest
    return CallDecided(
        uid=subject.call.uid,
        tool=subject.call.name[:TOOL_NAME_CHARS],
        decision=Decision(Effect.DENY, Tier.HIGH, policy, reasons=(reason,)),
        refusal=text,
        first=None if isinstance(subject, Proposed) else subject.ruling.first,
    )


# --- asking people ----------------------------------------------------------------------------------


def _request(state: RunState, held: Held, moment: Moment) -> ApprovalRequested:
    rules, demands = moment.desk.rules, held.ruling.decision.demands
    if rules is None or demands is None:
        raise TypeError(f"call {held.call.uid} is held without demands")
    return ApprovalRequested(
        request=RequestId(rules.new_id("apr")),
        uid=held.call.uid,
        subject=subject_of_call(state, held),
        decision=held.ruling.seq,
        demands=demands,
        decide_by=Micros(moment.at + demands.decide_by_s * SECOND),
    )


def _suspend(effect: BookSuspension, moment: Moment) -> tuple[Event, ...]:
    late = [h for h in effect.held if h.request is not None and moment.at > h.decide_by]
    if late:
        return tuple(ApprovalClosed(h.request, "expired", "decide_by") for h in late if h.request)
    if not moment.desk.waits:
        return ()
    return (
        RunSuspended(
            because="approval" if effect.held else "unknown",
            open=tuple(h.request for h in effect.held if h.request),
            unknown=tuple(u.call.uid for u in effect.unknown),
        ),
    )


# --- starting ---------------------------------------------------------------------------------------


def _start(state: RunState, call: Startable, moment: Moment) -> tuple[Event, ...]:
    """Let `call` start, if it still may.

    (1) The tool must be the one that was decided about.
    (2) An approval must stand, for exactly this call.
    (3) A decision from an earlier transaction is made again: rules, facts and rights may have moved.
    """
    ruling = call.ruling
    tool = moment.desk.tools.get(call.call.name)
    if tool is None or tool.definition.digest != ruling.definition:
        text = (
            "not run: the tool was changed or removed after the call was decided; propose it again"
        )
        return (
            _refused(moment, call, "tool-changed", text),
            *_close(call, "tool-changed"),
        )
    rules, reader = moment.desk.rules, moment.reader
    if rules is None or reader is None:
        return (_started(call, ""),)
    used = False
    if call.request is not None:
        use = Use(call.call.uid, subject_of_call(state, call))
        match standing(reader, state.run, call.request, use, moment.at):
            case Void(deadline=None):
                return (ApprovalClosed(call.request, "superseded"),)
            case Void(deadline=deadline):
                return (ApprovalClosed(call.request, "expired", str(deadline)),)
            case Usable(again=again):
                used = not again
    if ruling.seq < moment.fresh_from:
        return _decide_again(state, call, tool, moment)
    started = _started(call, idempotency_key(rules.origin, call.call.uid))
    if used and call.request is not None:
        return (ApprovalUsed(call.request, call.call.uid), started)
    return (started,)


def _started(call: Startable, key: str) -> CallStarted:
    attempt = call.call.attempts + 1
    return CallStarted(call.call.uid, attempt, key, call.ruling.seq, call.request)


def _decide_again(
    state: RunState, call: Startable, tool: RegisteredTool, moment: Moment
) -> tuple[Event, ...]:
    """Still fine, now denied, or needs a fresh approval because the demands grew."""
    again = _ask(state, call, tool, call.ruling.args, moment)
    decision = again.decision
    match decision.effect:
        case Effect.DENY:
            return (again, *_close(call, "denied-again"))
        case Effect.ALLOW:
            return (again, *_close(call, "not-needed"))
        case Effect.REQUIRE_APPROVAL:
            open_request = _open_request(call)
            if open_request is None or still_covered(call.ruling.decision, decision):
                return (again,)
            return (ApprovalClosed(open_request, "superseded"), again)


def _open_request(call: Startable) -> RequestId | None:
    """The approval that can still be withdrawn: an unknown call has used its own up."""
    return call.request if isinstance(call, Allowed) else None


def _close(call: Startable, reason: str) -> tuple[Event, ...]:
    request = _open_request(call)
    return () if request is None else (ApprovalClosed(request, "withdrawn", reason),)
