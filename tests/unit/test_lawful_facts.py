"""An auditor counts again what rules were told of the past; a count that was forged is found, and named.

The forger holds the log's key and makes everything else agree: links, commitments, the decision itself.
"""

import functools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.test_lawful_check import (
    BYE,
    CUSTOMER,
    RUN,
    Script,
    Story,
    answer,
    found,
    installation,
    lookup,
    mail,
    proposes,
    records,
    refund,
)

from agent import DurableAgent
from governance.approval.model import Verdict
from governance.ids import Micros, SubjectId
from governance.lawful.check import check
from governance.lawful.windows import SKEW_MAX_S, Windows
from governance.ledger.entry import Kind
from governance.ledger.report import Status
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import WINDOWS, Principal
from governance.queue import pending

SECOND = 1_000_000
RULES = """
policy: desk
version: 2
rules:
  - {id: reads, match: {verbs: [READ]}, effect: allow}
  - id: few
    match: {tools: [refund]}
    when: "('refund' in window.hour ? window.hour.refund : 0) < 3"
    effect: allow
    allow_tier: critical
  - id: large
    match: {tools: [refund]}
    when: args.cents > 5000
    effect: require_approval
    approval: {quorum: [{role: finance, count: 1}]}
  - id: calm
    match: {tools: [mail]}
    when: "!('mail' in run.last) || run.last['mail'] >= 60 || 'refund' in run.approved"
    effect: allow
    allow_tier: critical
"""
POLICIES = load_policies({"desk.yaml": RULES})
ADA = ("refund", '{"cents":1,"to":"ada"}')
LARGE = ("refund", '{"cents":9900,"to":"ada"}')
MAIL = ("mail", '{"cents":1}')


@functools.cache
def history():
    """Three runs for two people: a refund, a large one with a yes, two refused, two mails."""
    governance = installation(RULES)

    def run(name, who, *turns):
        agent = DurableAgent(
            Script(*turns, BYE), [lookup, refund, mail], governance=governance, name="desk"
        )
        agent.run("pay", run_id=name, principal=Principal(SubjectId(who)))
        return agent

    run("before", CUSTOMER, proposes(ADA))
    run("other", "user:other", proposes(ADA, ADA))
    agent = run(RUN, CUSTOMER, proposes(MAIL, LARGE), proposes(ADA, ADA, MAIL), proposes(MAIL))
    (asked,) = pending(governance.store, governance.clock())
    answer(governance, asked.request, "ann", Verdict.APPROVE)
    assert agent.resume(RUN).status == "completed"
    return tuple(records(governance))


def told(step):
    return step.input["window"], step.input["run"]


def forge(call, change):
    """Change what the newest decision about `call` was told, and decide as the rules then do."""
    story = Story(history())
    uid = f"{RUN}/{call}"
    steps = [s for s in story.steps if s.kind is Kind.CALL_DECIDED and s.body["uid"] == uid]
    first, step = steps[0], steps[-1]
    change(step.input)
    decision = decide(POLICIES, {**step.input, "args": first.payloads["args"][1]})
    kept = {n: v for n, v in step.body.items() if n in {"uid", "tool", "definition", "first"}}
    step.body = kept | decision.to_json()
    return check(story.seal()), story.seq(step)


def test_the_history_is_lawful_and_says_what_it_should():
    report = check(history())
    assert (found(report), report.ok) == ([], True)
    story = Story(history())
    last = [s for s in story.steps if s.kind is Kind.CALL_DECIDED][-1]
    window, run = told(last)
    assert window["hour"] == window["day"] == {"refund": 3, "mail": 2}
    assert (run["approved"], run["last"]) == ({"refund": 1}, {"mail": 0, "refund": 0})


FORGED = {
    "its sibling less": ("2.1", lambda i: i["window"]["hour"].update(refund=2), "window.hour"),
    "the day only": ("2.1", lambda i: i["window"]["day"].update(refund=0), "window.day"),
    "of another tool": ("2.1", lambda i: i["window"]["hour"].update(lookup=1), "window.hour"),
    "nothing": ("2.1", lambda i: i["window"].update(hour={}), "window.hour"),
    "no such window": ("2.1", lambda i: i["window"].pop("day"), "window.day"),
    "true for one": ("1.0", lambda i: i["window"]["hour"].update(refund=True), "window.hour"),
    "not told": ("2.1", lambda i: i.pop("window"), "window"),
    "a longer rest": ("2.2", lambda i: i["run"]["last"].update(mail=60), "run.last"),
    "no start at all": ("2.2", lambda i: i["run"].update(last={}), "run.last"),
    "an approval more": ("2.2", lambda i: i["run"]["approved"].update(mail=1), "run.approved"),
    "no approval": ("2.2", lambda i: i["run"].update(approved={}), "run.approved"),
    "last not told": ("2.2", lambda i: i["run"].pop("last"), "run.last"),
}


@pytest.mark.attack
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_count_is_a_finding_at_its_place(forged):
    call, change, named = FORGED[forged]
    report, seq = forge(call, change)
    told = [f.message for f in report.findings if (f.kind, f.seq) == ("input-differs", seq)]
    assert [message.split("`")[1] for message in told] == [named]
    assert report.verdict is Status.FAILED


@pytest.mark.attack
def test_a_start_that_was_cut_out_is_missed_by_the_next_count():
    story = Story(history())
    story.steps = [s for s in story.steps if s.run != "before"]
    report = check(story.seal())
    assert {f.kind for f in report.findings} == {"input-differs"}
    assert report.verdict is Status.FAILED


@pytest.mark.attack
def test_a_window_that_no_rule_asks_for_is_not_told():
    governance = installation()
    agent = DurableAgent(
        Script(proposes(ADA), BYE), [lookup, refund], governance=governance, name="desk"
    )
    agent.run("pay", run_id=RUN)
    assert check(records(governance)).ok
    story = Story(records(governance))
    step = story.find(Kind.CALL_DECIDED)
    step.input["window"] = {"hour": {}, "day": {}}
    assert found(check(story.seal())) == [("input-differs", story.seq(step))]


def test_a_window_that_nobody_here_knows_is_never_silently_fine():
    report, seq = forge("2.1", lambda i: i["window"].update(week={"refund": 9}))
    assert (found(report), report.verdict) == ([("input-unknown", seq)], "not-checked")


def test_without_the_rules_the_count_is_still_compared():
    """An engine that is not here keeps decisions from being made again, and nothing else."""
    story = Story(history())
    story.find(Kind.POLICY_ACTIVATED).body["engine"] = "celpy 0.0.1"
    assert check(story.seal()).verdict is Status.NOT_CHECKED
    step = next(s for s in story.steps if s.kind is Kind.CALL_DECIDED and s.run == "other")
    step.input["window"]["hour"]["refund"] = 5
    assert check(story.seal()).verdict is Status.FAILED


@pytest.mark.parametrize("start", [1, 20])
def test_a_part_of_a_log_is_not_accused_of_what_stands_before_it(start):
    report = check(history()[start:])
    assert (found(report), report.verdict) == ([("log-partial", start)], "not-checked")


@pytest.mark.attack
@pytest.mark.parametrize(
    "window", [None, [], "x", 7, {"hour": None, "day": []}, {"hour": {"a": {}}}]
)
def test_a_window_of_another_shape_is_a_finding(window):
    report, seq = forge("2.1", lambda i: i.update(window=window))
    assert seq in {finding.seq for finding in report.findings}
    assert report.verdict is Status.FAILED


def test_a_clock_a_little_behind_is_counted_by_its_own_time():
    governance = installation(RULES)
    agent = DurableAgent(
        Script(proposes(ADA), proposes(ADA), BYE), [refund], governance=governance, name="desk"
    )
    agent.run("pay", run_id=RUN)
    story = Story(records(governance))
    second = story.find(Kind.CALL_DECIDED, "2.0")
    hour = WINDOWS["hour"] * SECOND
    story.later(story.find(Kind.MODEL_RESPONDED, nth=1), hour)
    first = story.find(Kind.CALL_STARTED, "1.0")
    # By the log's time the first start is out of the window, by the clock that decided just inside.
    second.input["now"] = first.ts + hour - 1
    assert second.ts > first.ts + hour
    story.steps[story.seq(second) - 1].ts = second.ts
    second.input["run"].update(elapsed_s=3600, last={"refund": 3599})
    assert second.input["window"]["hour"] == {"refund": 1}
    report = check(story.seal())
    assert (found(report), report.ok) == ([("clock-behind", story.seq(second))], True)


# --- the count itself -------------------------------------------------------------------------------

moves = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 59, 60, 3599, 3600, 3601, 40_000, 86_399, 86_400, 90_000]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["refund", "mail"]),
        st.integers(0, SKEW_MAX_S),
    ),
    max_size=30,
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(moves)
def test_what_is_let_go_of_is_never_missed(planned):
    windows, ts, everything = Windows(), 10**12, []
    for wait, who, tool, behind in planned:
        ts += wait * SECOND
        windows.take(who, tool, ts)
        everything.append((who, tool, ts))
        now = ts - behind * SECOND
        for person in ("ann", "bob"):
            expected = {
                window: Counter(
                    t for w, t, at in everything if w == person and at > now - seconds * SECOND
                )
                for window, seconds in WINDOWS.items()
            }
            assert windows.counts(person, now) == expected


def test_memory_is_that_of_one_day_however_long_the_log():
    windows = Windows()
    for minute in range(20 * 24 * 60):
        windows.take(f"user:{minute // 1000}", f"tool-{minute % 3}", minute * 60 * SECOND)
    assert len(windows._order) == 24 * 60 + 1
    assert len(windows._starts) <= 3
    assert sum(windows.counts("user:28", Micros(minute * 60 * SECOND))["hour"].values()) == 60
