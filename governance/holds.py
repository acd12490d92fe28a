"""What must not leave the log for now? Legal holds, in one file of the installation.

    {"format": "governance/holds/v1", "holds": [{"at": micros, "by": subject, "name": "run-7k3f", "on": "run",
     "why": text}, …]}

Canonical JSON, for its owner alone. A hold is an instruction to whoever runs the log, and no evidence: that
it was put there or taken away is not in the log. A file that cannot be read holds everything, since
nothing is archived while it cannot.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from governance.canonical import JSON, parse_json, payload_bytes
from governance.errors import ConflictError, InvalidInputError, RefusedError, UnavailableError
from governance.ids import Micros, RunId, SubjectId, parse_run_id, parse_subject_id
from governance.ledger.entry import Entry

__all__ = ["WHY_CHARS_MAX", "Hold", "On", "lift_hold", "put_hold", "read_holds", "refuse_held"]

FORMAT: Final = "governance/holds/v1"
WHY_CHARS_MAX: Final = 500
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


class On(StrEnum):
    """What a hold is on."""

    RUN = "run"
    SUBJECT = "subject"


@dataclass(frozen=True, slots=True)
class Hold:
    """Every entry of a run, or by or on behalf of a subject, stays in the log until it is lifted."""

    on: On
    name: str
    by: SubjectId
    why: str
    at: Micros

    def covers(self, entry: Entry) -> bool:
        match self.on:
            case On.RUN:
                return entry.run == self.name
            case On.SUBJECT:
                return self.name in (entry.actor, entry.on_behalf_of)

    def to_json(self) -> dict[str, JSON]:
        return {
            "at": self.at,
            "by": self.by,
            "name": self.name,
            "on": self.on.value,
            "why": self.why,
        }

    def __str__(self) -> str:
        return f"{self.on} `{self.name}`"


def read_holds(path: Path) -> tuple[Hold, ...]:
    """Read all holds; none where there is no file.

    Raises InvalidInputError when it is not what `put_hold` wrote, RefusedError when others may change it.
    """
    try:
        mode = path.stat().st_mode
        raw = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise UnavailableError(f"holds in `{path}` cannot be read: `{exc.strerror}`") from exc
    if mode & _OTHERS:
        raise RefusedError(
            f"holds in `{path}` are open to others: mode `{stat.S_IMODE(mode):04o}`",
            hint=f"run `chmod 600 {path}` and ask who has changed them",
        )
    try:
        told = parse_json(raw)
        holds = tuple(_hold(one) for one in told["holds"])
    except (InvalidInputError, KeyError, TypeError, ValueError) as exc:
        raise _malformed(path) from exc
    if _bytes(holds) != raw:
        raise _malformed(path)
    return holds


def put_hold(path: Path, hold: Hold) -> None:
    """Add `hold`. Raises ConflictError when the same is held already."""
    if not hold.why.strip() or len(hold.why) > WHY_CHARS_MAX:
        raise InvalidInputError(
            f"a reason of `{len(hold.why)}` characters was given",
            hint=f"say in 1 to {WHY_CHARS_MAX} why",
        )

    def add(holds: Sequence[Hold]) -> Sequence[Hold]:
        for old in holds:
            if (old.on, old.name) == (hold.on, hold.name):
                raise ConflictError(f"{hold} is held already", hint="`governance hold list`")
        return (*holds, hold)

    _change(path, add)


def lift_hold(path: Path, on: On, name: str) -> Hold:
    """Take a hold away, and tell which it was. Raises InvalidInputError when there is none."""
    lifted = list[Hold]()

    def take(holds: Sequence[Hold]) -> Sequence[Hold]:
        lifted[:] = [hold for hold in holds if (hold.on, hold.name) == (on, name)]
        if not lifted:
            raise InvalidInputError(
                f"no hold on {on} `{name[:80]}`", hint="`governance hold list` names them"
            )
        return [hold for hold in holds if hold not in lifted]

    _change(path, take)
    return lifted[0]


def refuse_held(holds: Sequence[Hold], subject: SubjectId, runs: Collection[RunId]) -> None:
    """Raise RefusedError when content of `subject` is under hold: all of it, or that of one of its `runs`."""
    for hold in holds:
        if hold.name == subject if hold.on is On.SUBJECT else hold.name in runs:
            raise RefusedError(
                f"content of `{subject}` is under hold: {hold}",
                hint="`governance hold list` tells why, `governance hold lift` lets go",
            )


def _hold(told: Any) -> Hold:
    on, name, why, at = On(told["on"]), told["name"], told["why"], told["at"]
    name = parse_run_id(name) if on is On.RUN else parse_subject_id(name)
    if type(why) is not str or type(at) is not int:
        raise TypeError
    return Hold(on, name, parse_subject_id(told["by"]), why, Micros(at))


def _bytes(holds: Sequence[Hold]) -> bytes:
    told: dict[str, JSON] = {"format": FORMAT, "holds": [hold.to_json() for hold in holds]}
    return payload_bytes(told)


def _malformed(path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"holds in `{path}` are malformed", hint="restore the file; nothing is archived until then"
    )


def _change(path: Path, change: Callable[[Sequence[Hold]], Sequence[Hold]]) -> None:
    """Replace the file whole. A crash leaves the old one, and two commands take turns."""
    try:
        with _alone(path.parent) as folder:
            fresh = path.with_name(f"{path.name}.new")
            raw = _bytes(change(read_holds(path)))
            fresh.unlink(missing_ok=True)  # what a crash left; the lock says nobody is writing it
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(fresh, flags, _FILE_MODE), "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
            os.fsync(folder)
    except OSError as exc:
        raise UnavailableError(f"holds cannot be kept in `{path}`: `{exc.strerror}`") from exc


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)
