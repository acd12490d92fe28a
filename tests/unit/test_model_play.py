"""Playing a script: the next turn follows from the request, and a strict provider's rules hold."""

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models import load_script
from agent.models.play import Answer, Refusal, respond
from agent.models.script import Script, Strike
from agent.models.strict import CALL_ID_CHARS_MAX

USER = {"role": "user", "content": "refund A-17"}


def script(text: str) -> Script:
    return load_script(dedent(text))


def asks(*ids: str, tool: str = "refund") -> dict[str, Any]:
    function = {"name": tool, "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def tells(id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def said(text: str = "x") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)} | more


def answer(played: Script, *messages: Any) -> Answer:
    reply = respond(played, request(*messages), {})
    assert isinstance(reply, Answer), reply
    return reply


THREE = "turns: [{say: one}, {say: two}, {say: three}]"


@pytest.mark.parametrize(
    ("turns_before", "expected"), [(0, "one"), (1, "two"), (2, "three"), (3, ""), (9, "")]
)
def test_the_turn_follows_from_the_conversation(turns_before: int, expected: str):
    for _ in range(2):  # asked again, answered alike
        assert answer(script(THREE), USER, *[said()] * turns_before).say == expected


def test_a_new_user_message_begins_again():
    assert answer(script(THREE), USER, said(), said(), USER).say == "one"


def test_conversations_are_chosen_by_what_the_user_said():
    played = script("""
        conversations:
          - {user: delete, turns: [{say: "no"}, {say: still no}]}
          - {user: refund, turns: [{say: "yes"}]}
    """)
    please = {"role": "user", "content": [{"type": "text", "text": "delete Ada"}, {"type": "x"}]}
    assert answer(played, please).say == "no"
    assert answer(played, please, said(), {"role": "user", "content": "please"}).say == "still no"
    assert answer(played, please, said(), USER).say == "yes"
    refused = respond(played, request({"role": "user", "content": "hello"}), {})
    assert refused == Refusal(
        400, "no_conversation", "no conversation of the script begins like this"
    )


def test_turns_are_for_whatever_no_conversation_is_about():
    played = script("turns: [{say: b}]\nconversations: [{user: delete, turns: [{say: a}]}]")
    assert answer(played, {"role": "user", "content": "delete"}).say == "a"
    assert answer(played, USER).say == "b"


REACTING = """
    turns:
      - calls: [{tool: refund}]
      - when:
          - if: {tool: refund, contains: denied}
            say: "refused: {{result.refund}}"
          - if: {matches: "^ok [0-9]+$"}
            say: "paid {{result.look_up}}"
            calls: [{tool: mail}]
          - else: true
            say: unclear
"""


@pytest.mark.parametrize(
    ("tool", "result", "expected", "calls"),
    [
        ("refund", "denied: too much", "refused: denied: too much", 0),
        ("refund", "ok 17", "paid (no result of look_up)", 1),
        ("refund", "ok seventeen", "unclear", 0),
        ("look_up", "denied", "unclear", 0),
        ("look_up", "ok 3", "paid ok 3", 1),
        ("refund", "denied {{result.refund}}", "refused: denied {{result.refund}}", 0),
    ],
)
def test_the_script_reacts_to_what_tools_really_said(
    tool: str, result: str, expected: str, calls: int
):
    reply = answer(script(REACTING), USER, asks("a", tool=tool), tells("a", result))
    assert (reply.say, len(reply.calls)) == (expected, calls)


def test_only_results_of_the_turn_before_are_reacted_to():
    played = script("""
        turns:
          - calls: [{tool: refund}]
          - calls: [{tool: look_up}]
          - when: [{if: {contains: denied}, say: old}, {else: true, say: "new {{result.refund}}"}]
    """)
    before = (USER, asks("a"), tells("a", "denied"))
    reply = answer(played, *before, asks("a", tool="look_up"), tells("a", "ok"))
    assert reply.say == "new denied"


def test_results_may_come_in_any_order():
    answer(script(THREE), USER, asks("a", "b"), tells("b"), tells("a"))


def test_ids_are_unique_unless_the_script_gives_them():
    played = script(
        "turns: [{calls: [{tool: a}, {tool: a}, {tool: a, id: x}, {tool: a, id: ''}], loop: true}]"
    )
    first = [c.id for c in answer(played, USER).calls]
    later = [c.id for c in answer(played, USER, said(), USER, said()).calls]
    assert first[2:] == later[2:] == ["x", ""]
    assert len({*first[:2], *later[:2]}) == 4


def test_a_loop_never_ends():
    played = script("turns: [{say: first}, {calls: [{tool: poll}], loop: true}]")
    assert answer(played, USER, *[said()] * 50).calls[0].name == "poll"


def test_faults_strike_before_the_turn_and_then_let_it_pass():
    played = script("""
        turns:
          - say: one
          - fault: {status: 429, times: 2}
          - fault: {kind: garbage, times: 1}
          - say: two
          - fault: {status: 500}
    """)
    limited, garbage = "$.turns[1].fault", "$.turns[2].fault"

    def struck(turns_before: int, **counts: int) -> str:
        seen = {limited: counts.get("limited", 0), garbage: counts.get("garbage", 0)}
        reply = respond(played, request(USER, *[said()] * turns_before), seen)
        return reply.place if isinstance(reply, Strike) else getattr(reply, "say", "?")

    assert struck(0) == "one"
    assert struck(1) == struck(1, limited=1) == limited
    assert struck(1, limited=2) == garbage
    assert struck(1, limited=2, garbage=1) == "two"
    assert struck(2, limited=9) == "$.turns[4].fault"


def test_one_model_name_is_known():
    played = script("model: desk\n" + THREE)
    assert isinstance(respond(played, request(USER, model="desk"), {}), Answer)
    assert respond(played, request(USER), {}) == Refusal(
        404, "model_not_found", "there is no model `m` here"
    )


def tool(name: Any = "refund", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}}} | more


LONG = "x" * CALL_ID_CHARS_MAX


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ([], "the request is not an object"),
        ({"messages": [USER]}, "`model` is missing"),
        (request(USER, stream=True), "streaming is not played"),
        (request(), "`messages` is empty"),
        (request("hello"), "`messages[0]` is not an object"),
        (request({"role": "robot", "content": "x"}), "`messages[0].role`"),
        (request({"role": ["user"], "content": "x"}), "`messages[0].role`"),
        (request({"role": "user"}), "`messages[0].content` is missing"),
        (request({"role": "assistant"}), "neither content nor tool calls"),
        (request(USER, {"role": "assistant", "tool_calls": []}), "tool_calls` is empty"),
        (request(USER, asks("a")), "call `a` has no result"),
        (request(USER, asks("a", "b"), tells("a")), "call `b` has no result"),
        (request(USER, asks("a"), USER), "`messages[2]` comes before a result of call `a`"),
        (request(USER, asks("a"), said()), "`messages[2]` comes before a result of call `a`"),
        (request(USER, asks("a"), tells("a"), tells("a")), "answers `a`, which is no open call"),
        (request(USER, asks("a"), tells("b")), "answers `b`, which is no open call"),
        (request(USER, tells("a")), "answers `a`, which is no open call"),
        (request(USER, asks("a", "a"), tells("a"), tells("a")), "tool_calls[1].id` repeats `a`"),
        (request(USER, asks(""), tells("")), "has not 1 to 40 characters"),
        (request(USER, asks(LONG + "x"), tells(LONG + "x")), "has not 1 to 40 characters"),
        (request(USER, asks("a"), {"role": "tool", "tool_call_id": "a"}), "content` is not text"),
        (request(USER, asks("a", tool=""), tells("a")), "is no call of a named function"),
        (request(USER, tools=[tool(), tool()]), "repeats `refund`"),
        (request(USER, tools=[tool("a b")]), "does not match"),
        (request(USER, tools=[tool(type="custom")]), "`tools[0].type` is not `function`"),
        (request(USER, tools=None), "`tools` is not a list"),
    ],
)
def test_a_request_that_a_strict_provider_refuses_is_refused(bad: Any, problem: str):
    reply = respond(script(THREE), bad, {})
    assert isinstance(reply, Refusal)
    assert reply.status == 400
    assert problem in reply.message


def test_the_longest_call_id_is_taken():
    answer(script(THREE), USER, asks(LONG), tells(LONG))


messages = st.lists(
    st.sampled_from([USER, said(), asks("a"), asks("a", "b"), tells("a"), tells("b"), {"role": 1}]),
    max_size=7,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(messages)
def test_every_call_has_exactly_one_result_or_the_answer_is_400(history: list[dict[str, Any]]):
    reply = respond(script(REACTING), request(USER, *history), {})
    assert isinstance(reply, Answer | Refusal)
    if isinstance(reply, Answer):
        asked = [c["id"] for m in history for c in m.get("tool_calls") or ()]
        told = [m["tool_call_id"] for m in history if m["role"] == "tool"]
        assert sorted(asked) == sorted(told)
