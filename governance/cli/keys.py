"""Whose signature does the log bear? `governance keys`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from governance.cli.console import facts, plain, say, show_json, table
from governance.cli.options import AsJson, HomeDir
from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from governance.assemble import Governance
    from governance.config import Home
    from governance.ids import SubjectId
    from governance.keys import Change

__all__ = ["add_to"]

keys = typer.Typer(no_args_is_help=True, help="Which keys sign the log, and from when to when.")

By: TypeAlias = Annotated[
    str, typer.Option("--by", metavar="WHO", help="Who changes it, like `user:ines`; recorded.")
]
Why: TypeAlias = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in a line; recorded.")
]
Key: TypeAlias = Annotated[
    str, typer.Argument(metavar="VKEY", help="A verifier key, or a file that holds one.")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(keys, name="keys")


@keys.command(name="list")
def list_(*, home: HomeDir = None, json: AsJson = False) -> None:
    """List the keys that may sign the next head, and say which this installation holds."""
    from governance.assemble import Governance
    from governance.keys import signing

    with Governance.without_rules(home) as governance:
        now, mine = governance.store.read(signing), governance.signer.verifier_key
    if json:
        return show_json([{"key": key, "here": key == mine} for key in now])
    say(table(("key", "held"), [(key, "here" if key == mine else "elsewhere") for key in now]))
    return None


@keys.command()
def add(key: Key, *, by: By, home: HomeDir = None, json: AsJson = False) -> None:
    """Let a key held elsewhere sign too: KEYFILE is its private key, used once to prove that it is there."""
    from governance import keys as use
    from governance.assemble import Governance, KeySigner

    new = KeySigner.load(Path(key))
    with Governance.without_rules(home) as governance:
        size = use.add(governance.store, governance.clock, _subject(by), new)
    _tell(new.verifier_key, size, json=json)


@keys.command()
def rotate(*, by: By, reason: Why, home: HomeDir = None, json: AsJson = False) -> None:
    """Make a new key, let it sign from here on, and retire the present one, whose private half is deleted.

    A rotation that was interrupted is finished. Programs that run meanwhile stop at their next signature:
    start them again.
    """
    from governance.assemble import Governance
    from governance.keys import retire

    place = _interrupted(home)
    if place is not None:
        return _adopt(place, None, json=json)
    with Governance.without_rules(home) as governance:
        old = governance.signer.verifier_key
        return _replace(governance, home, retire(_subject(by), old, reason), by, json=json)


@keys.command()
def retire(key: Key, *, by: By, reason: Why, home: HomeDir = None, json: AsJson = False) -> None:
    """Let a key sign no more. What it signed stays good."""
    from governance import keys as use
    from governance.assemble import Governance, read_verifier_key

    ended = read_verifier_key(key)
    with Governance.without_rules(home) as governance:
        if ended == governance.signer.verifier_key:
            raise InvalidInputError(
                "this installation signs with that key", hint="run `governance keys rotate`"
            )
        change = use.retire(_subject(by), ended, reason)
        size = use.change(governance.store, governance.clock, change)
    _tell(ended, size, json=json)


@keys.command()
def compromised(  # noqa: PLR0913 - each is an option
    key: Key,
    *,
    since: Annotated[
        int,
        typer.Option("--since", min=0, metavar="SIZE", help="The last size it may vouch for."),
    ],
    by: By,
    reason: Why,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Declare void what a key signed beyond a size. The present key is replaced by a new one at once."""
    from governance import keys as use
    from governance.assemble import Governance, read_verifier_key

    lost = read_verifier_key(key)
    change = use.declare_compromised(_subject(by), lost, since=since, reason=reason)
    with Governance.without_rules(home) as governance:
        if lost == governance.signer.verifier_key:
            return _replace(governance, home, change, by, json=json)
        size = use.change(governance.store, governance.clock, change)
    _tell(lost, size, json=json)
    return None


def _replace(
    governance: "Governance", home: Path | None, change: "Change", by: str, *, json: bool
) -> None:
    from governance.assemble import prepare_key
    from governance.config import Home
    from governance.keys import rotate as begin

    place = Home.find(home)
    new = prepare_key(place, governance.signer.origin)
    size = begin(governance.store, governance.clock, _subject(by), new, change)
    _adopt(place, size, json=json)


def _interrupted(home: Path | None) -> "Home | None":
    """The place of a rotation that the log holds and the key file does not."""
    from governance.assemble import KeySigner, opens_with
    from governance.config import Home

    place = Home.find(home)
    if place.next_key.exists() and opens_with(place, KeySigner.load(place.next_key)):
        return place
    return None


def _adopt(place: "Home", size: int | None, *, json: bool) -> None:
    from governance.assemble import adopt_key

    _tell(adopt_key(place), size, json=json)


def _tell(key: str, size: int | None, *, json: bool) -> None:
    if json:
        return show_json({"key": key, "size": size})
    say(facts({"key": plain(key), "size": "as recorded" if size is None else str(size)}))
    say("", "give the new verifier key to whoever verifies this log, outside of it")
    return None


def _subject(by: str) -> "SubjectId":
    from governance.ids import parse_subject_id

    return parse_subject_id(by)
