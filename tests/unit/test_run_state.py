"""A run's events and its state: what is written is what is read back, and what a strange event does."""

import ast
import dataclasses
from pathlib import Path

import pytest

from agent.journal import draft, place, read, replay
from agent.messages import AIMessage, ToolCall, Usage, UserMessage
from agent.state import (
    ApprovalClosed,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalUsed,
    BookEnd,
    BookRequest,
    CallDecided,
    CallEnded,
    CallResolved,
    CallStarted,
    CallUnknown,
    InputReceived,
    Limits,
    ModelRequested,
    ModelResponded,
    Noted,
    Place,
    RunEnded,
    RunResumed,
    RunStarted,
    RunState,
    RunSuspended,
    Status,
    VoteCast,
    content_digest,
    fold,
    plan,
    step,
)
from governance import Principal, TamperedError
from governance.errors import InvalidInputError
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId
from governance.ledger.entry import Draft, Kind
from governance.policy.model import Decision, Demands, Effect, Seat, Tier
from governance.store.memory import MemoryStore

ROOT = Path(__file__).parents[2]
RUN, AGENT, BEHALF = RunId("r"), SubjectId("agent:a"), SubjectId("user:u")
UID, REQUEST, DIGEST = CallUid("r/1.0"), RequestId("apr-1"), Digest(b"\7" * 32)
DEMANDS = Demands((Seat("finance", 2),), 60, 30)
DECISION = Decision(
    Effect.REQUIRE_APPROVAL,
    Tier.HIGH,
    DIGEST,
    ("p/r",),
    ("tier-high",),
    DEMANDS,
    (("p/x", "type"),),
    (("p/s", "deny"),),
    7,
)

ABOUT_A_CALL = (
    CallDecided,
    CallStarted,
    CallEnded,
    CallUnknown,
    CallResolved,
    ApprovalRequested,
    ApprovalClosed,
    ApprovalUsed,
)
EVENTS = [
    RunStarted(
        AGENT,
        Principal(BEHALF, ("customer",), "acme"),
        "gpt",
        {"look": DIGEST.hex()},
        Limits(3, parallel=False),
        (UserMessage(content="hi"),),
    ),
    RunSuspended("approval", (REQUEST,), (UID,)),
    RunSuspended("model-error", error="model is down"),
    RunResumed("driver-1", "asked"),
    RunEnded(Status.COMPLETED, 2, 3),
    RunEnded(Status.LIMIT_REACHED, 2, 3, "limit_reached"),
    RunEnded(Status.FAILED, 2, 3, "broken", "a note"),
    RunEnded(Status.CANCELLED, 2, 3, note="enough"),
    InputReceived("in-1", UserMessage(content="more")),
    ModelRequested(2, 5),
    ModelResponded(
        2,
        AIMessage(
            content="so",
            tool_calls=(ToolCall(id="", name="look", arguments="{}"),),
            stop="tool_calls",
            usage=Usage(input=3, output=4),
        ),
    ),
    CallDecided(UID, "look", DECISION, DIGEST, b'{"id":"a"}', {"tool": {"name": "look"}}),
    CallDecided(UID, "look", DECISION, DIGEST, None, {"tool": {}}, first=3),
    CallDecided(
        UID, "nobody", Decision(Effect.DENY, Tier.HIGH, DIGEST, reasons=("x",)), refusal="no"
    ),
    CallStarted(UID, 2, "key", 9, REQUEST),
    CallStarted(UID, 1, "key", 9),
    CallEnded(UID, 1, 12, {"a": [1.5, None]}, {"count": 1}),
    CallEnded(UID, 1, 12, "gone wrong", error="timeout"),
    CallUnknown(UID, 1),
    CallResolved(UID, 1, "happened", {"id": 17}, "looked"),
    CallResolved(UID, 1, "again"),
    CallResolved(UID, 1, "abandoned", note="nobody knows"),
    ApprovalRequested(REQUEST, UID, DIGEST, 9, DEMANDS, Micros(5)),
    ApprovalUsed(REQUEST, UID),
    ApprovalClosed(REQUEST, "expired", "use_by"),
    ApprovalClosed(REQUEST, "withdrawn", "run-cancelled"),
    ApprovalClosed(REQUEST, "superseded", "superseded"),
]


@pytest.fixture
def store():
    return MemoryStore("test/state", None, lambda: Micros(1), lambda n: b"\1" * n)


def recorded(store, event):
    return store.write(lambda tx: tx.append(draft(event, RUN, AGENT, BEHALF), Micros(9)))


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_what_is_written_is_what_is_read_back(store, event):
    record = recorded(store, event)
    again = read(record)
    if isinstance(event, CallDecided):
        event = dataclasses.replace(event, commitment=record.entry.payloads.get("args"))
    assert again == event
    assert record.entry.on_behalf_of == BEHALF


def test_what_people_write_is_read_by_the_run(store):
    def written(kind, body, **payloads):
        entry = Draft(kind, SubjectId("user:ann"), body, payloads, RUN)
        return read(store.write(lambda tx: tx.append(entry, Micros(9))))

    vote = written(Kind.APPROVAL_VOTED, {"request": REQUEST, "verdict": "reject"}, note="too much")
    assert vote == VoteCast(REQUEST, "reject", "too much")
    granted = {"request": REQUEST, "votes": [4], "use_by": 77}
    assert written(Kind.APPROVAL_GRANTED, granted) == ApprovalGranted(REQUEST, (4,), Micros(77))
    rejected = {"request": REQUEST, "votes": [4]}
    assert written(Kind.APPROVAL_REJECTED, rejected) == ApprovalClosed(REQUEST, "rejected")
    assert written(Kind.LOG_BEAT, {}) == Noted()


def test_a_driver_writes_no_votes():
    for event in (VoteCast(REQUEST, "approve", None), ApprovalGranted(REQUEST, (1,), Micros(1))):
        with pytest.raises(InvalidInputError, match="a driver does not write"):
            draft(event, RUN, AGENT, None)


def test_an_entry_that_is_not_what_its_type_says_is_tampered(store):
    body = {"turn": 1, "stop": "", "tokens": {"input": 0, "output": 0}, "calls": []}
    message = {"message": {"role": "user", "content": "I am no model"}}
    for kind, fields, payloads in (
        (Kind.MODEL_RESPONDED, body, message),
        (Kind.CALL_STARTED, {"uid": UID}, {}),
        (Kind.CALL_DECIDED, {"uid": UID, "tool": "t", "effect": "perhaps"}, {}),
    ):
        entry = Draft(kind, AGENT, fields, payloads, RUN)
        record = store.write(lambda tx, entry=entry: tx.append(entry, Micros(9)))
        with pytest.raises(TamperedError, match="cannot be read as part of a run"):
            read(record)


def test_events_about_unknown_calls_and_requests_move_nothing_but_the_position():
    state = RunState(RUN)
    for event in EVENTS:
        if isinstance(event, ABOUT_A_CALL):
            after = fold(state, event, Place(1, Micros(1)))
            assert dataclasses.replace(after, rseq=0) == state
            assert after.rseq == 1


def test_a_step_is_a_fold_and_a_plan():
    started = EVENTS[0]
    state, effect = step(RunState(RUN), started, Place(4, Micros(5)))
    assert state == fold(RunState(RUN), started, Place(4, Micros(5)))
    assert effect == plan(state) == BookRequest(1)
    answered, effect = step(state, ModelResponded(1, AIMessage(content="so")), Place(6, Micros(7)))
    assert effect == BookEnd(Status.COMPLETED)
    assert answered.turn == 1


def test_a_message_from_the_inbox_goes_before_the_model():
    state = fold(RunState(RUN), EVENTS[0], Place(0, Micros(0)))
    state = fold(state, InputReceived("i", UserMessage(content="more")), Place(1, Micros(1)))
    assert [m.content for m in state.messages] == ["hi", "more"]
    assert state.heard.user == ("hi", "more")


def test_replaying_reads_each_record_once(store):
    records = [recorded(store, event) for event in (EVENTS[0], ModelRequested(1, 1))]
    state = replay(RUN, records)
    assert (state.rseq, state.epoch, state.asked) == (2, records[0].entry.seq, True)
    assert place(records[1]) == Place(records[1].entry.seq, Micros(9))


def test_the_same_content_is_the_same_whoever_proposes_it():
    one = content_digest("pay", DIGEST, b'{"cents":1}')
    assert one == content_digest("pay", DIGEST, b'{"cents":1}')
    others = [("wire", DIGEST, b'{"cents":1}'), ("pay", DIGEST, b'{"cents":2}')]
    assert one not in {content_digest(*other) for other in others}


def test_a_state_is_changed_only_in_fields_it_has():
    """`RunState.but` checks nothing as it runs, so its callers are checked here."""
    fields = {field.name for field in dataclasses.fields(RunState)}
    tree = ast.parse((ROOT / "agent" / "state" / "fold.py").read_text())
    changed = [
        keyword.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", "") == "but" or getattr(node.func, "id", "") == "_put")
        for keyword in node.keywords
        if keyword.arg is not None
    ]
    assert len(changed) > 20
    assert set(changed) <= fields
