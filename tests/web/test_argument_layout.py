"""The two views of frozen arguments hold all of them, exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.canonical import parse_json, payload_bytes
from governance.web.arguments import (
    FULL_READ_BYTES,
    MARKS_MAX,
    PATH_CHARS_MAX,
    bounded,
    exact,
    leaves,
    must_read_all,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def text_of(value: object) -> dict[str, str]:
    return {
        "".join(part.text for part in leaf.path): "".join(part.text for part in leaf.value)
        for leaf in leaves(value)
    }


def test_leaves_have_paths_and_exact_values() -> None:
    value = {"b": [1, {"odd key": "x"}], "a": {"n": 2.50, "t": True}, "e": {}, "z": None, "l": []}
    assert text_of(value) == {
        "a.n": "2.5",
        "a.t": "true",
        "b[0]": "1",
        'b[1]["odd key"]': "x",
        "e": "{}",
        "l": "[]",
        "z": "null",
    }
    kinds = [leaf.kind for leaf in leaves(value)]
    assert kinds == ["number", "boolean", "number", "text", "empty", "empty", "null"]


def test_text_and_number_are_told_apart() -> None:
    one, other = leaves({"a": "5000"}) + leaves({"a": 5000})
    assert (one.kind, other.kind) == ("text", "number")


def test_an_argument_that_is_no_object_has_a_path_too() -> None:
    assert text_of("only") == {"$": "only"}
    assert text_of({}) == {"$": "{}"}


def test_where_a_text_came_from_stands_beside_it() -> None:
    (leaf,) = leaves({"to": {"iban": "DE89"}}, {"to.iban": "untrusted"})
    assert leaf.origin == "untrusted"


def test_a_long_path_is_cut_and_says_so() -> None:
    deep: object = "end"
    for _ in range(60):
        deep = {"k" * 2_000: deep}
    (leaf,) = leaves(deep)
    assert leaf.cut
    assert sum(len(part.text) for part in leaf.path) == PATH_CHARS_MAX + 1
    assert "".join(part.text for part in leaf.value) == "end"


@given(VALUES)
@settings(derandomize=True, max_examples=150)
def test_the_exact_view_is_the_canonical_json(value: object) -> None:
    parts = exact(value)
    shown = "".join(part.text if part.mark is None else part.escape for part in parts)
    assert payload_bytes(parse_json(shown)) == payload_bytes(value)
    if not any(part.mark for part in parts):
        assert shown.encode() == payload_bytes(value)


@pytest.mark.parametrize(
    ("value", "must"),
    [
        ({"note": "x" * (FULL_READ_BYTES - len('{"note":""}'))}, False),
        ({"note": "x" * (FULL_READ_BYTES + 1 - len('{"note":""}'))}, True),
        ({"note": "two\nlines"}, False),
        ({"note": "zero\u200bwidth"}, True),
        ({"k\u202ey": 1}, True),
    ],
)
def test_long_or_deceptive_arguments_take_an_extra_word(value: object, must: bool) -> None:
    assert must_read_all(len(payload_bytes(value)), exact(value)) is must


def test_a_flood_of_marks_is_written_as_escapes_and_stays_complete() -> None:
    flood = {"a": "x\u200b" * (MARKS_MAX + 1), "b": "\u202e"}
    (only,) = bounded([exact(flood)])[0]
    assert only.text.isascii()
    assert payload_bytes(parse_json(only.text)) == payload_bytes(flood)
    assert must_read_all(1, exact(flood))
    assert text_of(flood)["b"] == "\\u202e"
    assert all(len(leaf.value) == 1 for leaf in leaves(flood))
