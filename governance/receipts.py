"""What does the log say about one decision, for somebody who may not see the rest? Receipts from the store.

The receipt of a call holds every entry about it: decisions, the request for approval, votes, the start, the
outcome; and, where that is wanted, the rules that decided. That of an entry holds it alone. What is
handed out has been verified, with the log's own key.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from governance.bundle.choosing import newest_archive
from governance.errors import InvalidInputError, TamperedError
from governance.ids import RunId
from governance.ledger.checkpoint import VerifierKey
from governance.ledger.entry import Entry, Kind, Record
from governance.ledger.receipt import Disclosed, Proven, Receipt
from governance.ledger.receipt_check import about_call, verify_receipt
from governance.ports import Reader
from governance.proofs import inclusion

__all__ = ["Disclosure", "make_receipt"]

RESULT: Final = "result"
_BATCH: Final = 1_000
_SIGNATURE: Final = "\n\N{EM DASH} "


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Which payloads go into a receipt, by name: only those of `only`, none of `never`.

    When nothing is said, an entry's receipt discloses all it commits to, a call's everything but what
    the tool returned: what was decided, and why.
    """

    only: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.only and self.never:
            raise InvalidInputError(
                "payloads to disclose and payloads to withhold are both named",
                hint="name one or the other",
            )

    def names(self, committed: Collection[str], *, of_call: bool) -> frozenset[str]:
        """Choose among the names that the entries commit to. Raises InvalidInputError for any other."""
        known = frozenset(committed)
        for name in sorted((self.only | self.never) - known):
            raise InvalidInputError(
                f"no entry here commits to payload `{name[:80]}`",
                hint=f"choose among: {', '.join(sorted(known)) or 'none'}",
            )
        if self.only:
            return self.only
        return known - (self.never or ({RESULT} if of_call else frozenset()))


def make_receipt(
    reader: Reader,
    about: int | str,
    key: VerifierKey,
    disclosure: Disclosure = Disclosure(),
    *,
    rules: bool = False,
) -> Receipt:
    """Make the receipt of an entry, by its seq, or of a call, by its uid; `rules` adds those that decided.

    It is under the checkpoint with the most signatures that covers it, the newest of these. Raises
    InvalidInputError when there is no such entry, call or checkpoint, or a payload named is not among
    theirs, TamperedError when what the store holds is not what `key` signed.
    """
    call = about if isinstance(about, str) else None
    records = _records(reader, about, rules=rules)
    size, note = _cover(reader, records[-1].entry.seq)
    committed = {name for record in records for name in record.entry.payloads}
    names = disclosure.names(committed, of_call=call is not None)
    receipt = Receipt(
        call=call,
        checkpoint=note,
        entries=tuple(
            Proven(record.entry.raw, inclusion(reader, record.entry.seq, size))
            for record in records
        ),
        payloads=tuple(_disclosed(records, names, asked=bool(disclosure.only))),
    )
    checked = verify_receipt(receipt.to_bytes(), [key])
    for found in checked.report.findings:
        if found.is_failure:
            raise TamperedError(
                f"receipt would not hold: {found.message}",
                seq=found.where.seq,
                hint="stop writing, export a bundle and run `governance verify` on it",
            )
    return receipt


def _records(reader: Reader, about: int | str, *, rules: bool) -> Sequence[Record]:
    match about:
        case int():
            return _of_entry(reader, about)
        case str():
            return _of_call(reader, about, rules=rules)


def _of_entry(reader: Reader, seq: int) -> Sequence[Record]:
    end = reader.head().size
    if not 0 <= seq < end:
        raise InvalidInputError(f"there is no entry `{seq}`", hint=f"the log ends at {end - 1}")
    return reader.records(start=seq, limit=1)


def _of_call(reader: Reader, uid: str, *, rules: bool) -> Sequence[Record]:
    """Give all records about a call. The run is read whole: an index could hide one of them."""
    records = reader.run_records(RunId(uid.partition("/")[0]))
    about = about_call(uid, [record.entry for record in records])
    found = [record for record in records if record.entry.seq in about]
    if not found:
        raise InvalidInputError(
            f"nothing is recorded about call `{uid[:160]}`",
            hint="see the run's calls with `governance runs show RUN`",
        )
    if rules:
        found += _rules(reader, found)
    return sorted(found, key=lambda record: record.entry.seq)


def _rules(reader: Reader, records: Sequence[Record]) -> list[Record]:
    """Find what put the rules of these decisions in force: for each the last activation before it."""
    found = dict[int, Record]()
    for record in records:
        if record.entry.kind is Kind.CALL_DECIDED:
            activation = _activation(reader, record.entry)
            found[activation.entry.seq] = activation
    return list(found.values())


def _activation(reader: Reader, decision: Entry) -> Record:
    def fits(record: Record) -> bool:
        same = record.entry.body.get("policy") == decision.body.get("policy")
        return same and record.entry.kind is Kind.POLICY_ACTIVATED

    newest = reader.latest([Kind.POLICY_ACTIVATED])
    if newest is not None and newest.entry.seq < decision.seq and fits(newest):
        return newest
    archived = newest_archive(reader)
    floor, kept = (archived.end, archived.kept) if archived else (0, ())
    for end in range(decision.seq, floor, -_BATCH):
        start = max(floor, end - _BATCH)
        for record in reversed(reader.records(start=start, limit=end - start)):
            if fits(record):
                return record
    for seq in reversed(kept):
        (record,) = reader.records(start=seq, limit=1)
        if fits(record):
            return record
    raise TamperedError(
        f"no entry before decision {decision.seq} activates its rules",
        seq=decision.seq,
        hint="stop writing, export a bundle and run `governance verify` on it",
    )


def _cover(reader: Reader, seq: int) -> tuple[int, str]:
    covering = [(note.count(_SIGNATURE), size, note) for size, note in reader.checkpoints()]
    best = max((item for item in covering if item[1] > seq), default=None)
    if best is None:
        raise InvalidInputError(
            f"no checkpoint covers entry `{seq}` yet", hint="sign the log's head, and try again"
        )
    return best[1], best[2]


def _disclosed(
    records: Sequence[Record], names: Collection[str], *, asked: bool
) -> Iterator[Disclosed]:
    """Give the payloads of those `names`. One that is gone is passed over unless it was asked for."""
    for record in records:
        for name in sorted(record.entry.payloads.keys() & set(names)):
            if asked or name in record.payloads:
                record.frozen(name)  # what is not what was recorded goes nowhere
                yield Disclosed(record.entry.seq, record.payloads[name])
