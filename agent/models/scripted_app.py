"""How a scripted model behaves on the wire: routes, faults and the running of uvicorn.

This module loads the web stack; `scripted` loads it when a server is started.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import anyio
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from agent.models.play import Answer, Refusal, respond
from agent.models.script import Delay, Disconnect, Garbage, Script, Status, Strike
from governance.canonical import PAYLOAD_BYTES_MAX, parse_json, payload_bytes
from governance.errors import InvalidInputError

__all__ = ["Server", "create_app"]

SHUTDOWN_S_MAX: Final = 1
_HALF_A_DOCUMENT: Final = b'{"id": "scripted", "choices": [{"message": {"role": "assist'
_RATE_LIMITED: Final = 429


class Server(uvicorn.Server):
    """uvicorn, telling when it listens. Its logging is left as the process has it."""

    def __init__(self, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                timeout_graceful_shutdown=SHUTDOWN_S_MAX,
            )
        )
        self._ready = ready

    async def startup(self, sockets: "list[Any] | None" = None) -> None:
        await super().startup(sockets)
        self._ready()


def create_app(script: Script, requests: list[Any]) -> FastAPI:
    """Serve `script`. Every chat completion request that is JSON is appended to `requests`."""
    app = FastAPI(openapi_url=None)
    struck: Counter[str] = Counter()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        if (refused := _check_key(script, request)) is not None:
            return refused
        try:
            body = parse_json(await request.body(), limit=PAYLOAD_BYTES_MAX)
        except InvalidInputError as exc:
            return _error(400, "invalid_request", exc.message)
        requests.append(body)
        match respond(script, body, struck):
            case Answer() as answer:
                return _json(200, answer.to_json())
            case Refusal(status, code, message):
                return _error(status, code, message)
            case Strike() as strike:
                struck[strike.place] += 1
                return await _suffer(strike, request)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        if (refused := _check_key(script, request)) is not None:
            return refused
        model = {
            "id": script.model or "scripted",
            "object": "model",
            "created": 0,
            "owned_by": "script",
        }
        return _json(200, {"object": "list", "data": [model]})

    return app


async def _suffer(strike: Strike, request: Request) -> Response:
    match strike.fault:
        case Status(status, body, retry_after):
            headers = {} if retry_after is None else _retry_headers(retry_after)
            if body is not None:
                return Response(body, status, headers, "application/json")
            return _error(status, _code_of(status), "as the script says", headers)
        case Delay(seconds):
            with anyio.move_on_after(seconds):
                await _hung_up(request)
            return _error(504, "timeout", "as the script says")
        case Garbage():
            return Response(_HALF_A_DOCUMENT, media_type="application/json")
        case Disconnect():
            return _Cut()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Cut(Response):
    """Promises a body, sends half of it; uvicorn then drops the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        size = str(2 * len(_HALF_A_DOCUMENT)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _HALF_A_DOCUMENT, "more_body": True})


def _check_key(script: Script, request: Request) -> Response | None:
    if script.api_key is None:
        return None
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and given == script.api_key:
        return None
    # Real providers repeat the key they were given; clients must not pass that on.
    return _error(401, "invalid_api_key", f"incorrect API key provided: {given}")


def _code_of(status: int) -> str:
    return "rate_limit_exceeded" if status == _RATE_LIMITED else f"status_{status}"


def _retry_headers(seconds: float) -> dict[str, str]:
    """Both spellings: the standard one has no fractions, and clients take 0 for "say nothing"."""
    milliseconds = max(1, math.ceil(seconds * 1000))
    return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(milliseconds)}


def _error(
    status: int, code: str, message: str, headers: "dict[str, str] | None" = None
) -> Response:
    error = {"message": message, "type": "scripted_error", "param": None, "code": code}
    return _json(status, {"error": error}, headers)


def _json(status: int, value: object, headers: "dict[str, str] | None" = None) -> Response:
    return Response(payload_bytes(value), status, headers, "application/json")
