"""What can go wrong, as five families: each has one exit status and one HTTP status.

    GovernanceError
    ├── InvalidInputError  2 / 422   what was given cannot be read; give it otherwise
    ├── RefusedError       3 / 403   understood, and the answer is no
    ├── ConflictError      4 / 409   somebody else was first; look again
    ├── TamperedError      5 / 409   stored history contradicts itself
    └── UnavailableError   6 / 503   something outside failed; nothing was done, try again

A message is lower case, names the offending value in backticks and has no full stop; `hint` says the
next step.
"""

from typing import ClassVar

__all__ = [
    "ConflictError",
    "GovernanceError",
    "InvalidInputError",
    "RefusedError",
    "TamperedError",
    "UnavailableError",
]


class GovernanceError(Exception):
    """The root of every error raised on purpose. `hint` is one imperative clause, or empty."""

    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class InvalidInputError(GovernanceError):
    """What was given cannot be read as what it should be."""

    exit_status = 2
    http_status = 422


class RefusedError(GovernanceError):
    """The request was understood, and the answer is no."""

    exit_status = 3
    http_status = 403


class ConflictError(GovernanceError):
    """The world moved between reading and writing, or somebody else holds what was asked for."""

    exit_status = 4
    http_status = 409


class TamperedError(GovernanceError):
    """Stored history contradicts itself. `seq` is the first bad entry, where one is known."""

    exit_status = 5
    http_status = 409

    def __init__(self, message: str, *, seq: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.seq = seq


class UnavailableError(GovernanceError):
    """Something outside failed: a disk, a database, a model provider. Nothing was half done."""

    exit_status = 6
    http_status = 503
