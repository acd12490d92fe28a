"""When did a head exist, by somebody else's clock? Asks an RFC 3161 authority for a stamp over its text."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from governance.anchors.post import post
from governance.anchors.sink import Anchored, SinkKind, Target
from governance.errors import GovernanceError, RefusedError, UnavailableError
from governance.ids import Digest
from governance.ledger.authorities import Authorities
from governance.ledger.checkpoint import note_text
from governance.ledger.stamp import STAMP_BYTES_MAX, check_stamp, stamp_request

__all__ = ["StampSink"]

_NONCE_BYTES: Final = 8
_QUERY: Final = "application/timestamp-query"
_REPLY: Final = "application/timestamp-reply"
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class StampSink:
    """`authorities` are pinned: a stamp by anybody else does not count."""

    name: str
    url: str
    authorities: Authorities
    draw: Callable[[int], bytes]
    kind: SinkKind = SinkKind.STAMP

    def anchor(self, target: Target) -> Anchored:
        text = note_text(target.note).encode()
        nonce = int.from_bytes(self.draw(_NONCE_BYTES), "big")
        asked = stamp_request(hashlib.sha256(text).digest(), nonce)
        answer = post(self.url, asked, _QUERY, STAMP_BYTES_MAX)
        if answer.status != _OK or answer.media_type != _REPLY:
            raise UnavailableError(
                f"`{self.url}` answers {answer.status} `{answer.media_type}`, not a stamp"
            )
        try:
            stamped = check_stamp(answer.body, text, self.authorities)
        except GovernanceError as exc:
            raise RefusedError(f"stamp of `{self.name}` does not count: {exc.message}") from exc
        if stamped.nonce != nonce:
            raise RefusedError(f"stamp of `{self.name}` answers another request")
        return Anchored(
            Digest(hashlib.sha256(answer.body).digest()),
            {"stamp": base64.b64encode(answer.body).decode()},
            stamped.at,
        )
