"""Who may answer, in which roles, and whose token is this? The directory of people.

It is no evidence and writes no entries: what somebody was allowed when they voted is recorded in the
vote itself, so changing or erasing a person changes nothing that was decided. A person's subject id
is drawn, permanent and says nothing about them; the name beside it is for people and can be erased.

A token is 256 random bits and is told once. The store keeps its SHA-256 digest, and finding somebody is
a look-up by that digest: how long it takes tells nothing about any token.
"""

import base64
import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from governance.canonical import digest
from governance.errors import ConflictError, InvalidInputError
from governance.ids import Digest, SubjectId, parse_subject_id
from governance.ports import NewId, People, Person, Store, Transaction

__all__ = [
    "NAME_CHARS_MAX",
    "ROLES_MAX",
    "TOKEN_BYTES",
    "add",
    "authenticate",
    "deactivate",
    "holder",
    "rotate_token",
    "set_roles",
    "token_digest",
]

NAME_CHARS_MAX: Final = 64
ROLES_MAX: Final = 32
TOKEN_BYTES: Final = 32

_TOKEN: Final = re.compile(r"gov_[a-z2-7]{52}")
_ROLE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that nobody sees: controls, bidi marks and joiners, what has no character."""
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are drawn as nothing (Default_Ignorable_Code_Point outside those categories)."""


def add(
    store: Store,
    new_id: NewId,
    draw: Callable[[int], bytes],
    name: str,
    roles: Collection[str],
) -> tuple[Person, str]:
    """Add somebody and give their token, which cannot be had again.

    Raises ConflictError when another spelling of `name` is taken, by inactive people too.
    """
    subject = parse_subject_id(new_id("user:"))
    person = Person(subject, _read_name(name), _read_roles(roles), active=True)
    token = _token(draw)

    def work(tx: Transaction) -> Person:
        _check_free(tx.people, person)
        tx.people.put(person, token_digest(token))
        return person

    return store.write(work), token


def authenticate(store: Store, token: str) -> Person | None:
    """Find whose token this is; None for nobody's, or somebody no longer active."""
    return holder(store, token_digest(token)) if _TOKEN.fullmatch(token) else None


def holder(store: Store, token: Digest) -> Person | None:
    """Find who holds the token with this digest, with the rights they have now.

    None for nobody, or somebody no longer active.
    """
    person = store.read(lambda reader: reader.people.by_token(token))
    return person if person is not None and person.active else None


def deactivate(store: Store, subject: SubjectId) -> Person:
    """Take away every right at once. Votes cast before stay what they are."""
    return _change(store, subject, lambda person: replace(person, active=False))


def set_roles(store: Store, subject: SubjectId, roles: Collection[str]) -> Person:
    """Replace somebody's roles; the next vote is judged by the new ones."""
    checked = _read_roles(roles)
    return _change(store, subject, lambda person: replace(person, roles=checked))


def rotate_token(store: Store, draw: Callable[[int], bytes], subject: SubjectId) -> str:
    """Give somebody a new token; the old one is void from the same moment."""
    token = _token(draw)

    def work(tx: Transaction) -> str:
        tx.people.put(_known(tx.people, subject), token_digest(token))
        return token

    return store.write(work)


def _change(store: Store, subject: SubjectId, change: Callable[[Person], Person]) -> Person:
    def work(tx: Transaction) -> Person:
        person = change(_known(tx.people, subject))
        tx.people.put(person)
        return person

    return store.write(work)


def _known(people: People, subject: SubjectId) -> Person:
    person = people.by_subject(subject)
    if person is None:
        raise InvalidInputError(f"nobody is known as `{subject[:80]}`", hint="add the person first")
    return person


def _check_free(people: People, person: Person) -> None:
    wanted = _fold(person.name)
    if any(_fold(other.name) == wanted for other in people.everybody()):
        raise ConflictError(
            f"somebody is already called `{person.name}`",
            hint="two spellings of a name are one person; choose another name",
        )


def _read_name(name: str) -> str:
    if not 1 <= len(name) <= NAME_CHARS_MAX or name != name.strip():
        raise InvalidInputError(
            f"malformed name: `{name[:80]!a}`",
            hint=f"use 1 to {NAME_CHARS_MAX} characters, no space at either end",
        )
    if _BLANK.search(name) or any(unicodedata.category(char) in _UNSEEN for char in name):
        raise InvalidInputError(
            f"name holds characters that cannot be seen: `{name!a}`", hint="use printable text"
        )
    return name


def _read_roles(roles: Collection[str]) -> frozenset[str]:
    if isinstance(roles, str):  # a collection of one-letter roles, if one lets it
        raise InvalidInputError(f"`{roles[:80]}` is a text", hint="give a collection of roles")
    if not 1 <= len(roles) <= ROLES_MAX:
        raise InvalidInputError(f"`{len(roles)}` roles given", hint=f"give 1 to {ROLES_MAX}")
    for role in roles:
        if not _ROLE.fullmatch(role):
            raise InvalidInputError(
                f"malformed role: `{role[:80]!a}`",
                hint="use a lower-case letter, then up to 31 of `a-z`, `0-9`, `_` and `-`",
            )
    return frozenset(roles)


def _fold(name: str) -> str:
    """Two names that fold alike are one. Case folding can undo a normal form, hence twice."""
    for _ in range(2):
        name = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(name.split())


def _token(draw: Callable[[int], bytes]) -> str:
    drawn = draw(TOKEN_BYTES)
    if len(drawn) != TOKEN_BYTES:
        raise InvalidInputError(f"drew `{len(drawn)}` bytes for a token, not {TOKEN_BYTES}")
    return "gov_" + base64.b32encode(drawn).decode().rstrip("=").lower()


def token_digest(token: str) -> Digest:
    """What is kept of a token."""
    return digest("governance/token/v1", token)
