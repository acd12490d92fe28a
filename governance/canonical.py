"""The only place where values become bytes that are hashed, signed or stored, and the way back.

Two forms, both RFC 8785 on what they accept, so any JCS implementation can check them:

- the **entry profile** (`entry_bytes`): no floats, |int| < 2^53, ASCII keys, at most 65,535 bytes;
- the **payload form** (`payload_bytes`): any JSON value; numbers as ECMAScript prints them (RFC 8785
  section 3.2.2.3), keys in UTF-16 order (3.2.3). One extension: integers of up to 64 bits keep all
  their digits, since real systems' ids need them.

What JSON cannot say (NaN, a lone surrogate, bytes, a cycle, a key that is no string) is refused with a
`CanonicalError` naming the path. Reading is as strict as writing: `parse_entry` accepts one spelling,
`parse_json` refuses duplicate keys.

A digest is over `label || 0x00 || canonical bytes`, so that no two kinds of signed thing share a form.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.spelling import read, spell, spell_strict

__all__ = [
    "ENTRY_BYTES_MAX",
    "JSON",
    "JSON_BYTES_MAX",
    "JSON_DEPTH_MAX",
    "PAYLOAD_BYTES_MAX",
    "SALT_BYTES",
    "SCALARS",
    "CanonicalError",
    "commitment",
    "digest",
    "entry_bytes",
    "freeze",
    "is_plain",
    "parse_entry",
    "parse_json",
    "payload_bytes",
    "thaw",
]

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

ENTRY_BYTES_MAX: Final = 65_535
"""What a C2SP tlog entry bundle can carry."""
JSON_BYTES_MAX: Final = 1024 * 1024
"""The largest arguments a model may send."""
PAYLOAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest content kept beside one entry."""
JSON_DEPTH_MAX: Final = 64
SALT_BYTES: Final = 32

_SAFE_INT: Final = 2**53
_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1  # floats from 2^63 on print as integers, and must read back
SCALARS: Final = frozenset({str, int, bool, type(None)})
_COMMITMENT_LABEL: Final = b"governance/payload/v1"
_FIXED_DIGITS_MAX: Final = 21
_LEADING_ZEROS_MAX: Final = 6
_SMALLEST, _LARGEST = 1e-4, 1e15
"""Between them, what has a fraction is spelled by everybody alike: its shortest digits and a point."""


class CanonicalError(InvalidInputError):
    """A value that has no canonical form. `path` says where: `$.items[2].price`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__("", hint="send plain JSON values")
        self.problem = problem
        self._steps = path
        self._say()

    @property
    def path(self) -> str:
        return "$" + self._steps

    def within(self, step: str) -> "CanonicalError":
        """Say that the problem lies below `step`. Paths are put together only once something is wrong."""
        self._steps = step + self._steps
        self._say()
        return self

    def _say(self) -> None:
        self.message = f"{self.problem} at `{self.path[:200]}`"
        self.args = (self.message,)


def entry_bytes(value: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a ledger envelope. Raises CanonicalError outside the entry profile."""
    raw = _plain_bytes(value, spell_strict)
    if raw is None:
        _check_entry(value, 0)
        raw = _dump(value)
    if len(raw) > ENTRY_BYTES_MAX:
        raise CanonicalError(f"entry of {len(raw)} bytes exceeds {ENTRY_BYTES_MAX}")
    return raw


def parse_entry(raw: bytes) -> dict[str, Any]:
    """Read a ledger envelope back. Accepts only the bytes that `entry_bytes` would write."""
    if len(raw) > ENTRY_BYTES_MAX:
        raise CanonicalError(f"entry of {len(raw)} bytes exceeds {ENTRY_BYTES_MAX}")
    try:
        value: object = read(raw)
    except ValueError as exc:
        raise CanonicalError("entry is not JSON") from exc
    if type(value) is not dict:
        raise CanonicalError("entry is not a JSON object")
    value = cast("dict[str, Any]", value)
    if _plain_bytes(value, spell_strict) == raw:
        return value
    _check_entry(value, 0)
    if _dump(value) != raw:
        raise CanonicalError("entry is not in canonical form")
    return value


def payload_bytes(value: object, *, limit: int = PAYLOAD_BYTES_MAX) -> bytes:
    """Canonical bytes of any JSON value, at most `limit` bytes. Raises CanonicalError."""
    raw = _plain_bytes(value, spell)
    if raw is None:
        raw = _dump(value) if _check(value, 0) else _write(value).encode()
    if len(raw) > limit:
        raise CanonicalError(f"value of {len(raw)} bytes exceeds {limit}")
    return raw


def freeze(value: object, *, limit: int = JSON_BYTES_MAX) -> bytes:
    """Turn arguments into the one frozen value that policy, person, ledger and tool all read."""
    return payload_bytes(value, limit=limit)


def thaw(raw: bytes) -> Any:
    """Give a reader its own copy of a frozen value. The bytes must come from this module."""
    return read(raw)


def parse_json(text: str | bytes, *, limit: int = JSON_BYTES_MAX) -> Any:
    """Read untrusted JSON strictly: no duplicate keys, no NaN, no lone surrogates, bounded.

    Raises CanonicalError.
    """
    size = len(text)
    if size > limit:
        raise CanonicalError(f"JSON text of {size} bytes exceeds {limit}")
    try:
        given = text if isinstance(text, str) else text.decode()
        value = json.loads(given, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except CanonicalError:
        raise
    except RecursionError as exc:
        raise CanonicalError(f"JSON nests deeper than {JSON_DEPTH_MAX}") from exc
    except ValueError as exc:
        raise CanonicalError("text is not JSON") from exc
    _check(value, 0)
    return value


def digest(label: str, value: object) -> Digest:
    """SHA-256 over `label || 0x00 || canonical bytes`: `label` is the domain, like `governance/card/v1`."""
    return Digest(hashlib.sha256(label.encode() + b"\0" + payload_bytes(value)).digest())


def commitment(salt: bytes, name: str, content: bytes) -> Digest:
    """Bind a payload to its entry without telling what it says: HMAC-SHA-256 under a random salt.

    Once salt and content are gone the commitment says nothing about either.
    """
    message = _COMMITMENT_LABEL + b"\0" + name.encode() + b"\0" + content
    return Digest(hmac.digest(salt, message, "sha256"))


def is_plain(value: object, depth: int) -> bool:
    """Tell whether `value` holds only texts, whole numbers, booleans, nulls, lists and dicts, nested at
    most `depth` deep. Sizes, keys and the texts themselves are the reader's business."""
    kind = type(value)
    if kind in SCALARS:
        return True
    if depth <= 0:
        return False
    if kind is dict:
        items: Iterable[object] = cast("dict[object, object]", value).values()
    elif kind is list:
        items = cast("list[object]", value)
    else:
        return False
    if SCALARS.issuperset(map(type, items)):
        return True
    depth -= 1
    for item in items:  # noqa: SIM110  # most items are flat, and a step of a generator each would cost more
        if type(item) not in SCALARS and not is_plain(item, depth):
            return False
    return True


def _plain_bytes(value: object, write: Callable[[object], bytes]) -> bytes | None:
    """The canonical bytes of most values, at full speed; None where more must be looked at.

    What is plain, and ASCII once written, is what RFC 8785 writes: no floats, no odd keys, no halves of
    characters.
    """
    if not is_plain(value, JSON_DEPTH_MAX):
        return None
    try:
        raw = write(value)
    except TypeError:
        return None
    return raw if raw.isascii() else None


def _dump(value: object) -> bytes:
    try:
        return spell(value)
    except (TypeError, RecursionError) as exc:
        raise CanonicalError("value is not JSON") from exc


def _check_entry(value: object, depth: int) -> None:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if kind is int:
        if not -_SAFE_INT < cast("int", value) < _SAFE_INT:
            raise CanonicalError("integer outside +-2^53")
        return
    if kind is not dict and kind is not list:
        raise CanonicalError(f"a {kind.__name__} cannot stand in an entry")
    if depth >= JSON_DEPTH_MAX:
        raise CanonicalError(f"value nests deeper than {JSON_DEPTH_MAX}")
    for step, item in _members(cast("list[object] | dict[object, object]", value)):
        if type(step) is str and not step.isascii():
            raise CanonicalError("key is not ASCII text", _step(step))
        if type(item) is str:  # most items are, and a call each is what this costs
            continue
        try:
            _check_entry(item, depth + 1)
        except CanonicalError as exc:
            raise exc.within(_step(step)) from None


def _check(value: object, depth: int) -> bool:
    """Refuse what JSON cannot say; True when `spell`'s is already RFC 8785's."""
    kind = type(value)
    if kind is str:
        return _check_text(cast("str", value))
    if value is None or kind is bool:
        return True
    if kind is int:
        if not _INT64_MIN <= cast("int", value) <= _UINT64_MAX:
            raise CanonicalError("integer outside 64 bits")
        return True
    if kind is float:
        number = cast("float", value)
        if number - number != 0:  # NaN and the infinities, nothing else
            raise CanonicalError("number is not finite")
        return _SMALLEST <= abs(number) < _LARGEST and not number.is_integer()
    if kind is not dict and kind is not list:
        raise CanonicalError(f"a {kind.__name__} is not a JSON value")
    if depth >= JSON_DEPTH_MAX:
        raise CanonicalError(f"value nests deeper than {JSON_DEPTH_MAX}")
    return _check_inside(cast("list[object] | dict[object, object]", value), depth + 1)


def _check_inside(value: list[object] | dict[object, object], depth: int) -> bool:
    plain = True
    for step, item in _members(value):
        try:
            if type(step) is str and not step.isascii():
                _check_text(step)
                plain = False
            if type(item) is str and item.isascii():
                continue
            plain = _check(item, depth) and plain
        except CanonicalError as exc:
            raise exc.within(_step(step)) from None
    return plain


def _members(value: list[object] | dict[object, object]) -> Iterable[tuple[object, object]]:
    """Give what a container holds by key or index. Raises CanonicalError for a key that is no text."""
    if type(value) is list:
        return enumerate(value)
    members = cast("dict[object, object]", value)
    for key in members:
        if type(key) is not str:
            raise CanonicalError("key is not text", f".{key!r}")
    return members.items()


def _step(step: object) -> str:
    return f"[{step}]" if type(step) is int else f".{step}"


def _check_text(text: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            raise CanonicalError("text holds a lone surrogate") from exc
    return True


def _write(value: object) -> str:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        keys = sorted(members, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_write(key)}:{_write(members[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_write(item) for item in cast("list[object]", value)) + "]"
    if isinstance(value, float):
        return _ecmascript(value)
    return spell(value).decode()


def _ecmascript(number: float) -> str:
    """ECMA-262 section 6.1.6.1.20, Number::toString, on the shortest digits that read back."""
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    shortest = Decimal(repr(abs(number))).as_tuple()
    digits = "".join(map(str, shortest.digits))
    point = len(digits) + int(shortest.exponent)  # the decimal point stands after this many digits
    digits = digits.rstrip("0")
    if len(digits) <= point <= _FIXED_DIGITS_MAX:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= _FIXED_DIGITS_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_LEADING_ZEROS_MAX < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{point - 1:+d}"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, item in pairs:
        if key in members:
            raise CanonicalError(f"duplicate key `{key[:80]}`")
        members[key] = item
    return members


def _refuse_constant(name: str) -> object:
    raise CanonicalError(f"`{name}` is not JSON")
