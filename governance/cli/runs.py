"""How are runs started, looked at, gone on with and ended from a shell? `run` and `runs`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON, parse_json
from governance.cli.console import facts, moment, plain, say, short, show_json, table, talk
from governance.cli.options import (
    AsJson,
    HomeDir,
    PolicyPaths,
    RunName,
    Secret,
    Target,
    Voter,
)
from governance.cli.people import somebody
from governance.cli.target import open_agent
from governance.errors import InvalidInputError, RefusedError, UnavailableError
from governance.ids import CallUid, RunId, parse_run_id, parse_subject_id

if TYPE_CHECKING:
    from agent.result import AgentResult
    from governance.ledger.entry import Record
    from governance.ports import Reader, RunHead

__all__ = ["add_to"]

RUN_FAILED: Final = 1
_LISTED: Final = 100
_WELL: Final = frozenset({"completed", "suspended", "waiting", "cancelled"})

runs = typer.Typer(no_args_is_help=True, help="Runs, past and present.")

Text = Annotated[str, typer.Argument(metavar="TEXT", help="What the user says.")]
NewRun = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Name the run.", show_default=False)
]
OnBehalf = Annotated[
    str | None,
    typer.Option("--principal", metavar="ID", help="On whose behalf it acts.", show_default=False),
]
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only these; may be repeated."),
]
Note = Annotated[
    str | None, typer.Option("--note", metavar="TEXT", help="Kept in the log.", show_default=False)
]
Place = Annotated[str, typer.Argument(metavar="CALL", help="Which call: `2.0`, or its whole uid.")]
Happened = Annotated[
    str | None,
    typer.Option("--happened", metavar="JSON", help="It took place; this was its result."),
]
Again = Annotated[bool, typer.Option("--again", help="It did not; decide and start it again.")]
GiveUp = Annotated[bool, typer.Option("--give-up", help="Nobody can tell; the model is told so.")]


def add_to(app: typer.Typer) -> None:
    app.command()(run)
    app.add_typer(runs, name="runs")


def run(  # noqa: PLR0913  # each is an option of the command line
    target: Target,
    text: Text,
    *,
    run_id: NewRun = None,
    principal: OnBehalf = None,
    policy: PolicyPaths = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Start a run, and drive it until it ends or waits for somebody. Exit status 1: it failed."""
    from governance.policy.model import Principal

    behalf = None if principal is None else Principal(parse_subject_id(principal))
    with open_agent(target, home, policy) as agent:
        name = parse_run_id(run_id or agent.governance.new_id("run"))
        try:
            result = agent.run(text, run_id=name, principal=behalf)
        except (UnavailableError, RefusedError):
            if agent.governance.store.read(lambda r: r.run_head(name)) is not None:
                talk(f"the run is kept: governance runs resume {plain(target)} {name}")
            raise
    _tell(result, json=json)


@runs.command()
def resume(
    target: Target,
    run: RunName,
    *,
    policy: PolicyPaths = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Go on with a run whose answers are in, or whose driver died; else tell how it stands."""
    with open_agent(target, home, policy) as agent:
        result = agent.resume(run)
    _tell(result, json=json)


@runs.command()
def cancel(  # noqa: PLR0913  # each is an option of the command line
    target: Target,
    run: RunName,
    *,
    note: Note = None,
    policy: PolicyPaths = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """End a run. What is in flight is not interrupted; nothing new of it starts."""
    with open_agent(target, home, policy) as agent:
        result = agent.cancel(run, note=note)
    if json:
        return show_json(_result(result))
    say(f"run {run}: {result.status}")
    return None


@runs.command(name="list")
def list_(*, status: Statuses = None, home: HomeDir = None, json: AsJson = False) -> None:
    """List runs, newest first."""
    from governance.assemble import Governance

    with Governance.without_rules(home) as governance:
        heads = governance.store.read(
            lambda reader: reader.runs(status=tuple(status or ()), limit=_LISTED)
        )
    if json:
        return show_json([_head(head) for head in heads])
    if not heads:
        say("no runs")
        return None
    rows = [(h.run, h.agent, h.status, str(h.rseq), moment(h.started)) for h in heads]
    say(table(("run", "agent", "status", "entries", "started"), rows))
    return None


@runs.command()
def show(run: RunName, *, home: HomeDir = None, json: AsJson = False) -> None:
    """Show one run as a timeline: what it did, by which rules, and who said yes."""
    from governance.assemble import Governance

    with Governance.without_rules(home) as governance:
        head, records, names = governance.store.read(lambda r: _of_run(r, parse_run_id(run)))
    if json:
        return show_json({**_head(head), "entries": [_entry(record) for record in records]})
    from audit_viewer.timeline import timeline
    from governance.cli.timeline_view import render

    say(render(timeline(records, names)))
    return None


@runs.command()
def resolve(  # noqa: PLR0913  # each is an option of the command line
    run: RunName,
    call: Place,
    *,
    by: Voter,
    happened: Happened = None,
    again: Again = False,
    give_up: GiveUp = False,
    note: Note = None,
    token: Secret = None,
    home: HomeDir = None,
) -> None:
    """Say what became of a call that was started and never heard of again."""
    from governance.assemble import Governance
    from governance.recovery import How, Resolution
    from governance.recovery import resolve as record

    if [happened is not None, again, give_up].count(True) != 1:
        raise InvalidInputError(
            "what became of the call is not said", hint="give one of --happened, --again, --give-up"
        )
    how = How.AGAIN if again else How.ABANDONED if give_up else How.HAPPENED
    result: JSON = None if happened is None else parse_json(happened)
    resolution = Resolution(how, result, note)
    owner = parse_run_id(run)
    uid = CallUid(call if call.startswith(f"{owner}/") else f"{owner}/{call}")
    with Governance.without_rules(home) as governance:
        person = somebody(governance.store, by, token)
        governance.store.read(lambda r: _of_run(r, owner))
        entry = record(governance.store, governance.clock, (owner, uid), resolution, person).entry
    say(
        f"call {plain(uid)}: {how}, recorded as entry {entry.seq}; next: `governance runs resume …`"
    )


def _of_run(reader: "Reader", run: RunId) -> "tuple[RunHead, Sequence[Record], Mapping[str, str]]":
    head = reader.run_head(run)
    if head is None:
        raise InvalidInputError(f"no run `{run}`", hint="list them with `governance runs list`")
    names: dict[str, str] = {p.subject: p.name for p in reader.people.everybody()}
    return head, reader.run_records(run), names


def _tell(result: "AgentResult", *, json: bool) -> None:
    if json:
        show_json(_result(result))
    else:
        _tell_people(result)
    if result.status not in _WELL:
        raise typer.Exit(RUN_FAILED)


def _tell_people(result: "AgentResult") -> None:
    if result.response.content:
        say(*(plain(line) for line in result.response.content.splitlines()), "")
    why = f" ({plain(result.because)})" if result.because else ""
    say(facts({"run": result.run_id or "", "status": f"{result.status}{why}"}))
    for waiting in result.pending_approvals:
        arguments = short(plain(waiting.arguments), 200)
        say(f"waits for an answer: {plain(waiting.tool)} {arguments}")
        say(f"  next: governance approvals show {waiting.request}")
    for unknown in result.unknown_outcomes:
        place = unknown.uid.rpartition("/")[2]
        say(f"outcome unknown: {plain(unknown.tool)} {short(plain(unknown.arguments), 200)}")
        say(f"  next: governance runs resolve {result.run_id} {place} --by NAME …")


def _result(result: "AgentResult") -> dict[str, JSON]:
    return {
        "run": result.run_id,
        "status": result.status,
        "because": result.because,
        "response": result.response.content,
        "iterations": result.iterations,
        "tool_calls_made": result.tool_calls_made,
        "pending": [
            {
                "request": p.request,
                "uid": p.uid,
                "tool": p.tool,
                "arguments": p.arguments,
                "rules": list(p.rules),
                "decide_by": p.decide_by,
            }
            for p in result.pending_approvals
        ],
        "unknown": [
            {"uid": u.uid, "tool": u.tool, "arguments": u.arguments}
            for u in result.unknown_outcomes
        ],
    }


def _head(head: "RunHead") -> dict[str, JSON]:
    return {
        "run": head.run,
        "agent": head.agent,
        "status": head.status,
        "length": head.rseq,
        "started": head.started,
        "updated": head.updated,
    }


def _entry(record: "Record") -> dict[str, JSON]:
    """One entry for a script: what is in the envelope, and the content kept beside it."""
    entry = record.entry
    return {
        "seq": entry.seq,
        "ts": entry.ts,
        "type": entry.kind.value,
        "actor": entry.actor,
        "body": dict(entry.body),
        "payloads": {name: record.content(name) for name in record.payloads},
        "erased": dict(record.erased),
    }
