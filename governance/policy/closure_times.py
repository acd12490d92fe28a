"""What do moments and durations mean in a condition? Whole nanoseconds, one spelling, read in one pass.

A moment is RFC 3339 with a zone, from year 1 to 9999; a duration a signed sum of numbers with units, within
64 bits of nanoseconds. Only UTC and fixed offsets are zones: named ones change with the machine's
tables, and the same record must give the same decision anywhere.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Final

from governance.policy.cel import FailureKind
from governance.policy.closure_values import Duration, Failed, Frame, Timestamp, Value

__all__ = [
    "NANOS",
    "PARTS",
    "moment_of",
    "parse_duration",
    "parse_moment",
    "spell_duration",
    "spell_moment",
    "to_duration",
]

NANOS: Final = 1_000_000_000
"""Nanoseconds in a second."""
DURATION_CHARS_MAX: Final = 64
_DAY_S: Final = 24 * 60 * 60
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_FIRST: Final = (dt.date.min.toordinal() - _EPOCH_DAY) * _DAY_S * NANOS
_LAST: Final = (dt.date.max.toordinal() + 1 - _EPOCH_DAY) * _DAY_S * NANOS - 1
_DURATION_LIMIT: Final = 2**63

_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_LENGTH: Final = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,18}))?(h|ms|us|µs|ns|m|s)")
_UNIT_NANOS: Final[Mapping[str, int]] = {
    "h": 3600 * NANOS,
    "m": 60 * NANOS,
    "s": NANOS,
    "ms": 1_000_000,
    "us": 1000,
    "µs": 1000,
    "ns": 1,
}
_UTC: Final = object()
"""The zone of a part for which none was asked."""
_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")


def moment_of(nanos: int) -> Timestamp:
    """Make a moment. Raises Failed outside years 1 to 9999."""
    if not _FIRST <= nanos <= _LAST:
        raise Failed(FailureKind.RANGE)
    return Timestamp(nanos)


def to_duration(nanos: int) -> Duration:
    """Make a duration. Raises Failed outside 64 bits of nanoseconds."""
    if not -_DURATION_LIMIT <= nanos < _DURATION_LIMIT:
        raise Failed(FailureKind.RANGE)
    return Duration(nanos)


def parse_moment(text: str) -> Timestamp:
    """Read RFC 3339 with a zone: nothing relative, nothing without a zone. Raises Failed."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Failed(FailureKind.RANGE)
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hours, offset_minutes = found.group(7, 8, 9, 10)
    try:
        days = dt.date(year, month, day).toordinal() - _EPOCH_DAY
        clock = dt.time(hour, minute, second)
        offset = dt.time(int(offset_hours), int(offset_minutes)) if sign else dt.time()
    except ValueError:
        raise Failed(FailureKind.RANGE) from None
    shift = _seconds(offset)
    seconds = days * _DAY_S + _seconds(clock) + (shift if sign == "-" else -shift)
    return moment_of(seconds * NANOS + int((fraction or "").ljust(9, "0")))


def _seconds(clock: dt.time) -> int:
    return (clock.hour * 60 + clock.minute) * 60 + clock.second


def parse_duration(text: str) -> Duration:
    """Read `1h30m`, `-2.5s`: signed numbers with units, left to right, once. Raises Failed."""
    if len(text) > DURATION_CHARS_MAX:
        raise Failed(FailureKind.RANGE)
    position = start = 1 if text[:1] in ("+", "-") else 0
    nanos = 0
    while found := _LENGTH.match(text, position):
        whole, fraction, unit = found.group(1, 2, 3)
        nanos += int(whole) * _UNIT_NANOS[unit]
        if fraction:
            nanos += int(fraction) * _UNIT_NANOS[unit] // 10 ** len(fraction)
        position = found.end()
    if position == start or position != len(text):
        raise Failed(FailureKind.RANGE)
    return to_duration(-nanos if text[0] == "-" else nanos)


def spell_moment(moment: Timestamp) -> str:
    seconds, nanos = divmod(int(moment), NANOS)
    days, clock = divmod(seconds, _DAY_S)
    date = dt.date.fromordinal(days + _EPOCH_DAY)
    hours, rest = divmod(clock, 3600)
    return f"{date.isoformat()}T{hours:02}:{rest // 60:02}:{rest % 60:02}{_fraction(nanos)}Z"


def spell_duration(duration: Duration) -> str:
    seconds, nanos = divmod(abs(int(duration)), NANOS)
    return f"{'-' if duration < 0 else ''}{seconds}{_fraction(nanos)}s"


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


def _offset(zone: Value) -> int:
    if zone is _UTC or zone == "UTC":
        return 0
    if type(zone) is not str:
        raise Failed(FailureKind.TYPE)
    found = _OFFSET.fullmatch(zone)
    if found is None or int(found[2]) >= 24 or int(found[3]) >= 60:  # noqa: PLR2004 - hours, minutes
        raise Failed(FailureKind.RANGE)
    nanos = (int(found[2]) * 60 + int(found[3])) * 60 * NANOS
    return -nanos if found[1] == "-" else nanos


def _part(
    of_moment: Callable[[int, int], int], unit: int = 0, modulus: int = 0
) -> Callable[..., Value]:
    """A method that reads one part, from a day and the nanoseconds of it; with `unit`, of durations too."""

    def part(_frame: Frame, value: Value, zone: Value = _UTC) -> Value:
        if type(value) is Timestamp:
            days, nanos = divmod(int(value) + _offset(zone), _DAY_S * NANOS)
            return of_moment(days + _EPOCH_DAY, nanos)
        if type(value) is not Duration or not unit or zone is not _UTC:
            raise Failed(FailureKind.TYPE)
        units = abs(int(value)) // unit
        units = units % modulus if modulus else units
        return -units if value < 0 else units

    return part


def _dated(of_date: Callable[[dt.date], int]) -> Callable[..., Value]:
    def of_moment(day: int, _nanos: int) -> int:
        try:
            return of_date(dt.date.fromordinal(day))
        except ValueError:  # the offset leads out of years 1 to 9999
            raise Failed(FailureKind.RANGE) from None

    return _part(of_moment)


_HOUR: Final = 3600 * NANOS
_MINUTE: Final = 60 * NANOS
_MILLI: Final = 1_000_000

PARTS: Final[Mapping[str, Callable[..., Value]]] = {
    "getFullYear": _dated(lambda date: date.year),
    "getMonth": _dated(lambda date: date.month - 1),
    "getDate": _dated(lambda date: date.day),
    "getDayOfMonth": _dated(lambda date: date.day - 1),
    "getDayOfWeek": _dated(lambda date: date.isoweekday() % 7),
    "getDayOfYear": _dated(lambda date: date.timetuple().tm_yday - 1),
    "getHours": _part(lambda _day, nanos: nanos // _HOUR, _HOUR),
    "getMinutes": _part(lambda _day, nanos: nanos // _MINUTE % 60, _MINUTE),
    "getSeconds": _part(lambda _day, nanos: nanos // NANOS % 60, NANOS),
    "getMilliseconds": _part(lambda _day, nanos: nanos // _MILLI % 1000, _MILLI, 1000),
}
"""Method -> what it reads. Months, and days of month, week and year, count from 0; `getDate` from 1."""
