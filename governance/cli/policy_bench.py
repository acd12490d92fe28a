"""What does a decision cost? `policy bench`: microseconds, over the cases beside the policies, per engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON
from governance.cli.console import say, show_json, table
from governance.cli.options import AsJson
from governance.cli.policy_sources import Paths, load, policy_files, suites_beside
from governance.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from governance.policy.cel import Engine
    from governance.policy.rules import PolicySet

__all__ = ["add_to"]

ENGINES: Final = ("closure", "celpy", "celexpr")
SAMPLES_MAX: Final = 100_000
_NANOS: Final = 1_000_000_000

Seconds = Annotated[
    float, typer.Option("--seconds", min=0.01, max=600, help="How long to measure each engine.")
]


def add_to(policy: typer.Typer) -> None:
    policy.command()(bench)


def bench(paths: Paths, *, seconds: Seconds = 1.0, json: AsJson = False) -> None:
    """Measure decisions over the inputs of the tests, with each engine that is installed.

    Nothing is asserted: figures of one machine are for comparing with figures of the same one.
    """
    files = policy_files(paths)
    suites = suites_beside(files)
    rows: list[_Timing] = []
    for engine in _engines():
        sets = {file: load((file,), engine) for file in suites}
        work = [(sets[file], case.inputs) for file, suite in suites.items() for case in suite.cases]
        rows.append(_Timing(engine.name, engine.version, _measure(work, seconds)))
    if json:
        return show_json([row.to_json() for row in rows])
    shown = [
        (row.engine, row.version, str(len(row.nanos)), _micros(row.at(0.5)), _micros(row.at(0.99)))
        for row in rows
    ]
    say(table(("engine", "version", "decisions", "p50 µs", "p99 µs"), shown))
    return None


@dataclass(frozen=True, slots=True)
class _Timing:
    """What single decisions took, in nanoseconds, from the shortest to the longest."""

    engine: str
    version: str
    nanos: Sequence[int]

    def at(self, share: float) -> int:
        return self.nanos[min(int(share * len(self.nanos)), len(self.nanos) - 1)]

    def to_json(self) -> dict[str, JSON]:
        return {
            "engine": self.engine,
            "version": self.version,
            "decisions": len(self.nanos),
            "p50_ns": self.at(0.5),
            "p99_ns": self.at(0.99),
        }


def _engines() -> "Iterator[Engine]":
    from governance.policy.cel import engine_by_name

    for name in ENGINES:
        try:
            yield engine_by_name(name)
        except (InvalidInputError, UnavailableError):
            continue


def _measure(
    work: "Sequence[tuple[PolicySet, Mapping[str, JSON]]]", seconds: float
) -> Sequence[int]:
    """Decide everything once unmeasured, then again and again, at least once."""
    from governance.policy.decide import decide

    for policies, inputs in work:
        decide(policies, inputs)
    nanos: list[int] = []
    end = perf_counter_ns() + int(seconds * _NANOS)
    while not nanos or (perf_counter_ns() < end and len(nanos) < SAMPLES_MAX):
        for policies, inputs in work:
            begun = perf_counter_ns()
            decide(policies, inputs)
            nanos.append(perf_counter_ns() - begun)
    return sorted(nanos)


def _micros(nanos: int) -> str:
    return f"{nanos / 1000:.1f}"
