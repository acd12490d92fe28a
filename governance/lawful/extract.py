"""Do the decisions in an extract of a log follow from the rules in it? As far as both are there.

Of a part of a log less can be said than of the whole. A decision is made again from the policy text that an
earlier entry here activates, and the arguments and the input recorded with it; that the input is what the
rest of the log says, that nothing was superseded, and who voted, is not judged. So the verdict is never
`ok`: it is `failed` when a decision comes out otherwise, else `not-checked`.
"""

from collections.abc import Sequence
from dataclasses import replace

from governance.errors import GovernanceError
from governance.lawful.absences import Absences
from governance.lawful.books import Books
from governance.lawful.decisions import derive
from governance.lawful.report import Collector, Fault, LawfulReport
from governance.ledger.entry import Kind, Record
from governance.ledger.report import Status

__all__ = ["check_extract"]


def check_extract(records: Sequence[Record]) -> LawfulReport:
    """Judge the decisions among `records`, in their order. `decisions_checked` counts those made again."""
    found = Collector()
    books = Books(found, Absences(found))
    present = {record.entry.seq: record for record in records}
    for record in records:
        try:
            if record.entry.kind is Kind.POLICY_ACTIVATED and "text" in record.payloads:
                books.activate(record)
            elif record.entry.kind is Kind.CALL_DECIDED:
                _judge(record, present, books)
        except Exception as exc:  # noqa: BLE001  # whatever a hostile record trips over is a finding
            why = exc.message if isinstance(exc, GovernanceError) else type(exc).__name__
            message = f"`{record.entry.kind}` cannot be read as what it should be: {why}"
            found.add(Fault.UNREADABLE, record.entry, message)
    report = found.report(entries=len(records))
    if report.verdict is Status.FAILED:
        return report
    return replace(report, verdict=Status.NOT_CHECKED)


def _judge(record: Record, present: dict[int, Record], books: Books) -> None:
    body, found = record.entry.body, books.found
    activation = books.activation(body["policy"])
    first = present.get(body.get("first", record.entry.seq))
    policies = activation.policies if activation else None
    if (
        policies is None
        or first is None
        or not _holds(first, "args")
        or not _holds(record, "input")
    ):
        found.skipped += 1
        return
    if first.entry.body["uid"] != body["uid"]:
        message = "decision is not about the arguments first decided about"
        found.add(Fault.DECISION_UNFOUNDED, record.entry, message)
    found.decisions += 1
    inputs = {**record.content("input"), "args": first.content("args")}
    derive(record, policies, inputs, found)


def _holds(record: Record, name: str) -> bool:
    return name in record.payloads
