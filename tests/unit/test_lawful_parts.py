"""Lawfulness of a part of a log, and of one with content kept back: judged as far as it goes, never farther."""

from dataclasses import replace

import orjson
import pytest
from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import Governance
from governance.ids import RunId
from governance.lawful.check import Fault, check
from governance.ledger.parts import OneRun, Span
from governance.ledger.report import Status

RULES = "policy: a\nversion: 1\nrules:\n  - {id: reads, match: {tools: [look]}, effect: allow}\n"


@tool(verb="READ", side_effect=False)
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


@pytest.fixture(scope="module")
def log():
    """The records of a log with two completed runs."""
    with Governance.in_memory(policies={"a.yaml": RULES}) as governance:
        for _ in range(2):
            plays = Plays(calls(call("look", n=1)), say())
            agent = DurableAgent(plays, [look], governance=governance, name="b")
            assert agent.run("go").status == "completed"
        return list(governance.store.read(lambda r: r.records()))


def last_run(log) -> RunId:
    return next(r.entry.run for r in reversed(log) if r.entry.run is not None)


def of_run(log):
    run = last_run(log)
    return [record for record in log if record.entry.run in {None, run}]


def test_a_run_by_itself_is_judged_and_that_is_said(log):
    part = OneRun(last_run(log), len(log))
    report = check(of_run(log), None, part)
    assert report.verdict is Status.OK, report.findings
    assert report.decisions_checked == 1
    assert dict(report.counts) == {Fault.PART_JUDGED: 1}
    assert part.run in report.findings[0].message


def test_a_range_in_the_middle_is_not_judged(log):
    report = check(log[4:], None, Span(4, len(log), len(log)))
    assert report.verdict is Status.NOT_CHECKED


def test_without_the_rules_it_decided_under_a_run_is_unlawful(log):
    kept = [record for record in of_run(log) if record.entry.kind != "policy.activated"]
    report = check(kept, None, OneRun(last_run(log), len(log)))
    assert Fault.POLICY_UNKNOWN in report.counts
    assert report.verdict is Status.FAILED


NEEDED = ["text", "input", "message", "args"]


@pytest.mark.parametrize("name", NEEDED)
def test_content_kept_back_leaves_what_rests_on_it_not_judged(log, name):
    withheld = {name: [r.entry.seq for r in log if name in r.payloads]}
    assert withheld[name]
    cut = [
        replace(r, payloads={key: p for key, p in r.payloads.items() if key != name}) for r in log
    ]
    report = check(cut, None, None, withheld)
    assert report.verdict is Status.NOT_CHECKED, report.findings
    assert set(report.counts) == {Fault.PAYLOAD_WITHHELD}
    # The same content gone without a word is no such thing.
    assert check(cut).verdict is Status.FAILED or name == "message"


@pytest.mark.parametrize("name", ["result", "schema"])
def test_content_that_nothing_rests_on_is_not_missed(log, name):
    withheld = {name: [r.entry.seq for r in log if name in r.payloads]}
    assert withheld[name]
    cut = [
        replace(r, payloads={key: p for key, p in r.payloads.items() if key != name}) for r in log
    ]
    assert check(cut, None, None, withheld).verdict is Status.OK


def test_a_moment_that_only_the_entry_before_could_excuse_is_not_judged_without_it(log):
    """A decision dated a moment before its entry: excusable, if the entry before is as late."""
    kept = [redated(record) for record in of_run(log) if record.entry.kind != "model.responded"]
    found = {f.kind: f.status for f in check(kept, None, OneRun(last_run(log), 99)).findings}
    assert found[Fault.CLOCK_BEHIND] is Status.NOT_CHECKED


def redated(record):
    if record.entry.kind != "call.decided":
        return record
    given = orjson.loads(record.payloads["input"].content)
    given["now"] -= 1
    content = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    changed = replace(record.payloads["input"], content=content)
    commitments = record.entry.payloads | {"input": changed.commitment}
    entry = replace(record.entry, payloads=commitments)
    return replace(record, entry=entry, payloads=record.payloads | {"input": changed})
