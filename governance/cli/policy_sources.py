"""What do the policy commands work on? Policy files, the cases beside them, recorded decisions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

import typer

from governance.canonical import JSON
from governance.cli.console import plain
from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from governance.ledger.entry import Record
    from governance.policy.cel import Engine
    from governance.policy.compare import Judged
    from governance.policy.declarations import ToolShape
    from governance.policy.rules import PolicySet, Rule
    from governance.policy.suite import Suite

__all__ = [
    "BundleDir",
    "History",
    "Paths",
    "ToolsNamed",
    "entries",
    "load",
    "place",
    "policy_files",
    "read",
    "shapes",
    "suites_beside",
    "tests_beside",
]

_SUFFIX: Final = ".yaml"
_TESTS: Final = ".test.yaml"
_BATCH: Final = 512

Paths: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="PATH…", help="Policy files, or folders of them.")
]
ToolsNamed: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tools",
        metavar="MODULE[:ATTR]",
        help="A module of `@tool` functions, or a list of tools in one.",
        show_default=False,
    ),
]
BundleDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="BUNDLE",
        help="A bundle with recorded decisions, instead of the installation.",
        show_default=False,
    ),
]


def policy_files(paths: Sequence[Path]) -> tuple[Path, ...]:
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


def load(files: Sequence[Path], engine: "Engine | None" = None) -> "PolicySet":
    """Load policy files as one set, for the engine that decides here unless another is given."""
    from governance.config import read_policy_files
    from governance.policy.document import load_policies

    return load_policies(read_policy_files(tuple(files)), engine or _engine_here())


def read(files: Sequence[Path]) -> "PolicySet":
    """The same without a look at what the rules mean."""
    from governance.config import read_policy_files
    from governance.policy.document import read_policies

    return read_policies(read_policy_files(tuple(files)), _engine_here())


def _engine_here() -> "Engine":
    from governance.config import engine_name
    from governance.policy.cel import engine_by_name

    return engine_by_name(engine_name())


def shapes(target: str) -> "dict[str, ToolShape]":
    """Find the tools that `target` names: those of a module, or a list or registry in it."""
    from agent.tools import FunctionTool, ToolRegistry
    from governance.cli.target import find, find_module
    from governance.policy.declarations import ToolShape

    found: object
    if ":" in target:
        found = find(target)
    else:
        members = vars(find_module(target)).values()
        found = list(
            {id(tool): tool for tool in members if isinstance(tool, FunctionTool)}.values()
        )
    tools = ToolRegistry(
        cast("Iterable[object]", found) if isinstance(found, Iterable) else [found]
    )
    if not len(tools):
        raise InvalidInputError(
            f"`{target}` names no tools", hint="name a module of `@tool` functions, or a list"
        )
    return {tool.name: ToolShape(tool.definition.profile, tool.schema.parameters) for tool in tools}


def place(rule: "Rule") -> str:
    """Where a rule stands."""
    return "" if rule.id is None else plain(f"{rule.id.file}:{rule.id.line}")


def tests_beside(file: Path) -> Path:
    """Name the file of a policy's tests."""
    return file.with_name(file.name.removesuffix(_SUFFIX) + _TESTS)


def suites_beside(files: Sequence[Path]) -> "dict[Path, Suite]":
    """Read the tests beside policy files, by policy file. Raises InvalidInputError when there are none."""
    from governance.config import read_policy_files
    from governance.policy.suite import read_suite

    suites: dict[Path, Suite] = {}
    for file in files:
        tests = tests_beside(file)
        if tests.exists():
            text = read_policy_files((tests,))[str(tests)]
            suites[file] = read_suite(text, file=str(tests))
    if not suites:
        raise InvalidInputError(
            "no policy here has tests", hint="put `NAME.test.yaml` beside `NAME.yaml`"
        )
    return suites


def entries(bundle: Path | None, home: Path | None) -> "Iterator[Record]":
    """Stream the entries of a bundle, else of the installation. What they say is not verified here."""
    if bundle is None:
        yield from _installed(home)
        return
    if home is not None:
        raise InvalidInputError(
            "a bundle and an installation are named", hint="give one of `--bundle` and `--home`"
        )
    from governance.bundle import records

    yield from records(bundle)


def _installed(home: Path | None) -> "Iterator[Record]":
    from governance.assemble import Governance
    from governance.bundle import newest_archive

    with Governance.without_rules(home) as governance:
        archived = governance.store.read(newest_archive)
        start = archived.end if archived else 0
        while batch := governance.store.read(
            lambda reader, at=start: reader.records(start=at, limit=_BATCH)  # type: ignore[misc]  # a default binds it
        ):
            yield from batch
            start += len(batch)


@dataclass(slots=True)
class History:
    """Recorded decisions as they stream past, each with the input it was made from.

    `unasked` counts those that never reached the policy, `erased` those whose input is gone.
    """

    unasked: int = 0
    erased: int = 0
    _arguments: "dict[str, dict[int, Record]]" = field(
        default_factory=dict[str, "dict[int, Record]"]
    )

    def decisions(self, records: "Iterator[Record]") -> "Iterator[Judged]":
        """Yield every decision that can be made again. Raises TamperedError where a payload is false."""
        from governance.ledger.entry import Kind

        over = {Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED}
        for record in records:
            entry = record.entry
            if entry.kind is Kind.CALL_DECIDED:
                yield from self._decision(record)
            elif entry.kind in over:
                self._arguments.pop(str(entry.run), None)

    def _decision(self, record: "Record") -> "Iterator[Judged]":
        from governance.policy.compare import Judged
        from governance.policy.model import Decision

        entry, body = record.entry, record.entry.body
        of_run = self._arguments.setdefault(str(entry.run), {})
        first = of_run.get(body["first"]) if "first" in body else record
        if "first" not in body:
            of_run[entry.seq] = record
        if "input" not in entry.payloads:
            self.unasked += 1
        elif "input" not in record.payloads or first is None or "args" not in first.payloads:
            self.erased += 1
        else:
            given: dict[str, Any] = {**record.content("input"), "args": first.content("args")}
            where: dict[str, JSON] = {"seq": entry.seq, "run": entry.run, "call": body["uid"]}
            yield Judged(where, str(body["tool"]), given, Decision.from_json(body))
