"""A run under random turns, random crashes and random answers: every effect once, every call one result.

Crashes are raised inside the process at the driver's named failpoints, so that hundreds of histories fit
into a second; the real kills stand in tests/faults.
"""

from collections import Counter

import anyio
from agents import Plays, call, calls, person, say, vote
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agent import CallContext, DurableAgent, Injected, tool
from governance import Governance, recovery
from governance.approval.model import Verdict
from governance.lawful.check import check
from governance.ledger.entry import Kind

RULES = """
policy: sim
version: 1
rules:
  - {id: free, match: {tools: [read, write, put]}, effect: allow, allow_tier: critical}
  - {id: held, match: {tools: [pay]}, effect: require_approval}
  - {id: never, match: {tools: [drop]}, effect: deny}
  - {id: past, mode: shadow, when: size(window.day) > size(run.calls), effect: deny}
"""
FAILPOINTS = [
    "before-model",
    "after-model",
    "after-responded",
    "after-decided",
    "before-effect",
    "inside-effect",
    "after-effect",
]
RUN = "r"


class Crash(BaseException):
    """The process is gone."""


class World:
    def __init__(
        self, turns: list[list[str]], crashes: list[tuple[str, int]], parallel: bool
    ) -> None:
        self.effects: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.crashes = list(crashes)
        self.parallel = parallel
        self.gov = Governance.in_memory(policies={"sim.yaml": RULES})
        self.voter, self.operator = person(self.gov), person(self.gov, "op", "operator")
        played = [
            calls(*(call(name, n=f"{t}.{n}") for n, name in enumerate(turn)))
            for t, turn in enumerate(turns)
        ]
        self.model = Plays(*played, say())
        # The model's turn is found from the conversation: a request asked again is answered again.
        self.model.respond = self._respond  # type: ignore[method-assign]
        self.played = [*played, say()]

    async def _respond(self, messages, tools):
        from agents import check_conversation

        check_conversation(messages)
        return self.played[sum(m.role == "assistant" for m in messages)]

    def failpoint(self, name: str) -> None:
        if self.crashes and self.crashes[0][0] == name:
            point, left = self.crashes[0]
            self.crashes[0] = (point, left - 1)
            if left <= 1:
                self.crashes.pop(0)
                raise Crash

    def agent(self) -> DurableAgent:
        async def act(context: CallContext) -> str:
            assert context.uid is not None
            # Calls of one turn end one after another, so that each outcome is recorded on its own.
            await anyio.sleep(0.001 * int(context.uid.rpartition(".")[2]))
            self.effects[context.uid] += 1
            self.keys.setdefault(context.uid, set()).add(context.idempotency_key or "")
            self.failpoint("inside-effect")
            return "ok"

        @tool(verb="READ", side_effect=False)
        async def read(n: str, context: Injected[CallContext]) -> str:
            """Read."""
            return await act(context)

        @tool(verb="WRITE", side_effect=True)
        async def write(n: str, context: Injected[CallContext]) -> str:
            """Write."""
            return await act(context)

        @tool(verb="WRITE", side_effect=True, idempotent=True)
        async def put(n: str, context: Injected[CallContext]) -> str:
            """Put."""
            return await act(context)

        @tool(verb="FINANCIAL", side_effect=True)
        async def pay(n: str, context: Injected[CallContext]) -> str:
            """Pay."""
            return await act(context)

        @tool(verb="DELETE", side_effect=True)
        async def drop(n: str, context: Injected[CallContext]) -> str:
            """Drop."""
            return await act(context)

        return DurableAgent(
            self.model,
            [read, write, put, pay, drop],
            governance=self.gov,
            name="sim",
            parallel_tools=self.parallel,
            max_iterations=50,
            failpoint=self.failpoint,
        )

    def live(self, answers: list[bool]) -> None:
        """Drive the run to its end, through every crash, answering truthfully what is unknown."""
        for _ in range(200):
            agent = self.agent()
            try:
                exists = self.gov.store.read(lambda r: r.run_head(RUN)) is not None
                result = agent.resume(RUN) if exists else agent.run("go", run_id=RUN)
            except Crash:
                continue
            if result.status == "completed":
                return
            assert result.status == "suspended", result.status
            for unknown in result.unknown_outcomes:
                how = recovery.How.HAPPENED if self.effects[unknown.uid] else recovery.How.AGAIN
                said = recovery.Resolution(how, "ok")
                recovery.resolve(
                    self.gov.store, self.gov.clock, (RUN, unknown.uid), said, self.operator
                )
            for waiting in result.pending_approvals:
                yes = answers.pop(0) if answers else True
                verdict = Verdict.APPROVE if yes else Verdict.REJECT
                vote(self.gov, self.voter, waiting.request, verdict)
        raise AssertionError("the run never ended")


turns = st.lists(
    st.lists(st.sampled_from(["read", "write", "put", "pay", "drop"]), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)
crashes = st.lists(st.tuples(st.sampled_from(FAILPOINTS), st.integers(1, 3)), max_size=4)


@settings(max_examples=100, derandomize=True, deadline=None, phases=[Phase.generate])
@given(turns, crashes, st.lists(st.booleans(), max_size=6), st.booleans())
def test_every_effect_happens_once_and_every_call_has_one_result(turns, crashes, answers, parallel):
    world = World(turns, crashes, parallel)
    world.live(answers)
    records = world.gov.store.read(lambda r: r.run_records(RUN))
    refused = {
        r.entry.body["uid"]
        for r in records
        if r.entry.kind is Kind.CALL_DECIDED and r.entry.body["effect"] == "deny"
    }
    rejected = {r.entry.body["request"] for r in records if r.entry.kind is Kind.APPROVAL_REJECTED}
    refused |= {
        r.entry.body["uid"]
        for r in records
        if r.entry.kind is Kind.APPROVAL_REQUESTED and r.entry.body["request"] in rejected
    }
    for turn, names in enumerate(turns, 1):
        for position, name in enumerate(names):
            uid = f"{RUN}/{turn}.{position}"
            count = world.effects[uid]  # a Counter: absent is 0
            if uid in refused:
                assert count == 0, (uid, name)
            elif name == "put":
                assert count >= 1
                assert len(world.keys[uid]) == 1
            else:
                assert count == 1, (uid, name, count)
    starts = Counter(r.entry.body["uid"] for r in records if r.entry.kind is Kind.CALL_STARTED)
    assert set(world.effects) <= set(starts)
    assert not set(starts) & refused
    # What rules were told of the past, in every decision and after every crash, is what the log says.
    report = check(world.gov.store.read(lambda r: r.records()))
    assert [finding.message for finding in report.findings] == []
    decided = [r for r in records if r.entry.kind is Kind.CALL_DECIDED]
    told = [r.content("input") for r in decided if "input" in r.payloads]
    # There is one run, so a person's day is what the run has started.
    assert all(one["window"]["day"] == one["window"]["hour"] == one["run"]["calls"] for one in told)
