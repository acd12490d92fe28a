"""Does the log in this installation still hold? `check`, once and now; `serve` does it all the time."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.cli.console import facts, plain, say, show_json
from governance.cli.options import AsJson, HomeDir

if TYPE_CHECKING:
    from governance.livecheck import Outcome

__all__ = ["add_to"]

DOES_NOT_HOLD: Final = 5

Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="From entry 0, not from where the last check ended.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(check)


def check(*, full: Full = False, home: HomeDir = None, json: AsJson = False) -> None:
    """Compare the database with itself: entries, chain, tree, checkpoints, content, every index.

    Writers may go on meanwhile. Exit status 0 when nothing is found, else 5.
    """
    from governance.assemble import check_log
    from governance.config import Home

    outcome = check_log(Home.find(home), whole=full)
    if json:
        _show_json(outcome)
    else:
        _show(outcome)
    if not outcome.ok:
        raise typer.Exit(DOES_NOT_HOLD)


def _show(outcome: "Outcome") -> None:
    from governance.cli.verdicts import listed

    found = outcome.inspection
    looked = "from entry 0" if outcome.whole else f"from entry {found.begin} on"
    said = {"entries": str(found.size), "looked at": f"{looked}, in {outcome.took_us / 1e6:.1f} s"}
    if outcome.kept_refused:
        said["earlier checks"] = f"not believed: {plain(outcome.kept_refused)}"
    say(facts(dict(said)), "")
    if not outcome.ok:
        say(*listed(found.findings), "")
    if found.count > len(found.findings):
        say(f"and {found.count - len(found.findings)} more")
    say("the log holds" if outcome.ok else "the log does NOT hold")


def _show_json(outcome: "Outcome") -> None:
    from governance.cli.verdicts import finding_json

    found = outcome.inspection
    show_json(
        {
            "ok": outcome.ok,
            "entries": found.size,
            "from": found.begin,
            "took_us": outcome.took_us,
            "earlier_checks_refused": outcome.kept_refused,
            "findings": [finding_json(item) for item in found.findings],
            "unlisted": found.count - len(found.findings),
        }
    )
