"""Identifiers that cannot be swapped: a NewType each, and one strict way in.

Every identifier is ASCII without spaces, so that it survives a log line, a URL and a shell.
"""

import re
from typing import NewType

from governance.errors import InvalidInputError

__all__ = [
    "CallUid",
    "Digest",
    "Micros",
    "Origin",
    "RequestId",
    "RunId",
    "SubjectId",
    "call_uid",
    "parse_digest",
    "parse_origin",
    "parse_request_id",
    "parse_run_id",
    "parse_subject_id",
]

ID_CHARS_MAX = 128

Digest = NewType("Digest", bytes)
"""A SHA-256 digest: exactly 32 bytes, never its hex form."""

Micros = NewType("Micros", int)
"""A moment: whole microseconds since 1970-01-01T00:00:00Z."""

Origin = NewType("Origin", str)
"""The name of a log, as the first line of its checkpoints: `acme.example/agents`."""

RunId = NewType("RunId", str)
CallUid = NewType("CallUid", str)
"""One proposed call: `<run>/<turn>.<position>`. Ours, never the provider's id."""

RequestId = NewType("RequestId", str)
SubjectId = NewType("SubjectId", str)
"""A person or system, by a pseudonymous canonical name: `user:7f3k9q`, `agent:refund-desk`."""

_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,127}")


def parse_digest(text: str) -> Digest:
    """Read 64 lower-case hex digits. Raises InvalidInputError."""
    if not _HEX_DIGEST.fullmatch(text):
        raise InvalidInputError(
            f"malformed digest: `{text[:80]}`", hint="give 64 lower-case hex digits"
        )
    return Digest(bytes.fromhex(text))


def parse_run_id(text: str) -> RunId:
    return RunId(_name(text, "run id"))


def parse_request_id(text: str) -> RequestId:
    return RequestId(_name(text, "approval id"))


def parse_subject_id(text: str) -> SubjectId:
    return SubjectId(_name(text, "subject id"))


def parse_origin(text: str) -> Origin:
    if not _ORIGIN.fullmatch(text):
        raise InvalidInputError(
            f"malformed log name: `{text[:80]}`", hint="use letters, digits, `_`, `.`, `-` and `/`"
        )
    return Origin(text)


def call_uid(run: RunId, turn: int, position: int) -> CallUid:
    """Name the call at `position` (from 0) of model turn `turn` (from 1) of `run`."""
    return CallUid(f"{run}/{turn}.{position}")


def _name(text: str, what: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidInputError(
            f"malformed {what}: `{text[:80]}`",
            hint=f"use 1 to {ID_CHARS_MAX} letters, digits, `_`, `.`, `:`, `@` or `-`",
        )
    return text
