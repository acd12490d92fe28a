"""Chat completions: what we send, and what we make of what comes back."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.messages import AIMessage, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.wire import QUOTE_CHARS_MAX, from_wire, quote, to_wire
from governance.errors import InvalidInputError


def body(message: dict[str, Any], finish: Any = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return orjson.dumps({"id": "c", "object": "chat.completion", "choices": [choice], **more})


def call(
    id: Any = "c1", name: str = "refund", arguments: str = "{}", **more: Any
) -> dict[str, Any]:
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    } | more


def test_a_conversation_is_written_as_a_provider_reads_it():
    messages = (
        SystemMessage(content="be kind"),
        UserMessage(content="refund A-17"),
        AIMessage(content="", tool_calls=(ToolCall(id="", name="refund", arguments="{not json"),)),
        ToolMessage(tool_call_id="", name="refund", content="denied", status="error"),
        AIMessage(content="sorry", stop="stop", usage=Usage(input=3, output=4)),
    )
    assert to_wire(messages) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "refund A-17"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "",
                    "type": "function",
                    "function": {"name": "refund", "arguments": "{not json"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "", "content": "denied"},
        {"role": "assistant", "content": "sorry"},
    ]


def test_an_answer_is_read_with_its_usage():
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    assert from_wire(body({"content": "done"}, usage=usage)) == AIMessage(
        content="done", stop="stop", usage=Usage(input=7, output=2)
    )


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_missing_usage_counts_nothing(usage: Any):
    assert from_wire(body({"content": "done"}, usage=usage)).usage == Usage()


def test_calls_are_handed_on_as_they_are():
    calls = [
        call("a"),
        call("a", arguments="{not json"),
        call(""),
        call(None),
        call(name="odd name"),
    ]
    read = from_wire(body({"content": None, "tool_calls": calls}, "tool_calls"))
    assert [(c.id, c.name, c.arguments) for c in read.tool_calls] == [
        ("a", "refund", "{}"),
        ("a", "refund", "{not json"),
        ("", "refund", "{}"),
        ("", "refund", "{}"),
        ("c1", "odd name", "{}"),
    ]
    assert (read.content, read.stop) == ("", "tool_calls")


@pytest.mark.parametrize(
    ("message", "finish", "stop"),
    [
        ({"content": "x"}, "length", "length"),
        ({"content": ""}, "content_filter", "content_filter"),
        ({"content": "x"}, None, ""),
        ({"content": "x"}, "end_turn", "end_turn"),
        ({"tool_calls": [call()]}, "stop", "stop"),
        ({"content": None, "refusal": "I will not"}, "stop", "refusal"),
    ],
)
def test_the_reason_for_stopping_is_the_provider_s(message: dict[str, Any], finish: Any, stop: str):
    assert from_wire(body(message, finish)).stop == stop


def test_a_refusal_is_what_the_model_said():
    assert from_wire(body({"content": None, "refusal": "I will not"})).content == "I will not"


def test_the_form_before_tool_calls_is_not_lost():
    old = {"content": None, "function_call": {"name": "refund", "arguments": "{}"}}
    read = from_wire(body(old, "function_call"))
    assert read.tool_calls == (ToolCall(id="", name="refund", arguments="{}"),)
    assert read.stop == "tool_calls"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "text is not JSON"),
        (b"<html>bad gateway</html>", "text is not JSON"),
        (b'{"choices": [', "text is not JSON"),
        (b"[]", "`$`"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": null}', "`choices`"),
        (b'{"choices": [], "choices": []}', "duplicate key `choices`"),
        (b'{"error": {"message": "no such\\nmodel `x`"}}', "no choices: `no such model 'x'`"),
        (b'{"choices": [{"finish_reason": "stop"}]}', "`choices.0.message`"),
        (body({"content": ["parts"]}), "`choices.0.message.content`"),
        (body({"tool_calls": [call(type="custom")]}), "tool call of type `custom`"),
        (body({"tool_calls": [{"id": "a", "type": "function"}]}), "tool call of type `function`"),
        (body({"tool_calls": [call(name="")]}), "function.name`"),
        (
            body({"tool_calls": [call() | {"function": {"name": "x", "arguments": {}}}]}),
            "arguments`",
        ),
        (body({"content": "x"}, usage={"prompt_tokens": -1}), "`usage.prompt_tokens`"),
        (b'{"choices": [{"message": {"content": "\\ud800"}}]}', "lone surrogate"),
    ],
)
def test_an_answer_that_is_none_says_what_is_wrong(raw: bytes, problem: str):
    with pytest.raises(InvalidInputError) as caught:
        from_wire(raw)
    assert problem in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "tool_calls", "function", "content", "id", "name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(json_values)
def test_reading_is_total(value: Any):
    try:
        read = from_wire(orjson.dumps(value))
    except InvalidInputError:
        return
    assert isinstance(read, AIMessage)


def test_quoted_text_is_one_short_visible_line():
    shown = quote("a\n`b`\u202e\x1b[31m" + "x" * 1000)
    assert shown.startswith("a 'b'\ufffd\ufffd[31mx")
    assert len(shown) == QUOTE_CHARS_MAX
