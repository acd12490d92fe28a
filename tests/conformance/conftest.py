import os
from pathlib import Path

import pytest
from conformance.cel_suite import PACKAGE, Case, SuiteAbsentError, cases

CASES = pytest.StashKey[list[Case]]()


def suite(config: pytest.Config) -> list[Case]:
    """The cases, fetched once and kept in pytest's own cache. Raises SuiteAbsentError."""
    if CASES not in config.stash:
        name = PACKAGE.replace("/", "_").lstrip("@")
        folder = Path(config.rootpath, ".pytest_cache", name)
        folder.mkdir(parents=True, exist_ok=True)
        config.stash[CASES] = cases(folder)
    return config.stash[CASES]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests that ask for a `case` one each of those that their module selects."""
    if "case" not in metafunc.fixturenames:
        return
    try:
        chosen = metafunc.module.select(metafunc.function.__name__, suite(metafunc.config))
    except SuiteAbsentError as exc:
        if "CI" in os.environ:
            raise
        mark = pytest.mark.skip(reason=f"the CEL conformance suite is not here: {exc}")
        chosen = [pytest.param(None, marks=mark, id="absent")]
    metafunc.parametrize("case", chosen)
