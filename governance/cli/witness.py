"""How does one company vouch for another's log? `governance witness`: make, tell, serve a witness."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from governance.cli.console import facts, moment, plain, say, show_json, table
from governance.cli.options import AsJson, Host, Port

__all__ = ["add_to"]

witness = typer.Typer(
    no_args_is_help=True, help="Cosign other people's logs, so that they cannot tell two stories."
)

WitnessDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="The witness's folder; else GOVERNANCE_WITNESS, else .witness here.",
        show_default=False,
    ),
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="What the witness is called, for ever.")
]
LogKey = Annotated[
    str, typer.Argument(metavar="VKEY", help="The log's verifier key, or a file that holds it.")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(witness, name="witness")


@witness.command()
def init(*, name: Name, dir: WitnessDir = None, json: AsJson = False) -> None:
    """Make the folder, the key and the book of a new witness."""
    from governance.config import WitnessHome
    from governance.ids import parse_origin
    from governance.witness.found import init as begin

    home = WitnessHome.find(dir)
    key = begin(home, parse_origin(name))
    if json:
        return show_json({"dir": str(home.folder), "name": name, "verifier_key": key})
    say(
        facts({"folder": plain(home.folder.resolve()), "witness": name}),
        "",
        "verifier key, for whoever wants to be witnessed, and for their auditors:",
        f"  {key}",
        "",
        "next: name the logs to witness: governance witness add-log VKEY",
    )
    return None


@witness.command(name="add-log")
def add_log(vkey: LogKey, *, dir: WitnessDir = None) -> None:
    """Witness one more log, or one more key of a log."""
    from governance.assemble import read_verifier_key
    from governance.config import WitnessHome
    from governance.ledger.checkpoint import parse_verifier_key
    from governance.witness.book import Book

    key = parse_verifier_key(read_verifier_key(vkey))
    Book.open(WitnessHome.find(dir).book).add_log(key)
    say(f"{plain(key.name)} is witnessed from its next checkpoint on")


@witness.command(name="logs")
def logs(*, dir: WitnessDir = None, json: AsJson = False) -> None:
    """List the logs that are witnessed, and how far each was seen."""
    from governance.config import WitnessHome
    from governance.ledger.checkpoint import format_verifier_key
    from governance.witness.book import Book

    known = Book.open(WitnessHome.find(dir).book).known()
    if json:
        return show_json(
            [
                {
                    "log": one.key.name,
                    "verifier_key": format_verifier_key(one.key),
                    "size": one.size,
                    "at": one.at,
                    "forks": one.forks,
                }
                for one in known
            ]
        )
    if not known:
        say("none yet: governance witness add-log VKEY")
        return None
    rows = [
        (
            plain(one.key.name),
            str(one.size),
            moment(one.at) if one.at is not None else "never",
            f"{one.forks} contradicting heads" if one.forks else "",
        )
        for one in known
    ]
    say(table(("log", "size", "last cosigned", ""), rows))
    return None


@witness.command()
def serve(*, host: Host = "127.0.0.1", port: Port = 8766, dir: WitnessDir = None) -> None:
    """Answer `POST /add-checkpoint` until interrupted."""
    from governance.cli.serving import leave_when_asked
    from governance.config import WitnessHome
    from governance.web.serve import serve as put_on_socket
    from governance.witness.app import create_witness_app
    from governance.witness.found import open_witness

    found = open_witness(WitnessHome.find(dir))
    leave_when_asked()

    def ready(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        say(f"witness {plain(found.signer.origin)} at http://{shown}:{port}/")

    put_on_socket(create_witness_app(found), host, port, ready)
