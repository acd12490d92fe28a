"""Has a witness seen this head continue what it saw before? Asks for a cosignature (C2SP tlog-witness)."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from governance.anchors.post import Answer, post
from governance.anchors.sink import Anchored, SinkKind, Target
from governance.errors import InvalidInputError, RefusedError, TamperedError, UnavailableError
from governance.ids import Digest, Micros
from governance.ledger.checkpoint import NOTE_BYTES_MAX, VerifierKey, read_note
from governance.ledger.cosignature import add_signatures, cosigned_at
from governance.ledger.witnessing import format_submission

__all__ = ["WitnessSink"]

_TRIES: Final = 3
"""The first size may be wrong, and again when another process asks at the same time."""
_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,18})\n")
_MICROS: Final = 1_000_000
_OK: Final = 200
_REFUSALS: Final = {
    400: "the request is malformed",
    403: "no key that it knows of this log signed the head",
    404: "it does not witness this log",
}


@dataclass(frozen=True, slots=True)
class WitnessSink:
    """The witness whose submission prefix is `url`; only what is signed by `key` counts."""

    name: str
    url: str
    key: VerifierKey
    kind: SinkKind = SinkKind.WITNESS

    def anchor(self, target: Target) -> Anchored:
        old = target.last
        for _ in range(_TRIES):
            answer = self._submit(old, target)
            if answer.status == _OK:
                return self._take(answer, target)
            seen = self._seen(answer, target)
            if seen == old:
                raise TamperedError(
                    f"witness `{self.name}` has seen another head of {seen} entries",
                    hint="stop writing: two histories of this log are signed; compare with the witness",
                )
            old = seen
        raise UnavailableError(f"witness `{self.name}` names another size each time")

    def _submit(self, old: int, target: Target) -> Answer:
        try:
            proof = target.prove(old)
        except InvalidInputError as exc:
            raise TamperedError(
                f"witness `{self.name}` has seen {old} entries, and no head of that size was signed here",
                hint="this database is an older or another copy: find the newest one",
            ) from exc
        body = format_submission(old, proof, target.note)
        url = f"{self.url.rstrip('/')}/add-checkpoint"
        return post(url, body, "text/plain", NOTE_BYTES_MAX)

    def _seen(self, answer: Answer, target: Target) -> int:
        """The size that the witness has seen, where that is why it did not sign."""
        if answer.status == 422:  # noqa: PLR2004  # fixed by tlog-witness
            raise TamperedError(
                f"witness `{self.name}` finds that the log does not continue what it has seen",
                hint="stop writing, and compare the last anchored head with the log",
            )
        if answer.status in _REFUSALS:
            raise RefusedError(f"witness `{self.name}` refuses: {_REFUSALS[answer.status]}")
        size = _SIZE.fullmatch(answer.body)
        if answer.status != 409 or size is None:  # noqa: PLR2004  # fixed by tlog-witness
            raise UnavailableError(f"witness `{self.name}` answers {answer.status}, and no size")
        if int(size[1]) > target.head.size:
            raise TamperedError(
                f"witness `{self.name}` has seen {int(size[1])} entries, {target.head.size} are here",
                hint="this database is an older copy, unless another process has just asked too",
            )
        return int(size[1])

    def _take(self, answer: Answer, target: Target) -> Anchored:
        """Keep the witness's own line out of its answer, once it is verified."""
        try:
            note = add_signatures(target.note, answer.body.decode())
            at = cosigned_at(note, [self.key]).get(self.key)
            mine = [
                s for s in read_note(note)[1] if (s.name, s.key_id) == (self.key.name, self.key.id)
            ]
        except (InvalidInputError, UnicodeDecodeError) as exc:
            raise RefusedError(f"witness `{self.name}` answers no cosignature") from exc
        if at is None:
            raise RefusedError(f"cosignature of `{self.name}` is not by the pinned key")
        line = mine[0].line
        kept = add_signatures(target.note, line)
        return Anchored(
            Digest(hashlib.sha256(line.encode()).digest()),
            {"note": kept},
            Micros(at * _MICROS),
            line,
        )
