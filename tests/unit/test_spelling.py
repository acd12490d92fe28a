"""orjson and the standard library in its place: what one reads, writes or refuses, the other does too."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import canonical, spelling
from governance.errors import InvalidInputError

ORDINARY = (spelling.read, spelling.spell, spelling.spell_strict)
PLAIN = (spelling._read, spelling._spell, spelling._spell_strict)

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**65)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "\U0001f600", "\x7f\x1f\u2028", 2**53, 1e20, 2.0**63, -0.0, 1e-7])
)
keys = st.text(max_size=4) | st.sampled_from(["\uffff", "\U00010000", "é", ""])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)
texts = values.map(lambda v: spelling._ENCODER.encode(v) if not _has_nan(v) else "NaN").map(
    lambda text: text.encode(errors="surrogatepass")
)


def _has_nan(value):
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if isinstance(value, list):
        return any(map(_has_nan, value))
    return isinstance(value, float) and value - value != 0


@pytest.fixture
def plain(monkeypatch):
    """`canonical` as it is where orjson is not installed."""

    return _use(monkeypatch)


def outcome(act, *given_):
    try:
        return "ok", act(*given_)
    except InvalidInputError:
        return "refused", None


def both(use, act, value):
    told = []
    for library in (ORDINARY, PLAIN):
        use(library)
        told.append(outcome(act, value))
    return told


@settings(derandomize=True, max_examples=300, deadline=None)
@given(value=values)
def test_both_write_the_same_bytes_or_refuse(value):
    with pytest.MonkeyPatch.context() as patch:
        use = _use(patch)
        for act in (canonical.payload_bytes, lambda v: canonical.entry_bytes({"v": v})):
            one, other = both(use, act, value)
            assert one == other


@settings(derandomize=True, max_examples=400, deadline=None)
@given(
    raw=texts, at=st.integers(0, 60), noise=st.sampled_from([b"", b"0", b"-", b" ", b"\\", b"\xff"])
)
def test_both_read_the_same_values_or_refuse(raw, at, noise):
    raw = raw[:at] + noise + raw[at:]
    with pytest.MonkeyPatch.context() as patch:
        use = _use(patch)
        one, other = both(use, _read_payload, raw)
        assert one == other
        assert repr(one) == repr(other)
        one, other = both(use, canonical.parse_entry, raw)
        assert one == other


def _read_payload(raw):
    """As content is read: one spelling, and that one only."""
    try:
        value = canonical.thaw(raw)
    except ValueError as exc:
        raise InvalidInputError("no JSON") from exc
    if canonical.payload_bytes(value) != raw:
        raise InvalidInputError("not canonical")
    return value


def _use(patch):
    def use(library):
        for name, function in zip(("read", "spell", "spell_strict"), library, strict=True):
            patch.setattr(canonical, name, function)

    return use


@pytest.mark.parametrize(
    "raw",
    [
        b"-0",
        b"1e400",
        b"1" * 400,
        b"1" * 5_000,
        b"NaN",
        b"-Infinity",
        b'"\\ud800"',
        b"\xef\xbb\xbf1",
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b"01",
        b"[1,]",
        b"\x0c1",
        b'"\x01"',
        b"\xff",
        b"",
        b"1 1",
    ],
)
def test_what_neither_takes_as_content(raw, plain):
    for library in (ORDINARY, PLAIN):
        plain(library)
        assert outcome(_read_payload, raw)[0] == "refused", library


@pytest.mark.parametrize("raw", [b"100000000000000000000", b"9223372036854776000", b"1e+21", b"0"])
def test_long_numbers_read_back_as_written(raw, plain):
    for library in (ORDINARY, PLAIN):
        plain(library)
        assert outcome(_read_payload, raw)[0] == "ok", library


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, [{True: 1}], 2**64, [-(2**63) - 1], b"x"])
def test_the_plain_one_bends_nothing_into_json(value):
    with pytest.raises(TypeError):
        spelling._spell(value)
    with pytest.raises(TypeError):
        orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
