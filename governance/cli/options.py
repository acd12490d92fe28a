"""How are options spelled that several commands have? Once, here."""

import re
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from governance.errors import InvalidInputError

__all__ = [
    "AsJson",
    "HomeDir",
    "Host",
    "PolicyPaths",
    "Port",
    "RunName",
    "Secret",
    "Target",
    "Voter",
]

_HOST: Final = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}")

HomeDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="The installation's folder; else GOVERNANCE_HOME, else .governance here.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print canonical JSON for a script.", show_default=False)
]
PolicyPaths: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy",
        metavar="PATH",
        help="A policy file or folder; may be repeated. Without it the shipped baseline rules.",
        show_default=False,
    ),
]
Target: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:ATTR",
        help="A DurableAgent, or a function that takes a Governance and returns one.",
    ),
]
RunName: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


def read_host(text: str) -> str:
    """Accept a host name or an address. What else a socket makes of a text differs by platform."""
    if not _HOST.fullmatch(text):
        raise InvalidInputError(f"`{text[:80]}` is no host", hint="give a name or an IP address")
    return text


Host: TypeAlias = Annotated[
    str, typer.Option("--host", callback=read_host, help="The address to listen at.")
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any free one.")
]
Voter: TypeAlias = Annotated[
    str, typer.Option("--as", "--by", metavar="NAME", help="Who says so; proven by their token.")
]
Secret: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="GOVERNANCE_TOKEN",
        metavar="TOKEN",
        help="Their personal token; better from the environment, or when asked.",
        show_default=False,
    ),
]
