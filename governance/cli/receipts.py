"""How is one decision handed over, and does what was handed over hold? `receipt`, and `verify` of one."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.cli.console import plain, say, show_json
from governance.cli.options import HomeDir
from governance.errors import ConflictError, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from governance.cli.receipt_view import ReceiptJudgement
    from governance.ledger.anchoring import Demands
    from governance.ledger.checkpoint import VerifierKey

__all__ = ["add_to", "judge"]

_SEQ: Final = re.compile(r"[0-9]{1,18}")
_FILE_MODE: Final = 0o600
_MARK: Final = b'"governance/receipt/'

About = Annotated[
    str,
    typer.Argument(metavar="SEQ|CALL", help="An entry's number, or a call: RUN/TURN.POSITION."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="A new file; else stdout.", show_default=False),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--disclose",
        metavar="NAME",
        help="Disclose this payload and no others; may be repeated.",
        show_default=False,
    ),
]
Never = Annotated[
    list[str] | None,
    typer.Option(
        "--withhold",
        metavar="NAME",
        help="Disclose all payloads but this one; may be repeated.",
        show_default=False,
    ),
]


Rules = Annotated[
    bool,
    typer.Option(
        "--rules",
        help="Add the policies that decided, so that a call's decisions can be made again.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(receipt)


def receipt(  # noqa: PLR0913  # each is an option of the command line
    about: About,
    *,
    out: Out = None,
    disclose: Only = None,
    withhold: Never = None,
    rules: Rules = False,
    home: HomeDir = None,
) -> None:
    """Write a small file that proves one entry, or all about one call, to somebody else.

    Of a call it discloses everything but the tool's result, of an entry everything, unless told otherwise.
    """
    from governance.assemble import Governance
    from governance.cli.receipt_view import disclosed
    from governance.ledger.checkpoint import parse_verifier_key
    from governance.receipts import Disclosure, make_receipt

    subject = int(about) if _SEQ.fullmatch(about) else about
    if rules and isinstance(subject, int):
        raise InvalidInputError("rules go with a call", hint="name the call, as RUN/TURN.POSITION")
    choice = Disclosure(frozenset(disclose or ()), frozenset(withhold or ()))
    with Governance.without_rules(home) as governance:
        governance.store.checkpoint()
        key = parse_verifier_key(governance.signer.verifier_key)
        made = governance.store.read(
            lambda reader: make_receipt(reader, subject, key, choice, rules=rules)
        )
    if out is None:
        show_json(made.to_json())
        return
    raw = made.to_bytes()
    _write(out, raw)
    say(f"{len(made.entries)} entries, {len(raw):,} bytes in {plain(out)}")
    say(f"discloses: {plain(disclosed(made))}")
    say(f"next: governance verify {plain(out)} --key {governance.signer.verifier_key}")


def judge(
    path: Path, pins: "Sequence[VerifierKey] | None", demands: "Demands | None" = None
) -> "ReceiptJudgement":
    """Judge the receipt in the file `path`. Raises InvalidInputError when it is none at all."""
    from governance.cli.receipt_view import ReceiptJudgement
    from governance.lawful.extract import check_extract
    from governance.ledger.anchoring import Vouched, judge_anchors
    from governance.ledger.receipt import RECEIPT_BYTES_MAX
    from governance.ledger.receipt_check import verify_receipt
    from governance.ledger.report import Status

    try:
        with path.open("rb") as file:
            raw = file.read(RECEIPT_BYTES_MAX + 1)
    except OSError as exc:
        raise InvalidInputError(f"`{path}` cannot be read: `{exc.strerror}`") from exc
    if _MARK not in raw:
        raise InvalidInputError(
            f"`{path}` is neither a bundle nor a receipt",
            hint="give the folder `governance export` wrote, or the file `governance receipt` wrote",
        )
    checked = verify_receipt(raw, pins)
    if demands is not None and checked.receipt is not None:
        note = "checkpoint", checked.receipt.checkpoint.encode()
        said = Vouched(checked.report.summary.log, [note])
        more = judge_anchors(said, pins, demands)
        checked = replace(checked, report=checked.report.with_findings(more))
    if checked.report.integrity is not Status.OK:
        return ReceiptJudgement(checked)
    return ReceiptJudgement(checked, check_extract(checked.records))


def _write(path: Path, raw: bytes) -> None:
    """Write a file that was not there, for its owner alone."""
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb"
        ) as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as exc:
        raise ConflictError(f"`{path}` exists already", hint="name a new file") from exc
    except OSError as exc:
        raise UnavailableError(f"`{path}` cannot be written: `{exc.strerror}`") from exc
