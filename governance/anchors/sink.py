"""What is anchored, and what does an anchor give back? One small interface for every kind of sink."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from governance.canonical import JSON
from governance.ids import Digest, Micros
from governance.ledger.checkpoint import Checkpoint

__all__ = ["Anchored", "Sink", "SinkKind", "Target"]


class SinkKind(StrEnum):
    """Never rename or reuse one: entries name them."""

    FILE = "file"
    STAMP = "stamp"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class Target:
    """A signed head to anchor. `last` is the size that this sink anchored before, by the log's own record.

    `prove(old)` shows that the head contains the tree of size `old`. It raises InvalidInputError when no
    head of that size was signed, TamperedError when the database does not hold what was signed.
    """

    head: Checkpoint
    note: str
    last: int
    prove: Callable[[int], Sequence[Digest]]


@dataclass(frozen=True, slots=True)
class Anchored:
    """What a sink gave back, verified: `digest` is SHA-256 of it, `at` the time it tells, if it tells one.

    `lines` are signature lines to put under the checkpoint.
    """

    digest: Digest
    evidence: Mapping[str, JSON]
    at: Micros | None = None
    lines: str = ""


class Sink(Protocol):
    """Some place out of the log's reach. It may be slow, absent or hostile. One thread asks at a time."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> SinkKind: ...

    def anchor(self, target: Target) -> Anchored:
        """Put the head there, and return once it is safe there and verified. Anchoring it again is harmless.

        Raises UnavailableError when it may be tried again, RefusedError when the sink says no,
        TamperedError when what the sink holds contradicts the log.
        """
        ...
