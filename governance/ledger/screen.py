"""Whether a line is plainly an entry: the fast way to yes. Anything else `entry.read_entry` decides.

`read_entry` says what an entry is. It walks every value and matches every name, which costs many times
the hash. Nearly all envelopes are ASCII and by few actors, and for those the same checks can be made on
the parsed whole. A `Screen` leaves the linking fields (`log, seq, prev, ts, run, rseq, rprev`) to
`Chain.fits`, which compares them with what must stand there; what both accept, `read_entry` accepts (the
tests hold them to it). It answers None when it cannot tell, and never says what is wrong.
"""

import re
from typing import Any, Final

from governance.canonical import ENTRY_BYTES_MAX, JSON_DEPTH_MAX, is_plain
from governance.errors import InvalidInputError
from governance.ids import parse_subject_id
from governance.ledger.entry import VERSION, Kind
from governance.spelling import read, spell_strict

__all__ = ["Screen", "is_plain_json"]

_SUBJECTS_MAX: Final = 4_096
"""How many names that passed once are remembered."""
_END: Final = b'"v":%d}' % VERSION  # `v` sorts last
_KINDS: Final = frozenset(kind.value for kind in Kind)
_FLAT: Final = frozenset({str, int, bool, type(None)})
"""Of these alone most bodies consist, and to see it takes no call of `is_plain`."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_DEPTH: Final = JSON_DEPTH_MAX - 1
"""How deep `body` may nest: the envelope is one level."""
_BARE: Final = len(("actor", "body", "log", "payloads", "prev", "seq", "ts", "type", "v"))
_IN_RUN: Final = _BARE + len(("run", "rprev", "rseq"))


class Screen:
    """Remembers the subjects it has seen to be well formed, so that each is matched once."""

    def __init__(self) -> None:
        self._subjects = set[str]()

    def __call__(self, raw: bytes) -> dict[str, Any] | None:
        """Give the fields of a plain envelope, or None where `read_entry` must be asked."""
        if len(raw) > ENTRY_BYTES_MAX or not raw.isascii():
            return None
        try:
            fields: dict[str, Any] = read(raw)
            if spell_strict(fields) != raw or not raw.endswith(_END):
                return None
            body: dict[str, Any] = fields["body"]
            payloads: dict[str, Any] = fields["payloads"]
            actor = fields["actor"]
            count = _IN_RUN if "run" in fields else _BARE
            if "on_behalf_of" in fields:
                behalf = fields["on_behalf_of"]
                count += behalf != actor and (behalf in self._subjects or self._knows(behalf))
            passed = (
                len(fields) == count
                and fields["type"] in _KINDS
                and (actor in self._subjects or self._knows(actor))
                and type(body) is dict
                and (_FLAT.issuperset(map(type, body.values())) or is_plain(body, _DEPTH))
                and type(payloads) is dict
                and (not payloads or all(map(_HASH.fullmatch, payloads.values())))
            )
        except (ValueError, KeyError, TypeError):
            return None  # no JSON, an integer too large, a field missing or of another type
        return fields if passed else None

    def _knows(self, name: Any) -> bool:
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
