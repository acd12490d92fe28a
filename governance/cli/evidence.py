"""How does evidence leave the house, and does it hold? `export` and `verify`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.cli.console import plain, say, show_json
from governance.cli.options import AsJson, HomeDir
from governance.errors import InvalidInputError
from governance.ids import SubjectId

if TYPE_CHECKING:
    from governance.cli.verdicts import Judgement
    from governance.ledger.checkpoint import VerifierKey

__all__ = ["add_to"]

DOES_NOT_HOLD: Final = 5
LONG_BYTES: Final = 8 * 1024 * 1024
"""From here on verifying takes long enough to be watched."""
LONG_ENTRIES: Final = 20_000
EXPORTER: Final = SubjectId("system:export")

Folder = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder of the bundle.")]
Evidence = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE|RECEIPT", help="The folder of a bundle, or the file of a receipt."
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VKEY",
        help="A verifier key to pin, or a file that holds one: not from the evidence. May be repeated.",
        show_default=False,
    ),
]
PolicyKey = Annotated[
    str | None,
    typer.Option(
        "--policy-key",
        metavar="VKEY",
        help="The key that every policy set must be signed with, or a file that holds it.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(export)
    app.command()(verify)


def export(bundle: Folder, *, home: HomeDir = None, json: AsJson = False) -> None:
    """Write the whole log into a new folder that anybody can verify offline."""
    from governance.assemble import Governance
    from governance.bundle import export as write
    from governance.ledger.entry import Draft, Kind

    with Governance.without_rules(home) as governance:
        store, signer = governance.store, governance.signer
        checkpoint = store.checkpoint()
        with _bar("writing", checkpoint[0], LONG_ENTRIES) as progress:
            manifest = store.read(lambda r: write(r, checkpoint, bundle, signer, progress))
        # Recorded once it is whole; a crash in between loses the note, never the evidence.
        left = Draft(Kind.BUNDLE_EXPORTED, EXPORTER, {"size": manifest.size})
        store.write(lambda tx: tx.append(left, governance.clock()))
    if json:
        return show_json({"bundle": str(bundle), "log": manifest.log, "size": manifest.size})
    say(f"{manifest.size} entries of {manifest.log} in {plain(bundle)}")
    say(f"next: governance verify {plain(bundle)} --key {signer.verifier_key}")
    return None


def verify(
    evidence: Evidence, *, key: Keys = None, policy_key: PolicyKey = None, json: AsJson = False
) -> None:
    """Judge a bundle or a receipt offline: integrity, trust, completeness and lawfulness.

    Exit status 0 only if all four hold, else 5; 2 when there is nothing to judge. Of a receipt integrity
    and trust must hold: it is part of a log, and says nothing about the rest.
    """
    pins = None if key is None else [_pin(given) for given in key]
    policy_pin = None if policy_key is None else _pin(policy_key)
    if not evidence.is_file():
        ok = _bundle(evidence, pins, policy_pin, json=json)
    elif policy_pin is None:
        ok = _receipt(evidence, pins, json=json)
    else:
        raise InvalidInputError(
            "a receipt does not tell who signed its rules", hint="give `--policy-key` with a bundle"
        )
    if not ok:
        raise typer.Exit(DOES_NOT_HOLD)


def _receipt(file: Path, pins: "Sequence[VerifierKey] | None", *, json: bool) -> bool:
    from governance.cli.receipt_view import render
    from governance.cli.receipts import judge

    judgement = judge(file, pins)
    if json:
        show_json(judgement.to_json())
    else:
        say(*render(judgement))
    return judgement.ok


def _bundle(
    bundle: Path,
    pins: "Sequence[VerifierKey] | None",
    policy_pin: "VerifierKey | None",
    *,
    json: bool,
) -> bool:
    from governance.cli.verdicts import render

    judgement = _judge(bundle, pins, policy_pin)
    if json:
        show_json(judgement.to_json())
    else:
        say(*render(judgement))
    return judgement.ok


def _judge(
    bundle: Path, pins: "Sequence[VerifierKey] | None", policy_pin: "VerifierKey | None"
) -> "Judgement":
    from governance.bundle import read_bundle, records, verify_bundle
    from governance.cli.verdicts import Judgement
    from governance.errors import TamperedError
    from governance.lawful.check import check

    manifest = read_bundle(bundle).manifest
    with _bar("verifying", manifest.total_bytes if manifest else 0, LONG_BYTES) as progress:
        report = verify_bundle(bundle, pins, progress)
    try:
        with _bar("judging", manifest.size if manifest else 0, LONG_ENTRIES) as progress:
            lawful = check(records(bundle), progress, policy_key=policy_pin)
            return Judgement(report, lawful)
    except TamperedError as exc:
        # What cannot be read cannot be judged; why it cannot is among the findings above.
        return Judgement(report, None, exc.message)


def _pin(given: str) -> "VerifierKey":
    from governance.assemble import read_verifier_key
    from governance.ledger.checkpoint import parse_verifier_key

    try:
        return parse_verifier_key(read_verifier_key(given))
    except OSError as exc:
        raise InvalidInputError(
            f"key file `{given[:80]}` cannot be read", hint="give the key `init` printed"
        ) from exc


@contextmanager
def _bar(what: str, total: int, long: int) -> Iterator[Callable[[int], None] | None]:
    """Show how far it is, where somebody watches and it takes long enough."""
    if total < long or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
