"""Whose content is it, and which of it went? What a `payload.erased` entry says.

    {"subject": "user:7f3k9q", "targets": [[12, ["input"]], [15, ["args", "input"]]]}

A target is the position of an earlier entry, and the names of those of its payloads that went. One
entry names as many as fit it; an erasure of more takes several, in one transaction.

Content belongs to whom its run acts for (the agent itself where it acts for nobody else), and to the
person who wrote it where that is somebody else: a voter's note is the voter's and the principal's, and
goes with either. Content outside runs belongs to the person who recorded it; what the system records
there (rules, schemas of tools) belongs to nobody and cannot be erased.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from governance.canonical import JSON, payload_bytes
from governance.ids import RunId, SubjectId
from governance.ledger.entry import Draft, Entry, Kind

__all__ = ["Belonging", "Erasure", "erasure_drafts", "erasure_targets", "owners_of"]

TARGETS_BYTES_MAX: Final = 60_000
"""What the targets of one entry may take; the rest of an envelope needs less than 5,000 bytes."""
_SYSTEM: Final = "system:"


@dataclass(frozen=True, slots=True)
class Belonging:
    """Payloads of one entry that belong to somebody, by their names in order."""

    seq: int
    names: tuple[str, ...]
    run: RunId | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """Somebody's content is to go: who says so, and why. `reason` is content too, of whoever wrote it."""

    subject: SubjectId
    by: SubjectId
    reason: str


def owners_of(
    entry: Entry, principal: SubjectId | None, agent: SubjectId | None
) -> tuple[SubjectId, ...]:
    """Name everybody whose content lies beside `entry`, in order.

    `principal` is whom the entry's run acts for, `agent` the run's; both None outside runs.
    """
    wrote = entry.actor != agent and not entry.actor.startswith(_SYSTEM)
    named = {principal, entry.on_behalf_of, entry.actor if wrote else None}
    return tuple(sorted(subject for subject in named if subject is not None))


def erasure_drafts(erasure: Erasure, found: Sequence[Belonging]) -> Iterator[Draft]:
    """Write the entries that say `found` went: one at least, since somebody decided so."""
    targets: list[JSON] = []
    room = TARGETS_BYTES_MAX
    for one in found:
        target: list[JSON] = [one.seq, list(one.names)]
        size = len(payload_bytes(target)) + 1
        if size > room:
            yield _draft(erasure, targets)
            targets, room = [], TARGETS_BYTES_MAX
        targets.append(target)
        room -= size
    yield _draft(erasure, targets)


def _draft(erasure: Erasure, targets: list[JSON]) -> Draft:
    body: dict[str, JSON] = {"subject": erasure.subject, "targets": targets}
    return Draft(Kind.PAYLOAD_ERASED, erasure.by, body, {"reason": erasure.reason})


def erasure_targets(seq: int, body: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Read which payloads the `payload.erased` entry at `seq` names; what is no target is passed over."""
    for target in _listed(body.get("targets")):
        pair = _listed(target)
        if len(pair) == 2 and type(pair[0]) is int and pair[0] < seq:  # noqa: PLR2004  # seq, names
            yield from ((pair[0], name) for name in _listed(pair[1]) if type(name) is str)


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else []  # pyright: ignore[reportUnknownVariableType] - of JSON
