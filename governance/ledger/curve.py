"""Whether an Ed25519 public key is one that every library treats alike.

RFC 8032 leaves room: points with small-order parts, and coordinates written in a second way, verify in
one library and fail in another. An honest key is neither. A log key chosen by an insider could be, and
two auditors would then disagree about the same signature. So a key is taken only if it is the one
encoding (RFC 8032 section 5.1.3) of a point of the prime-order group other than the identity.
"""

from typing import Final, TypeAlias

__all__ = ["is_sound_key"]

_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_SQRT_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)
_KEY_BYTES: Final = 32

_Point: TypeAlias = tuple[int, int, int, int]
"""Extended homogeneous coordinates X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z (RFC 8032 5.1.4)."""
_IDENTITY: Final[_Point] = (0, 1, 1, 0)


def is_sound_key(public: bytes) -> bool:
    """Tell whether `public` is the canonical encoding of a point of order exactly L."""
    point = _decode(public)
    return point is not None and not _is_identity(point) and _is_identity(_times_order(point))


def _decode(public: bytes) -> _Point | None:
    if len(public) != _KEY_BYTES:
        return None
    y = int.from_bytes(public, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= _P:
        return None
    # The inverse exists: -1 is a square modulo P and D is not, so D y^2 + 1 is never 0.
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * _SQRT_MINUS_ONE % _P
    if x * x % _P != square or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


def _times_order(point: _Point) -> _Point:
    total = _IDENTITY
    for bit in f"{_ORDER:b}":
        total = _add(total, total)
        if bit == "1":
            total = _add(total, point)
    return total


def _add(p: _Point, q: _Point) -> _Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % _P
    b = (p[1] + p[0]) * (q[1] + q[0]) % _P
    c = 2 * p[3] * q[3] * _D % _P
    d = 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _is_identity(point: _Point) -> bool:
    return point[0] % _P == 0 and (point[1] - point[2]) % _P == 0
