"""What does a log remember of the entries it no longer holds? The body of `log.archived`.

    {"first": n, "end": n, "manifest": hex, "root": hex, "last": hex,
     "earlier": [{"first": n, "end": n, "manifest": hex}, …], "kept": [seq, …]}

Entries `first` to `end - 1` went into the bundle whose manifest has that SHA-256. `root` is over the first
`end` entries, `last` the leaf hash of entry `end - 1`. `earlier` are the archives before, without a gap
from entry 0, so that the newest entry alone tells of all. `kept` are positions below `end` that stay
in the log, since they are still in force there.
"""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from governance.canonical import JSON
from governance.errors import InvalidInputError
from governance.ids import Digest, parse_digest

__all__ = ["Archived", "Segment", "read_archived"]

_FIELDS: Final = {"first", "end", "manifest", "root", "last", "earlier", "kept"}
_SEGMENT_FIELDS: Final = {"first", "end", "manifest"}


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries `first` to `end - 1`, and the SHA-256 of the manifest of the bundle that holds them."""

    first: int
    end: int
    manifest: Digest

    def to_json(self) -> dict[str, JSON]:
        return {"first": self.first, "end": self.end, "manifest": self.manifest.hex()}

    def __str__(self) -> str:
        return f"entries {self.first} to {self.end - 1}, manifest {self.manifest.hex()}"


@dataclass(frozen=True, slots=True)
class Archived:
    """All that a log has handed over so far: `segments` from entry 0 on, the newest last."""

    segments: tuple[Segment, ...]
    root: Digest
    last: Digest
    kept: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first position from which on the log holds everything."""
        return self.segments[-1].end

    def has_left(self, seq: int) -> bool:
        """Tell whether entry `seq` is no longer in the log."""
        return seq < self.end and seq not in self.kept

    def holding(self, seq: int) -> Segment:
        """The archive that holds entry `seq`, or the newest."""
        inside = (one for one in self.segments if one.first <= seq < one.end)
        return next(inside, self.segments[-1])

    def tiling(self, first: int, end: int) -> tuple[Segment, ...]:
        """The archives that hold exactly the entries `first` to `end - 1`; none if they do not fit."""
        inside = tuple(one for one in self.segments if first <= one.first and one.end <= end)
        fits = bool(inside) and (inside[0].first, inside[-1].end) == (first, end)
        return inside if fits else ()

    def to_body(self) -> dict[str, JSON]:
        return {
            **self.segments[-1].to_json(),
            "root": self.root.hex(),
            "last": self.last.hex(),
            "earlier": [one.to_json() for one in self.segments[:-1]],
            "kept": list(self.kept),
        }


def read_archived(body: Mapping[str, Any]) -> Archived:
    """Read the body of a `log.archived` entry. Raises InvalidInputError."""
    try:
        if set(body) != _FIELDS:
            raise InvalidInputError("`log.archived` has missing or unknown fields")
        newest = {name: body[name] for name in _SEGMENT_FIELDS}
        segments = tuple(_segments([*body["earlier"], newest]))
        kept = tuple(_count(seq) for seq in body["kept"])
        root, last = parse_digest(body["root"]), parse_digest(body["last"])
    except (TypeError, KeyError) as exc:
        raise InvalidInputError("`log.archived` has a field of another type") from exc
    if any(map(operator.ge, kept, kept[1:])) or any(seq >= segments[-1].end for seq in kept):
        raise InvalidInputError("`log.archived` keeps entries out of order")
    return Archived(segments, root, last, kept)


def _segments(told: list[Any]) -> Iterator[Segment]:
    due = 0
    for one in told:
        if set(one) != _SEGMENT_FIELDS:
            raise InvalidInputError(
                "`log.archived` names an archive with missing or unknown fields"
            )
        first, end = _count(one["first"]), _count(one["end"])
        if first != due or end <= first:
            raise InvalidInputError(
                f"`log.archived` names entries `{first}` to `{end}` out of turn"
            )
        due = end
        yield Segment(first, end, parse_digest(one["manifest"]))


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInputError(f"`log.archived` has `{value!r:.40}` where a position belongs")
    return value
