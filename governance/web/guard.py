"""Which requests may reach the queue at all, and what does every answer carry? The outermost layer.

In this order: a host name that is ours (DNS rebinding), a body of bounded size, and for whatever is not
GET or HEAD a request from our own pages. Every answer, refusals and failures included, leaves with the
same security headers; a fault in a handler becomes a page that says nothing about the inside.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governance.errors import GovernanceError, InvalidInputError, RefusedError

__all__ = ["BODY_BYTES_MAX", "LOOPBACK", "Guard", "TooLargeError", "host_name", "is_private"]

BODY_BYTES_MAX: Final = 64 * 1024
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "connect-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_HTTPS_ONLY: Final = {"strict-transport-security": "max-age=31536000"}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_LOG: Final = logging.getLogger("governance.web")


class TooLargeError(InvalidInputError):
    """A body beyond the limit."""

    http_status = 413


def host_name(authority: str) -> str:
    """Take the port off a Host header: `[::1]:8000` -> `[::1]`."""
    name, colon, port = authority.rpartition(":")
    return (name if colon and port.isdigit() else authority).lower()


def is_private(scope: Scope) -> bool:
    """Tell whether the browser reached us over https, here or at a proxy before us.

    Names other than the loopback ones are served over https only, so the name decides; a header that
    anybody can send does not.
    """
    return scope["scheme"] == "https" or host_name(Headers(scope=scope)["host"]) not in LOOPBACK


Answer = Callable[[Request, GovernanceError | None], Response]
"""How a refusal looks; None is a fault of ours."""


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware around everything. `hosts` are served beside the loopback names."""

    app: ASGIApp
    hosts: frozenset[str]
    answer: Answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message, scope)
            await send(message)

        try:
            check_host(scope, self.hosts)
            check_origin(scope)
            body = await _read_body(scope, receive)
        except GovernanceError as exc:
            await self.answer(Request(scope), exc)(scope, receive, send_guarded)
            return
        try:
            await self.app(scope, _replay(body, receive), send_guarded)
        except Exception:  # noqa: BLE001 - nothing may leave here without the headers
            # The last resort: whoever asked learns nothing about the inside, the operator all of it.
            _LOG.exception("request failed")
            if not started:
                await self.answer(Request(scope), None)(scope, receive, send_guarded)


def check_host(scope: Scope, hosts: frozenset[str]) -> None:
    """Serve our own names only, so that a foreign name pointed at this address gets nothing."""
    given = Headers(scope=scope).getlist("host")
    if len(given) != 1 or host_name(given[0]) not in LOOPBACK | hosts:
        raise RefusedError(
            f"host `{', '.join(given)[:80]}` is not served here",
            hint="open the queue under localhost or a configured host name",
        )


def check_origin(scope: Scope) -> None:
    """Refuse whatever changes something and comes from a page that is not ours.

    A browser tells where a request comes from. Our pages send no referrer, for which reason the Origin
    of their forms is `null` (Fetch standard, "append a request Origin header"); then Sec-Fetch-Site,
    which no page can set, must say same-origin. A client that sends neither header is no browser: the
    anti-forgery token or the bearer token decides alone.
    """
    if scope["method"] in _SAFE_METHODS:
        return
    headers = Headers(scope=scope)
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    scheme = "https" if is_private(scope) else "http"
    ours = f"{scheme}://{headers['host'].lower()}"
    same_site = site in {None, "same-origin"}
    same_origin = origin in {None, ours} or (origin == "null" and site == "same-origin")
    if not (same_site and same_origin):
        raise RefusedError(
            f"request comes from another site: `{(origin or site or '')[:80]}`",
            hint="open the queue itself and answer there",
        )


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """Read the whole body, within the limit, whatever its declared length says."""
    if scope["method"] in _SAFE_METHODS:
        return b""
    declared = Headers(scope=scope).get("content-length", "0")
    body = bytearray()
    more = declared.isdecimal() and int(declared[:20]) <= BODY_BYTES_MAX
    if not more:
        raise _too_large()
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > BODY_BYTES_MAX:
            raise _too_large()
    return bytes(body)


def _too_large() -> TooLargeError:
    return TooLargeError(f"body is larger than {BODY_BYTES_MAX} bytes", hint="send a shorter note")


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _add_headers(message: Message, scope: Scope) -> None:
    headers = MutableHeaders(scope=message)
    host = Headers(scope=scope).get("host")
    for name, value in HEADERS.items():
        headers[name] = value
    if host is not None and is_private(scope):
        for name, value in _HTTPS_ONLY.items():
            headers[name] = value
