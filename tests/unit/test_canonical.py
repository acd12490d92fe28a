"""Canonical bytes: equal to RFC 8785 where both speak, refusing what JSON cannot say, one way back."""

import contextlib
import hashlib
import hmac
import math

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.canonical import (
    ENTRY_BYTES_MAX,
    JSON_DEPTH_MAX,
    CanonicalError,
    commitment,
    digest,
    entry_bytes,
    freeze,
    parse_entry,
    parse_json,
    payload_bytes,
    thaw,
)

GOOD = settings(derandomize=True, max_examples=80, deadline=None)
SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FLAT = st.none() | st.booleans() | SAFE | TEXT
ANY = st.recursive(
    FLAT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
KEYS = st.text(st.characters(codec="ascii"), max_size=6)
ENVELOPES = st.dictionaries(
    KEYS,
    st.recursive(
        FLAT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=6,
)


@GOOD
@given(ANY)
def test_payloads_are_rfc_8785(value):
    raw = payload_bytes(value)
    assert raw == rfc8785.dumps(value)
    assert payload_bytes(thaw(raw)) == raw
    with contextlib.suppress(CanonicalError):  # a float may print as a larger integer than is read
        assert payload_bytes(parse_json(raw)) == raw


@GOOD
@given(ENVELOPES)
def test_entries_are_rfc_8785_and_read_back(value):
    raw = entry_bytes(value)
    assert raw == rfc8785.dumps(value)
    assert parse_entry(raw) == value


@GOOD
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_ecmascripts(number):
    assert payload_bytes([number]) == rfc8785.dumps([number])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (123.5, "123.5"),
        (-1.5e300, "-1.5e+300"),
        (5e-324, "5e-324"),
    ],
)
def test_number_spellings(number, text):
    assert payload_bytes(number) == text.encode()


@pytest.mark.parametrize("number", [2.0**63, -(2.0**63), 9.5e18, 1.8e19, 2.0**64, 1e20, -1e20])
def test_a_float_that_prints_as_an_integer_reads_back_to_the_same_bytes(number):
    raw = payload_bytes([number])
    assert raw == rfc8785.dumps([number])
    assert payload_bytes(thaw(raw)) == raw


@pytest.mark.parametrize("number", [2**53, 2**63 - 1, 2**64 - 1, -(2**63)])
def test_large_integers_keep_their_digits_in_payloads_only(number):
    assert payload_bytes({"id": number}) == b'{"id":%d}' % number
    assert parse_json(payload_bytes({"id": number})) == {"id": number}
    with pytest.raises(CanonicalError, match=r"outside \+-2\^53 at `\$\.id`"):
        entry_bytes({"id": number})


def test_keys_are_ordered_by_utf_16():
    assert payload_bytes({"\ufb01": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb01":1}'.encode()


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**64,
        -(2**63) - 1,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {None: 1},
        b"bytes",
        {1, 2},
        (1, 2),
        object(),
        type("Text", (str,), {})("x"),
        type("Number", (int,), {})(3),
    ],
)
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(CanonicalError):
        payload_bytes([value])
    with pytest.raises(CanonicalError):
        entry_bytes({"x": value})


def test_a_cycle_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(CanonicalError, match="nests deeper"):
        payload_bytes(loop)


def test_the_path_names_the_place():
    with pytest.raises(CanonicalError) as caught:
        payload_bytes({"items": [0, 1, {"price": math.nan}]})
    assert caught.value.path == "$.items[2].price"


@pytest.mark.parametrize("value", [1.5, {"é": 1}, 2**53])
def test_the_entry_profile_is_narrower(value):
    payload_bytes([value])
    with pytest.raises(CanonicalError):
        entry_bytes({"x": value})


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_bounded_everywhere():
    payload_bytes(nested(JSON_DEPTH_MAX))
    entry_bytes({"x": nested(JSON_DEPTH_MAX - 1)})
    parse_json(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    for act in (
        lambda: payload_bytes(nested(JSON_DEPTH_MAX + 1)),
        lambda: entry_bytes({"x": nested(JSON_DEPTH_MAX)}),
        lambda: parse_json(b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1)),
        lambda: parse_json(b"[" * 100_000),
        lambda: parse_entry(b'{"x":' + b"[" * 60_000),
    ):
        with pytest.raises(CanonicalError):
            act()


def test_size_is_bounded():
    room = ENTRY_BYTES_MAX - len(b'{"x":""}')
    assert len(entry_bytes({"x": "a" * room})) == ENTRY_BYTES_MAX
    with pytest.raises(CanonicalError, match="exceeds 65535"):
        entry_bytes({"x": "a" * (room + 1)})
    with pytest.raises(CanonicalError, match="exceeds 65535"):
        parse_entry(b'{"x":"' + b"a" * (room + 1) + b'"}')
    with pytest.raises(CanonicalError, match="exceeds 10"):
        freeze("a" * 9, limit=10)
    with pytest.raises(CanonicalError, match="exceeds 10"):
        parse_json("a" * 11, limit=10)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"7",
        b"[]",
        b'{"a": 1}',
        b'{"a":1}\n',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"a":1.0}',
        b'{"a":1e0}',
        b'{"a":-0}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\xff"}',
        b'{"a":9007199254740992}',
        b'{"a":NaN}',
        b'\xef\xbb\xbf{"a":1}',
        '{"é":1}'.encode(),
    ],
)
def test_an_entry_has_one_spelling(raw):
    with pytest.raises(CanonicalError):
        parse_entry(raw)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1e999",
        '"\\ud800"',
        '"\ud800"',
        "{",
        "",
        "[1,]",
        "'a'",
        "1" * 5_000,
        b"\xff",
        "\x00",
        '"\x01"',
    ],
)
def test_untrusted_json_is_read_strictly(text):
    with pytest.raises(CanonicalError):
        parse_json(text)


def test_untrusted_json_may_be_spelled_freely():
    assert parse_json(' { "b" : 1.50 , "a" : "\\u00e9" } ') == {"b": 1.5, "a": "é"}


def test_null_missing_and_empty_are_three_things():
    assert len({payload_bytes(value) for value in ({}, {"a": None}, {"a": ""}, {"a": []})}) == 4


def test_a_thawed_value_is_ones_own_copy():
    raw = freeze({"a": [1]})
    thaw(raw)["a"].append(2)
    assert thaw(raw) == {"a": [1]}


def test_digests_are_labelled():
    assert digest("x/v1", {"b": 1, "a": 2}) == hashlib.sha256(b'x/v1\0{"a":2,"b":1}').digest()
    assert digest("x/v1", 1) != digest("x/v2", 1)


def test_commitments_separate_name_and_content():
    salt = bytes(range(32))
    expected = hmac.digest(salt, b"governance/payload/v1\0args\0{}", "sha256")
    assert commitment(salt, "args", b"{}") == expected
    assert commitment(salt, "a", b"bc") != commitment(salt, "ab", b"c")
    assert commitment(bytes(32), "args", b"{}") != expected
