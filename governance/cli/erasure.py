"""How does somebody's data leave the log? `governance erase`."""

from typing import TYPE_CHECKING, Annotated

import typer

from governance.cli.console import facts, say, show_json, talk
from governance.cli.options import AsJson, HomeDir, Secret, Voter
from governance.cli.people import somebody
from governance.ids import parse_subject_id

if TYPE_CHECKING:
    from governance.canonical import JSON
    from governance.erasure import Erased

__all__ = ["add_to"]

Subject = Annotated[
    str, typer.Option("--subject", metavar="ID", help="Whose data: the id that the log knows.")
]
Reason = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Kept in the log; do not name the person in it."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Tell what would go; change nothing.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    app.command()(erase)


def erase(  # noqa: PLR0913  # each is an option of the command line
    *,
    subject: Subject,
    by: Voter,
    reason: Reason,
    dry_run: DryRun = False,
    token: Secret = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Erase all content of one person for ever. That it was there, and who erased it, stays recorded."""
    from governance.assemble import Governance
    from governance.config import Home
    from governance.erasure import erase as do
    from governance.erasure import survey
    from governance.holds import read_holds
    from governance.ledger.erasure import Erasure

    whose, file = parse_subject_id(subject), Home.find(home).holds
    with Governance.without_rules(home) as governance:
        person = somebody(governance.store, by, token)
        store, clock = governance.store, governance.clock
        if dry_run:
            done = survey(store, clock, whose, lambda: read_holds(file))
        else:
            done = do(
                store, clock, Erasure(whose, person.subject, reason), lambda: read_holds(file)
            )
    if json:
        return show_json(_told(done, dry_run=dry_run))
    say(facts(_lines(done, dry_run=dry_run)))
    if not dry_run and not done.scrubbed:
        talk("another process is reading: its journal holds pages of before, encrypted content and")
        talk("a person's name; run this again when it has let go")
    return None


def _lines(done: "Erased", *, dry_run: bool) -> dict[str, str]:
    lines = {
        "subject": done.subject,
        "would go" if dry_run else "erased": f"{done.payloads} payloads of {done.runs} runs"
        + (", name and token" if done.person else ""),
    }
    if done.entries:
        lines["recorded as"] = ", ".join(f"entry {seq}" for seq in done.entries)
    return lines


def _told(done: "Erased", *, dry_run: bool) -> "dict[str, JSON]":
    return {
        "subject": done.subject,
        "payloads": done.payloads,
        "runs": done.runs,
        "person": done.person,
        "entries": list(done.entries),
        "dry_run": dry_run,
        "scrubbed": done.scrubbed,
    }
