"""What would other rules change? `policy diff` over cases or a log, `policy replay` over what was decided."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON, payload_bytes
from governance.cli.console import plain, say, show_json, table
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
    from governance.policy.compare import Change, Comparison, Judged
    from governance.policy.model import Decision
    from governance.policy.rules import PolicySet

__all__ = ["add_to"]

CHANGED: Final = 1
SHOWN_MAX: Final = 50
"""Rows of one kind of change in the terminal; `--json` has all."""

Old = Annotated[Path, typer.Argument(metavar="A", help="Policies as they are: a file or folder.")]
New = Annotated[Path, typer.Argument(metavar="B", help="Policies as they may become.")]
Log = Annotated[
    Path | None,
    typer.Argument(
        metavar="LEDGER|BUNDLE",
        help="An installation's folder or a bundle; else GOVERNANCE_HOME, else .governance here.",
        show_default=False,
    ),
]
NewPolicies = Annotated[
    list[Path],
    typer.Option("--policies", metavar="PATH", help="The new rules; may be repeated."),
]


def add_to(policy: typer.Typer) -> None:
    policy.command()(diff)
    policy.command()(replay)


def diff(
    a: Old, b: New, *, bundle: BundleDir = None, home: HomeDir = None, json: AsJson = False
) -> None:
    """List what is decided otherwise under B than under A. Exit status 1: something is.

    Decided are the cases beside the policies of both, or, with `--bundle` or `--home`, every recorded
    input.
    """
    from governance.policy.compare import Comparison

    old_files, new_files = policy_files((a,)), policy_files((b,))
    old, history = load(old_files), History()
    if bundle is None and home is None:
        judged = _of_cases(old, (*old_files, *new_files))
    else:
        judged = _again(old, history.decisions(entries(bundle, home)))
    _show(Comparison(load(new_files)), judged, history, json=json)


def replay(log: Log = None, *, policies: NewPolicies, json: AsJson = False) -> None:
    """Decide everything that was recorded again, under new rules. Exit status 1: something changes.

    The log is read as it is: run `governance verify` on a bundle first.
    """
    from governance.policy.compare import Comparison

    history = History()
    new = load(policy_files(policies))
    bundle, home = _named(log)
    _show(Comparison(new), history.decisions(entries(bundle, home)), history, json=json)


def _named(log: Path | None) -> tuple[Path | None, Path | None]:
    """Tell a bundle from an installation by what lies in it."""
    if log is None:
        return None, None
    if (log / "manifest.json").is_file():
        return log, None
    if (log / "ledger.db").is_file():
        return None, log
    raise InvalidInputError(
        f"`{log}` is neither a bundle nor an installation",
        hint="name the folder of an export, or the one that `governance init` made",
    )


def _of_cases(policies: "PolicySet", files: Sequence[Path]) -> "Iterator[Judged]":
    """Every different input of the cases beside `files`, as `policies` decide it."""
    from governance.policy.compare import Judged
    from governance.policy.decide import decide

    seen: set[bytes] = set()
    for file, suite in suites_beside(files).items():
        for case in suite.cases:
            spelled = payload_bytes(case.inputs)
            if spelled in seen:
                continue
            seen.add(spelled)
            where: dict[str, JSON] = {
                "case": case.name,
                "file": str(tests_beside(file)),
                "line": case.line,
            }
            yield Judged(where, case.tool, case.inputs, decide(policies, case.inputs))


def _again(policies: "PolicySet", judged: "Iterator[Judged]") -> "Iterator[Judged]":
    """Recorded inputs, as `policies` decide them."""
    from dataclasses import replace

    from governance.policy.decide import decide

    for one in judged:
        yield replace(one, decision=decide(policies, one.inputs))


def _show(
    comparison: "Comparison", judged: "Iterator[Judged]", history: History, *, json: bool
) -> None:
    changes = list(comparison.changes(judged))
    unread: dict[str, JSON] = {"unasked": history.unasked, "erased": history.erased}
    if json:
        show_json(
            {**comparison.to_json(), **unread, "changes": [change.to_json() for change in changes]}
        )
    else:
        _tell(comparison, changes, history)
    if changes:
        raise typer.Exit(CHANGED)


def _tell(comparison: "Comparison", changes: "Sequence[Change]", history: History) -> None:
    order = list(type(changes[0].shift)) if changes else []
    ranked = sorted(changes, key=lambda change: order.index(change.shift))
    for shift, group in groupby(ranked, key=lambda change: change.shift):
        listed = list(group)
        say(f"{shift.value.replace('-', ' ')}: {len(listed)}")
        rows = [
            (_where(change), plain(change.tool), _rules(change.before), _rules(change.after))
            for change in listed[:SHOWN_MAX]
        ]
        say(table(("where", "tool", "before", "after"), rows))
        if len(listed) > SHOWN_MAX:
            say(f"… and {len(listed) - SHOWN_MAX} more; `--json` lists all")
        say("")
    say(f"{comparison.decided} decided, {len(changes)} changed")
    if history.unasked:
        say(f"{history.unasked} never reached the policy")
    if history.erased:
        say(f"{history.erased} cannot be decided again: their input is erased or withheld")


def _where(change: "Change") -> str:
    where = change.where
    if "seq" in where:
        return plain(f"{where['seq']} {where['call']}")
    return plain(where["case"])


def _rules(decision: "Decision") -> str:
    """Who said so, and who is to be asked."""
    said = ", ".join((*decision.rules, *decision.reasons))
    if decision.demands is None:
        return plain(said)
    seats = ", ".join(f"{seat.count} {seat.role}" for seat in decision.demands.quorum)
    return plain(f"{said} ({seats})")
