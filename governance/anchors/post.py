"""How is a sink asked over HTTP? One bounded POST, whose answer is nobody's word yet."""

from dataclasses import dataclass
from typing import Final

import httpx2

from governance.errors import UnavailableError

__all__ = ["Answer", "post"]

TIMEOUT_S: Final = 10.0
_MEDIA_TYPE_CHARS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    media_type: str
    body: bytes


def post(url: str, body: bytes, media_type: str, limit: int) -> Answer:
    """POST `body`, follow nowhere, read at most `limit` bytes. Raises UnavailableError."""
    headers = {"content-type": media_type}
    try:
        with (
            httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            read = bytearray()
            for chunk in answer.iter_bytes():
                read += chunk
                if len(read) > limit:
                    raise UnavailableError(f"`{url}` answers more than {limit} bytes")
            kind = answer.headers.get("content-type", "")[:_MEDIA_TYPE_CHARS_MAX]
            return Answer(answer.status_code, kind.partition(";")[0].strip(), bytes(read))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
        raise UnavailableError(
            f"`{url}` cannot be reached: `{type(exc).__name__}`", hint="look whether it is up"
        ) from exc
