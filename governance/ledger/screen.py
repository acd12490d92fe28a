"""Whether lines are plainly entries: the fast way to yes. Anything else `entry.read_entry` decides.

`read_entry` says what an entry is. It walks every value and matches every name, which costs many times
the hash. Nearly all envelopes are ASCII and by few actors, and for those the same checks can be made on
the parsed whole, on a block of them at once. A `Screen` leaves the linking fields (`log, seq, prev, ts,
run, rseq, rprev`) to `Chain.fit`, which compares them with what must stand there; what both accept,
`read_entry` accepts (the tests hold them to it). It answers None when it cannot tell, and never says what
is wrong, nor in which line.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from governance.canonical import ENTRY_BYTES_MAX, JSON_DEPTH_MAX, is_plain
from governance.errors import InvalidInputError
from governance.ids import parse_subject_id
from governance.ledger.entry import VERSION, Kind
from governance.spelling import read, spell_strict

__all__ = ["Block", "Screen", "is_plain_json"]

_SUBJECTS_MAX: Final = 4_096
"""How many names that passed once are remembered."""
_KINDS: Final = frozenset(kind.value for kind in Kind)
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_BARE: Final = len(("actor", "body", "log", "payloads", "prev", "seq", "ts", "type", "v"))
_IN_RUN: Final = _BARE + len(("run", "rprev", "rseq"))
_fields: Final = itemgetter("actor", "body", "log", "payloads", "prev", "seq", "ts", "type", "v")


class Block(NamedTuple):
    """Plain envelopes that stand one after another: the fields of each, and some fields of all."""

    entries: Sequence[dict[str, Any]]
    logs: tuple[Any, ...]
    payloads: tuple[dict[str, str], ...]
    prevs: tuple[Any, ...]
    seqs: tuple[Any, ...]
    times: tuple[Any, ...]
    kinds: tuple[str, ...]


class Screen:
    """Remembers the subjects it has seen to be well formed, so that each is matched once."""

    def __init__(self) -> None:
        self._subjects = set[str]()

    def __call__(self, raws: Sequence[bytes]) -> Block | None:
        """Give the fields of plain envelopes, or None where `read_entry` must be asked about one of them."""
        whole = b"[%b]" % b",".join(raws)
        if not whole.isascii() or max(map(len, raws)) > ENTRY_BYTES_MAX:
            return None
        try:
            entries: list[dict[str, Any]] = list(map(read, raws))
            # Each is JSON by itself, and where one ends follows from its brackets: so if all together are
            # written like this, each of them is.
            if spell_strict(entries) != whole:
                return None
            columns = zip(*map(_fields, entries), strict=True)
            actors, bodies, logs, payloads, prevs, seqs, times, kinds, versions = columns
            passed = (
                set(map(type, versions)) == {int}
                and set(versions) == {VERSION}
                and _KINDS.issuperset(kinds)
                and all(map(self._knows, set(actors)))
                and set(map(type, bodies)) == set(map(type, payloads)) == {dict}
                and self._counts(entries)
                and all(_HASH.fullmatch(text) for names in payloads for text in names.values())
                # A list of bodies is as deep as an envelope.
                and is_plain(list(bodies), JSON_DEPTH_MAX)
            )
        except (ValueError, KeyError, TypeError):
            return None  # no JSON, an integer too large, a field missing or of another type
        return Block(entries, logs, payloads, prevs, seqs, times, kinds) if passed else None

    def _counts(self, entries: Sequence[dict[str, Any]]) -> bool:
        """Tell whether no envelope has more fields than it may, given that it has all that it must."""
        due = [_IN_RUN if "run" in fields else _BARE for fields in entries]
        found = list(map(len, entries))
        if found == due:
            return True
        for at, fields in enumerate(entries):
            if "on_behalf_of" in fields:
                behalf = fields["on_behalf_of"]
                due[at] += behalf != fields["actor"] and self._knows(behalf)
        return found == due

    def _knows(self, name: Any) -> bool:
        """Tell whether `name` is a subject's."""
        if name in self._subjects:
            return True
        try:
            parse_subject_id(name)
        except InvalidInputError:
            return False
        if len(self._subjects) < _SUBJECTS_MAX:
            self._subjects.add(name)
        return True


def is_plain_json(raw: bytes) -> bool:
    """Tell whether `raw` is ASCII, without floats or large integers, and what `payload_bytes` writes."""
    try:
        value: object = read(raw)
        same = raw.isascii() and spell_strict(value) == raw
    except (ValueError, TypeError):
        return False
    return same and is_plain(value, JSON_DEPTH_MAX)
