"""The queue for programs: list, look, vote, in JSON. A personal token as bearer; cookies count for nothing.

No anti-forgery token is needed, since no browser sends this header by itself. Errors are
`{"error": {"kind", "message", "hint"}}` with the status of their family.
"""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from governance.canonical import JSON, payload_bytes
from governance.errors import GovernanceError
from governance.ports import Person
from governance.queue import Pending, granted, pending, vote
from governance.web.desk import (
    DeskDep,
    JsonDep,
    SignInNeededError,
    only,
    read_ballot,
    read_request,
)
from governance.web.views import find_card, look

__all__ = ["error_answer", "router"]

router = APIRouter()

_BALLOT_FIELDS: Final = frozenset({"verdict", "meaning", "note", "card"})


def _bearer(request: Request, desk: DeskDep) -> Person:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise SignInNeededError(
            "this address needs a personal token", hint="send it as `Authorization: Bearer …`"
        )
    address = request.client.host if request.client else ""
    return desk.sign_in(token, address, desk.clock())


BearerDep = Annotated[Person, Depends(_bearer)]


@router.get("/healthz")
def healthz(desk: DeskDep) -> Response:
    """Tell that the queue serves and its log can be read."""
    desk.store.read(lambda reader: reader.head())
    return _answer({"ok": True})


@router.get("/api/requests")
def list_requests(desk: DeskDep, _person: BearerDep) -> Response:
    now = desk.clock()
    return _answer(
        {
            "pending": [_line(item) for item in pending(desk.store, now)],
            "granted": [_line(item) for item in granted(desk.store, now)],
        }
    )


@router.get("/api/requests/{id}")
def show_request(id: str, desk: DeskDep, person: BearerDep) -> Response:
    """Show a card and its digest: what a vote on it has to name."""
    view = look(desk.store, read_request(id), person, desk.clock())
    votes: list[JSON] = [
        {
            "voter": vote.voter,
            "roles": list(vote.roles),
            "verdict": vote.verdict.value,
            "meaning": vote.meaning,
            "at": vote.at,
            "note": vote.note,
        }
        for vote in view.card.votes
    ]
    return _answer(
        {
            "card": view.card.to_json(),
            "digest": view.card.digest.hex(),
            "state": view.state.value,
            "votes": votes,
        }
    )


@router.post("/api/requests/{id}/votes")
def cast_vote(id: str, desk: DeskDep, person: BearerDep, fields: JsonDep) -> Response:
    only(fields, _BALLOT_FIELDS)
    request = read_request(id)
    find_card(desk.store, request)
    ballot = read_ballot(request, person.subject, fields)
    approval = vote(desk.store, desk.clock, desk.signer, ballot)
    return _answer({"request": approval.request, "state": approval.state.value})


def error_answer(error: GovernanceError, kind: str, status: int) -> Response:
    body: JSON = {"error": {"kind": kind, "message": error.message, "hint": error.hint}}
    headers = {"www-authenticate": "Bearer"} if status == SignInNeededError.http_status else {}
    return _answer(body, status, headers)


def _line(item: Pending) -> dict[str, JSON]:
    return {
        "request": item.request,
        "run": item.run,
        "uid": item.uid,
        "tool": item.tool,
        "agent": item.agent,
        "tier": item.tier,
        "rules": list(item.rules),
        "seats": [{"role": s.role, "count": s.count, "filled": n} for s, n in item.seats],
        "requested_at": item.requested_at,
        "decide_by": item.decide_by,
        "principal": item.principal,
        "use_by": item.use_by,
    }


def _answer(value: JSON, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(payload_bytes(value), status, headers, "application/json")
