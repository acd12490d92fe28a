"""Does anybody outside vouch for this log, for all of it, and how long ago? Witnesses and stamps.

A log's own key shows who wrote it. Only somebody else shows that it was not written anew since: witnesses
that cosigned a head, an authority that stamped it. What counts is the **newest** head of the log: entries
beyond the last one that a quorum has cosigned could have been replaced by whoever has the log's key.

Times come from witnesses and authorities, never from the log. One that lies ahead of the verifier's own
clock is not believed.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from governance.errors import GovernanceError, InvalidInputError, RefusedError, TamperedError
from governance.ids import Micros
from governance.ledger.authorities import Authorities
from governance.ledger.checkpoint import (
    KeyType,
    VerifierKey,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.cosignature import cosigned_at
from governance.ledger.heads import Note
from governance.ledger.manifest import stamp_size
from governance.ledger.report import Finding, Flaw, Verdict, Where, finding
from governance.ledger.stamp import check_stamp
from governance.ledger.trust import Quorum, is_met, met_since, witness_keys

__all__ = ["Demands", "Vouched", "judge_anchors"]

_SKEW_US: Final = 300 * 1_000_000
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Demands:
    """What a verifier asks for beyond the log's own signature.

    `quorum` has to have cosigned the newest head; an authority among `authorities` has to have stamped
    one; and that must not be longer ago than `age_us` before `now`.
    """

    now: Micros
    quorum: Quorum | None = None
    authorities: Authorities = ()
    age_us: int | None = None

    def __post_init__(self) -> None:
        if self.age_us is not None and self.quorum is None and not self.authorities:
            raise InvalidInputError(
                "freshness is demanded, and nobody is trusted to tell the time",
                hint="name witnesses or a time-stamping authority too",
            )


@dataclass(frozen=True, slots=True)
class Vouched:
    """What others said of `log`, if that is known: signed notes and stamps, by their file names."""

    log: str | None
    notes: Iterable[Note]
    stamps: Iterable[tuple[str, bytes]] = ()


@dataclass(slots=True)
class _Head:
    """One head of the log that its own key has signed, and when witnesses did."""

    file: str
    size: int
    text: str
    times: dict[VerifierKey, int] = field(default_factory=dict[VerifierKey, int])


def judge_anchors(
    said: Vouched, pins: Sequence[VerifierKey] | None, demands: Demands
) -> list[Finding]:
    """Judge what is demanded, and nothing else. Never raises on what it is given to judge."""
    keys = witness_keys(demands.quorum) if demands.quorum else ()
    heads = _heads(said, pins or (), keys)
    found, vouched = list[Finding](), list[Micros]()
    if demands.quorum is not None:
        found += _judge_quorum(heads, demands.quorum, demands.now, vouched)
    if demands.authorities:
        found += _judge_stamps(heads, said.stamps, demands, vouched)
    if demands.age_us is not None:
        found += _judge_age(vouched, demands.now, demands.age_us)
    return found


def _heads(
    said: Vouched, pins: Sequence[VerifierKey], witnesses: Sequence[VerifierKey]
) -> list[_Head]:
    """The heads that the log's own pinned key has signed, by size; one text is one head."""
    found = dict[str, _Head]()
    for file, raw in said.notes:
        try:
            note = raw.decode()
            head = parse_checkpoint(note_text(note))
            own = [k for k in pins if k.name == head.origin and k.kind is KeyType.ED25519]
            if said.log not in (None, head.origin) or not own:
                continue
            signing_keys(note, list({key.id: key for key in own}.values()))
            times = cosigned_at(note, witnesses)
        except (InvalidInputError, RefusedError, TamperedError, UnicodeDecodeError):
            continue  # `heads.judge_notes` says what is wrong with it
        known = found.setdefault(note_text(note), _Head(file, head.size, note_text(note)))
        for key, seconds in times.items():
            known.times[key] = max(seconds, known.times.get(key, 0))
    return sorted(found.values(), key=lambda head: head.size)


def _judge_quorum(
    heads: Sequence[_Head], quorum: Quorum, now: Micros, vouched: list[Micros]
) -> Iterator[Finding]:
    met = [head for head in heads if is_met(quorum, head.times)]
    if not heads or not met or met[-1].size < heads[-1].size:
        newest = heads[-1] if heads else None
        known = len(newest.times) if newest else 0
        upto = f"; the last under a quorum has {met[-1].size} entries" if met else ""
        size = newest.size if newest else 0
        message = f"the newest head, of {size} entries, bears {known} cosignatures: no quorum{upto}"
        where = Where(newest.file if newest else None)
        yield finding(Verdict.TRUST, Flaw.QUORUM_MISSING, where, message)
    if met:
        last = met[-1]
        names = ", ".join(
            f"`{key.name[:80]}` at {_spell(Micros(seconds * _MICROS))}"
            for key, seconds in sorted(last.times.items(), key=lambda item: item[0].name)
        )
        message = f"{last.size} entries were cosigned by {names}"
        yield finding(Verdict.TRUST, Flaw.COSIGNED, Where(last.file), message)
        believed = _believed(last.times, now)
        since = met_since(quorum, believed)
        if since is not None:
            vouched.append(Micros(since * _MICROS))


def _believed(times: Mapping[VerifierKey, int], now: Micros) -> dict[VerifierKey, int]:
    return {key: at for key, at in times.items() if at * _MICROS <= now + _SKEW_US}


def _judge_stamps(
    heads: Sequence[_Head],
    stamps: Iterable[tuple[str, bytes]],
    demands: Demands,
    vouched: list[Micros],
) -> Iterator[Finding]:
    texts = {head.size: head.text for head in heads}
    good = 0
    for file, raw in stamps:
        size = stamp_size(file)
        if size is None or size not in texts:
            message = "is over no head that the log's own key has signed"
            yield finding(Verdict.TRUST, Flaw.STAMP_WRONG, Where(file), message)
            continue
        try:
            stamped = check_stamp(raw, texts[size].encode(), demands.authorities)
        except GovernanceError as exc:
            yield finding(Verdict.TRUST, Flaw.STAMP_WRONG, Where(file), exc.message)
            continue
        good += 1
        message = (
            f"{size} entries existed at {_spell(stamped.at)}, says `{stamped.authority[:120]}`"
        )
        yield finding(Verdict.TRUST, Flaw.STAMPED, Where(file), message)
        if stamped.at <= demands.now + _SKEW_US:
            vouched.append(stamped.at)
    if not good:
        message = "no stamp of a pinned authority is here"
        yield finding(Verdict.TRUST, Flaw.STAMP_MISSING, Where(), message)


def _judge_age(vouched: Sequence[Micros], now: Micros, age_us: int) -> Iterator[Finding]:
    last = max(vouched, default=None)
    if last is None or last < now - age_us:
        said = f"the last word from outside is of {_spell(last)}" if last else "nobody vouches"
        message = f"{said}; not older than {age_us // _MICROS} s was demanded"
        yield finding(Verdict.TRUST, Flaw.ANCHOR_STALE, Where(), message)


def _spell(at: Micros) -> str:
    try:
        moment = dt.datetime.fromtimestamp(at // _MICROS, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at // _MICROS} s after 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
