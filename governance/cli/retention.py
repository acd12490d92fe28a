"""How do old entries leave the log, and what keeps them there? `archive` and `hold`."""

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON
from governance.cli.console import facts, plain, say, show_json, talk
from governance.cli.options import AsJson, HomeDir, Secret, Voter
from governance.cli.people import somebody
from governance.errors import InvalidInputError, RefusedError
from governance.ids import Micros, SubjectId, parse_run_id, parse_subject_id

if TYPE_CHECKING:
    from governance.assemble import Governance
    from governance.holds import On
    from governance.retention_plan import Plan

__all__ = ["add_to"]

DAY_US: Final = 24 * 60 * 60 * 1_000_000
_DAYS: Final = re.compile(r"([0-9]{1,6})d")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH: Final = dt.date(1970, 1, 1)

hold = typer.Typer(no_args_is_help=True, help="What must stay in the log for now.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The new folder of the archive.")]
Before = Annotated[
    str,
    typer.Option(
        "--before", metavar="WHEN", help="A date like 2026-05-01 (UTC), or an age like 200d."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Tell what would go; change nothing.", show_default=False),
]
OfRun = Annotated[
    str | None, typer.Option("--run", metavar="RUN", help="A run's id.", show_default=False)
]
OfSubject = Annotated[
    str | None,
    typer.Option(
        "--subject", metavar="ID", help="Somebody's id, as the log knows it.", show_default=False
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever lifts it.")]


def add_to(app: typer.Typer) -> None:
    app.command()(archive)
    app.add_typer(hold, name="hold")


def archive(  # noqa: PLR0913 - one parameter an option
    folder: Folder,
    *,
    before: Before,
    by: Voter,
    dry_run: DryRun = False,
    token: Secret = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Move old entries into a new folder that anybody can verify, then drop them from the log."""
    from governance.assemble import Governance
    from governance.config import Home, retention_days
    from governance.holds import read_holds
    from governance.retention import archive as do
    from governance.retention_plan import FLOOR_DAYS, Order, survey

    days, file = retention_days(FLOOR_DAYS), Home.find(home).holds
    with Governance.without_rules(home) as governance:
        store, now = governance.store, governance.clock()
        order = Order(folder, _moment(before, now), somebody(store, by, token), days)
        if dry_run:
            plan = store.read(lambda reader: survey(reader, order, now, read_holds(file)))
            return _tell_plan(plan, json=json)
        done = do(store, governance.signer, governance.clock, order, lambda: read_holds(file))
        key = governance.signer.verifier_key
    segment = done.archived.segments[-1]
    if json:
        told: dict[str, JSON] = {**segment.to_json(), "archive": str(folder), "entry": done.seq}
        return show_json(told | {"pruned": done.pruned})
    say(f"entries {segment.first} to {segment.end - 1} are in {plain(folder)}, not in the log")
    say(f"recorded as entry {done.seq}; {done.pruned} entries went, the others are still in force")
    say(f"next: governance export LOG && governance verify LOG {plain(folder)} --key {key}")
    return None


def _tell_plan(plan: "Plan", *, json: bool) -> None:
    if json:
        pins: list[JSON] = list(plan.pins)
        told: dict[str, JSON] = {"first": plan.first, "end": plan.end, "kept": list(plan.kept)}
        return show_json(told | {"pins": pins, "dry_run": True})
    lines = {"would go": f"entries {plan.first} to {plan.end - 1}"}
    lines["would stay"] = f"{len(plan.kept)} of these, which are still in force"
    if plan.pins:
        lines["stops at"] = "; ".join(plan.pins)
    return say(facts(lines))


@hold.command(name="add")
def add(  # noqa: PLR0913 - one parameter an option
    *,
    reason: Reason,
    by: Voter,
    run: OfRun = None,
    subject: OfSubject = None,
    token: Secret = None,
    home: HomeDir = None,
) -> None:
    """Keep a run, or all that somebody did or had done, in the log until the hold is lifted."""
    from governance.assemble import Governance
    from governance.bundle import newest_archive
    from governance.config import Home
    from governance.holds import Hold, put_hold

    on, name = _what(run, subject)
    with Governance.without_rules(home) as governance:
        person = _operator(governance, by, token)
        made = Hold(on, name, person, reason, governance.clock())
        put_hold(Home.find(home).holds, made)
        # Asked after it is in place, in turn with whoever archives: one of the two sees the other.
        archived = governance.store.write(newest_archive)
    say(f"{plain(str(made))} is under hold")
    if archived is not None:
        talk(
            f"entries before {archived.end} are archived: no hold reaches there, keep the archives"
        )


@hold.command(name="lift")
def lift(
    *,
    by: Voter,
    run: OfRun = None,
    subject: OfSubject = None,
    token: Secret = None,
    home: HomeDir = None,
) -> None:
    """Let go of what was held."""
    from governance.assemble import Governance
    from governance.config import Home
    from governance.holds import lift_hold

    on, name = _what(run, subject)
    with Governance.without_rules(home) as governance:
        _operator(governance, by, token)
        lifted = lift_hold(Home.find(home).holds, on, name)
    say(f"{plain(str(lifted))} is no longer under hold")


@hold.command(name="list")
def list_(*, home: HomeDir = None, json: AsJson = False) -> None:
    """List what is under hold, by whom and why."""
    from governance.config import Home
    from governance.holds import read_holds

    holds = read_holds(Home.find(home).holds)
    if json:
        return show_json([one.to_json() for one in holds])
    lines: Sequence[str] = [f"{one}: {one.why} ({one.by})" for one in holds]
    return say(*(plain(line) for line in lines or ["nothing is under hold"]))


def _operator(governance: "Governance", by: str, token: str | None) -> SubjectId:
    from governance.retention_plan import ARCHIVIST

    person = somebody(governance.store, by, token)
    if ARCHIVIST not in person.roles:
        raise RefusedError(
            f"`{person.subject}` may not hold or lift", hint=f"somebody with role {ARCHIVIST} may"
        )
    return person.subject


def _what(run: str | None, subject: str | None) -> "tuple[On, str]":
    from governance.holds import On

    if (run is None) == (subject is None):
        raise InvalidInputError(
            "a hold is on a run or on a subject", hint="give one of `--run` and `--subject`"
        )
    if run is not None:
        return On.RUN, parse_run_id(run)
    return On.SUBJECT, parse_subject_id(str(subject))


def _moment(text: str, now: Micros) -> Micros:
    """Read a date, which means its first moment, or an age in days."""
    days, date = _DAYS.fullmatch(text), _DATE.fullmatch(text)
    try:
        if days:
            return Micros(max(0, now - int(days[1]) * DAY_US))
        if date:
            return Micros(max(0, (dt.date.fromisoformat(text) - _EPOCH).days * DAY_US))
    except ValueError:
        pass  # no such day
    raise InvalidInputError(
        f"`{text[:80]}` is no moment", hint="give a date like 2026-05-01, or an age like 200d"
    )
