"""What do moments and durations mean in a condition? One spelling each, read in one pass.

cel-python reads `timestamp('now')` and dates without a zone, and its `duration()` can be hung by the text
it is given. Those here take RFC 3339 with a zone, and sums of numbers with units. cel-python counts
microseconds: a moment or a duration between two of them has no value here.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from celpy import celtypes as cel

from governance.policy.celpy_values import Meter, Value, kind, text

__all__ = [
    "PARTS",
    "length",
    "seconds_since_epoch",
    "spell_duration",
    "spell_moment",
    "to_duration",
    "to_timestamp",
]

DURATION_CHARS_MAX: Final = 64
_UTC: Final = dt.timezone.utc  # noqa: UP017 - cel-python compares with this very object
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=_UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_LENGTH_MICROS_MAX: Final = 2**63 // 1000


_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_LENGTH: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(h|ms|us|ns|m|s)")
_UNIT_MICROS: Final[Mapping[str, Fraction]] = {
    "h": Fraction(3_600_000_000),
    "m": Fraction(60_000_000),
    "s": Fraction(1_000_000),
    "ms": Fraction(1000),
    "us": Fraction(1),
    "ns": Fraction(1, 1000),
}


def to_timestamp(_meter: Meter, value: Value) -> Value:
    """RFC 3339 with a zone, or whole seconds; nothing relative, nothing without a zone."""
    if kind(value) == "timestamp":
        return value
    if kind(value) == "int":
        return cel.TimestampType(_EPOCH + dt.timedelta(seconds=int(value)))
    found = _MOMENT.fullmatch(text(value))
    if found is None:
        raise ValueError
    *parts, fraction, sign, hours, minutes = found.groups()
    micros, rest = divmod(int((fraction or "").ljust(9, "0")), 1000)
    if rest:
        raise ValueError
    year, month, day, hour, minute, second = map(int, parts)
    moment = dt.datetime(year, month, day, hour, minute, second, micros, _UTC)
    if sign:
        offset = _offset(hours, minutes)
        moment = moment - offset if sign == "+" else moment + offset
    return cel.TimestampType(moment)


def to_duration(_meter: Meter, value: Value) -> Value:
    """`1h30m`, `-2.5s`: signed numbers with units, read left to right, once."""
    if kind(value) == "duration":
        return value
    spelled = text(value)
    if len(spelled) > DURATION_CHARS_MAX:
        raise ValueError
    position = start = 1 if spelled[:1] in ("+", "-") else 0
    micros = Fraction(0)
    while found := _LENGTH.match(spelled, position):
        micros += Fraction(found[1]) * _UNIT_MICROS[found[2]]
        position = found.end()
    if position == start or position != len(spelled) or micros.denominator != 1:
        raise ValueError
    return length(dt.timedelta(microseconds=int(-micros if spelled[0] == "-" else micros)))


def length(delta: dt.timedelta) -> Value:
    """Make a duration, which the standard keeps in 64 bits of nanoseconds. Raises ValueError."""
    if abs(delta // _MICROSECOND) > _LENGTH_MICROS_MAX:
        raise ValueError
    return cel.DurationType(delta)


def _offset(hours: str, minutes: str) -> dt.timedelta:
    if int(hours) >= 24 or int(minutes) >= 60:  # noqa: PLR2004 - hours, minutes
        raise ValueError
    return dt.timedelta(hours=int(hours), minutes=int(minutes))


_OFFSET: Final = re.compile(r"([+-])(\d\d):(\d\d)", re.ASCII)


def _part(
    of_moment: Callable[[dt.datetime], int], micros_per_unit: int = 0, modulus: int = 0
) -> Callable[..., Value]:
    def part(_meter: Meter, value: Value, *zone: Value) -> Value:
        if kind(value) == "timestamp":
            return cel.IntType(of_moment(_in_zone(value, *zone)))
        if kind(value) != "duration" or not micros_per_unit or zone:
            raise TypeError
        micros = value // _MICROSECOND
        units = abs(micros) // micros_per_unit
        units = units % modulus if modulus else units
        return cel.IntType(-units if micros < 0 else units)

    return part


def _in_zone(moment: dt.datetime, zone: Value = "UTC") -> dt.datetime:
    """Only UTC and fixed offsets: named zones change with the machine's tables, decisions may not."""
    if text(zone) == "UTC":
        return moment.astimezone(_UTC)
    found = _OFFSET.fullmatch(text(zone))
    if found is None:
        raise ValueError
    offset = _offset(found[2], found[3])
    return moment.astimezone(dt.timezone(offset if found[1] == "+" else -offset))


PARTS: Final[Mapping[str, Callable[..., Value]]] = {
    "getFullYear": _part(lambda t: t.year),
    "getMonth": _part(lambda t: t.month - 1),
    "getDate": _part(lambda t: t.day),
    "getDayOfMonth": _part(lambda t: t.day - 1),
    "getDayOfWeek": _part(lambda t: t.isoweekday() % 7),
    "getDayOfYear": _part(lambda t: t.timetuple().tm_yday - 1),
    "getHours": _part(lambda t: t.hour, 3_600_000_000),
    "getMinutes": _part(lambda t: t.minute, 60_000_000),
    "getSeconds": _part(lambda t: t.second, 1_000_000),
    "getMilliseconds": _part(lambda t: t.microsecond // 1000, 1000, 1000),
}
"""Method -> what it reads from a moment, and from a duration where it has that part."""


def seconds_since_epoch(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(seconds=1)


def spell_moment(moment: dt.datetime) -> str:
    spelled = moment.astimezone(_UTC).replace(tzinfo=None).isoformat()
    return (spelled.rstrip("0") if moment.microsecond else spelled) + "Z"


def spell_duration(duration: dt.timedelta) -> str:
    micros = duration // _MICROSECOND
    whole, rest = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return f"{sign}{whole}" + (f".{rest:06d}".rstrip("0") if rest else "") + "s"
