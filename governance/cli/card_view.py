"""What does an approval card look like in a terminal? All of it, and nothing in disguise."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from governance.approval.card import Card
from governance.cli.console import FAINT, facts, moment, plain, table, visible
from governance.policy.model import Demands
from governance.web.reveal import Segment
from governance.web.views import CardView
from governance.web.wording import outcome

__all__ = ["render"]

_TIERS = {"low": "green", "medium": "yellow", "high": "red", "critical": "bold red"}
_MARKED = "reverse yellow"


def render(card: Card) -> tuple[RenderableType, ...]:
    """Lay out `card`, part by part."""
    view = CardView.of(card)
    return (
        _title(card),
        "",
        *_warning(view),
        *_arguments(view),
        "",
        facts(_why(card, view)),
        "",
        *_before(card),
        facts(_evidence(card)),
    )


def _title(card: Card) -> Text:
    behalf = f" for {plain(card.principal)}" if card.principal is not None else ""
    return Text.assemble(
        (plain(card.call.tool), "bold"),
        (f"  {card.hold.tier}", _TIERS.get(card.hold.tier, "red")),
        f"  asked by {plain(card.agent)}{behalf}",
    )


def _warning(view: CardView) -> tuple[RenderableType, ...]:
    if not view.oddities:
        return ()
    words = f"! not all of this is what it looks like: {view.oddities}; each place is marked <U+…>"
    return (Text(words, style="yellow"), "")


def _arguments(view: CardView) -> tuple[RenderableType, ...]:
    rows = [
        (
            _segments(leaf.path),
            _segments(leaf.value) if leaf.value else Text("empty text", style=FAINT),
            leaf.kind,
            leaf.origin,
        )
        for leaf in view.leaves
    ]
    exact = Text("".join(s.escape if s.deceptive else s.text for s in view.exact))
    return (
        table(("argument", "value", "type", "seen before in"), rows),
        "",
        Text(f"exact JSON, {view.size} bytes:", style=FAINT),
        exact,
    )


def _segments(segments: Iterable[Segment]) -> Text:
    """Draw each marked place by its code, a look-alike beside it."""
    text = Text()
    for segment in segments:
        if segment.mark is None:
            text.append(segment.text)
        else:
            seen = segment.text if segment.visible else ""
            text.append(f"{seen}<{segment.label}>", style=_MARKED)
    return text


def _why(card: Card, view: CardView) -> dict[str, str | Text]:
    demands = Demands.from_json(card.demands)
    seats = ", ".join(f"{seat.count} of {seat.role}" for seat in demands.quorum)
    shown: dict[str, str | Text] = {"held by": ", ".join(map(plain, card.hold.rules)) or "no rule"}
    if card.hold.message:
        shown["because"] = visible(card.hold.message)
    if card.hold.clauses:
        clauses = card.hold.clauses
        shown["since"] = "\n".join(f"{plain(c.text)} {outcome(c.value)}" for c in clauses)
    if card.hold.reasons:
        shown["reasons"] = ", ".join(card.hold.reasons)
    for rule, kind in card.hold.errors:
        shown[f"failed: {plain(rule)}"] = plain(kind)
    shown |= {name: plain(value) for name, value in view.risk}
    return shown | {"needs": seats, "decide by": moment(card.decide_by)}


def _before(card: Card) -> tuple[RenderableType, ...]:
    parts: list[RenderableType] = []
    for asked in card.asked:
        parts += [Text("the user asked:", style=FAINT), Text(visible(asked)), ""]
    if card.earlier:
        rows = [(c.uid.rpartition("/")[2], plain(c.tool), c.effect, c.status) for c in card.earlier]
        parts += [table(("call", "tool", "decided", "then"), rows), ""]
    for vote in card.votes:
        note = f": {visible(vote.note)}" if vote.note else ""
        parts += [Text(f"{vote.voter} said {vote.verdict.value} {moment(vote.at)}{note}"), ""]
    return tuple(parts)


def _evidence(card: Card) -> dict[str, str | Text]:
    return {
        "request": card.request,
        "run": card.run,
        "call": plain(card.call.uid),
        "subject": card.subject.hex(),
        "card": card.digest.hex(),
    }
