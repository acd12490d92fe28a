"""What one ledger entry is: an envelope of canonical JSON, and payloads kept beside it.

    {"actor": "agent:refund-desk", "body": {…}, …}    the envelope, hashed exactly as stored
    payload "args": salt (32 random bytes), content   erasable; the envelope holds a commitment to it

Envelope fields, all required but for those marked `?`:

| field | value |
|---|---|
| `v` | 1 |
| `log` | the log's origin |
| `seq` | position from 0, without gaps |
| `prev` | leaf hash of entry `seq - 1`; of entry 0: `genesis(log)` |
| `ts` | whole microseconds UTC, never less than the previous entry's |
| `type` | a `Kind` |
| `actor` | who acted, a pseudonymous subject id |
| `on_behalf_of?` | for whom, where that is somebody else |
| `run?` | the run; with it always `rseq` and `rprev` |
| `rseq?`, `rprev?` | position in the run from 0; leaf hash of the run's entry before (64 zeros at 0) |
| `body` | what happened; its fields depend on `type` |
| `payloads` | name -> commitment |

The leaf hash is RFC 6962's: SHA-256(0x00 || bytes). Envelopes hold no personal data and no content.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

from governance.canonical import JSON, commitment, digest, entry_bytes, parse_entry, thaw
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import (
    Digest,
    Micros,
    Origin,
    RunId,
    SubjectId,
    parse_digest,
    parse_origin,
    parse_run_id,
    parse_subject_id,
)

__all__ = [
    "ABOUT_KEYS",
    "RUN_START",
    "Draft",
    "Entry",
    "ErasedError",
    "Kind",
    "Link",
    "Payload",
    "Record",
    "RunLink",
    "genesis",
    "leaf_hash",
    "read_entry",
    "seal",
]

VERSION: Final = 1
RUN_START: Final = Digest(bytes(32))
"""`rprev` of a run's first entry."""

_sha256: Final = hashlib.sha256
# A log names the same few again and again: each that passed is looked up, not matched.
_subject: Final = functools.lru_cache(maxsize=1024)(parse_subject_id)
_run: Final = functools.lru_cache(maxsize=1024)(parse_run_id)
_origin: Final = functools.lru_cache(maxsize=16)(parse_origin)


class Kind(StrEnum):
    """What an entry records, spelled `<subject>.<past participle>`. Never rename or reuse one."""

    LOG_CREATED = "log.created"
    LOG_BEAT = "log.beat"
    KEY_ADDED = "key.added"
    KEY_RETIRED = "key.retired"
    KEY_COMPROMISED = "key.compromised"
    ANCHOR_RECORDED = "anchor.recorded"
    POLICY_ACTIVATED = "policy.activated"
    TOOL_REGISTERED = "tool.registered"
    TOOL_CHANGED = "tool.changed"
    RUN_STARTED = "run.started"
    RUN_SUSPENDED = "run.suspended"
    RUN_RESUMED = "run.resumed"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    INPUT_RECEIVED = "input.received"
    MODEL_REQUESTED = "model.requested"
    MODEL_RESPONDED = "model.responded"
    CALL_DECIDED = "call.decided"
    CALL_STARTED = "call.started"
    CALL_FINISHED = "call.finished"
    CALL_FAILED = "call.failed"
    CALL_UNKNOWN = "call.unknown"
    CALL_RESOLVED = "call.resolved"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_VOTED = "approval.voted"
    APPROVAL_GRANTED = "approval.granted"
    APPROVAL_REJECTED = "approval.rejected"
    APPROVAL_EXPIRED = "approval.expired"
    APPROVAL_WITHDRAWN = "approval.withdrawn"
    APPROVAL_USED = "approval.used"
    GRANT_ISSUED = "grant.issued"
    GRANT_REVOKED = "grant.revoked"
    STOP_ENGAGED = "stop.engaged"
    STOP_LIFTED = "stop.lifted"
    PAYLOAD_ERASED = "payload.erased"
    LOG_ARCHIVED = "log.archived"
    BUNDLE_EXPORTED = "bundle.exported"
    ACCESS_REFUSED = "access.refused"


ABOUT_KEYS: Final = frozenset(
    {Kind.LOG_CREATED, Kind.KEY_ADDED, Kind.KEY_RETIRED, Kind.KEY_COMPROMISED}
)
"""Entries that say who may sign."""


@dataclass(frozen=True, slots=True)
class Link:
    """Where the next entry of a log attaches: its position, the leaf hash before it, the last time."""

    seq: int
    prev: Digest
    ts: Micros


@dataclass(frozen=True, slots=True)
class RunLink:
    """Where the next entry of a run attaches."""

    rseq: int
    rprev: Digest


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry before it has a place: what happened, and the content that goes beside it.

    `payloads` holds JSON values; the writer draws the salts.
    """

    kind: Kind
    actor: SubjectId
    body: Mapping[str, JSON]
    payloads: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    run: RunId | None = None
    on_behalf_of: SubjectId | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """Content under a commitment. `content` is canonical JSON as stored, byte for byte."""

    name: str
    salt: bytes
    content: bytes

    @property
    def commitment(self) -> Digest:
        return commitment(self.salt, self.name, self.content)


@dataclass(frozen=True, slots=True)
class Entry:
    """A sealed entry. `raw` are the exact bytes stored and hashed; the fields are read from them."""

    raw: bytes
    hash: Digest
    log: Origin
    seq: int
    prev: Digest
    ts: Micros
    kind: Kind
    actor: SubjectId
    body: Mapping[str, Any]
    payloads: Mapping[str, Digest]
    run: RunId | None = None
    rseq: int | None = None
    rprev: Digest | None = None
    on_behalf_of: SubjectId | None = None


class ErasedError(RefusedError):
    """Content that was asked for was erased, as an entry records."""

    http_status = 410


@dataclass(frozen=True, slots=True)
class Record:
    """An entry together with the payloads at hand. A name that the entry commits to may be absent.

    `erased` names those whose absence a later entry excuses, with its position.
    """

    entry: Entry
    payloads: Mapping[str, Payload] = field(default_factory=dict[str, Payload])
    erased: Mapping[str, int] = field(default_factory=dict[str, int])

    def content(self, name: str) -> Any:
        """Read payload `name` as a JSON value, a fresh copy each time. Raises what `frozen` raises."""
        return thaw(self.frozen(name))

    def frozen(self, name: str) -> bytes:
        """Give the canonical bytes of payload `name`.

        Raises ErasedError when it was erased, TamperedError when it is absent for no recorded reason or
        is not what the entry committed to.
        """
        entry, payload = self.entry, self.payloads.get(name)
        if payload is None and name in self.erased:
            raise ErasedError(
                f"payload `{name}` of entry {entry.seq} was erased",
                hint=f"entry {self.erased[name]} records by whom and why",
            )
        if payload is None:
            raise TamperedError(
                f"payload `{name}` of entry {entry.seq} is missing",
                seq=entry.seq,
                hint="export a bundle and run `governance verify` on it",
            )
        if payload.commitment != entry.payloads.get(name):
            raise TamperedError(
                f"payload `{name}` of entry {entry.seq} is not what was recorded",
                seq=entry.seq,
                hint="stop the run, export a bundle and run `governance verify` on it",
            )
        return payload.content


def leaf_hash(raw: bytes) -> Digest:
    """RFC 6962 section 2.1: the hash of a leaf."""
    # Asked for every entry of a verification: a NewType is a call.
    return _sha256(b"\0" + raw).digest()  # type: ignore[return-value]


def genesis(log: Origin) -> Digest:
    """What entry 0 names as its predecessor: a hash that belongs to this log alone."""
    return digest("governance/genesis/v1", log)


def seal(
    draft: Draft, log: Origin, link: Link, run_link: RunLink | None, payloads: Mapping[str, Digest]
) -> Entry:
    """Give `draft` its place. Raises CanonicalError when it is outside the entry profile.

    `run_link` is given exactly when the draft belongs to a run; `payloads` are the commitments.
    """
    if (draft.run is None) != (run_link is None):
        raise InvalidInputError(f"entry `{draft.kind}` needs a run and its link, or neither")
    _check_names(draft, link)
    envelope: dict[str, Any] = {
        "v": VERSION,
        "log": log,
        "seq": link.seq,
        "prev": link.prev.hex(),
        "ts": link.ts,
        "type": draft.kind.value,
        "actor": draft.actor,
        "body": dict(draft.body),
        "payloads": {name: value.hex() for name, value in payloads.items()},
    }
    if draft.on_behalf_of is not None and draft.on_behalf_of != draft.actor:
        envelope["on_behalf_of"] = draft.on_behalf_of
    if run_link is not None:
        envelope |= {"run": draft.run, "rseq": run_link.rseq, "rprev": run_link.rprev.hex()}
    raw = entry_bytes(envelope)
    return Entry(
        raw=raw,
        hash=leaf_hash(raw),
        log=log,
        seq=link.seq,
        prev=link.prev,
        ts=link.ts,
        kind=draft.kind,
        actor=draft.actor,
        body=envelope["body"],
        payloads=dict(payloads),
        run=draft.run,
        rseq=run_link.rseq if run_link else None,
        rprev=run_link.rprev if run_link else None,
        on_behalf_of=envelope.get("on_behalf_of"),
    )


def _check_names(draft: Draft, link: Link) -> None:
    """Refuse to write what `read_entry` would not read."""
    _subject(draft.actor)
    if draft.on_behalf_of is not None:
        _subject(draft.on_behalf_of)
    if draft.run is not None:
        _run(draft.run)
    if link.ts < 0:
        raise InvalidInputError(f"entry time `{link.ts}` lies before 1970")


_REQUIRED: Final = {"v", "log", "seq", "prev", "ts", "type", "actor", "body", "payloads"}
_RUN_FIELDS: Final = {"run", "rseq", "rprev"}
_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}
_DIGEST_BYTES: Final = 32
_ALLOWED: Final = (
    frozenset(_REQUIRED),
    frozenset(_REQUIRED | _RUN_FIELDS),
    frozenset(_REQUIRED | {"on_behalf_of"}),
    frozenset(_REQUIRED | _RUN_FIELDS | {"on_behalf_of"}),
)


def read_entry(raw: bytes) -> Entry:
    """Read an envelope from the bytes that were stored. Raises InvalidInputError on any other spelling."""
    fields = parse_entry(raw)
    if frozenset(fields) not in _ALLOWED:
        odd = sorted((set(fields) ^ _REQUIRED) - _RUN_FIELDS - {"on_behalf_of"}) or ["run"]
        raise InvalidInputError(f"entry has missing or unknown fields: `{', '.join(odd)[:80]}`")
    if fields["v"] != VERSION or type(fields["v"]) is not int:
        raise InvalidInputError(f"entry has unknown version `{fields['v']!r}`")
    kind = _KINDS.get(_text(fields, "type"))
    if kind is None:
        raise InvalidInputError(f"entry has unknown type `{fields['type'][:80]}`")
    in_run = "run" in fields
    behalf = _subject(_text(fields, "on_behalf_of")) if "on_behalf_of" in fields else None
    actor = _subject(_text(fields, "actor"))
    if behalf == actor:
        raise InvalidInputError(f"entry names `{actor}` twice", hint="leave out `on_behalf_of`")
    return Entry(
        raw=raw,
        hash=leaf_hash(raw),
        log=_origin(_text(fields, "log")),
        seq=_count(fields, "seq"),
        prev=_digest(fields, "prev"),
        ts=Micros(_count(fields, "ts")),
        kind=kind,
        actor=actor,
        body=_object(fields, "body"),
        payloads={name: _digest(fields["payloads"], name) for name in _object(fields, "payloads")},
        run=_run(_text(fields, "run")) if in_run else None,
        rseq=_count(fields, "rseq") if in_run else None,
        rprev=_digest(fields, "rprev") if in_run else None,
        on_behalf_of=behalf,
    )


def _digest(fields: Mapping[str, Any], name: str) -> Digest:
    text = _text(fields, name)
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return parse_digest(text)
    # `fromhex` takes other spellings too; what it reads back as the same text is 64 lower-case digits.
    same = len(value) == _DIGEST_BYTES and value.hex() == text
    return Digest(value) if same else parse_digest(text)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if type(value) is not str:
        raise InvalidInputError(f"entry field `{name}` is not text")
    return value


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if type(value) is not int or value < 0:
        raise InvalidInputError(f"entry field `{name}` is not a count")
    return value


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields[name]
    if type(value) is not dict:
        raise InvalidInputError(f"entry field `{name}` is not an object")
    return cast("dict[str, Any]", value)
