"""Is a decision the one that policy makes? Of the recorded input, under the recorded rules.

Every decision that reached the policy is made again. What it was made from is compared with the rest of
the log: the tool with its registration, principal and agent with the run's start, the facts of the run
and the window with a recount, the moment with the entry's own. Of `args_origin` only the strongest claim
is checked, that a text is the user's own. What nothing in the log can confirm is taken as recorded:
`env`, the weaker claims of `args_origin`, and that the arguments are what the tool's schema made of the
model's text. Where payloads were erased, the counts that need them are left out of the recount.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from governance.approval.model import SECOND
from governance.canonical import JSON, SCALARS, payload_bytes
from governance.ids import Digest, parse_digest
from governance.lawful.books import Activation, Books
from governance.lawful.case import Call, Case, Phase
from governance.lawful.report import Collector, Fault
from governance.lawful.windows import SKEW_MAX_S
from governance.ledger.entry import Entry, Record
from governance.ledger.report import Status
from governance.policy.decide import decide
from governance.policy.model import WINDOWS, Effect
from governance.policy.risk import tool_input
from governance.policy.rules import PolicySet
from governance.policy.working import working

__all__ = ["derive", "take_decision"]

TOOL_NAME_CHARS: Final = 64
"""How much is recorded of the name of a tool that there is not."""

_OUTCOME: Final = (
    *("effect", "tier", "policy", "rules", "reasons", "steps", "demands", "errors", "shadow"),
)
_UNASKED: Final = frozenset(
    {"unknown-tool", "invalid-arguments", "input-rejected", "rejected-before", "tool-changed"}
)
"""Why a call may be refused without the policy being asked."""
_INPUT: Final = frozenset(
    {"tool", "args_origin", "principal", "agent", "run", "window", "env", "now"}
)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A `call.decided` under examination. `before` is None where the entry before it is not at hand."""

    case: Case
    call: Call
    record: Record
    before: Entry | None

    @property
    def entry(self) -> Entry:
        return self.record.entry


def take_decision(case: Case, record: Record, before: Entry | None, books: Books) -> None:
    """Judge `call.decided`, which follows `before` in the log, and move its call by it."""
    entry, found = record.entry, books.found
    uid = str(entry.body["uid"])
    call = case.calls.get(uid)
    if call is None:
        message = f"call `{uid[:160]}` is none of those the model proposed in this turn"
        found.add(Fault.CALL_UNPROPOSED, entry, message)
        call = case.calls[uid] = Call(uid)
    found.decisions += 1
    due = _follow(call, record, found)
    decided = _Decided(case, call, record, before)
    activation = _activation(decided, books)
    if "input" in entry.payloads:
        _remember(decided, books)
        _judge(decided, activation, books)
    else:
        _judge_unasked(decided, found)
    if due:
        call.decision = entry
        _move(call, Effect(entry.body["effect"]), asked="input" in entry.payloads)


def _follow(call: Call, record: Record, found: Collector) -> bool:
    """Tell whether a decision was due, and check that it is about the arguments decided about before."""
    entry = record.entry
    anew = call.phase is Phase.PROPOSED
    again = call.phase is Phase.ALLOWED or (call.phase is Phase.HELD and call.request is None)
    repeats = call.phase is Phase.UNKNOWN and call.profile is not None and call.profile.idempotent
    due = anew or again or repeats
    if not due:
        message = f"call `{call.uid}` is decided again although it is {call.phase}"
        found.add(Fault.DECISION_REPEATED, entry, message)
    tool, first = str(entry.body["tool"]), entry.body.get("first")
    if call.proposed is not None and tool not in {call.proposed, call.proposed[:TOOL_NAME_CHARS]}:
        message = (
            f"call `{call.uid}` is decided as `{tool[:80]}`, and the model proposed another tool"
        )
        found.add(Fault.CALL_UNPROPOSED, entry, message)
    if anew:
        call.first, call.tool = record, tool
        if first is not None:
            message = f"call `{call.uid}` is first decided here, and names decision {first}"
            found.add(Fault.DECISION_UNFOUNDED, entry, message)
    elif call.first is None or first != call.first.entry.seq or tool != call.tool:
        message = f"decision is not about the arguments first decided about for `{call.uid}`"
        found.add(Fault.DECISION_UNFOUNDED, entry, message)
    return due


def _activation(decided: _Decided, books: Books) -> Activation | None:
    """Find the policy set that a decision names: one in force since the run's driver took the run."""
    entry = decided.entry
    policy = str(entry.body["policy"])
    activation = books.activation(policy)
    if activation is None:
        message = f"no earlier entry activates policy set `{policy[:64]}`"
        books.found.add(Fault.POLICY_UNKNOWN, entry, message)
    elif activation.seq < decided.case.floor:
        message = f"policy set `{policy}` was superseded by entry {decided.case.floor} when the run was taken"
        books.found.add(Fault.POLICY_SUPERSEDED, entry, message)
    return activation


def _remember(decided: _Decided, books: Books) -> None:
    """Look the tool up as it was registered; its declared profile is what the input must say."""
    call, body = decided.call, decided.entry.body
    definition = _definition(body)
    call.profile = None if definition is None else books.profile(call.tool, definition)
    if call.profile is None:
        message = f"no earlier entry registers tool `{call.tool[:80]}` with this definition"
        books.found.add(Fault.TOOL_UNKNOWN, decided.entry, message)
    elif call.profile.untrusted_output:
        decided.case.untrusted_tools.add(call.tool)


def _judge_unasked(decided: _Decided, found: Collector) -> None:
    """A decision without input must be a no, for a reason that needs no policy."""
    body, call = decided.entry.body, decided.call
    reasons = body["reasons"]
    known = len(reasons) == 1 and reasons[0] in _UNASKED
    if body["effect"] != Effect.DENY or not known:
        message = f"decision without input is `{body['effect']}`, not a refusal with a known reason"
        found.add(Fault.DECISION_UNFOUNDED, decided.entry, message)
    elif reasons[0] == "rejected-before" and decided.case.rejections == set():
        message = f"call `{call.uid}` is refused as rejected before, and nothing was"
        found.add(Fault.DECISION_UNFOUNDED, decided.entry, message)


def _judge(decided: _Decided, activation: Activation | None, books: Books) -> None:
    found, entry, call = books.found, decided.entry, decided.call
    if activation is not None and activation.absent is not None:
        message = f"cannot be judged without policy engine `{activation.absent}`"
        found.add(Fault.ENGINE_ABSENT, entry, message, Status.NOT_CHECKED)
    needed = [(decided.record, "input")]
    if call.first is not None:
        needed.append((call.first, "args"))
    if activation is not None and activation.policies is None and activation.absent is None:
        needed.append((activation.record, "text"))
    if call.first is None or books.absences.lack(entry, *needed):
        found.skipped += 1
        return
    given, args = decided.record.content("input"), call.first.content("args")
    policies = None if activation is None else activation.policies
    for fault, message, status in _differences(decided, given, args, books):
        found.add(fault, entry, message, status)
    for fault, message, status in _judge_window(decided, given, policies):
        found.add(fault, entry, message, status)
    if policies is None:
        found.skipped += 1
        return
    derive(decided.record, policies, {**given, "args": args}, found)


def derive(
    record: Record, policies: PolicySet, inputs: Mapping[str, Any], found: Collector
) -> None:
    """Make the decision of `record` again, by `policies` and of `inputs`, and compare."""
    decision = decide(policies, inputs)
    derived, body = decision.to_json(), record.entry.body
    differing = [f"`{name}`" for name in _OUTCOME if not _same(derived.get(name), body.get(name))]
    if not differing:
        told = {"message": decision.message, "working": working(policies, inputs, decision)}
        differing = [
            f"`{name}`" for name, content in told.items() if not _told(record, name, content)
        ]
    if differing:
        message = (
            f"policy and input come to `{decision.effect}` for `{body['uid']}`: recorded otherwise "
            f"are {', '.join(differing)}"
        )
        found.add(Fault.DECISION_DIFFERS, record.entry, message)


def _told(record: Record, name: str, content: JSON) -> bool:
    """Tell whether `content`, None for nothing, is what was recorded. What was erased is not missed here."""
    if name not in record.entry.payloads:
        return content is None
    return name not in record.payloads or _same(record.content(name), content)


def _move(call: Call, effect: Effect, *, asked: bool) -> None:
    match effect:
        case Effect.ALLOW if asked:
            call.phase, call.request = Phase.ALLOWED, None
        case Effect.REQUIRE_APPROVAL if asked:
            # Decided again with the same demands: the approval it has goes on standing.
            if call.phase is not Phase.ALLOWED or call.request is None:
                call.phase, call.request = Phase.HELD, None
        case _:
            call.refuse()


# --- what the input says, and what the log says -----------------------------------------------------


def _differences(
    decided: _Decided, given: Mapping[str, Any], args: Any, books: Books
) -> Iterator[tuple[Fault, str, Status]]:
    case, call, entry = decided.case, decided.call, decided.entry
    started = case.started.entry.body
    definition = _definition(entry.body)
    if call.profile is not None and definition is not None:
        tool = tool_input(call.tool, definition, call.profile)
        if not _same(given.get("tool"), tool):
            yield _differs("tool", "the tool's registration")
    if not _same(given.get("principal"), started["principal"]):
        yield _differs("principal", "the run's start")
    agent = given.get("agent", {})
    if (agent.get("id"), agent.get("model")) != (case.agent, started["model"]):
        yield _differs("agent", "the run's start")
    yield from _judge_moment(decided, given.get("now"))
    facts, told = case.facts(call, _whole(given.get("now"))), given.get("run", {})
    yield from _judge_counts("run", told, facts)
    unknown = [*(given.keys() - _INPUT), *(f"run.{name}" for name in told.keys() - facts.keys())]
    unknown = [name for name in unknown if name not in {"run.sums", "run.rejected"}]
    unknown += [f"window.{name}" for name in given.get("window", {}).keys() - WINDOWS.keys()]
    if unknown:
        message = f"input holds what this check does not know: `{', '.join(sorted(unknown))[:160]}`"
        yield Fault.INPUT_UNKNOWN, message, Status.NOT_CHECKED
    yield from _judge_origins(decided, given.get("args_origin", {}), args, books)


def _differs(name: str, source: str) -> tuple[Fault, str, Status]:
    return Fault.INPUT_DIFFERS, f"input `{name}` differs from {source}", Status.FAILED


def _judge_moment(decided: _Decided, now: object) -> Iterator[tuple[Fault, str, Status]]:
    """An entry's time is the moment of its decision, unless the clock was a little behind the log's."""
    ts = decided.entry.ts
    moment = _whole(now)
    if moment == ts:
        return
    if moment > ts or ts - moment > SKEW_MAX_S * SECOND:
        yield _differs("now", f"the entry's time, `{ts}`")
    elif decided.before is None:
        message = (
            f"decided at `{moment}`, and the entry before, whose time may excuse that, is not here"
        )
        yield Fault.CLOCK_BEHIND, message, Status.NOT_CHECKED
    elif ts > decided.before.ts:
        yield _differs("now", f"the entry's time, `{ts}`")
    else:
        message = f"decided at `{moment}` by a clock behind the log's `{ts}`"
        yield Fault.CLOCK_BEHIND, message, Status.OK


def _judge_window(
    decided: _Decided, given: Mapping[str, Any], policies: PolicySet | None
) -> Iterator[tuple[Fault, str, Status]]:
    """`window` is told exactly where a rule of the set may ask for it."""
    told = "window" in given
    if policies is not None and told is not ("window" in policies.inputs):
        yield _differs("window", "what the rules ask for")
    if told:
        counts = decided.case.window(decided.call, _whole(given.get("now")))
        yield from _judge_counts("window", given["window"], counts)


def _judge_counts(
    part: str, told: Mapping[str, Any], counts: Mapping[str, Any]
) -> Iterator[tuple[Fault, str, Status]]:
    for name, value in counts.items():
        if name not in told or not _same(told[name], value):
            yield _differs(f"{part}.{name}", f"a recount, which comes to `{str(value)[:80]}`")


def _judge_origins(
    decided: _Decided, origins: Mapping[str, str], args: Any, books: Books
) -> Iterator[tuple[Fault, str, Status]]:
    """Check each claim that a text is the user's own."""
    claimed = [path for path, origin in origins.items() if origin == "user"]
    started = decided.case.started
    if not claimed or books.absences.lack(decided.entry, (started, "input")):
        return
    leaves = dict(_leaves(args, ""))
    for path in claimed:
        text = leaves.get(path)
        if text is None or not any(text in said for said in decided.case.user_texts):
            yield _differs(f"args_origin.{path[:80]}", "what the user said")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    elif value is not None and not isinstance(value, bool):
        yield path, str(value)


def _definition(body: Mapping[str, Any]) -> Digest | None:
    return parse_digest(body["definition"]) if "definition" in body else None


def _same(one: object, other: object) -> bool:
    """Compare as JSON, where `1` is not `true`."""
    if type(one) is type(other) and type(one) in SCALARS:  # most of what is compared
        return one == other
    return payload_bytes(one) == payload_bytes(other)


def _whole(value: object) -> int:
    return value if type(value) is int else -1
