"""How does a person answer from a shell? `approvals list | show | approve | reject`."""

from typing import TYPE_CHECKING, Annotated

import typer

from audit_viewer.wording import span
from governance.canonical import JSON
from governance.cli.console import plain, say, show_json, table
from governance.cli.options import AsJson, HomeDir, Secret, Voter
from governance.cli.people import somebody
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.ids import Micros, RequestId, parse_digest, parse_request_id

if TYPE_CHECKING:
    from governance.approval.card import Card
    from governance.approval.model import Approval, Verdict
    from governance.assemble import Governance
    from governance.queue import Pending

__all__ = ["add_to"]

approvals = typer.Typer(no_args_is_help=True, help="Calls that wait for people.")

Request = Annotated[str, typer.Argument(metavar="ID", help="The request's id.")]
Note = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="A note, kept in the log.", show_default=False),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the agent reads it.")]
Seen = Annotated[
    str | None,
    typer.Option(
        "--card",
        metavar="DIGEST",
        help="The digest `show` printed: the answer counts only for that card.",
        show_default=False,
    ),
]
ReadAll = Annotated[
    bool,
    typer.Option(
        "--read-all",
        help="I have read all the arguments, the marked places too. Asked for where they are long or odd.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(approvals, name="approvals")


@approvals.command(name="list")
def list_(*, home: HomeDir = None, json: AsJson = False) -> None:
    """List what waits for an answer, and what was approved but has not run yet; oldest first."""
    from governance.assemble import Governance
    from governance.queue import granted, pending

    with Governance.without_rules(home) as governance:
        now = governance.clock()
        waiting, approved = pending(governance.store, now), granted(governance.store, now)
    if json:
        return show_json(
            {"pending": [_line(i) for i in waiting], "granted": [_line(i) for i in approved]}
        )
    if not waiting and not approved:
        say("nothing waits for an answer")
        return None
    rows = [_row(i, "pending", now) for i in waiting] + [_row(i, "granted", now) for i in approved]
    say(table(("request", "state", "tool", "tier", "agent", "seats", "time left"), rows))
    return None


@approvals.command()
def show(id: Request, *, home: HomeDir = None, json: AsJson = False) -> None:
    """Show exactly the call that would run, why it was held, and the digest a vote names."""
    from governance.assemble import Governance
    from governance.queue import card

    with Governance.without_rules(home) as governance:
        shown = card(governance.store, parse_request_id(id))
    if json:
        return show_json({"card": shown.to_json(), "digest": shown.digest.hex()})
    from governance.cli.card_view import render

    say(*render(shown))
    return None


@approvals.command()
def approve(  # noqa: PLR0913  # each is an option of the command line
    id: Request,
    *,
    voter: Voter,
    reason: Note = None,
    card: Seen = None,
    read_all: ReadAll = False,
    token: Secret = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Say yes to exactly this call, once."""
    from governance.approval.model import Verdict
    from governance.assemble import Governance
    from governance.web.views import CardView

    with Governance.without_rules(home) as governance:
        shown = _card(governance, parse_request_id(id), card)
        if CardView.of(shown).must_read and not read_all:
            raise RefusedError(
                "these arguments are long, or not what they look like",
                hint=f"read them with `governance approvals show {id}`, then add --read-all",
            )
        answer = _vote(governance, shown, Verdict.APPROVE, reason, (voter, token))
    _tell(shown, answer, json=json)


@approvals.command()
def reject(  # noqa: PLR0913  # each is an option of the command line
    id: Request,
    *,
    voter: Voter,
    reason: Reason,
    card: Seen = None,
    token: Secret = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Say no. The agent reads the reason and goes on without the call."""
    from governance.approval.model import Verdict
    from governance.assemble import Governance

    if not reason.strip():
        raise InvalidInputError("rejection gives no reason", hint="say why; the agent reads it")
    with Governance.without_rules(home) as governance:
        shown = _card(governance, parse_request_id(id), card)
        answer = _vote(governance, shown, Verdict.REJECT, reason, (voter, token))
    _tell(shown, answer, json=json)


def _card(governance: "Governance", request: RequestId, seen: str | None) -> "Card":
    from governance.queue import card

    shown = card(governance.store, request)
    if seen is not None and shown.digest != parse_digest(seen):
        raise ConflictError(f"the card of `{request}` is not the one you saw", hint="look again")
    return shown


def _vote(
    governance: "Governance",
    shown: "Card",
    verdict: "Verdict",
    note: str | None,
    who: tuple[str, str | None],
) -> "Approval":
    from governance.queue import Ballot, vote

    person = somebody(governance.store, *who)
    ballot = Ballot(
        request=shown.request,
        voter=person.subject,
        verdict=verdict,
        meaning=verdict.value,
        note=note,
        card=shown.digest,
    )
    return vote(governance.store, governance.clock, governance.signer, ballot)


def _tell(shown: "Card", answer: "Approval", *, json: bool) -> None:
    state, digest = answer.state.value, shown.digest.hex()
    if json:
        return show_json({"request": answer.request, "state": state, "card": digest})
    say(f"{plain(shown.call.tool)} {plain(shown.call.arguments)}")
    say(f"card {digest}")
    say(f"{answer.request}: {state}")
    return None


def _row(item: "Pending", state: str, now: Micros) -> tuple[str, ...]:
    seats = ", ".join(f"{filled}/{seat.count} {seat.role}" for seat, filled in item.seats)
    until = item.decide_by if item.use_by is None else item.use_by
    return (
        item.request,
        state,
        plain(item.tool),
        item.tier,
        item.agent,
        seats,
        span(until - now),
    )


def _line(item: "Pending") -> dict[str, JSON]:
    return {
        "request": item.request,
        "run": item.run,
        "uid": item.uid,
        "tool": item.tool,
        "agent": item.agent,
        "principal": item.principal,
        "tier": item.tier,
        "rules": list(item.rules),
        "seats": [{"role": s.role, "count": s.count, "filled": n} for s, n in item.seats],
        "requested_at": item.requested_at,
        "decide_by": item.decide_by,
        "use_by": item.use_by,
    }
