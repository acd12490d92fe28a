"""What is a value to a compiled condition? Plain JSON as the caller holds it, and five types that JSON lacks.

| CEL | here | CEL | here |
|---|---|---|---|
| bool, string, bytes, list, map, null | `bool, str, bytes, list, dict, None` | uint | `Uint` |
| int, double | `int, float` | timestamp, duration | `Timestamp, Duration`, in nanoseconds |
| a type | `TypeName` | a boolean map key | `BoolKey` |

Types are compared with `is`: Python's own `True == 1` and its subclasses of `int` never meet CEL's rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from governance.policy.cel import FailureKind

__all__ = [
    "CHARS_PER_STEP",
    "INPUTS_AT",
    "NUMBERS",
    "STEPS_AT",
    "TYPES",
    "BoolKey",
    "Duration",
    "Exhausted",
    "Failed",
    "Frame",
    "Run",
    "Timestamp",
    "TypeName",
    "Uint",
    "Value",
    "charge",
    "equal",
    "key_of",
    "key_value",
    "kind_of",
    "lookup_key",
    "read",
    "type_of",
]

Value: TypeAlias = Any

Frame: TypeAlias = list[Any]
"""One evaluation: the inputs, the steps left, then one place for each variable of a macro."""

INPUTS_AT: Final = 0
STEPS_AT: Final = 1

Run: TypeAlias = Callable[[Frame], Value]
"""A compiled expression. Raises `Failed` and `Exhausted`, and nothing else on purpose."""

CHARS_PER_STEP: Final = 64

kind_of: Final = cast("Callable[[object], type[Any]]", type)
"""`type` of one argument, told to a type checker that would not know the type of `Any`."""


class Failed(Exception):  # noqa: N818 - a signal inside the engine: it ends as a CelFailure
    """An expression that has no value. `&&`, `||` and quantifiers may absorb it."""

    def __init__(self, kind: FailureKind) -> None:
        super().__init__()
        self.kind = kind


class Exhausted(Exception):  # noqa: N818 - likewise
    """The budget of steps is used up. Nothing absorbs it."""


def charge(frame: Frame, steps: int) -> None:
    """Take `steps` off the budget. Raises Exhausted."""
    left = frame[STEPS_AT] - steps
    frame[STEPS_AT] = left
    if left < 0:
        raise Exhausted


def read(frame: Frame, text: "str | bytes") -> None:
    """Charge for looking through a text. What fits one step is part of the node's own."""
    if len(text) > CHARS_PER_STEP:
        charge(frame, len(text) // CHARS_PER_STEP)


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Timestamp(int):
    """A moment: nanoseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ()


class Duration(int):
    """A length of time: nanoseconds, in 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type, as `type()` tells it."""

    name: str


class BoolKey:
    """`true` or `false` as a key of a map, where Python would find it under 1 or 0."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


_KEY_OF_BOOL: Final = {True: BoolKey(value=True), False: BoolKey(value=False)}

NUMBERS: Final = frozenset({int, float, Uint})
_SCALARS: Final = frozenset({int, float, Uint, bool, type(None), Timestamp, Duration, TypeName})

_TYPE_NAMES: Final[Mapping[type[object], str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    type(None): "null_type",
    TypeName: "type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
}


TYPES: Final = frozenset(_TYPE_NAMES.values())
"""The names that stand for types in a condition."""


def type_of(value: Value) -> TypeName:
    """The CEL type of a value."""
    name = _TYPE_NAMES.get(kind_of(value))
    if name is None:
        raise Failed(FailureKind.TYPE)
    return TypeName(name)


def equal(frame: Frame, left: Value, right: Value) -> bool:
    """CEL equality: numbers by value, exactly; everything else only within its own type."""
    kind = kind_of(left)
    if kind is type(right):
        if kind in _SCALARS:
            return bool(left == right)
        if kind is str or kind is bytes:
            read(frame, left)
            return bool(left == right)
        if kind is list:
            return _equal_lists(frame, left, right)
        if kind is dict:
            return _equal_maps(frame, left, right)
        raise Failed(FailureKind.TYPE)
    if kind in NUMBERS and type(right) in NUMBERS:
        return bool(left == right)  # Python compares int with float exactly
    if kind in _TYPE_NAMES and type(right) in _TYPE_NAMES:
        return False
    raise Failed(FailureKind.TYPE)


def _equal_lists(frame: Frame, left: list[Value], right: list[Value]) -> bool:
    if len(left) != len(right):
        return False
    for mine, theirs in zip(left, right, strict=True):
        charge(frame, 1)
        if not equal(frame, mine, theirs):
            return False
    return True


def _equal_maps(frame: Frame, left: dict[Value, Value], right: dict[Value, Value]) -> bool:
    if len(left) != len(right):
        return False
    for key, item in left.items():
        charge(frame, 1)
        if key not in right or not equal(frame, item, right[key]):
            return False
    return True


def key_of(value: Value) -> Value:
    """Turn a value into the key that a map literal keeps it under."""
    kind = kind_of(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return _KEY_OF_BOOL[value]
    raise Failed(FailureKind.TYPE)


def lookup_key(value: Value) -> Value:
    """Turn a value into the key to look for: a whole double finds the integer it equals.

    Raises Failed, `missing-key` for a double that equals no key and `type` for what is never a key.
    """
    if type(value) is not float:
        return key_of(value)
    if not value.is_integer():
        raise Failed(FailureKind.MISSING_KEY)
    return int(value)


def key_value(key: Value) -> Value:
    """The value that a macro sees for a key."""
    return key.value if type(key) is BoolKey else key
