"""What does `governance` do with a command line? It finds the command, and says what went wrong.

Every error raised on purpose becomes `error: …` and `next: …` on stderr and its family's exit status. An
error nobody foresaw is one line too; `--debug` shows where it came from.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final

import typer

from governance.cli import (
    anchoring,
    approvals,
    checking,
    demo,
    erasure,
    evidence,
    installation,
    keys,
    policies,
    receipts,
    retention,
    runs,
    serving,
    witness,
)
from governance.cli.console import ReaderGoneError, plain, talk
from governance.errors import GovernanceError, UnavailableError

__all__ = ["app", "main"]

BUG: Final = 70
"""sysexits' EX_SOFTWARE: none of the families."""
BROKEN_PIPE: Final = 141
"""What a shell shows for a program that SIGPIPE ended."""
USAGE: Final = 2

_EPILOG: Final = (
    "Exit status: 0 done, 1 a run or a policy test failed, or policies changed something,"
    " 2 input cannot be read, 3 refused, 4 somebody was first, 5 evidence does not hold,"
    " 6 something outside failed."
)

app = typer.Typer(
    name="governance",
    help="Decide, approve, record and prove what agents do.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def top(
    *,
    debug: Annotated[  # read by `main`, before anything can fail
        bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)
    ] = False,
) -> None:
    """Decide, approve, record and prove what agents do."""


for _room in (
    installation,
    keys,
    serving,
    runs,
    approvals,
    policies,
    evidence,
    receipts,
    erasure,
    anchoring,
    retention,
    witness,
    checking,
    demo,
):
    _room.add_to(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    debug = _debugs(args)
    try:
        status = app(args, prog_name="governance", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGoneError):
        # Whoever read us has read enough. What is still buffered must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001  # the last resort
        if debug:
            traceback.print_exc()
        return _explain(exc)
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """Make sure that there is something to read from and to print to, and that printing never fails."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by whoever started us. Its number is taken before any file of ours can get it.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # as long as the process
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot spell a character shows a mark instead of ending the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _debugs(args: Sequence[str]) -> bool:
    """Tell whether `--debug` stands before the command, where it belongs."""
    return "--debug" in takewhile(lambda arg: arg.startswith("-"), args)


def _explain(exc: BaseException) -> int:
    """Say on stderr what went wrong and what to do next; returns the exit status."""
    match exc:
        case KeyboardInterrupt() | typer.Abort():
            return 130
        case GovernanceError():
            return _complain(exc.message, exc.hint, exc.exit_status)
        case typer.TyperException():
            return _complain_usage(exc)
        case UnicodeError():
            return _complain("a text that was given is not Unicode", "give UTF-8", USAGE)
        case OSError():
            where = f" `{exc.filename}`" if exc.filename else ""
            hint = "mend what is named, and run it again"
            return _complain(f"{exc.strerror or exc}{where}", hint, UnavailableError.exit_status)
        case RecursionError() | MemoryError():
            return _complain("this is too much to take in", "give less at once", USAGE)
        case _:
            kind = type(exc).__name__
            hint = "run it again with `governance --debug …` and report what it prints"
            return _complain(f"unexpected `{kind}`: {str(exc)[:200]}", hint, BUG)


def _complain(message: str, hint: str, status: int) -> int:
    talk(f"error: {plain(message)}")
    if hint:
        talk(f"next: {plain(hint)}")
    return status


def _complain_usage(exc: typer.TyperException) -> int:
    context = getattr(exc, "ctx", None)
    command = context.command_path if context is not None else "governance"
    told = exc.format_message() if hasattr(exc, "format_message") else str(exc)
    message = " ".join(told.split()).removesuffix(".")
    if not message:
        return USAGE  # a command without arguments has shown its help
    return _complain(message[:1].lower() + message[1:], f"see `{command} --help`", USAGE)
