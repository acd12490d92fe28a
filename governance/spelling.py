"""Which library turns JSON into values and back? orjson, where it is installed, else the standard one.

An auditor's machine may have neither orjson nor the right to install it. Both give the same values and
the same bytes for everything that `canonical` accepts, and refuse between them what it refuses (the
tests hold them to each other); the standard one takes some five times as long.

- `read` gives the value of UTF-8 JSON. Raises ValueError. Integers beyond 64 bits become floats.
- `spell` writes a value with sorted keys, without spaces; `spell_strict` only integers below 2^53.
  They raise TypeError. How they write a float is nobody's business but `canonical`'s.
"""

import json
from collections.abc import Callable
from typing import Any, Final, cast

__all__ = ["read", "spell", "spell_strict"]

_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_SAFE_MAX: Final = 2**53 - 1
_LEVELS_MAX: Final = 254
"""How deep orjson writes; `canonical` stops long before."""
_DIGITS: Final = 20
"""No 64-bit integer is longer, but for its sign."""
_INFINITE: Final = (float("inf"), float("-inf"))


def _read(raw: bytes) -> Any:
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError as exc:
        raise ValueError("JSON nests too deep") from exc


def _integer(text: str) -> int | float:
    if len(text) <= _DIGITS:
        value = int(text)
        if _INT64_MIN <= value <= _UINT64_MAX:
            return value
    return _number(text)


def _number(text: str) -> float:
    value = float(text)
    if value in _INFINITE:
        raise ValueError("number is out of range")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"`{name}` is not JSON")


def _spell(value: object) -> bytes:
    return _written(value, _INT64_MIN, _UINT64_MAX)


def _spell_strict(value: object) -> bytes:
    return _written(value, -_SAFE_MAX, _SAFE_MAX)


def _written(value: object, least: int, most: int) -> bytes:
    _check(value, least, most, _LEVELS_MAX)
    try:
        return _ENCODER.encode(value).encode()
    except ValueError as exc:  # half a character, or a float that is no number
        raise TypeError("value is not JSON") from exc


def _check(value: object, least: int, most: int, levels: int) -> None:
    """Refuse what the standard encoder would bend into JSON: other keys than text, long integers."""
    kind = type(value)
    if kind is int:
        if not least <= cast("int", value) <= most:
            raise TypeError("integer is too large")
    elif kind is dict or kind is list:
        if not levels:
            raise TypeError("value nests too deep")
        items: Any = value
        if kind is dict:
            members = cast("dict[object, object]", value)
            if not all(type(key) is str for key in members):
                raise TypeError("key is not text")
            items = members.values()
        for item in items:
            if type(item) is not str:
                _check(item, least, most, levels - 1)


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_refuse)
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)

read: Callable[[bytes], Any] = _read
spell: Callable[[object], bytes] = _spell
spell_strict: Callable[[object], bytes] = _spell_strict
try:
    import orjson
except ImportError:
    pass
else:
    from functools import partial

    read = orjson.loads
    spell = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)
    spell_strict = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
