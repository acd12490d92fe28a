"""Who is at this terminal? A person says their name and proves it with their personal token."""

import getpass
import sys

from governance.errors import InvalidInputError, RefusedError
from governance.ports import Person, Store

__all__ = ["somebody"]


def somebody(store: Store, name: str, token: str | None) -> Person:
    """Find the person `name`, whose token is given, or else asked for.

    Raises RefusedError, the same whether name or token is wrong.
    """
    from governance.people import authenticate

    person = authenticate(store, token if token is not None else _ask(name))
    if person is None or name not in (person.name, person.subject):
        raise RefusedError(
            f"this token is not that of an active `{name[:80]}`",
            hint="check name and token, or have a new person added with `governance users add`",
        )
    return person


def _ask(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"token of {name!a}: ").strip()
    given = sys.stdin.readline().strip()
    if not given:
        raise InvalidInputError(
            "no token was given", hint="set GOVERNANCE_TOKEN, or write it to the standard input"
        )
    return given
