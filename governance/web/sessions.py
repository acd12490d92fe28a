"""Who is signed in, and who tries too often? In memory: a restart of the queue signs everybody out.

A session id is 128 random bits, kept as its digest only, so that a memory dump or a log of this table
signs nobody in. Times are compared with the clock handed in. Both tables are bounded.
"""

import hashlib
import hmac
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from governance.ids import Digest, Micros

__all__ = [
    "ABSOLUTE_LIMIT_S",
    "ADDRESSES_MAX",
    "IDLE_LIMIT_S",
    "LOGIN_FAILURES_MAX",
    "LOGIN_WINDOW_S",
    "SESSIONS_MAX",
    "Attempts",
    "Session",
    "Sessions",
]

SESSION_ID_BYTES: Final = 16
IDLE_LIMIT_S: Final = 30 * 60
ABSOLUTE_LIMIT_S: Final = 8 * 60 * 60
SESSIONS_MAX: Final = 10_000
LOGIN_FAILURES_MAX: Final = 10
LOGIN_WINDOW_S: Final = 5 * 60
ADDRESSES_MAX: Final = 4_096

_SECOND: Final = 1_000_000
_FORGERY_LABEL: Final = b"governance/forgery/v1\0"


@dataclass(frozen=True, slots=True)
class Session:
    """One sign-in with one token, known by its digest.

    Whose it is, and with which rights, is looked up at each request: a replaced token is nobody's.
    """

    token: Digest
    opened: Micros
    seen: Micros

    def alive(self, now: Micros) -> bool:
        idle, age = now - self.seen, now - self.opened
        return idle < IDLE_LIMIT_S * _SECOND and age < ABSOLUTE_LIMIT_S * _SECOND


@dataclass(slots=True)
class Sessions:
    """The open sessions. `draw(n)` gives n unpredictable bytes."""

    draw: Callable[[int], bytes]
    _key: bytes = field(init=False, repr=False)
    _open: dict[bytes, Session] = field(default_factory=dict[bytes, Session], repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        self._key = self.draw(32)

    def new_id(self) -> str:
        """Draw an id. It signs nobody in until `open` has stored it."""
        return self.draw(SESSION_ID_BYTES).hex()

    def open(self, token: Digest, now: Micros) -> str:
        """Sign in who holds `token`, under a new id, never one that the browser sent: that ends fixation."""
        fresh = self.new_id()
        with self._lock:
            for key in [key for key, old in self._open.items() if not old.alive(now)]:
                del self._open[key]
            while len(self._open) >= SESSIONS_MAX:
                del self._open[next(iter(self._open))]
            self._open[_name(fresh)] = Session(token, now, now)
        return fresh

    def find(self, id: str, now: Micros) -> Session | None:
        """Look a session up and note that it was used; an expired one is gone for good."""
        key = _name(id)
        with self._lock:
            session = self._open.pop(key, None)
            if session is None or not session.alive(now):
                return None
            self._open[key] = replace(session, seen=max(now, session.seen))
            return session

    def end(self, id: str) -> None:
        with self._lock:
            self._open.pop(_name(id), None)

    def forgery_token(self, id: str) -> str:
        """Derive what a form under this id must carry. Another site can neither read nor compute it."""
        return hmac.digest(self._key, _FORGERY_LABEL + id.encode(), "sha256").hex()

    def genuine(self, id: str, token: str) -> bool:
        expected = self.forgery_token(id).encode()
        return hmac.compare_digest(expected, token.encode("utf-8", "replace"))


@dataclass(slots=True)
class Attempts:
    """Failed sign-ins per client address, in a sliding window."""

    _failed: dict[str, deque[Micros]] = field(default_factory=dict[str, "deque[Micros]"])
    _lock: Lock = field(default_factory=Lock)

    def exhausted(self, address: str, now: Micros) -> bool:
        """Tell whether `address` has to wait, whatever it brings."""
        with self._lock:
            return len(self._recent(address, now)) >= LOGIN_FAILURES_MAX

    def failed(self, address: str, now: Micros) -> None:
        with self._lock:
            recent = self._recent(address, now)
            recent.append(now)
            self._failed.pop(address, None)
            while len(self._failed) >= ADDRESSES_MAX:
                del self._failed[next(iter(self._failed))]
            self._failed[address] = recent

    def _recent(self, address: str, now: Micros) -> "deque[Micros]":
        recent = self._failed.get(address, deque(maxlen=LOGIN_FAILURES_MAX))
        while recent and recent[0] <= now - LOGIN_WINDOW_S * _SECOND:
            recent.popleft()
        return recent


def _name(id: str) -> bytes:
    return hashlib.sha256(id.encode("utf-8", "replace")).digest()
