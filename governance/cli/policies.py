"""Can the policies be used, and do they do what their author says? `policy check` and `policy test`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON, payload_bytes
from governance.cli.console import plain, say, show_json, table
from governance.cli.options import AsJson
from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from governance.policy.suite import CaseResult

__all__ = ["add_to"]

TESTS_FAILED: Final = 1
_SUFFIX: Final = ".yaml"
_TESTS: Final = ".test.yaml"

policy = typer.Typer(no_args_is_help=True, help="Check policies and run their tests.")

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH…", help="Policy files, or folders of them.")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(policy, name="policy")


@policy.command()
def check(paths: Paths, *, json: AsJson = False) -> None:
    """Read policies as one set, and say what is wrong with them, with file and line."""
    from governance.config import read_policy_files
    from governance.policy.document import load_policies

    files = _policies(paths)
    loaded = load_policies(read_policy_files(files))
    versions, count = dict(loaded.versions), len(loaded.rules)
    if json:
        return show_json(
            {"digest": loaded.digest.hex(), "versions": dict(versions), "rules": count}
        )
    say(table(("policy", "version"), [(plain(n), str(v)) for n, v in versions.items()]))
    say("", f"{len(files)} file(s), {count} rules, set {loaded.digest.hex()}")
    return None


@policy.command(name="test")
def run_tests(paths: Paths, *, json: AsJson = False) -> None:
    """Run the `.test.yaml` beside each policy, each policy by itself. Exit status 1: some failed."""
    suites = [_run(file) for file in _policies(paths)]
    if all(suite.cases is None for suite in suites):
        raise InvalidInputError(
            "no policy here has tests", hint="put `NAME.test.yaml` beside `NAME.yaml`"
        )
    if json:
        show_json([suite.to_json() for suite in suites])
    else:
        _tell(suites)
    if any(suite.failed for suite in suites):
        raise typer.Exit(TESTS_FAILED)


@dataclass(frozen=True, slots=True)
class _Suite:
    """The tests beside one policy file; `cases` is None where there are none."""

    file: Path
    tests: Path
    cases: "tuple[CaseResult, ...] | None"

    @property
    def failed(self) -> "list[CaseResult]":
        return [case for case in self.cases or () if not case.passed]

    def to_json(self) -> dict[str, JSON]:
        cases: list[JSON] = [
            {
                "name": case.name,
                "line": case.line,
                "passed": case.passed,
                "expected": dict(case.expected),
                "got": dict(case.got),
            }
            for case in self.cases or ()
        ]
        return {"policy": str(self.file), "tests": str(self.tests), "cases": cases}


def _run(file: Path) -> _Suite:
    from governance.config import read_policy_files
    from governance.policy.document import load_policies
    from governance.policy.suite import run_suite

    tests = file.with_name(file.name.removesuffix(_SUFFIX) + _TESTS)
    if not tests.exists():
        return _Suite(file, tests, None)
    loaded = load_policies(read_policy_files((file,)))
    text = read_policy_files((tests,))[str(tests)]
    return _Suite(file, tests, run_suite(loaded, text, file=str(tests)).cases)


def _policies(paths: Sequence[Path]) -> tuple[Path, ...]:
    """List policy files; folders at any depth. Raises InvalidInputError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob(f"*{_SUFFIX}")) if path.is_dir() else [path]
        kept = [file for file in found if not file.name.endswith(_TESTS)]
        if not kept:
            raise InvalidInputError(
                f"`{path}` holds no policies", hint="name a policy file, or a folder of them"
            )
        files += kept
    return tuple(dict.fromkeys(files))


def _tell(suites: Sequence[_Suite]) -> None:
    rows = [
        (plain(suite.file), "no tests" if suite.cases is None else _score(suite))
        for suite in suites
    ]
    say(table(("policy", "cases"), rows))
    failed = [(suite, case) for suite in suites for case in suite.failed]
    if failed:
        say("", table(("failed case", "where", "field", "expected", "got"), _differences(failed)))


def _score(suite: _Suite) -> str:
    cases = suite.cases or ()
    return f"{len(cases) - len(suite.failed)} of {len(cases)} passed"


def _differences(failed: "Sequence[tuple[_Suite, CaseResult]]") -> list[tuple[str, ...]]:
    return [
        (
            plain(case.name),
            plain(f"{suite.tests.name}:{case.line}"),
            field,
            plain(payload_bytes(expected).decode()),
            plain(payload_bytes(case.got.get(field)).decode()),
        )
        for suite, case in failed
        for field, expected in case.expected.items()
        if expected != case.got.get(field)
    ]
