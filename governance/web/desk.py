"""What does every handler need at hand, and how is what a client sent read? One value, made once per app.

Bodies are read strictly: one declared type, every field at most once and known by name, no lone
surrogates. The guard has bounded them before.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from jinja2 import Environment

from governance.approval.model import Verdict
from governance.canonical import parse_json
from governance.errors import InvalidInputError, RefusedError
from governance.ids import Micros, RequestId, SubjectId, parse_digest, parse_request_id
from governance.people import authenticate, holder
from governance.ports import Clock, Person, Signer, Store
from governance.queue import Ballot
from governance.web.sessions import LOGIN_WINDOW_S, Attempts, Session, Sessions
from governance.web.views import UnknownRequestError

__all__ = [
    "BadTokenError",
    "Desk",
    "DeskDep",
    "Fields",
    "FormDep",
    "JsonDep",
    "SignInNeededError",
    "TooManyAttemptsError",
    "WrongTypeError",
    "only",
    "read_ballot",
    "read_request",
]

FORM_FIELDS_MAX: Final = 16
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_JSON_TYPE: Final = "application/json"


class SignInNeededError(RefusedError):
    """Nobody is signed in, or not any more."""

    http_status = 401


class BadTokenError(RefusedError):
    """A token that signs nobody in. Whose it may have been is not told."""

    http_status = 401


class TooManyAttemptsError(RefusedError):
    """An address has to wait, whatever it brings."""

    http_status = 429


class WrongTypeError(InvalidInputError):
    """A body of another media type than the one we read here."""

    http_status = 415


@dataclass(frozen=True, slots=True)
class Desk:
    """The things a handler works with."""

    store: Store
    signer: Signer
    clock: Clock
    sessions: Sessions
    attempts: Attempts
    pages: Environment

    def sign_in(self, token: str, address: str, now: Micros) -> Person:
        """Find whose `token` this is.

        Raises BadTokenError, the same for every wrong token, and TooManyAttemptsError after too many of
        them, for right ones too.
        """
        if self.attempts.exhausted(address, now):
            raise TooManyAttemptsError(
                "too many failed attempts from this address",
                hint=f"wait {LOGIN_WINDOW_S // 60} minutes and try again",
            )
        person = authenticate(self.store, token)
        if person is None:
            self.attempts.failed(address, now)
            raise BadTokenError(
                "this token signs nobody in",
                hint="check it, or ask an operator for a new one",
            )
        return person

    def person(self, session: Session) -> Person | None:
        """Look up who is signed in, with the rights they have now; None once they or their token are void."""
        return holder(self.store, session.token)


def _desk(request: Request) -> Desk:
    return cast("Desk", request.app.state.desk)


Fields = Mapping[str, Any]


async def _form(request: Request) -> Fields:
    body = await _body(request, _FORM_TYPE)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError as exc:
        raise InvalidInputError("form cannot be read", hint="send the page's own form") from exc
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidInputError("form names a field twice", hint="send the page's own form")
    return fields


async def _json(request: Request) -> Fields:
    value: object = parse_json(await _body(request, _JSON_TYPE))
    if type(value) is not dict:
        raise InvalidInputError("body is not a JSON object", hint="send an object")
    return cast("dict[str, Any]", value)


async def _body(request: Request, wanted: str) -> bytes:
    given = request.headers.get("content-type", "")
    if given.split(";", 1)[0].strip().lower() != wanted:
        raise WrongTypeError(f"body of type `{given[:80]}` is not read here", hint=f"send {wanted}")
    return await request.body()


DeskDep = Annotated[Desk, Depends(_desk)]
FormDep = Annotated[Fields, Depends(_form)]
JsonDep = Annotated[Fields, Depends(_json)]


def read_request(text: str) -> RequestId:
    """Read a request id from a path. Raises UnknownRequestError: a malformed id names nothing."""
    try:
        return parse_request_id(text)
    except InvalidInputError as exc:
        raise UnknownRequestError(
            f"no approval request is called `{text[:80]}`", hint="look for it in the queue"
        ) from exc


def read_ballot(request: RequestId, voter: SubjectId, fields: Fields) -> Ballot:
    """Read an answer. Every field is text and only these are known; a rejection needs its reason.

    Raises InvalidInputError.
    """
    given = {name: _text(fields, name) for name in ("verdict", "meaning", "note", "card")}
    verdict = _verdict(given["verdict"])
    note = given["note"].replace("\r\n", "\n").strip()
    if verdict is Verdict.REJECT and not note:
        raise InvalidInputError(
            "rejection gives no reason", hint="say why; the agent reads it and acts on it"
        )
    return Ballot(
        request=request,
        voter=voter,
        verdict=verdict,
        meaning=given["meaning"],
        note=note or None,
        card=parse_digest(given["card"]),
    )


def _verdict(text: str) -> Verdict:
    try:
        return Verdict(text)
    except ValueError as exc:
        raise InvalidInputError(
            f"unknown verdict: `{text[:80]}`", hint="answer approve or reject"
        ) from exc


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if type(value) is not str:
        raise InvalidInputError(f"field `{name}` is missing or not text", hint="send it as text")
    return value


def only(fields: Fields, known: Collection[str]) -> None:
    """Refuse fields nobody reads: whoever sends them expects something that would not happen."""
    odd = sorted(set(fields) - set(known))
    if odd:
        raise InvalidInputError(
            f"unknown field: `{odd[0][:80]}`", hint=f"send only: {', '.join(sorted(known))}"
        )
