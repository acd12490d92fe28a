"""How do operators and functions behave on cel-python's values? As the CEL standard says, or they fail.

cel-python's own operators follow Python where types mix: `true == 1`, `'a' in 'abc'`, a list index of -1,
`int(' 5 ')`. Those here ask for the exact types first. Each takes the meter, charges what it reads, and
raises LookupError, ValueError, ArithmeticError or TypeError, which `Call` turns into an error value.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from celpy import celtypes as cel

from governance import canonical
from governance.policy import celpy_times as times
from governance.policy.celpy_values import (
    NUMBERS,
    ORDERED,
    Call,
    Meter,
    Value,
    kind,
    plain,
    text,
)
from governance.policy.patterns import search_steps

__all__ = ["resolve"]

TEXT_CHARS_MAX: Final = 1024 * 1024
LIST_ITEMS_MAX: Final = 10_000


def equal(meter: Meter, left: Value, right: Value) -> bool:
    """CEL equality: numbers by value, everything else only within its own type."""
    meter.charge()
    a, b = kind(left), kind(right)
    if a in NUMBERS and b in NUMBERS:
        return plain(left) == plain(right)
    if a != b:
        return False
    if a == "list":
        return len(left) == len(right) and all(map(equal, [meter] * len(left), left, right))
    if a == "map":
        return len(left) == len(right) and all(
            key in right and equal(meter, item, right[key]) for key, item in left.items()
        )
    if a in ("string", "bytes"):
        meter.read(left)
        return len(left) == len(right) and (
            str(left) == str(right) if a == "string" else bytes(left) == bytes(right)
        )
    return left is None or bool(left == right)


def same(meter: Meter, left: Value, right: Value) -> Value:
    return cel.BoolType(equal(meter, left, right))


def different(meter: Meter, left: Value, right: Value) -> Value:
    return cel.BoolType(not equal(meter, left, right))


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[..., Value]:
    def ordered(meter: Meter, left: Value, right: Value) -> Value:
        a, b = kind(left), kind(right)
        if a in NUMBERS and b in NUMBERS:
            return cel.BoolType(_ordered_numbers(compare, plain(left), plain(right)))
        if a != b or a not in ORDERED:
            raise TypeError
        if a in ("string", "bytes"):
            meter.read(left)
        return cel.BoolType(compare(left, right))

    return ordered


def _ordered_numbers(compare: Callable[[Any, Any], bool], left: float, right: float) -> bool:
    """The standard rounds an integer beside a double, `closure` does not: no value where they part."""
    exact = compare(left, right)
    if type(left) is not type(right) and compare(float(left), float(right)) is not exact:
        raise ValueError
    return exact


def contains(meter: Meter, item: Value, container: Value) -> Value:
    """`item in container`, for lists and maps; a text holds no items."""
    name = kind(container)
    if name == "map":
        return cel.BoolType(_key(item) in container)
    if name != "list":
        raise TypeError
    return cel.BoolType(any(equal(meter, item, element) for element in container))


def _key(item: Value) -> Value:
    """What to look for in a map: a whole double stands for its integer, and another is no key of any."""
    of = kind(item)
    if of == "double":
        return int(item) if float(item).is_integer() else item
    if of not in ("string", "int", "uint", "bool"):
        raise TypeError
    return item


def index(_meter: Meter, container: Value, key: Value) -> Value:
    name, of = kind(container), kind(key)
    if name == "map" and of in ("string", "int", "uint", "bool"):
        return container[key]
    if name == "list" and of in ("int", "uint"):
        if not 0 <= int(key) < len(container):
            raise IndexError
        return container[int(key)]
    raise TypeError


def add(meter: Meter, left: Value, right: Value) -> Value:
    pair = (kind(left), kind(right))
    if pair == ("string", "string"):
        return cel.StringType(_joined(meter, str(left), str(right)))
    if pair == ("list", "list"):
        if len(left) + len(right) > LIST_ITEMS_MAX:
            raise ValueError
        meter.charge(len(left) + len(right))
        return cel.ListType([*left, *right])
    if pair in (("timestamp", "duration"), ("duration", "timestamp")):
        return cel.TimestampType(left + right)
    if pair == ("duration", "duration"):
        return times.length(left + right)
    return _arithmetic(pair, operator.add, left, right)


def subtract(_meter: Meter, left: Value, right: Value) -> Value:
    pair = (kind(left), kind(right))
    if pair == ("timestamp", "duration"):
        return cel.TimestampType(left - right)
    if pair in (("duration", "duration"), ("timestamp", "timestamp")):
        return times.length(left - right)
    return _arithmetic(pair, operator.sub, left, right)


def _joined(meter: Meter, left: str, right: str) -> str:
    if len(left) + len(right) > TEXT_CHARS_MAX:
        raise ValueError
    joined = left + right
    meter.read(joined)
    return joined


def _arithmetic(
    pair: tuple[str, str], operation: Callable[[Any, Any], Any], left: Value, right: Value
) -> Value:
    if pair[0] != pair[1] or pair[0] not in NUMBERS:
        raise TypeError
    return type(left)(operation(left, right))


def _numeric(operation: Callable[[Any, Any], Any], *, whole: bool = False) -> Callable[..., Value]:
    def applied(_meter: Meter, left: Value, right: Value) -> Value:
        pair = (kind(left), kind(right))
        if whole and "double" in pair:
            raise TypeError
        return _arithmetic(pair, operation, left, right)

    return applied


def _divide(left: Value, right: Value) -> Any:
    if kind(left) != "double" or right != 0.0:
        return left / right
    # cel-python says infinity whatever is divided.
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: Value, right: Value) -> Any:
    if kind(left) == "int" and right == -1:
        return -left % 1  # of the least integer there is no quotient
    return left % right


def negate(_meter: Meter, value: Value) -> Value:
    if kind(value) not in ("int", "double"):
        raise TypeError
    return -value


def invert(_meter: Meter, value: Value) -> Value:
    if kind(value) != "bool":
        raise TypeError
    return cel.BoolType(not value)


def choose(_meter: Meter, condition: Value, then: Value, otherwise: Value) -> Value:
    if kind(condition) != "bool":
        raise TypeError
    return then if condition else otherwise


def size(_meter: Meter, value: Value) -> Value:
    if kind(value) not in ("string", "bytes", "list", "map"):
        raise TypeError
    return cel.IntType(len(value))


def matches(meter: Meter, subject: Value, pattern: Value) -> Value:
    """Search, as the standard says; anchor the pattern to match the whole text."""
    meter.read(text(subject))
    compiled, searched = meter.pattern(text(pattern)), text(subject).encode()
    meter.charge(search_steps(compiled, searched))
    return cel.BoolType(compiled.search(searched) is not None)


def _on_texts(test: Callable[[str, str], bool]) -> Callable[..., Value]:
    def tested(meter: Meter, subject: Value, part: Value) -> Value:
        meter.read(text(subject))
        return cel.BoolType(test(text(subject), text(part)))

    return tested


_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DECIMAL_CHARS_MAX: Final = 400


def to_int(_meter: Meter, value: Value) -> Value:
    name = kind(value)
    if name == "timestamp":
        return cel.IntType(times.seconds_since_epoch(value))
    return cel.IntType(_whole(name, value))


def to_uint(_meter: Meter, value: Value) -> Value:
    whole = _whole(kind(value), value)
    if whole < 0:
        raise ValueError
    return cel.UintType(whole)


def _whole(name: str, value: Value) -> int:
    if name in ("int", "uint"):
        return int(value)
    if name == "double":
        return int(float(value))  # of NaN and the infinities: ValueError, OverflowError
    if not _WHOLE.fullmatch(text(value)):
        raise ValueError
    return int(value)


def to_double(_meter: Meter, value: Value) -> Value:
    if kind(value) in NUMBERS:
        return cel.DoubleType(plain(value))
    if len(text(value)) > _DECIMAL_CHARS_MAX or not _DECIMAL.fullmatch(value):
        raise ValueError
    return cel.DoubleType(float(value))


def to_bool(_meter: Meter, value: Value) -> Value:
    if kind(value) == "bool":
        return value
    if text(value) not in ("true", "false"):
        raise ValueError
    return cel.BoolType(value == "true")


def to_bytes(meter: Meter, value: Value) -> Value:
    if kind(value) == "bytes":
        return value
    meter.read(text(value))
    return cel.BytesType(text(value).encode())


def to_string(meter: Meter, value: Value) -> Value:
    name = kind(value)
    if name in ("string", "bytes"):
        meter.read(value)
    spelled: Mapping[str, Callable[[Any], str]] = {
        "string": str,
        "bool": lambda it: "true" if it else "false",
        "int": lambda it: str(int(it)),
        "uint": lambda it: str(int(it)),
        "double": _spell_double,
        "bytes": lambda it: bytes(it).decode(),
        "timestamp": times.spell_moment,
        "duration": times.spell_duration,
    }
    if name not in spelled:
        raise TypeError
    return cel.StringType(spelled[name](value))


def _spell_double(number: float) -> str:
    """As the ledger spells it: `6000`, `0.1`, `1e+21`."""
    if not math.isfinite(number):
        raise ValueError
    return canonical.payload_bytes(float(number)).decode()


def _unchanged(_meter: Meter, value: Value) -> Value:
    return value


_TABLE: Final[Mapping[str, Callable[..., Value]]] = {
    "_==_": same,
    "_!=_": different,
    "_<_": _ordering(operator.lt),
    "_<=_": _ordering(operator.le),
    "_>_": _ordering(operator.gt),
    "_>=_": _ordering(operator.ge),
    "_in_": contains,
    "_[_]": index,
    "_+_": add,
    "_-_": subtract,
    "_*_": _numeric(operator.mul),
    "_/_": _numeric(_divide),
    "_%_": _numeric(_remainder, whole=True),
    "-_": negate,
    "!_": invert,
    "_?_:_": choose,
    "size": size,
    "dyn": _unchanged,
    "matches": matches,
    "contains": _on_texts(lambda subject, part: part in subject),
    "startsWith": _on_texts(str.startswith),
    "endsWith": _on_texts(str.endswith),
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "bool": to_bool,
    "bytes": to_bytes,
    "string": to_string,
    "timestamp": times.to_timestamp,
    "duration": times.to_duration,
    **times.PARTS,
}


def resolve(name: str, meter: Meter) -> Call:
    """Find an operator or function by the name cel-python gives it."""
    return Call(_TABLE[name], meter)
