"""The timeline tells every entry of a run, who said what, and stays readable whatever the texts are."""

import re
from dataclasses import replace

import pytest
from agents import Plays, call, calls, person, say, vote
from rich.console import Console

from agent import DurableAgent, tool
from audit_viewer.timeline import Sign, timeline
from audit_viewer.wording import TEXT_CHARS_MAX, span
from governance import Governance
from governance.approval.model import Verdict
from governance.cli.timeline_view import render
from governance.ledger.entry import Kind, Payload, Record

RULES = """
policy: desk
version: 1
rules:
  - {id: reads, match: {tools: [look]}, effect: allow}
  - id: pays
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
    message: "'pay ' + args.to"
  - {id: never, match: {tools: [drop]}, effect: deny}
"""


@tool(verb="READ")
def look(id: str) -> dict:
    """Look."""
    return {"id": id}


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str) -> str:
    """Pay."""
    if to == "nobody":
        raise RuntimeError
    return "paid"


@tool(verb="DELETE", side_effect=True)
def drop(what: str) -> str:
    """Drop."""
    return what


@pytest.fixture
def gov():
    with Governance.in_memory(policies={"desk.yaml": RULES}) as governance:
        yield governance


def play(gov, *turns, verdict=Verdict.APPROVE, note="the invoice is in order"):
    """Run to the end; whatever is held gets `verdict`."""
    agent = DurableAgent(Plays(*turns, say("all done")), [look, pay, drop], governance=gov)
    result = agent.run("pay bob", run_id="r1")
    ann = person(gov, "Ann")
    for waiting in result.pending_approvals:
        vote(gov, ann, waiting.request, verdict, note)
    agent.resume("r1")
    return told(gov)


def records(gov):
    return gov.store.read(lambda r: r.run_records("r1"))


def told(gov):
    names = gov.store.read(lambda r: {p.subject: p.name for p in r.people.everybody()})
    return timeline(records(gov), names)


def one(lines, label: str):
    return next(line for line in lines if line.label == label)


def drawn(lines, width: int = 80, *, color: bool = False) -> str:
    console = Console(
        width=width,
        force_terminal=color,
        color_system="truecolor" if color else None,
        record=True,
        markup=False,
        file=open("/dev/null", "w"),  # noqa: PTH123, SIM115
    )
    try:
        console.print(render(lines))
        return console.export_text(styles=color)
    finally:
        console.file.close()


def test_every_entry_is_a_line_in_order(gov):
    lines = play(gov, calls(call("look", id="1"), call("pay", to="bob"), call("drop", what="all")))
    assert [line.seq for line in lines] == [r.entry.seq for r in records(gov)]
    assert [line.offset_us for line in lines] == sorted(line.offset_us for line in lines)
    assert lines[0].label == "started"
    assert lines[-1].label == "completed"


def test_decisions_name_call_rule_and_risk(gov):
    lines = play(gov, calls(call("look", id="1"), call("pay", to="bob"), call("drop", what="all")))
    assert one(lines, "allowed").text == 'look 1.0 (id: "1")'
    assert one(lines, "allowed").details == ("by desk/reads · low risk",)
    assert one(lines, "held").text == 'pay 1.1 (to: "bob")'
    assert one(lines, "held").details == ("by desk/pays · critical risk", "“pay bob”")
    assert one(lines, "denied").sign is Sign.DENY
    assert one(lines, "asks").text == "pay 1.1 needs 1 of approver within 4 h 00 min"


def test_what_each_clause_of_the_deciding_rules_came_to_is_told():
    rules = RULES.replace("id: pays", "id: pays\n    when: args.to == 'bob' || run.untrusted")
    rules = rules.replace("tools: [look]}", "tools: [look]}, when: args.id == 'a1'")
    with Governance.in_memory(policies={"desk.yaml": rules}) as gov:
        lines = play(gov, calls(call("pay", to="bob"), call("look", id="b2")))
    clauses = "args.to == 'bob' → true · run.untrusted → false"
    assert clauses in one(lines, "held").details
    # No rule decided here: what was asked is told.
    assert "desk/reads: args.id == 'a1' → false" in one(lines, "denied").details


def test_who_said_yes_is_named_with_role_card_and_head(gov):
    lines = play(gov, calls(call("pay", to="bob")))
    yes = one(lines, "yes")
    assert yes.text == "Ann approves"
    assert re.fullmatch(r"as approver · card [0-9a-f]{8} · signed over entry \d+", yes.details[0])
    assert yes.details[1] == "“the invoice is in order”"
    assert one(lines, "used").text == "for pay 1.0, once"
    assert one(lines, "checked").text == "pay 1.0, still needs the approval"


def test_a_no_is_told_with_its_reason(gov):
    lines = play(gov, calls(call("pay", to="bob")), verdict=Verdict.REJECT, note="no invoice")
    assert one(lines, "no").text == "Ann rejects"
    assert "“no invoice”" in one(lines, "no").details
    assert one(lines, "rejected").sign is Sign.NO
    assert not any(line.label == "starts" for line in lines)


def test_somebody_whose_name_was_erased_is_shown_by_subject(gov):
    play(gov, calls(call("pay", to="bob")))
    voter = next(r.entry.body["voter"] for r in records(gov) if "voter" in r.entry.body)
    assert one(timeline(records(gov), {}), "yes").text == f"{voter} approves"


def test_results_and_durations_are_told(gov):
    lines = play(gov, calls(call("look", id="7")))
    done = one(lines, "finished")
    assert re.fullmatch(r"look 1\.0 after [\d.]+ ms", done.text)
    assert done.details == ('{"id":"7"}',)


def test_a_failed_call_names_its_error(gov):
    lines = play(gov, calls(call("pay", to="nobody")))
    failed = one(lines, "failed")
    assert failed.sign is Sign.FAIL
    assert failed.text.startswith("pay 1.0 after ")


def test_an_erased_payload_is_said_to_be_missing_and_an_altered_one_is_said_to_be_altered(gov):
    play(gov, calls(call("look", id="7")))
    found = []
    for record in records(gov):
        kept = dict(record.payloads)
        if record.entry.kind is Kind.CALL_DECIDED:
            kept.pop("args")
        if record.entry.kind is Kind.CALL_FINISHED:
            kept["result"] = Payload("result", bytes(32), b'{"content":"forged"}')
        found.append(replace(record, payloads=kept))
    lines = timeline(found, {})
    assert one(lines, "allowed").text == "look 1.0 (not at hand)"
    assert one(lines, "finished").details == ("(NOT what was recorded)",)


@pytest.mark.parametrize("kind", list(Kind))
def test_no_entry_however_poor_ends_the_telling(gov, kind):
    record = gov.store.read(lambda reader: reader.records()[0])
    poor = Record(replace(record.entry, kind=kind, body={}))
    (line,) = timeline([poor], {})
    assert line.seq == record.entry.seq
    assert line.label


def test_long_texts_are_cut_and_said_to_be(gov):
    lines = play(gov, calls(call("look", id="x" * 5_000)))
    assert len(one(lines, "allowed").text) < TEXT_CHARS_MAX + 20
    assert one(lines, "allowed").text.endswith("…")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_drawn_it_fits_the_terminal_and_loses_no_word(gov, width):
    lines = play(gov, calls(call("look", id="1"), call("pay", to="bob" * 30)))
    text = drawn(lines, width)
    assert all(len(row) <= width for row in text.splitlines())
    assert not any(row.endswith(" ") for row in text.splitlines())
    for line in lines:
        assert f"{line.seq} " in text
        assert line.label in text
    squeezed = re.sub(r"[\s│]", "", text)
    for line in lines:
        assert re.sub(r"\s", "", line.text) in squeezed


def test_without_colour_it_says_the_same(gov):
    lines = play(gov, calls(call("pay", to="bob"), call("drop", what="x")))
    colored = re.sub(r"\x1b\[[\d;]*m", "", drawn(lines, color=True))
    assert colored == drawn(lines)
    assert len({Sign.ALLOW, Sign.HOLD, Sign.DENY, Sign.YES, Sign.NO} & {x.sign for x in lines}) >= 3


def test_hostile_texts_are_drawn_by_their_codes(gov):
    hostile = "\x1b[2J\x1b]0;owned\x07 \u202eevil\u200b [bold red]not markup[/]"
    text = drawn(play(gov, calls(call("look", id=hostile)), note=hostile))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "\u200b" not in text
    assert "<U+202E>" in re.sub(r"[\s│]", "", text)
    assert "[boldred]notmarkup[/]" in re.sub(r"[\s│]", "", text)


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (0, "0.0 ms"),
        (9_949, "9.9 ms"),
        (10_000, "10 ms"),
        (999_999, "999 ms"),
        (1_000_000, "1.0 s"),
        (59_940_000, "59.9 s"),
        (60_000_000, "1 min 00 s"),
        (3_599_000_000, "59 min 59 s"),
        (3_600_000_000, "1 h 00 min"),
        (90_000_000_000, "1 d 01 h"),
    ],
)
def test_spans_are_said_in_the_unit_that_fits(micros, words):
    assert span(micros) == words
