"""Which sinks failed, how often, and when is each tried again? A small file beside the log; no evidence.

It lets another process see what the anchoring one could not do. Whoever holds it is the only one who
anchors: two at once would each find the other's head at the witness.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from governance.canonical import parse_json, payload_bytes
from governance.errors import ConflictError, InvalidInputError, UnavailableError
from governance.ids import Micros

__all__ = ["Trouble", "Troubles"]

FIRST_WAIT_S: Final = 5
LONGEST_WAIT_S: Final = 1800

_MODE: Final = 0o600
_BYTES_MAX: Final = 256 * 1024
_TEXT_CHARS_MAX: Final = 400
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """`failures` in a row, the last one `at`, for `error`. Not tried again before `again`."""

    failures: int
    error: str
    at: Micros
    again: Micros

    @classmethod
    def after(cls, old: "Trouble | None", error: str, now: Micros) -> "Trouble":
        """One more failure: the wait doubles."""
        failures = old.failures + 1 if old else 1
        wait = min(FIRST_WAIT_S << min(failures - 1, 16), LONGEST_WAIT_S)
        return cls(failures, error[:_TEXT_CHARS_MAX], now, Micros(now + wait * _MICROS))


@dataclass(frozen=True, slots=True)
class Troubles:
    path: Path

    def read(self) -> Mapping[str, Trouble]:
        """The troubles by sink. A file that cannot be made sense of says nothing."""
        try:
            value = parse_json(self.path.read_bytes(), limit=_BYTES_MAX)
            return {
                str(name): Trouble(
                    int(t["failures"]),
                    str(t["error"]),
                    Micros(int(t["at"])),
                    Micros(int(t["again"])),
                )
                for name, t in value.items()
            }
        except (OSError, InvalidInputError, TypeError, KeyError, ValueError, AttributeError):
            return {}

    def write(self, troubles: Mapping[str, Trouble]) -> None:
        """Replace them all. Raises UnavailableError."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        raw = payload_bytes({name: asdict(trouble) for name, trouble in troubles.items()})
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with os.fdopen(os.open(fresh, flags, _MODE), "wb") as file:
                file.write(raw)
            fresh.replace(self.path)
        except OSError as exc:
            raise UnavailableError(f"`{self.path}` cannot be written: `{exc.strerror}`") from exc

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one who anchors. Raises ConflictError while somebody else is."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
        except OSError as exc:
            raise UnavailableError(
                f"`{lock}` cannot be made: `{exc.strerror}`",
                hint="name the installation's folder, with `--home` or GOVERNANCE_HOME",
            ) from exc
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise ConflictError(
                    "another process anchors at this moment", hint="see `governance status`"
                ) from exc
            yield
        finally:
            os.close(descriptor)
