"""Scripts: what may be written, and how clearly the rest is refused."""

import re
from textwrap import dedent

import pytest

from agent.models import load_script
from agent.models import script as script_module
from agent.models.script import (
    SCRIPT_CHARS_MAX,
    Branch,
    Call,
    Condition,
    Delay,
    Disconnect,
    Garbage,
    Status,
    Strike,
    Turn,
)
from governance.errors import InvalidInputError

WHOLE = """
    model: refund-desk
    api_key: sk-demo
    turns:
      - say: I look at the order first.
        calls:
          - {tool: look_up_order, args: {order_id: A-17, cents: 500}}
          - {tool: refund, id: ""}
          - {tool: refund, raw: "{not json"}
      - fault: {status: 429, times: 2, retry_after: 0}
      - fault: {kind: timeout, seconds: 0.5}
      - when:
          - if: {tool: refund, contains: denied, matches: "^no"}
            say: Not allowed.
          - else: true
            say: "Done: {{result.refund}}"
      - fault: {kind: garbage}
      - fault: {kind: disconnect}
    conversations:
      - user: delete
        turns:
          - calls: [{tool: poll}]
            loop: true
"""
END = Branch(None)


def test_the_example_of_the_manual_can_be_played():
    manual = script_module.__doc__ or ""
    example = manual.partition("\n\n")[2].partition("\n\n")[0]
    assert load_script(dedent(example)).model == "refund-desk"


def test_every_part_of_the_format_is_read():
    script = load_script(dedent(WHOLE))
    assert (script.model, script.api_key) == ("refund-desk", "sk-demo")
    deleting, rest = script.conversations
    assert deleting.user == "delete"
    assert deleting.turns == (Turn((), (Branch(None, "", (Call("poll", "{}"),)),)),)
    assert rest.user == ""
    first, second, end = rest.turns
    assert first.branches[0].calls == (
        Call("look_up_order", '{"cents":500,"order_id":"A-17"}'),
        Call("refund", "{}", ""),
        Call("refund", "{not json"),
    )
    assert second == Turn(
        (
            Strike("$.turns[1].fault", Status(429, None, 0), 2),
            Strike("$.turns[2].fault", Delay(0.5)),
        ),
        (
            Branch(Condition("refund", "denied", re.compile("^no")), "Not allowed."),
            Branch(None, "Done: {{result.refund}}"),
        ),
    )
    assert end == Turn(
        (Strike("$.turns[4].fault", Garbage()), Strike("$.turns[5].fault", Disconnect())), (END,)
    )


def test_a_turn_may_be_silent():
    assert load_script("turns: [{say: ''}]").conversations[0].turns[0].branches == (END,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "script at `$`: this is not a mapping"),
        ("{}", "script at `$`: a script needs `turns` or `conversations`"),
        ("turns: [", "script at `line 1`: this is no YAML"),
        ("turn: []", "script at `$`: unknown key `turn`; did you mean `turns`"),
        ("turns: []\nturns: []", "script at `line 2`: the key `turns` stands here twice"),
        ("? [a]\n: 1", "script at `line 1`: this is no YAML"),
        ("1: 2", "key is not text at `$.1`"),
        ("model: 3\nturns: []", "script at `$.model`: this is not text; put it in quotes"),
        ("turns: {}", "script at `$.turns`: this is not a list"),
        ("turns: [hello]", "script at `$.turns[0]`: this is not a mapping"),
        ("turns: [{}]", "script at `$.turns[0]`: a turn needs `say`"),
        ("turns: [{sya: x}]", "`$.turns[0]`: unknown key `sya`; did you mean `say`"),
        ("turns: [{say: '{{result}}'}]", "`$.turns[0].say`: the only placeholder is"),
        ("turns: [{say: x, loop: 'yes'}]", "`$.turns[0].loop`: this is not true or false"),
        ("turns: [{say: x, loop: true}, {say: y}]", "`$.turns[1]`: nothing is said after a turn"),
        ("turns: [{calls: [{args: {}}]}]", "`$.turns[0].calls[0]`: `tool` is missing"),
        ("turns: [{calls: [{tool: x, args: [1]}]}]", "calls[0].args`: this is not a mapping"),
        ("turns: [{calls: [{tool: x, args: {}, raw: ''}]}]", "give `args` or `raw`, not both"),
        ("turns: [{calls: [{tool: x, args: {day: 2026-01-01}}]}]", "a date is not a JSON value at"),
        ('turns: [{say: "\\ud800"}]', "lone surrogate"),
        ("turns: [{when: []}]", "`$.turns[0].when`: there are no branches"),
        (
            "turns: [{when: [{if: {tool: x}, say: y}]}]",
            "when[0]`: the last branch needs `else: true`",
        ),
        (
            "turns: [{when: [{else: true, say: y}, {else: true, say: y}]}]",
            "when[0]`: every branch but",
        ),
        ("turns: [{when: [{else: true, say: y}], say: z}]", "`say` cannot stand beside `when`"),
        ("turns: [{when: [{if: {}, say: y}, {else: true, say: z}]}]", "a condition needs"),
        (
            "turns: [{when: [{if: {status_contains: d}, say: y}, {else: true, say: z}]}]",
            "unknown key `status_contains`; did you mean `contains`",
        ),
        (
            "turns: [{when: [{if: {matches: '('}, say: y}, {else: true, say: z}]}]",
            "this is no regular expression",
        ),
        ("turns: [{fault: {status: 429}, say: x}]", "`say` cannot stand beside `fault`"),
        (
            "turns: [{fault: {status: 42}}]",
            "fault.status`: this is not a whole number from 200 to 599",
        ),
        ("turns: [{fault: {}}]", "fault.status`: this is not a whole number"),
        (
            "turns: [{fault: {status: 500, times: true}}]",
            "fault.times`: this is not a whole number",
        ),
        ("turns: [{fault: {status: 500, times: 0}}]", "fault.times`: this is not a whole number"),
        ("turns: [{fault: {kind: fire}}]", "`fire` is no kind of fault; there are `timeout`"),
        ("turns: [{fault: {kind: [timeout]}}]", "is no kind of fault"),
        ("turns: [{fault: {kind: timeout, seconds: 601}}]", "this is not a number from 0 to 600"),
        ("turns: [{fault: {kind: garbage, seconds: 1}}]", "unknown key `seconds`"),
        ("conversations: [{turns: []}]", "`$.conversations[0]`: `user` is missing"),
        ("conversations: [{user: '', turns: []}]", "`$.conversations[0].user`: this is empty"),
        ("a: &a [*a]", "nests deeper"),
        ("[" * 2000, "this is no YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(text: str, message: str):
    with pytest.raises(InvalidInputError) as caught:
        load_script(text)
    assert message in str(caught.value)


def test_a_script_is_limited_in_size():
    load_script("turns: []\n#" + "x" * (SCRIPT_CHARS_MAX - 11))
    with pytest.raises(InvalidInputError, match="exceeds"):
        load_script("turns: []\n#" + "x" * (SCRIPT_CHARS_MAX - 10))
