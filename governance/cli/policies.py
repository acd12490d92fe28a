"""Can policies be used, and do their tests pass and see all of them? `policy check`, `test`, `coverage`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON, payload_bytes
from governance.cli import policy_bench, policy_changes, policy_signing, policy_why
from governance.cli.console import plain, say, show_json, table
from governance.cli.options import AsJson
from governance.cli.policy_sources import (
    Paths,
    ToolsNamed,
    load,
    place,
    policy_files,
    read,
    shapes,
    suites_beside,
    tests_beside,
)
from governance.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from governance.policy.coverage import Coverage
    from governance.policy.lint import Lint, TypeChecker
    from governance.policy.suite import CaseResult

__all__ = ["add_to"]

TESTS_FAILED: Final = 1
UNCOVERED: Final = 1
_ALL: Final = 100

policy = typer.Typer(no_args_is_help=True, help="Check, test, explain and compare policies.")

Least = Annotated[
    int,
    typer.Option("--min-coverage", min=0, max=_ALL, metavar="PERCENT", help="Exit 1 below this."),
]


def add_to(app: typer.Typer) -> None:
    for room in (policy_why, policy_changes, policy_signing, policy_bench):
        room.add_to(policy)
    app.add_typer(policy, name="policy")


@policy.command()
def check(paths: Paths, *, tools: ToolsNamed = None, json: AsJson = False) -> None:
    """Read policies as one set, and say what is wrong with them, with file, line and column.

    With `--tools`, conditions are checked against the arguments that these tools take. Where a policy key is
    configured, the set must be signed. Exit status 2: the set cannot be used.
    """
    from governance.policy.lint import Severity
    from governance.policy.lint import check as look

    files = policy_files(paths)
    loaded = read(files)
    second, checker = _second_reader()
    lints = look(loaded, None if tools is None else shapes(tools), second=second)
    signer = policy_signing.signer_of(paths)
    if json:
        show_json(
            {
                "digest": loaded.digest.hex(),
                "versions": dict(loaded.versions),
                "rules": len(loaded.rules),
                "checker": checker,
                "signed_by": signer,
                "lints": [lint.to_json() for lint in lints],
            }
        )
    else:
        versions = [(plain(name), str(number)) for name, number in loaded.versions.items()]
        say(table(("policy", "version"), versions))
        say("", f"{len(files)} file(s), {len(loaded.rules)} rules, set {loaded.digest.hex()}")
        if signer is not None:
            say(f"signed with the key {plain(signer)}")
        _tell_lints(lints)
    errors = [lint for lint in lints if lint.severity is Severity.ERROR]
    if errors:
        raise InvalidInputError(
            f"this set cannot be used: {len(errors)} error(s)", hint="mend what is listed"
        )


@policy.command(name="test")
def run_tests(paths: Paths, *, json: AsJson = False) -> None:
    """Run the `.test.yaml` beside each policy, each policy by itself. Exit status 1: some failed."""
    from governance.policy.suite import run_cases

    files = policy_files(paths)
    suites = suites_beside(files)
    tested = [
        _Tested(file, run_cases(load((file,)), suites[file]).cases if file in suites else None)
        for file in files
    ]
    if json:
        show_json([one.to_json() for one in tested])
    else:
        _tell(tested)
    if any(one.failed for one in tested):
        raise typer.Exit(TESTS_FAILED)


@policy.command()
def coverage(paths: Paths, *, min_coverage: Least = _ALL, json: AsJson = False) -> None:
    """Tell which rules and clauses the tests have not seen both ways. Exit status 1: too many.

    Each policy is covered by the tests beside it; one without tests is not covered at all.
    """
    from governance.policy.coverage import cover

    files = policy_files(paths)
    suites = suites_beside(files)
    covered = {
        file: cover(load((file,)), [case.inputs for case in suites[file].cases])
        if file in suites
        else cover(load((file,)), ())
        for file in files
    }
    if json:
        show_json([{"policy": str(file), **got.to_json()} for file, got in covered.items()])
    else:
        _tell_coverage(covered)
    if any(got.percent < min_coverage for got in covered.values()):
        raise typer.Exit(UNCOVERED)


def _second_reader() -> "tuple[TypeChecker | None, str | None]":
    """The type checker of engine `celexpr`, and which one that is; nothing where it is not installed."""
    from governance.policy.cel import engine_by_name

    try:
        engine = engine_by_name("celexpr")
    except UnavailableError:
        return None, None
    from governance.policy.celexpr_check import call_flaws

    return call_flaws, f"{engine.name} {engine.version}"


def _tell_lints(lints: "Sequence[Lint]") -> None:
    for lint in lints:
        say("", plain(f"{lint.file}:{lint.line}:{lint.column}: {lint.severity}: {lint.message}"))
        if lint.hint:
            say(f"  {plain(lint.hint)}")


@dataclass(frozen=True, slots=True)
class _Tested:
    """A policy file and what became of the tests beside it; `cases` is None where there are none."""

    file: Path
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
        return {"policy": str(self.file), "tests": str(tests_beside(self.file)), "cases": cases}


def _tell(tested: Sequence[_Tested]) -> None:
    rows = [(plain(one.file), "no tests" if one.cases is None else _score(one)) for one in tested]
    say(table(("policy", "cases"), rows))
    failed = [(one, case) for one in tested for case in one.failed]
    if failed:
        say("", table(("failed case", "where", "field", "expected", "got"), _differences(failed)))


def _score(tested: _Tested) -> str:
    cases = tested.cases or ()
    return f"{len(cases) - len(tested.failed)} of {len(cases)} passed"


def _differences(failed: "Sequence[tuple[_Tested, CaseResult]]") -> list[tuple[str, ...]]:
    return [
        (
            plain(case.name),
            plain(f"{tests_beside(one.file).name}:{case.line}"),
            field,
            plain(payload_bytes(expected).decode()),
            plain(payload_bytes(case.got.get(field)).decode()),
        )
        for one, case in failed
        for field, expected in case.expected.items()
        if expected != case.got.get(field)
    ]


def _tell_coverage(covered: "dict[Path, Coverage]") -> None:
    rows = [
        (plain(file), f"{got.percent} %", f"{got.seen} of {got.goals}")
        for file, got in covered.items()
    ]
    say(table(("policy", "covered", "seen"), rows))
    missing = [
        (plain(seen.rule.name), place(seen.rule), plain(missed))
        for got in covered.values()
        for seen in got.rules
        for missed in seen.missing
    ]
    if missing:
        say("", table(("rule", "where", "not seen by any case"), missing))
