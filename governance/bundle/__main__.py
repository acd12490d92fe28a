"""Does a bundle hold, on a machine with nothing but Python and `cryptography`? The verifier by itself.

    python -m governance.bundle BUNDLE [BUNDLE …] --key VKEY [--key VKEY …] [--kept FILE …]

Several, in any order, are judged as one log (`bundle.joining`). Prints each finding and three verdicts.
Exit status 0 only if all three are ok, 5 if not, 2 when there is nothing to judge. Lawfulness needs the
policy engine: that is `governance verify`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from governance.bundle.joining import verify_together
from governance.bundle.reading import read_kept, verify_bundle
from governance.errors import InvalidInputError
from governance.ledger.checkpoint import VerifierKey, parse_verifier_key
from governance.ledger.parts import named
from governance.ledger.report import Report

DOES_NOT_HOLD: Final = 5
_KEY_BYTES_MAX: Final = 4096


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m governance.bundle",
        description="Verify a bundle: integrity, trust and completeness.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, nargs="+")
    parser.add_argument(
        "--key",
        metavar="VKEY",
        action="append",
        help="a verifier key to pin, or a file that holds one: not from the bundle",
    )
    parser.add_argument(
        "--kept",
        metavar="FILE",
        action="append",
        type=Path,
        default=[],
        help="a checkpoint kept from an earlier bundle: the log has to contain what it covers",
    )
    asked = parser.parse_args(arguments)
    try:
        pins = None if asked.key is None else [_pin(key) for key in asked.key]
        kept = [read_kept(file) for file in asked.kept]
        one, *others = asked.bundle
        joined = verify_together(asked.bundle, pins, kept=kept) if others else None
        report = joined.report if joined else verify_bundle(one, pins, kept=kept)
    except InvalidInputError as exc:
        sys.stderr.write(f"{_plain(str(exc))}\n")
        return InvalidInputError.exit_status
    sys.stdout.writelines(f"{_plain(line)}\n" for line in _told(report))
    return 0 if report.ok else DOES_NOT_HOLD


def _pin(given: str) -> VerifierKey:
    """Read a key, or a file that holds one: a key has plus signs."""
    if "+" in given:
        return parse_verifier_key(given)
    try:
        with Path(given).open("rb") as file:
            text = file.read(_KEY_BYTES_MAX).decode()
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"key file `{given[:80]}` cannot be read") from exc
    return parse_verifier_key(text.strip())


def _told(report: Report) -> Iterator[str]:
    for item in report.findings:
        weight = "failure" if item.is_failure else "to know"
        yield f"{weight}: {item.where}: {item.kind}: {item.message}; {item.next_step}"
    if report.uncounted:
        yield f"and {report.uncounted} more findings"
    part = report.summary.part
    yield f"covers:       {'unknown' if part is None else named(part)}"
    yield f"integrity:    {report.integrity}"
    yield f"trust:        {report.trust}"
    yield f"completeness: {report.completeness}"
    yield "lawfulness:   not-checked (`governance verify` checks it)"


def _plain(text: str) -> str:
    """Show every character that could move a cursor, turn a line or look like another."""
    safe = text.isascii() and text.isprintable()
    return text if safe else text.encode("unicode_escape").decode()


if __name__ == "__main__":
    sys.exit(main())
