"""May this file be used? Files of a log are for their owner alone, from the moment they are made."""

import os
import stat
from pathlib import Path
from typing import Final

from governance.errors import ConflictError, InvalidInputError, RefusedError, UnavailableError
from governance.store.checkpoints import sync_directory

__all__ = ["check_file", "new_file"]

_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def new_file(path: Path) -> None:
    """Make an empty file, durably. Raises ConflictError when it exists."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    except FileExistsError as exc:
        raise ConflictError(
            f"`{path}` exists already", hint="use it, or choose another place"
        ) from exc
    except OSError as exc:
        raise UnavailableError(f"`{path}` cannot be made: `{exc.strerror}`") from exc
    try:
        os.fchmod(descriptor, _FILE_MODE)  # whatever the umask took away
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def check_file(path: Path, what: str, absent: str) -> None:
    """Refuse a file that is none, or that others can read; `absent` says what to do when it is not there."""
    try:
        status = path.stat()
    except FileNotFoundError as exc:
        raise InvalidInputError(f"no {what} at `{path}`", hint=absent) from exc
    except OSError as exc:
        raise UnavailableError(f"`{path}` cannot be looked at: `{exc.strerror}`") from exc
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInputError(f"`{path}` is not a file", hint="name the database itself")
    if status.st_mode & _OTHERS:
        raise RefusedError(
            f"database `{path}` is open to others: mode `{stat.S_IMODE(status.st_mode):04o}`",
            hint=f"run `chmod 600 {path}` and ask who has read or changed it",
        )
