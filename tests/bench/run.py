"""`make bench`: a line per number that the design promises, each a ratio measured in this one run.

    name ratio bar ok|SHORT

Exit 1 if one falls short. Timings swing on a busy machine; a ratio has its reference beside it, in turns.
Where nothing is promised the figure stands alone.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

import bench_append
import bench_decision
import bench_memory
import bench_run
import bench_tree
import bench_verify

from governance.canonical import payload_bytes


@dataclass(frozen=True)
class Row:
    """One figure. `at_most`: whether it must stay below its bar or above it, where it has one."""

    name: str
    measure: Callable[[], float]
    bar: float | None = None
    at_most: bool = True
    unit: str = "times"


GROUPS: Final = {
    "decision": (
        Row("decision, 200 rules / the same as lambdas", bench_decision.against_lambdas, 4),
        Row(
            "its conditions alone / the same as lambdas",
            bench_decision.conditions_against_lambdas,
            4,
        ),
        Row("decision, 200 rules / 10", bench_decision.growth_200_over_10, 2),
        Row("decision, 1,000 rules / 100", bench_decision.growth_1000_over_100, 2),
        Row("every candidate / first hit", bench_decision.every_candidate_over_first_hit, 15),
        Row(
            "the working recorded beside a decision", bench_decision.working_microseconds, unit="us"
        ),
        *(
            Row(f"admission and digest, {keys} keys", measure, unit="us")
            for keys, measure in bench_decision.ADMISSIONS.items()
        ),
        *(
            Row(f"{engine}, {condition}", measure, unit="us")
            for (condition, engine), measure in bench_decision.ENGINES.items()
        ),
    ),
    "ledger": (
        Row("durable append, one caller / bare commit", bench_append.durable_append_one, 1.5),
        Row(
            "durable append, 64 callers / one", bench_append.durable_append_many, 10, at_most=False
        ),
        Row(
            "the same where a commit takes 2 ms",
            bench_append.durable_append_many_slow_disk,
            10,
            at_most=False,
        ),
        Row("Merkle append / hash of a node", bench_tree.append_over_hash, 5),
        Row("kept of the tree, 2^40 - 1 entries", bench_tree.state_kilobytes, 1.3, unit="KB"),
        Row("verification / sha256 of the same file", bench_verify.against_sha256, 1 / 25, False),
        Row("verification / parse + rfc8785", bench_verify.against_rfc8785, 8, at_most=False),
        Row("its floor / parse + rfc8785", bench_verify.floor_against_rfc8785),
    ),
    "memory": (
        Row(
            "memory of verification, 1 M entries",
            bench_memory.verification_megabytes,
            100,
            unit="MB",
        ),
        Row("more than over 10 k entries", bench_memory.verification_growth, 25, unit="MB"),
        Row("memory of export, 1 M entries", bench_memory.export_megabytes, 100, unit="MB"),
        Row("memory of lawfulness, 1 M entries", bench_memory.lawfulness_megabytes, 100, unit="MB"),
        Row("lawfulness, an entry of 1 M / of 10 k", bench_memory.lawfulness_growth, 1.5),
    ),
    "run": (
        Row("governed durable call / two bare commits", bench_run.governed_call, 1.6),
        Row("stored bytes, 400 turns / 10", bench_run.stored_growth, 45),
        Row("stored bytes, 400 turns", bench_run.stored_megabytes, 2.5, unit="MB"),
        Row("resume, a turn of 400 / a turn of 100", bench_run.resume_growth, 1.5),
        Row("resume at 400 turns", bench_run.resume_milliseconds, 115, unit="ms"),
    ),
}


def rows(only: str | None) -> Iterator[Row]:
    for name, group in GROUPS.items():
        if only in {None, name}:
            yield from group


def line(row: Row, figure: float, verdict: str) -> str:
    if row.bar is None:
        return f"{row.name:<44} {figure:8.3g} {row.unit}"
    sign = "<=" if row.at_most else ">="
    return f"{row.name:<44} {figure:8.3g} {sign} {row.bar:<6.3g} {row.unit:<5} {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(GROUPS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    short, told = 0, []
    for row in rows(asked.only):
        figure = row.measure()
        ok = row.bar is None or (figure <= row.bar if row.at_most else figure >= row.bar)
        short += not ok
        told.append(
            {"name": row.name, "figure": figure, "bar": row.bar, "unit": row.unit, "ok": ok}
        )
        if not asked.json:
            print(line(row, figure, "ok" if ok else "SHORT"), flush=True)
    if asked.json:
        print(payload_bytes(told).decode())
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
