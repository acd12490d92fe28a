"""How is the approval queue put together? Routes, templates, the guard around them, and how errors look."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from governance.errors import (
    ConflictError,
    GovernanceError,
    InvalidInputError,
    RefusedError,
    TamperedError,
    UnavailableError,
)
from governance.ledger.entry import ErasedError
from governance.ports import Clock, Signer, Store
from governance.web import api, pages
from governance.web.desk import Desk, SignInNeededError, TooManyAttemptsError
from governance.web.guard import Guard
from governance.web.reveal import printable, reveal
from governance.web.sessions import LOGIN_WINDOW_S, Attempts, Sessions
from governance.web.views import UnknownRequestError
from governance.web.wording import iso, moment, origin, outcome, sentence, span

__all__ = ["WebSettings", "create_app"]

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Under which names the queue is reached beside the loopback ones. Those need https, always."""

    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise InvalidInputError(
                    f"malformed host name: `{host[:80]}`",
                    hint="give the bare name, without scheme, port or wildcard",
                )


def create_app(
    store: Store,
    *,
    signer: Signer,
    clock: Clock,
    draw: Callable[[int], bytes],
    settings: WebSettings,
) -> FastAPI:
    """Build the queue over `store`. `draw(n)` gives n unpredictable bytes.

    Sessions live in the app: one process serves them.
    """
    app = FastAPI(title="governance", docs_url=None, redoc_url=None, openapi_url=None)
    desk = Desk(store, signer, clock, Sessions(draw), Attempts(), _templates())
    app.state.desk = desk
    app.include_router(api.router)
    app.include_router(pages.router)
    for name, media_type in _STATIC.items():
        app.add_api_route(f"/{name}", _static(name, media_type), methods=["GET"])

    def answer(request: Request, error: GovernanceError | None) -> Response:
        return _answer(desk, request, error or _FAULT)

    def on_governance(request: Request, error: Exception) -> Response:
        return answer(request, error if isinstance(error, GovernanceError) else None)

    def on_http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return answer(request, _no_page(request, status))

    app.add_exception_handler(GovernanceError, on_governance)
    app.add_exception_handler(HTTPException, on_http)
    app.add_middleware(
        Guard, hosts=frozenset(name.lower() for name in settings.hosts), answer=answer
    )
    return app


_STATIC: Final = {"queue.css": "text/css", "queue.js": "text/javascript"}


def _static(name: str, media_type: str) -> Callable[[], Response]:
    content = (files("governance.web") / "static" / name).read_bytes()

    def serve_file() -> Response:
        return Response(content, media_type=media_type)

    return serve_file


def _templates() -> Environment:
    pages = Environment(
        loader=PackageLoader("governance.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "reveal": reveal,
        "plain": printable,
        "moment": moment,
        "span": span,
        "sentence": sentence,
        "iso": iso,
        "origin": origin,
        "outcome": outcome,
        "place": lambda uid: uid.rpartition("/")[2],
    }
    return pages


class _NoPageError(RefusedError):
    http_status = 404


class _WrongMethodError(RefusedError):
    http_status = 405


_FAULT: Final = GovernanceError(
    "something went wrong here; the operator finds it in the log of the server",
    hint="look whether your answer is in the queue before you give it again",
)


def _no_page(request: Request, status: int) -> GovernanceError | None:
    path = request.url.path[:80]
    match status:
        case 404:
            return _NoPageError(f"there is nothing at `{path}`", hint="start from the queue")
        case 405:
            return _WrongMethodError(
                f"`{request.method[:16]}` is not for `{path}`", hint="use the forms of the pages"
            )
        case _:
            return None


_FAMILIES: Final[tuple[tuple[type[GovernanceError], str, str], ...]] = (
    (SignInNeededError, "refused", "Please sign in"),
    (TooManyAttemptsError, "refused", "Too many attempts"),
    (UnknownRequestError, "refused", "No such request"),
    (_NoPageError, "refused", "Nothing here"),
    (ErasedError, "erased", "Erased"),
    (InvalidInputError, "invalid-input", "That could not be read"),
    (RefusedError, "refused", "Refused"),
    (ConflictError, "conflict", "Somebody was first"),
    (TamperedError, "tampered", "The log contradicts itself"),
    (UnavailableError, "unavailable", "Not available now"),
    (GovernanceError, "fault", "Something went wrong"),
)


def _answer(desk: Desk, request: Request, error: GovernanceError) -> Response:
    """Give an error the look that who asked can read: JSON to programs, a page to people."""
    status, path = error.http_status, request.url.path
    answer: Response
    kind, title = next((k, t) for family, k, t in _FAMILIES if isinstance(error, family))
    if path.startswith("/api/") or path in {"/healthz", "/health", "/metrics"}:
        answer = api.error_answer(error, kind, status)
    elif isinstance(error, SignInNeededError) and request.method == "GET":
        query = "" if path == "/" else f"?next={quote(path, safe='/:@')}"
        answer = RedirectResponse(f"/login{query}", status_code=303)
    else:
        answer = pages.problem_page(desk, error, title, status)
    if isinstance(error, TooManyAttemptsError):
        answer.headers["retry-after"] = str(LOGIN_WINDOW_S)
    return answer
