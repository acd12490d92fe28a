"""Two spellings are one person; a token opens one door, once told, until it is changed."""

from collections.abc import Iterator
from itertools import count

import pytest

from governance.errors import ConflictError, InvalidInputError
from governance.ids import Micros, Origin, SubjectId
from governance.people import (
    NAME_CHARS_MAX,
    ROLES_MAX,
    add,
    authenticate,
    deactivate,
    rotate_token,
    set_roles,
)
from governance.ports import Store
from governance.store.memory import MemoryStore

IDS: Iterator[int] = count()


@pytest.fixture
def store() -> Store:
    return MemoryStore(
        Origin("acme.example/agents"), None, lambda: Micros(1), lambda size: b"s" * size
    )


def new_id(prefix: str) -> str:
    return f"{prefix}{next(IDS)}"


def draw(size: int) -> bytes:
    return next(IDS).to_bytes(size)


def test_somebody_new_is_known_by_their_token(store: Store) -> None:
    person, token = add(store, new_id, draw, "Ada Lovelace", ["finance", "security"])
    assert token.startswith("gov_")
    assert len(token) == 56
    assert authenticate(store, token) == person
    assert person.roles == {"finance", "security"}
    assert person.subject.startswith("user:")
    assert "ada" not in person.subject.casefold()


@pytest.mark.parametrize(
    "other",
    ["Ada", "ADA", "\uff21\uff44\uff41", "ada"],
    ids=["same", "upper", "fullwidth", "lower"],
)
def test_another_spelling_of_a_name_is_the_same_person(store: Store, other: str) -> None:
    person, _ = add(store, new_id, draw, "Ada", ["finance"])
    deactivate(store, person.subject)
    with pytest.raises(ConflictError, match="already called"):
        add(store, new_id, draw, other, ["finance"])
    assert len(store.read(lambda reader: reader.people.everybody())) == 1


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Jos\u00e9", "Jose\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("Ada  Lovelace", "Ada\u00a0Lovelace"),
    ],
)
def test_spellings_that_look_alike_are_one(store: Store, one: str, two: str) -> None:
    add(store, new_id, draw, one, ["finance"])
    with pytest.raises(ConflictError, match="already called"):
        add(store, new_id, draw, two, ["finance"])


@pytest.mark.parametrize(
    "name",
    [
        "",
        " Ada",
        "Ada ",
        "A" * (NAME_CHARS_MAX + 1),
        "Ada\n",
        "A\x1b[31mda",
        "A\u202eda",
        "A\u200bda",
        "A\u2066da",
        "A\ufe0fda",
        "A\u3164da",
        "A\U000e0041da",
        "A\ud800da",
        "\u2028",
    ],
    ids=ascii,
)
def test_names_hold_nothing_that_cannot_be_seen(store: Store, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        add(store, new_id, draw, name, ["finance"])


def test_a_name_may_be_as_long_as_the_limit_and_in_any_script(store: Store) -> None:
    add(store, new_id, draw, "A" * NAME_CHARS_MAX, ["finance"])
    add(store, new_id, draw, "\u0410\u0434\u0430 \u5f20", ["finance"])


@pytest.mark.parametrize(
    "roles",
    [
        [],
        [""],
        ["Finance"],
        ["finance "],
        ["1st"],
        ["f" * 33],
        ["finance", "\u0441fo"],
        "finance",
        [f"r{n}" for n in range(ROLES_MAX + 1)],
    ],
    ids=ascii,
)
def test_roles_are_spelled_one_way(store: Store, roles: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        add(store, new_id, draw, "Ada", roles)
    person, _ = add(store, new_id, draw, "Bob", ["finance"])
    with pytest.raises(InvalidInputError):
        set_roles(store, person.subject, roles)


@pytest.mark.parametrize(
    "token",
    ["", "gov_", "gov_" + "a" * 51, "gov_" + "a" * 53, "gov_" + "A" * 52, "\ud800", "x" * 9999],
)
def test_what_is_no_token_opens_nothing(store: Store, token: str) -> None:
    add(store, new_id, draw, "Ada", ["finance"])
    assert authenticate(store, token) is None


def test_one_changed_character_opens_nothing(store: Store) -> None:
    _, token = add(store, new_id, draw, "Ada", ["finance"])
    for index in range(4, len(token)):
        other = "b" if token[index] == "a" else "a"
        assert authenticate(store, token[:index] + other + token[index + 1 :]) is None


def test_a_deactivated_person_is_let_in_nowhere(store: Store) -> None:
    person, token = add(store, new_id, draw, "Ada", ["finance"])
    assert deactivate(store, person.subject).active is False
    assert authenticate(store, token) is None
    fresh = rotate_token(store, draw, person.subject)
    assert authenticate(store, fresh) is None


def test_a_new_token_ends_the_old_one(store: Store) -> None:
    person, token = add(store, new_id, draw, "Ada", ["finance"])
    fresh = rotate_token(store, draw, person.subject)
    assert authenticate(store, token) is None
    assert authenticate(store, fresh) == person


def test_new_roles_hold_at_once_and_keep_the_token(store: Store) -> None:
    person, token = add(store, new_id, draw, "Ada", ["finance"])
    set_roles(store, person.subject, ["security"])
    found = authenticate(store, token)
    assert found is not None
    assert found.roles == {"security"}


def test_nobody_is_changed_by_a_wrong_id(store: Store) -> None:
    ghost = SubjectId("user:ghost")
    for change in (
        lambda: deactivate(store, ghost),
        lambda: set_roles(store, ghost, ["finance"]),
        lambda: rotate_token(store, draw, ghost),
    ):
        with pytest.raises(InvalidInputError, match="nobody is known as `user:ghost`"):
            change()


def test_a_source_that_draws_too_little_makes_no_token(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="bytes for a token"):
        add(store, new_id, lambda size: b"", "Ada", ["finance"])
