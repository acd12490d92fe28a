"""Which cases does a matrix stand for? Every combination of its values, each with one expectation.

The last value changes first. Expectations are one for all, a list with one for each combination in that
order, or a table: rows with a `when` of values, of which the first that fits counts; a last row without
`when` is for the rest. A combination without a row, and a row without a combination, are errors.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from governance.canonical import payload_bytes
from governance.policy.cel import did_you_mean
from governance.policy.yaml_source import Node

__all__ = ["COMBINATIONS_MAX", "Combination", "combinations", "expectations"]

COMBINATIONS_MAX: Final = 10_000
"""In one matrix."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One value for each name of the matrix."""

    values: Mapping[str, Node]

    def __str__(self) -> str:
        return ", ".join(f"{name}={_spelled(value)}" for name, value in self.values.items())

    def fits(self, wanted: Mapping[str, Node]) -> bool:
        return all(_spelled(self.values[name]) == _spelled(node) for name, node in wanted.items())


def combinations(matrix: Node) -> tuple[Combination, ...]:
    """The product of the values. Raises PolicyError."""
    axes = {name: node.items(f"`{name}`") for name, node in matrix.named("matrix").items()}
    if not axes:
        raise matrix.wrong("matrix is empty", "write `args.amount: [1, 2]`")
    count = math.prod(len(values) for values in axes.values())
    if count > COMBINATIONS_MAX:
        raise matrix.wrong(f"{count} combinations exceed {COMBINATIONS_MAX}", "split the case")
    return tuple(
        Combination(dict(zip(axes, values, strict=True)))
        for values in itertools.product(*axes.values())
    )


def expectations(expect: Node, of: Sequence[Combination]) -> tuple[Node, ...]:
    """Find what each combination expects. Raises PolicyError."""
    if not isinstance(expect.value, tuple):
        return (expect,) * len(of)
    rows = expect.items("expectations")
    if any("when" in row.named("expectation") for row in rows):
        return tuple(_from_table(expect, rows, of))
    if len(rows) != len(of):
        hint = "give one for each, in the order of the matrix, or rows with `when`"
        raise expect.wrong(f"{len(rows)} expectations for {len(of)} combinations", hint)
    return rows


def _from_table(expect: Node, rows: Sequence[Node], of: Sequence[Combination]) -> Iterator[Node]:
    wanted = [_wanted(row, of[0].values) for row in rows]
    used: set[int] = set()
    for combination in of:
        found = next((i for i, when in enumerate(wanted) if combination.fits(when)), None)
        if found is None:
            raise expect.wrong(f"no expectation for `{combination}`", "add a row for it")
        used.add(found)
        yield _without_when(rows[found])
    for number, row in enumerate(rows):
        if number not in used:
            hint = "drop it, or put it further up"
            raise row.wrong("expectation is for no combination", hint)


def _without_when(row: Node) -> Node:
    fields = row.named("expectation")
    return replace(row, value={name: node for name, node in fields.items() if name != "when"})


def _wanted(row: Node, axes: Mapping[str, Node]) -> Mapping[str, Node]:
    fields = row.named("expectation")
    if "when" not in fields:
        return {}
    wanted = fields["when"].named("`when`")
    for name, node in wanted.items():
        if name not in axes:
            raise node.wrong(f"`{name[:80]}` is not in the matrix", did_you_mean(name, axes))
    return wanted


def _spelled(node: Node) -> str:
    return payload_bytes(node.plain()).decode()
