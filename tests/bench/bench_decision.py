"""What does a decision cost, beside the same rules written by hand, and as rules grow in number?

Every tool has rules of its own: half of the rules are about it by name, the others by a pattern. By hand they are Python
lambdas in a dictionary by tool, without checks, limits, reasons or a record: the floor. All in CPU time, in
turns, the best of each. Arguments are admitted once, however many rules there are: that is told apart.
"""

import functools
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from governance.canonical import SALT_BYTES, commitment, freeze
from governance.ids import Digest
from governance.policy.admit import admits
from governance.policy.cel import CONDITION_STEPS_MAX, Engine, engine_by_name
from governance.policy.decide import decide_admitted
from governance.policy.document import load_policies
from governance.policy.model import Effect, RiskProfile, Tier
from governance.policy.risk import tool_input
from governance.policy.rules import PolicySet
from governance.policy.working import working

ROUNDS = 31
CALLS = 400

Inputs = Mapping[str, Any]
ByHand = Callable[[Inputs], bool]

RULES: list[tuple[str, str, ByHand]] = [
    ("deny", "args.amount > 9000.0", lambda i: i["args"]["amount"] > 9000.0),
    (
        "deny",
        "has(args.path) && args.path.startsWith('/etc/')",
        lambda i: "path" in i["args"] and i["args"]["path"].startswith("/etc/"),
    ),
    (
        "require_approval",
        "args.amount > 5000.0 && !principal.roles.exists(r, r == 'lead')",
        lambda i: (
            i["args"]["amount"] > 5000.0 and all(r != "lead" for r in i["principal"]["roles"])
        ),
    ),
    (
        "allow",
        "tool.verb == 'WRITE' && args.amount <= 5000.0 && args.currency in ['EUR', 'GBP', 'USD']",
        lambda i: (
            i["tool"]["verb"] == "WRITE"
            and i["args"]["amount"] <= 5000.0
            and i["args"]["currency"] in ("EUR", "GBP", "USD")
        ),
    ),
    (
        "allow",
        "run.failures < 3 && env.name == 'staging'",
        lambda i: i["run"]["failures"] < 3 and i["env"]["name"] == "staging",
    ),
]


def _tools(rules: int) -> int:
    return max(1, rules // len(RULES))


def _tool(number: int) -> str:
    return f"tool_{number:03}"


@functools.cache
def policy_set(rules: int, tools: int | None = None) -> PolicySet:
    """`rules` rules over `tools` tools; five a tool unless told otherwise."""
    count = tools or _tools(rules)
    written = []
    for number in range(rules):
        effect, when, _ = RULES[number % len(RULES)]
        tool = _tool(number // len(RULES) % count)
        pattern = tool if number % 2 else f"{tool}*"
        rule = {"id": f"r{number}", "effect": effect, "match": {"tools": [pattern]}, "when": when}
        written.append({**rule, "allow_tier": "critical"} if effect == "allow" else rule)
    files = {
        f"p{n}.yaml": json.dumps(
            {"policy": f"p{n}", "version": 1, "rules": written[n * 500 : (n + 1) * 500]}
        )
        for n in range((rules + 499) // 500)
    }
    return load_policies(files)


@functools.cache
def by_hand(rules: int) -> Mapping[str, Sequence[Sequence[ByHand]]]:
    """The same rules: tool -> lambdas that deny, that hold, that allow."""
    found: dict[str, list[list[ByHand]]] = {}
    for number in range(rules):
        effect, _, test = RULES[number % len(RULES)]
        tool = _tool(number // len(RULES) % _tools(rules))
        place = ("deny", "require_approval", "allow").index(effect)
        found.setdefault(tool, [[], [], []])[place].append(test)
    return found


def decide_by_hand(rules: Mapping[str, Sequence[Sequence[ByHand]]], inputs: Inputs) -> Effect:
    denials, holds, allows = rules.get(inputs["tool"]["name"], ((), (), ()))
    for test in denials:
        if test(inputs):
            return Effect.DENY
    for test in holds:
        if test(inputs):
            return Effect.REQUIRE_APPROVAL
    for test in allows:
        if test(inputs):
            return Effect.ALLOW
    return Effect.DENY


def call(tool: int, amount: float, path: str = "/srv/a") -> Inputs:
    profile = RiskProfile(verb="WRITE", risk_tier=Tier.LOW)
    return {
        "tool": tool_input(_tool(tool), Digest(bytes(32)), profile),
        "args": {"amount": amount, "path": path, "currency": "EUR", "note": "for the invoice"},
        "args_origin": {},
        "principal": {"id": "user:1", "roles": ["clerk", "support"], "tenant": ""},
        "agent": {"id": "agent:a", "path": [], "model": "m"},
        "run": {"id": "run-1", "step": 3, "calls": {}, "failures": 0, "untrusted": False},
        "env": {"name": "prod", "labels": {}},
        "now": 1_767_323_045_000_000,
    }


@functools.cache
def calls(tools: int) -> Sequence[Inputs]:
    """Calls of every tool: one in ten denied, one in five held, the rest allowed or nobody's."""
    r = random.Random(7)
    amounts = [100.0, 4000.0, 4900.0, 100.5, 6000.0, 7000.0, 9500.0, 20.0, 30.0, 40.0]
    return [call(r.randrange(tools), r.choice(amounts)) for _ in range(CALLS)]


def best(*acts: Callable[[], object]) -> list[float]:
    """Microseconds of CPU time of each, the best of interleaved runs."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(ROUNDS):
        for act, taken in zip(acts, times, strict=True):
            began = time.process_time()
            act()
            taken.append((time.process_time() - began) * 1e6)
    return [min(taken) for taken in times]


def deciding(policies: PolicySet, over: Sequence[Inputs]) -> Callable[[], object]:
    return functools.partial(_each, functools.partial(decide_admitted, policies), over)


def deciding_by_hand(
    rules: Mapping[str, Sequence[Sequence[ByHand]]], over: Sequence[Inputs]
) -> Callable[[], object]:
    return functools.partial(_each, functools.partial(decide_by_hand, rules), over)


def _each(act: Callable[[Inputs], object], over: Sequence[Inputs]) -> None:
    for inputs in over:
        act(inputs)


def against_lambdas(rules: int = 200) -> float:
    """A whole decision about admitted arguments, its record included, as a multiple of lambdas."""
    policies, hand, asked = policy_set(rules), by_hand(rules), calls(_tools(rules))
    for inputs in asked:
        assert decide_admitted(policies, inputs).effect is decide_by_hand(hand, inputs)
    ours, theirs = best(deciding(policies, asked), deciding_by_hand(hand, asked))
    return ours / theirs


def conditions_against_lambdas(rules: int = 200) -> float:
    """Only the conditions, walked as by hand: what the engine adds to Python's own lambdas."""
    policies, hand, asked = policy_set(rules), by_hand(rules), calls(_tools(rules))
    programs = {when: policies.evaluator.compile(when) for _, when, _ in RULES}
    ask = {test: _asking(policies.evaluator, programs[when].evaluate) for _, when, test in RULES}
    compiled = {
        tool: [[ask[test] for test in tests] for tests in groups] for tool, groups in hand.items()
    }
    ours, theirs = best(deciding_by_hand(compiled, asked), deciding_by_hand(hand, asked))
    return ours / theirs


def _asking(engine: Engine, evaluate: Callable[..., Any]) -> ByHand:
    return lambda inputs: evaluate(engine.bind(inputs), CONDITION_STEPS_MAX).value is True


def growth(many: int, few: int) -> float:
    """A decision over `many` rules as a multiple of one over `few`."""
    ours, theirs = best(
        deciding(policy_set(many), calls(_tools(many))),
        deciding(policy_set(few), calls(_tools(few))),
    )
    return ours / theirs


def growth_200_over_10() -> float:
    return growth(200, 10)


def growth_1000_over_100() -> float:
    return growth(1000, 100)


def every_candidate_over_first_hit() -> float:
    """200 rules over ten tools: a call that no rule is about in the end, and one that is denied."""
    policies = policy_set(200, 10)
    every = [call(n % 10, 5000.5) for n in range(CALLS)]
    for inputs in every:
        inputs["principal"]["roles"][:] = ["lead"]
    first = [call(n % 10, 9500.0) for n in range(CALLS)]
    assert decide_admitted(policies, every[0]).reasons == ("no-rule",)
    assert decide_admitted(policies, first[0]).effect is Effect.DENY
    ours, theirs = best(deciding(policies, every), deciding(policies, first))
    return ours / theirs


def working_microseconds() -> float:
    """Telling what the decisions over 200 rules rest on, as it is recorded beside each."""
    policies, over = policy_set(200), calls(_tools(200))
    decided = [(inputs, decide_admitted(policies, inputs)) for inputs in over]
    assert all(working(policies, *one) for one in decided)
    (taken,) = best(lambda: [working(policies, *one) for one in decided])
    return taken / len(decided)


def admission_microseconds(keys: int) -> float:
    """Freezing arguments of `keys` keys, committing to them and admitting them: once a call."""
    args = {f"key_{n}": ("text", n, 0.5, [True, None])[n % 4] for n in range(keys)}
    salt = bytes(SALT_BYTES)

    def admit() -> bool:
        frozen = freeze(args)
        commitment(salt, "args", frozen)
        return admits(frozen)

    assert admit()
    (taken,) = best(lambda: [admit() for _ in range(100)])
    return taken / 100


ADMISSIONS = {keys: functools.partial(admission_microseconds, keys) for keys in (4, 20, 200)}


CONDITIONS = {
    "typical": "tool.verb == 'WRITE' && args.amount > 10.0 && !principal.roles.exists(r, r == 'admin')",
    "one field": "tool.verb == 'READ'",
    "has": "has(args.amount) && args.amount > 5000.0",
    "in a list": "'lead' in principal.roles",
    "in a literal": "args.currency in ['CHF', 'DKK', 'GBP', 'USD']",
    "matches": "args.path.matches('^/srv/[a-z/]+$')",
    "counters": "run.failures > 3 || run.step > 50",
    "time of day": "now.getHours() >= 9 && now.getHours() < 18",
    "all of 100": "args.many.exists(x, x == 'nobody')",
}


def engine_microseconds(condition: str, engine: str) -> float:
    """One evaluation of a condition, of inputs bound before."""
    inputs = call(0, 3000.0)
    inputs["args"]["many"] = [f"name-{n}" for n in range(100)]
    source = CONDITIONS[condition]
    ask = _ask(engine, source, inputs)
    count = 5 if engine == "celpy" else 500
    (taken,) = best(functools.partial(_repeat, ask, count))
    return taken / count


ENGINES = {
    (condition, engine): functools.partial(engine_microseconds, condition, engine)
    for condition in CONDITIONS
    for engine in ("closure", "celpy", "celexpr")
}


def _repeat(ask: Callable[[], object], count: int) -> None:
    for _ in range(count):
        ask()


def _ask(name: str, source: str, inputs: Inputs) -> Callable[[], object]:
    engine = engine_by_name(name)
    program, bound = engine.compile(source), engine.bind(inputs)
    return functools.partial(program.evaluate, bound, CONDITION_STEPS_MAX)
