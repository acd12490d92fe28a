"""Why is it decided so? `policy explain`: of a call that might be, of a test case, of a recorded decision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from governance.canonical import JSON, parse_json
from governance.cli.console import say, show_json
from governance.cli.options import AsJson, HomeDir
from governance.cli.policy_sources import (
    BundleDir,
    History,
    entries,
    load,
    policy_files,
    suites_beside,
    tests_beside,
)
from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from governance.ledger.entry import Record
    from governance.policy.compare import Judged
    from governance.policy.model import Decision, RiskProfile
    from governance.policy.rules import PolicySet

__all__ = ["add_to"]

_HERE: Final = "--profile"


def _part(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="JSON", help=what, show_default=False)


MaybePaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH…", help="Policy files, or folders; with --entry, else those recorded."
    ),
]
Tool = Annotated[
    str | None,
    typer.Option("--tool", metavar="NAME", help="The tool to call.", show_default=False),
]
Profile = Annotated[
    list[str] | None,
    typer.Option(
        _HERE,
        metavar="KEY=VALUE",
        help="What the tool declares, like verb=READ; may be repeated. Else what the tests beside say.",
        show_default=False,
    ),
]
CaseName = Annotated[
    str | None,
    typer.Option(
        "--case", metavar="NAME", help="A case of the tests beside, instead.", show_default=False
    ),
]
EntrySeq = Annotated[
    int | None,
    typer.Option(
        "--entry",
        metavar="SEQ",
        min=0,
        help="A recorded decision, instead: the number of its entry.",
        show_default=False,
    ),
]
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="TIME",
        help="Like 2026-01-01T09:00:00Z; else the moment of the tests.",
        show_default=False,
    ),
]
Args = Annotated[str | None, _part("args", "The arguments of the call.")]
Origin = Annotated[str | None, _part("args-origin", "Where each of them comes from.")]
Principal = Annotated[str | None, _part("principal", 'Like {"roles": ["clerk"]}.')]
Agent = Annotated[str | None, _part("agent", "Fields of `agent`.")]
Run = Annotated[str | None, _part("run", 'Fields of `run`, like {"untrusted": true}.')]
Window = Annotated[str | None, _part("window", 'Like {"hour": {"refund": 3}}.')]
Env = Annotated[str | None, _part("env", 'Like {"name": "production"}.')]


def add_to(policy: typer.Typer) -> None:
    policy.command()(explain)


def explain(  # noqa: PLR0913  # each is an option of the command line
    paths: MaybePaths = None,
    *,
    tool: Tool = None,
    args: Args = None,
    profile: Profile = None,
    args_origin: Origin = None,
    principal: Principal = None,
    agent: Agent = None,
    run: Run = None,
    window: Window = None,
    env: Env = None,
    now: Now = None,
    case: CaseName = None,
    entry: EntrySeq = None,
    bundle: BundleDir = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Show every rule that is about a call, with the value of each clause, and what they come to."""
    given = {
        "args": args,
        "args_origin": args_origin,
        "principal": principal,
        "agent": agent,
        "run": run,
        "window": window,
        "env": env,
    }
    parts = {part: text for part, text in given.items() if text is not None}
    if [tool is not None, case is not None, entry is not None].count(True) != 1:
        raise InvalidInputError(
            "what to explain is not said", hint="give one of `--tool`, `--case` and `--entry`"
        )
    if tool is None and (parts or profile or now):
        raise InvalidInputError(
            "a case and an entry bring their own input", hint="describe a call with `--tool`"
        )
    if entry is None and (bundle or home):
        raise InvalidInputError("no entry is named", hint="give `--entry SEQ`")
    if entry is not None:
        asked = _recorded(paths or (), entry, bundle, home)
    elif case is not None:
        asked = _of_case(paths or (), case)
    else:
        asked = _imagined(paths or (), _Call(str(tool), parts, profile or (), now))
    _show(asked, json=json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What to explain; `recorded` is the decision that stands in the log."""

    policies: "PolicySet"
    inputs: Mapping[str, JSON]
    recorded: "Decision | None" = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as the options describe it; `parts` are JSON texts."""

    tool: str
    parts: Mapping[str, str]
    profile: Sequence[str]
    now: str | None


def _show(asked: _Asked, *, json: bool) -> None:
    from governance.cli.policy_why_view import render
    from governance.policy.compare import agree
    from governance.policy.explain import explain as make

    explanation = make(asked.policies, asked.inputs)
    if json:
        recorded: dict[str, JSON] = {}
        if asked.recorded is not None:
            recorded = {
                "recorded": asked.recorded.to_json(),
                "same": agree(asked.recorded, explanation.decision),
            }
        show_json({**explanation.to_json(), **recorded})
    else:
        say(*render(explanation, asked.recorded))


def _imagined(paths: Sequence[Path], call: _Call) -> _Asked:
    from governance.policy.suite_scene import EMPTY, Stage, moment

    files = _named(paths)
    profile = _profile(call.profile) if call.profile else _profile_beside(files, call.tool)
    scene: dict[str, JSON] = {"tool": call.tool}
    for part, text in call.parts.items():
        known = None if part in ("args", "args_origin") else EMPTY[part]
        scene[part] = _fields(f"--{part.replace('_', '-')}", text, known)
    if call.now is not None:
        scene["now"] = moment(call.now)
    return _Asked(load(files), Stage({call.tool: profile}).inputs(scene))


def _fields(option: str, text: str, known: Mapping[str, JSON] | None) -> dict[str, JSON]:
    from governance.policy.cel import did_you_mean

    value = parse_json(text)
    if not isinstance(value, dict):
        raise InvalidInputError(f"`{option}` is no JSON object", hint='write `{"name": "value"}`')
    for name in value:
        if known is not None and name not in known:
            raise InvalidInputError(
                f"unknown field `{name[:80]}` in `{option}`", hint=did_you_mean(name, known)
            )
    return value


def _profile(given: Sequence[str]) -> "RiskProfile":
    from governance.policy.suite_scene import read_profile
    from governance.policy.yaml_source import read_yaml

    lines: list[str] = []
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInputError(
                f"`{pair[:80]}` declares nothing", hint="write it like `verb=READ`"
            )
        lines.append(f"{name}: {value}")
    return read_profile(read_yaml("\n".join(lines), _HERE))


def _profile_beside(files: Sequence[Path], tool: str) -> "RiskProfile":
    """What the tests declare about `tool`; nothing is declared about one they do not know."""
    from governance.policy.model import RiskProfile

    if any(tests_beside(file).exists() for file in files):
        for suite in suites_beside(files).values():
            if tool in suite.tools:
                return suite.tools[tool]
    return RiskProfile()


def _of_case(paths: Sequence[Path], name: str) -> _Asked:
    from governance.policy.cel import did_you_mean

    files = _named(paths)
    cases = {
        case.name: (file, case)
        for file, suite in suites_beside(files).items()
        for case in suite.cases
    }
    if name not in cases:
        raise InvalidInputError(f"no case `{name[:80]}` here", hint=did_you_mean(name, cases))
    file, case = cases[name]
    return _Asked(load((file,)), case.inputs)


def _recorded(paths: Sequence[Path], seq: int, bundle: Path | None, home: Path | None) -> _Asked:
    """Find a decision in the log, and the rules it was made under unless others are named."""
    from governance.policy.cel import engine_by_name
    from governance.policy.document import read_policies

    activations: dict[str, Record] = {}
    found = _find(seq, _noting(activations, entries(bundle, home)))
    if paths:
        return _Asked(load(policy_files(paths)), found.inputs, found.decision)
    activation = activations.get(found.decision.policy.hex())
    if activation is None or "text" not in activation.payloads:
        raise InvalidInputError(
            f"the rules of entry {seq} are not at hand", hint="name policies to explain it by"
        )
    engine = engine_by_name(str(activation.entry.body["engine"]).partition(" ")[0])
    policies = read_policies(activation.content("text"), engine)
    return _Asked(policies, found.inputs, found.decision)


def _find(seq: int, records: "Iterator[Record]") -> "Judged":
    upto = (record for record in _until(seq, records))
    for judged in History().decisions(upto):
        if judged.where["seq"] == seq:
            return judged
    raise InvalidInputError(
        f"entry {seq} is no decision that can be made again",
        hint="name a `call.decided` that has its input; `governance runs show RUN` lists entries",
    )


def _until(seq: int, records: "Iterator[Record]") -> "Iterator[Record]":
    for record in records:
        yield record
        if record.entry.seq >= seq:
            return


def _noting(activations: "dict[str, Record]", records: "Iterator[Record]") -> "Iterator[Record]":
    """Let records pass, and keep those that put policies in force."""
    from governance.ledger.entry import Kind

    for record in records:
        if record.entry.kind is Kind.POLICY_ACTIVATED:
            activations[str(record.entry.body["policy"])] = record
        yield record


def _named(paths: Sequence[Path]) -> tuple[Path, ...]:
    if not paths:
        raise InvalidInputError("no policies are named", hint="name a policy file, or a folder")
    return policy_files(paths)
