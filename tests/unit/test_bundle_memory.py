"""A log of seven times the length takes no more memory, written, verified or judged."""

import pytest
from bench.bench_memory import stages

FEW, MANY = 3_000, 21_000
GROWTH_MB_MAX = 6
"""The lines of so many more entries and payloads are fourteen megabytes, as objects many times that."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    return stages(FEW, folder), stages(MANY, folder)


@pytest.mark.parametrize("what", ["export", "verify", "judge"])
def test_memory_does_not_grow_with_the_log(measured, what):
    few, many = measured
    assert many[what][1] - few[what][1] < GROWTH_MB_MAX
