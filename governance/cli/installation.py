"""How does an installation begin, and who may answer in it? `governance init` and `governance users`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from governance.cli.console import facts, plain, say, show_json, table, talk
from governance.cli.options import AsJson, HomeDir
from governance.errors import InvalidInputError
from governance.ports import Person, Store

__all__ = ["add_to"]

users = typer.Typer(no_args_is_help=True, help="Who may answer, in which roles.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the person is called.")]
Origin = Annotated[
    str, typer.Option("--origin", metavar="NAME", help="What the log is called, for ever.")
]
Succeeds = Annotated[
    Path | None,
    typer.Option(
        "--succeeds",
        metavar="CHECKPOINT",
        help="The kept checkpoint of a log whose database was lost or restored: the new log names it.",
        show_default=False,
    ),
]
Roles = Annotated[
    list[str], typer.Option("--role", metavar="ROLE", help="A role they hold; may be repeated.")
]

_HAND_OVER: Final = "hand it over, and do not keep it:"


def add_to(app: typer.Typer) -> None:
    app.command()(init)
    app.add_typer(users, name="users")


def init(
    *,
    origin: Origin = "localhost/agents",
    succeeds: Succeeds = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Make the folder, the key and the ledger of a new installation."""
    from governance.assemble import init as begin
    from governance.config import Home
    from governance.ids import parse_origin

    place = Home.find(home)
    before = None if succeeds is None else _read_note(succeeds)
    key = begin(place, parse_origin(origin), before)
    if json:
        return show_json({"home": str(place.folder), "origin": origin, "verifier_key": key})
    shown = f" --home {place.folder}" if home is not None else ""
    say(
        facts({"folder": plain(place.folder.resolve()), "log": origin}),
        "",
        "verifier key, to pin outside this machine:",
        f"  {key}",
        "",
        f"next: add who may approve: governance users add NAME --role approver{shown}",
    )
    return None


@users.command()
def add(name: Name, *, role: Roles, home: HomeDir = None, json: AsJson = False) -> None:
    """Add somebody, and print their personal token, which cannot be had again."""
    import secrets

    from governance.assemble import Governance
    from governance.people import add as add_person

    with Governance.without_rules(home) as governance:
        person, token = add_person(
            governance.store, governance.new_id, secrets.token_bytes, name, role
        )
    if json:
        return show_json({**_person(person), "token": token})
    talk(f"{plain(person.name)} is `{person.subject}`: {', '.join(sorted(person.roles))}")
    talk(f"their token, shown this once; {_HAND_OVER}")
    say(token)
    return None


@users.command()
def roles(name: Name, *, role: Roles, home: HomeDir = None, json: AsJson = False) -> None:
    """Replace somebody's roles. What waits for them, and what they approved, is judged by the new ones."""
    from governance.assemble import Governance
    from governance.people import set_roles

    with Governance.without_rules(home) as governance:
        person = set_roles(governance.store, _named(governance.store, name).subject, role)
    if json:
        return show_json(_person(person))
    say(f"{plain(person.name)} is now: {', '.join(sorted(person.roles))}")
    return None


@users.command()
def token(name: Name, *, home: HomeDir = None, json: AsJson = False) -> None:
    """Give somebody a new token. The old one is void at once, and whoever is signed in with it is out."""
    import secrets

    from governance.assemble import Governance
    from governance.people import rotate_token

    with Governance.without_rules(home) as governance:
        person = _named(governance.store, name)
        fresh = rotate_token(governance.store, secrets.token_bytes, person.subject)
    if json:
        return show_json({**_person(person), "token": fresh})
    talk(f"new token of {plain(person.name)}, shown this once; {_HAND_OVER}")
    say(fresh)
    return None


@users.command(name="list")
def list_(*, home: HomeDir = None, json: AsJson = False) -> None:
    """List everybody, inactive people too."""
    people = _everybody(home)
    if json:
        return show_json([_person(person) for person in people])
    if not people:
        say("nobody yet: governance users add NAME --role approver")
        return None
    rows = [
        (
            plain(p.name),
            ", ".join(sorted(p.roles)),
            "active" if p.active else "removed",
            p.subject,
        )
        for p in people
    ]
    say(table(("name", "roles", "state", "subject"), rows))
    return None


@users.command()
def remove(name: Name, *, home: HomeDir = None) -> None:
    """Take away every right of somebody at once. What they decided stays what it is."""
    from governance.assemble import Governance
    from governance.people import deactivate

    with Governance.without_rules(home) as governance:
        person = deactivate(governance.store, _named(governance.store, name).subject)
    say(f"{plain(person.name)} may no longer answer")


def _read_note(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInputError(
            f"checkpoint `{path}` cannot be read", hint="name the file that was kept outside"
        ) from exc


def _named(store: Store, name: str) -> Person:
    person = store.read(lambda reader: reader.people.by_name(name))
    if person is None:
        raise InvalidInputError(
            f"nobody is called `{name[:80]}`", hint="list them with `governance users list`"
        )
    return person


def _everybody(home: Path | None) -> Sequence[Person]:
    from governance.assemble import Governance

    with Governance.without_rules(home) as governance:
        return governance.store.read(lambda reader: reader.people.everybody())


def _person(person: Person) -> dict[str, object]:
    return {
        "name": person.name,
        "subject": person.subject,
        "roles": sorted(person.roles),
        "active": person.active,
    }
