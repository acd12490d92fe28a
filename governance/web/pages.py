"""The queue for people: sign in, see what waits, read one card, answer it. Server-rendered pages.

A GET shows and never decides. A POST needs the session, the form's anti-forgery token and, for an
answer, the digest of the card that was on the screen.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from governance.approval.model import State, Verdict
from governance.errors import ConflictError, GovernanceError, InvalidInputError, RefusedError
from governance.ids import Micros, RequestId
from governance.people import token_digest
from governance.ports import Person
from governance.queue import NOTE_CHARS_MAX, Ballot, vote
from governance.web.desk import (
    Desk,
    DeskDep,
    Fields,
    FormDep,
    SignInNeededError,
    only,
    read_ballot,
    read_request,
)
from governance.web.guard import is_private
from governance.web.views import CardView, find_card, list_queue, look, told

__all__ = ["SignIn", "cookie_name", "problem_page", "router"]

router = APIRouter(default_response_class=HTMLResponse)

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NEXT: Final = re.compile(r"/requests/[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_LOGIN_FIELDS: Final = frozenset({"forgery", "token", "next"})
_VOTE_FIELDS: Final = frozenset({"forgery", "verdict", "meaning", "note", "card", "read"})
_SEE_OTHER: Final = 303


@dataclass(frozen=True, slots=True)
class SignIn:
    """Who is signed in, under which session, at the moment this request is served."""

    session: str
    person: Person
    now: Micros


def _signed_in(request: Request, desk: DeskDep) -> SignIn:
    now = desk.clock()
    id = _cookie(request)
    session = desk.sessions.find(id, now)
    person = desk.person(session) if session is not None else None
    if person is None:
        desk.sessions.end(id)
        raise SignInNeededError(
            "you are not signed in, or not any more", hint="sign in and look again"
        )
    return SignIn(id, person, now)


SignInDep = Annotated[SignIn, Depends(_signed_in)]


@router.get("/login")
def show_login(request: Request, desk: DeskDep, next: str = "/") -> Response:
    id = _cookie(request)
    if desk.sessions.find(id, desk.clock()) is not None:
        return RedirectResponse("/", _SEE_OTHER)
    return _login_page(request, desk, id or desk.sessions.new_id(), next)


@router.post("/login")
def login(request: Request, desk: DeskDep, fields: FormDep) -> Response:
    only(fields, _LOGIN_FIELDS)
    before, now = _cookie(request), desk.clock()
    _check_forgery(desk, before, fields)
    next = str(fields.get("next", "/"))
    address = request.client.host if request.client else ""
    token = str(fields.get("token", "")).strip()
    try:
        desk.sign_in(token, address, now)
    except RefusedError as exc:
        return _login_page(request, desk, before, next, exc)
    desk.sessions.end(before)
    answer = RedirectResponse(_safe_next(next), _SEE_OTHER)
    _set_cookie(request, answer, desk.sessions.open(token_digest(token), now))
    return answer


@router.post("/logout")
def logout(request: Request, desk: DeskDep, fields: FormDep, who: SignInDep) -> Response:
    _check_forgery(desk, who.session, fields)
    desk.sessions.end(who.session)
    answer = RedirectResponse("/login", _SEE_OTHER)
    answer.delete_cookie(
        cookie_name(request), secure=is_private(request.scope), httponly=True, samesite="strict"
    )
    return answer


@router.get("/")
def show_queue(desk: DeskDep, who: SignInDep, voted: str = "") -> Response:
    """List what waits. `voted` names a request just answered: what became of it is read from the log."""
    notice = ""
    if voted:
        notice = told(look(desk.store, read_request(voted), who.person, who.now), who.person)
    queue = list_queue(desk.store, who.now)
    return _page(desk, "queue.html", who, queue=queue, notice=notice)


@router.get("/requests/{id}")
def show_request(id: str, desk: DeskDep, who: SignInDep) -> Response:
    return _card_page(desk, read_request(id), who)


@router.post("/requests/{id}/votes")
def cast_vote(id: str, desk: DeskDep, who: SignInDep, fields: FormDep) -> Response:
    _check_forgery(desk, who.session, fields)
    request = read_request(id)
    try:
        only(fields, _VOTE_FIELDS)
        ballot = read_ballot(request, who.person.subject, fields)
        _check_read(desk, ballot, fields)
        vote(desk.store, desk.clock, desk.signer, ballot)
    except (ConflictError, InvalidInputError) as exc:
        return _card_page(desk, request, who, exc, str(fields.get("note", "")))
    return RedirectResponse(f"/?voted={request}", _SEE_OTHER)


def _check_read(desk: Desk, ballot: Ballot, fields: Fields) -> None:
    """Take no yes to long or deceptive arguments from somebody who does not say they read them."""
    card = find_card(desk.store, ballot.request)
    if card.digest != ballot.card:
        raise ConflictError(
            "this card is not the one you answered; nothing was recorded",
            hint="read the card below, as it is now, and answer again",
        )
    read = fields.get("read") == "all"
    if ballot.verdict is Verdict.APPROVE and not read and CardView.of(card).must_read:
        raise InvalidInputError(
            "these arguments are long or hold marked characters, and nothing says you read them",
            hint="read them to the end and tick the box",
        )


def _check_forgery(desk: Desk, session: str, fields: Fields) -> None:
    token = fields.get("forgery")
    if not session or not isinstance(token, str) or not desk.sessions.genuine(session, token):
        raise RefusedError(
            "this form did not come from a page of yours, or that page is too old",
            hint="open the page again and answer there",
        )


def _card_page(
    desk: Desk,
    request: RequestId,
    who: SignIn,
    problem: GovernanceError | None = None,
    note: str = "",
) -> Response:
    view = look(desk.store, request, who.person, who.now)
    return _page(
        desk,
        "card.html",
        who,
        status=problem.http_status if problem else 200,
        view=view,
        card=view.card,
        layout=CardView.of(view.card),
        problem=problem,
        note=note,
        note_max=NOTE_CHARS_MAX,
        pending=view.state is State.PENDING,
        cannot={verdict.value: error for verdict, error in view.obstacles.items()},
    )


def _login_page(
    request: Request, desk: Desk, id: str, next: str, problem: RefusedError | None = None
) -> Response:
    """Show the form under an id that signs nobody in, so that its anti-forgery token has a session."""
    text = desk.pages.get_template("login.html").render(
        origin=desk.store.origin,
        now=desk.clock(),
        person=None,
        forgery=desk.sessions.forgery_token(id),
        next=_safe_next(next),
        problem=problem,
    )
    answer = HTMLResponse(text, problem.http_status if problem else 200)
    _set_cookie(request, answer, id)
    return answer


def problem_page(desk: Desk, error: GovernanceError, title: str, status: int) -> Response:
    """Say what went wrong and what to do next; nobody need be signed in for that."""
    signed_out = status == SignInNeededError.http_status
    text = desk.pages.get_template("problem.html").render(
        origin=desk.store.origin,
        now=desk.clock(),
        person=None,
        title=title,
        message=error.message,
        hint=error.hint,
        status=status,
        target="/login" if signed_out else "/",
        target_name="Sign in" if signed_out else "Go to the queue",
    )
    return HTMLResponse(text, status)


def _page(
    desk: Desk, template: str, who: SignIn, *, status: int = 200, **values: object
) -> Response:
    text = desk.pages.get_template(template).render(
        origin=desk.store.origin,
        now=who.now,
        person=who.person,
        forgery=desk.sessions.forgery_token(who.session),
        **values,
    )
    return HTMLResponse(text, status)


def cookie_name(request: Request) -> str:
    """Over https the browser itself holds the cookie to this host and path (RFC 6265bis `__Host-`)."""
    return "__Host-governance" if is_private(request.scope) else "governance"


def _cookie(request: Request) -> str:
    given = request.cookies.get(cookie_name(request), "")
    return given if _ID.fullmatch(given) else ""


def _set_cookie(request: Request, answer: Response, id: str) -> None:
    answer.set_cookie(
        cookie_name(request),
        id,
        path="/",
        secure=is_private(request.scope),
        httponly=True,
        samesite="strict",
    )


def _safe_next(next: str) -> str:
    return next if _NEXT.fullmatch(next) else "/"
