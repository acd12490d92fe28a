"""Did a call start only with leave? And did each start come to one outcome, each outcome from a start."""

from typing import Final

from governance.approval.model import State
from governance.errors import GovernanceError
from governance.lawful.approvals import subject_digest, subject_of
from governance.lawful.case import Asked, Call, Case, Phase
from governance.lawful.report import Collector, Fault
from governance.ledger.entry import Entry, Kind, Record
from governance.policy.model import Demands, Effect

__all__ = ["covers", "take_end_of_turn", "take_outcome", "take_resolution", "take_start"]

_UNDECIDED: Final = frozenset({Phase.PROPOSED, Phase.UNKNOWN})


def covers(given: Demands, wanted: Demands) -> bool:
    """Tell whether an approval under `given` meets what is demanded now: same seats or more."""
    seats = {seat.role: seat.count for seat in given.quorum}
    enough = all(seats.get(seat.role, 0) >= seat.count for seat in wanted.quorum)
    return enough and (given.reauthenticate or not wanted.reauthenticate)


def take_start(case: Case, entry: Entry, found: Collector) -> None:
    """Judge `call.started`, and move its call by it."""
    found.starts += 1
    uid = str(entry.body["uid"])
    call = case.calls.get(uid)
    if call is None:
        message = f"call `{uid[:160]}` starts, and nothing was decided about it in this turn"
        found.add(Fault.START_UNDECIDED, entry, message)
        call = case.calls[uid] = Call(uid)
    else:
        for fault, message in _judge(case, call, entry):
            found.add(fault, entry, message)
    call.request = call.used = entry.body.get("request")
    call.key = entry.body["key"] if call.key is None else call.key
    case.start(call, entry)


def _judge(case: Case, call: Call, entry: Entry) -> list[tuple[Fault, str]]:
    body, decision = entry.body, call.decision
    if case.ended:
        return [(Fault.START_AFTER_END, f"call `{call.uid}` starts after the end of its run")]
    if call.phase is Phase.RUNNING or (call.phase is Phase.ANSWERED and not call.refused):
        return [(Fault.START_REPEATED, f"call `{call.uid}` starts again, not known to be unknown")]
    if decision is None or call.phase in _UNDECIDED:
        return [(Fault.START_UNDECIDED, f"call `{call.uid}` starts without being decided")]
    if call.phase is Phase.ANSWERED:
        return [(Fault.START_DENIED, f"call `{call.uid}` starts although it was refused")]
    judged: list[tuple[Fault, str]] = []
    if body["decision"] != decision.seq:
        message = f"start names decision {body['decision']}, and {decision.seq} governs"
        judged.append((Fault.START_UNDECIDED, message))
    if body["attempt"] != call.attempts + 1:
        message = f"attempt {body['attempt']} of `{call.uid}` follows attempt {call.attempts}"
        judged.append((Fault.START_REPEATED, message))
    if call.key not in {None, body["key"]}:
        message = f"call `{call.uid}` is repeated under another idempotency key"
        judged.append((Fault.START_REPEATED, message))
    if "request" in body or decision.body["effect"] != Effect.ALLOW:
        judged += _judge_approval(case, call, decision, entry)
    return judged


def _judge_approval(
    case: Case, call: Call, decision: Entry, entry: Entry
) -> list[tuple[Fault, str]]:
    """A start that needs a yes follows the entry that uses one up: its own, and still for this call.

    The repetition of an idempotent call is the same call, under the yes that its first start used up.
    """
    request = entry.body.get("request")
    asked = case.asked.get(str(request))
    if asked is None or not (
        _just_used(case, call, asked, str(request)) or _used_before(call, asked, request)
    ):
        message = f"call `{call.uid}` starts without having just used an approval of its own"
        return [(Fault.START_UNAPPROVED, message)]
    judged: list[tuple[Fault, str]] = []
    if call.first is None or not _same_subject(case, call.first, asked):
        message = f"approval `{request}` is for something else than what starts"
        judged.append((Fault.SUBJECT_DIFFERS, message))
    wanted = decision.body.get("demands")
    if wanted is not None and not covers(asked.demands, Demands.from_json(wanted)):
        message = f"approval `{request}` took less than the decision {decision.seq} demands"
        judged.append((Fault.DEMANDS_LOWERED, message))
    return judged


def _just_used(case: Case, call: Call, asked: Asked, request: str) -> bool:
    used = case.last
    names = (used.body.get("request"), used.body.get("uid"))
    return (
        used.kind is Kind.APPROVAL_USED
        and names == (request, call.uid)
        and asked.uid == call.uid
        and asked.approval.state is State.USED
    )


def _used_before(call: Call, asked: Asked, request: object) -> bool:
    used = asked.uid == call.uid and asked.approval.state is State.USED
    return used and call.attempts > 0 and call.used == request


def _same_subject(case: Case, first: Record, asked: Asked) -> bool:
    try:
        subject = subject_of(case.started.entry, first.entry)
    except GovernanceError:
        return False
    return subject_digest(subject) == asked.approval.subject


def take_outcome(case: Case, entry: Entry, found: Collector) -> None:
    """Judge `call.finished`, `call.failed` or `call.unknown`, and move its call by it."""
    call = case.calls.get(str(entry.body["uid"]))
    if call is None or call.phase is not Phase.RUNNING or entry.body["attempt"] != call.attempts:
        message = f"outcome of `{str(entry.body['uid'])[:160]}`, which is not under way"
        found.add(Fault.OUTCOME_UNFOUNDED, entry, message)
        return
    if entry.kind is Kind.CALL_UNKNOWN:
        call.phase = Phase.UNKNOWN
        return
    call.phase = Phase.ANSWERED
    case.failures += entry.kind is Kind.CALL_FAILED
    if call.tool in case.untrusted_tools and call.tool not in case.untrusted:
        case.untrusted.append(call.tool)


def take_resolution(case: Case, entry: Entry, found: Collector) -> None:
    """Judge `call.resolved`: a person's word on an unknown outcome."""
    call = case.calls.get(str(entry.body["uid"]))
    if call is None or call.phase is not Phase.UNKNOWN or entry.body["attempt"] != call.attempts:
        message = f"resolves `{str(entry.body['uid'])[:160]}`, whose outcome is not unknown"
        found.add(Fault.OUTCOME_UNFOUNDED, entry, message)
        return
    call.phase = Phase.ANSWERED
    if entry.body["how"] == "again":
        # It did not happen, so it is proposed anew: whatever yes it had is used up.
        call.phase, call.request, call.used = Phase.PROPOSED, None, None


def take_end_of_turn(case: Case, entry: Entry, found: Collector) -> None:
    """Check, where the run goes on to the next turn or completes, that every call has its answer."""
    for call in case.calls.values():
        if call.phase is not Phase.ANSWERED:
            message = f"the run goes on while call `{call.uid}` is {call.phase}"
            found.add(Fault.CALL_UNANSWERED, entry, message)
