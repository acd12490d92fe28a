"""How does a witness answer over HTTP? `POST /add-checkpoint`, with the status codes of C2SP tlog-witness."""

from dataclasses import dataclass
from typing import Final

from anyio import to_thread
from fastapi import FastAPI, Request, Response

from governance.errors import GovernanceError, InvalidInputError
from governance.ledger.checkpoint import NoteSigner, note_text
from governance.ledger.cosignature import cosign
from governance.ledger.witnessing import (
    SUBMISSION_BYTES_MAX,
    Backwards,
    Fit,
    Inconsistent,
    Refusal,
    Stale,
    UnknownLog,
    Unreadable,
    Unsigned,
    parse_submission,
)
from governance.ports import Clock
from governance.witness.book import Book

__all__ = ["SIZE_TYPE", "Reply", "Witness", "create_witness_app"]

SIZE_TYPE: Final = "text/x.tlog.size"
_TEXT: Final = "text/plain; charset=utf-8"
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str
    media_type: str = _TEXT


@dataclass(frozen=True, slots=True)
class Witness:
    """Whoever holds `signer` and remembers in `book`."""

    book: Book
    signer: NoteSigner
    clock: Clock

    def add_checkpoint(self, body: bytes) -> Reply:
        """Answer one request. What is cosigned is durable in the book first.

        A crash after that loses the answer, not the memory: the same head is cosigned when it is asked
        for again. Raises UnavailableError when the book cannot be used.
        """
        try:
            given = parse_submission(body)
        except InvalidInputError as exc:
            return _reply(Unreadable(exc.message))
        answer, at = self.book.submit(given, self.clock())
        if isinstance(answer, Fit):
            return Reply(200, cosign(note_text(given.note), self.signer, at // _MICROS))
        return _reply(answer)


def _reply(refusal: Refusal) -> Reply:
    match refusal:
        case Unreadable(reason):
            return Reply(400, f"{reason}\n")
        case UnknownLog():
            return Reply(404, "this log is not witnessed here\n")
        case Unsigned(reason):
            return Reply(403, f"{reason}\n")
        case Backwards():
            return Reply(400, "old size is above the size of the checkpoint\n")
        case Stale(size):
            return Reply(409, f"{size}\n", SIZE_TYPE)
        case Inconsistent():
            return Reply(422, "consistency proof does not verify\n")


def create_witness_app(witness: Witness) -> FastAPI:
    """Build the HTTP side of `witness`. There is nothing else to ask it."""
    app = FastAPI(title="witness", docs_url=None, redoc_url=None, openapi_url=None)

    async def add_checkpoint(request: Request) -> Response:
        body = await _read(request)
        if body is None:
            return Response("request is too long\n", 413, media_type=_TEXT)
        try:
            reply = await to_thread.run_sync(witness.add_checkpoint, body)
        except GovernanceError as exc:
            return Response(f"{exc.message}\n", exc.http_status, media_type=_TEXT)
        # Set as a header: starlette would add a charset to a text type, and this one is fixed.
        headers = {"content-type": reply.media_type}
        return Response(reply.text.encode(), reply.status, headers=headers)

    app.add_api_route("/add-checkpoint", add_checkpoint, methods=["POST"])
    return app


async def _read(request: Request) -> bytes | None:
    """Read the body; None when it is longer than any request is."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > SUBMISSION_BYTES_MAX:
            return None
    return bytes(body)
