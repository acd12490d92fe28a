"""Every field of every type of entry: none can be changed, added or left out without being found.

The attacker has the bundle and no key. Each change is made twice: by itself, and with everything after it
linked anew, so that only the signed root can tell.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from governance.assemble import KeySigner
from governance.canonical import entry_bytes, parse_entry, payload_bytes
from governance.ids import Origin
from governance.ledger.checkpoint import Checkpoint, parse_verifier_key, sign_checkpoint
from governance.ledger.entry import RUN_START, Kind, Payload, genesis, leaf_hash
from governance.ledger.merkle import root_of
from governance.ledger.payloads import payload_line
from governance.ledger.report import Flaw, Report, Status
from governance.ledger.verify import verify

ORIGIN = Origin("acme.example/agents")
SIGNER = KeySigner.from_seed(ORIGIN, bytes(range(32)))
NEXT = KeySigner.from_seed(ORIGIN, bytes(range(1, 33)))
PINS = [parse_verifier_key(SIGNER.verifier_key)]
FIELDS = {"v", "log", "seq", "prev", "ts", "type", "actor", "on_behalf_of", "run", "rseq", "rprev", "body", "payloads"}  # fmt: skip
OUTSIDE = ("log.", "key.", "anchor.", "policy.", "tool.", "grant.", "stop.", "payload.", "bundle.", "access.")  # fmt: skip

Fields = dict[str, Any]


def content(seq: int) -> tuple[Payload, ...]:
    return tuple(
        Payload(name, bytes([seq]) * 32, payload_bytes({"of": seq, "name": name}))
        for name in ("args", "input")
    )


def envelopes() -> list[Fields]:
    """One entry of every type, with every field, and something to tell lies about in its body."""
    made = list[Fields]()
    for seq, kind in enumerate(Kind):
        fields: Fields = {
            "v": 1,
            "log": ORIGIN,
            "seq": seq,
            "ts": 1_700_000_000_000_000 + seq,
            "type": kind.value,
            "actor": "agent:desk",
            "on_behalf_of": "user:ann",
            "body": {
                "uid": "run-1/1.0",
                "request": f"apr-{seq}",
                "effect": "deny",
                "tier": "critical",
                "rules": [{"id": "refunds", "count": 2, "shadow": False, "note": None}],
                "policy": "ab" * 32,
            },
            "payloads": {one.name: one.commitment.hex() for one in content(seq)},
        }
        if not kind.value.startswith(OUTSIDE):
            fields["run"] = "run-1"
        made.append(fields)
    mine, next_key = SIGNER.verifier_key, NEXT.verifier_key
    about_keys: dict[Kind, Fields] = {
        Kind.LOG_CREATED: {"keys": [mine]},
        Kind.KEY_ADDED: {"key": next_key, "signing": sorted([mine, next_key])},
        Kind.KEY_RETIRED: {"key": next_key, "signing": [mine], "reason": "left"},
        Kind.KEY_COMPROMISED: {"key": next_key, "signing": [mine], "reason": "lost", "since": 0},
    }
    for fields in made:
        fields["body"] = about_keys.get(Kind(fields["type"]), fields["body"])
    return made


def linked(envelopes: list[Fields]) -> list[bytes]:
    raws, prev, of_run = list[bytes](), genesis(ORIGIN).hex(), [RUN_START.hex()]
    for given in envelopes:
        fields = {"prev": prev, **given}
        if "run" in fields:
            fields = {"rseq": len(of_run) - 1, "rprev": of_run[-1], **fields}
        raws.append(entry_bytes(fields))
        prev = leaf_hash(raws[-1]).hex()
        if "run" in fields:
            of_run.append(prev)
    return raws


def whole(raws: list[bytes]) -> list[Fields]:
    """The envelopes as they stand in the log, links included."""
    return [parse_entry(raw) for raw in raws]


HONEST = linked(envelopes())
NOTE = sign_checkpoint(
    Checkpoint(ORIGIN, len(HONEST), root_of([leaf_hash(raw) for raw in HONEST])), SIGNER
).encode()
LINES = [payload_line(seq, one) for seq in range(len(HONEST)) for one in content(seq)]


def judge(raws: list[bytes], payloads: list[bytes] = LINES) -> Report:
    entries = [("entries", [raw + b"\n" for raw in raws])]
    return verify(entries, [("payloads", payloads)], [("checkpoint", NOTE)], PINS)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, key))


def other(value: Any) -> Any:
    """Something of the same type that is not `value`, as near to it as can be."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
        case None:
            return False
        case list():
            return [*value, None]
        case _:
            return {**value, "zz": "ab" * 32}


def changes(fields: Fields, *, left_out: bool = True) -> Iterator[tuple[tuple[Any, ...], Fields]]:
    """Every field changed, and with `left_out` every field left out, one at a time."""
    for path in paths(fields):
        for leave_out in (False, True)[: 1 + left_out]:
            changed = copy.deepcopy(fields)
            holder: Any = changed
            for step in path[:-1]:
                holder = holder[step]
            if leave_out:
                del holder[path[-1]]
            else:
                holder[path[-1]] = other(holder[path[-1]])
            yield path, changed


def contradicts_the_note(report: Report) -> bool:
    """The root is another one; or entry 0 names another log, which nobody signed for at all."""
    return bool({Flaw.ROOT_DIFFERS, Flaw.CHECKPOINT_FOREIGN} & report.counts.keys())


def test_the_log_holds_every_type_and_every_field_and_is_verified() -> None:
    report = judge(HONEST)
    # One run that ends and goes on, keys that are none: what only lawfulness would see.
    assert report.integrity is report.trust is report.completeness is Status.OK, report.findings[:5]
    stood = whole(HONEST)
    assert {fields["type"] for fields in stood} == set(Kind)
    assert set().union(*stood) == FIELDS


@pytest.mark.attack
@pytest.mark.parametrize("kind", Kind)
def test_no_field_of_an_entry_of_this_type_can_be_changed_or_left_out(kind: Kind) -> None:
    seq = list(Kind).index(kind)
    envelope = whole(HONEST)[seq]
    tried = set[Any]()
    for path, changed in changes(envelope):
        raw = entry_bytes(changed)
        assert raw != HONEST[seq]
        tried.add(path[0])
        report = judge([*HONEST[:seq], raw, *HONEST[seq + 1 :]])
        assert report.integrity is Status.FAILED, path
        assert contradicts_the_note(report), path
    assert tried == set(envelope)


@pytest.mark.attack
@pytest.mark.parametrize("kind", Kind)
def test_not_even_when_everything_after_it_is_linked_anew(kind: Kind) -> None:
    seq = list(Kind).index(kind)
    for path, changed in changes(envelopes()[seq], left_out=False):
        given = envelopes()
        given[seq] = changed
        report = judge(linked(given))
        assert report.integrity is Status.FAILED, path
        assert contradicts_the_note(report), path


@pytest.mark.attack
@pytest.mark.parametrize("kind", Kind)
def test_no_content_beside_an_entry_of_this_type_can_be_changed_or_left_out(kind: Kind) -> None:
    seq = list(Kind).index(kind)
    for rank, one in enumerate(content(seq)):
        at = 2 * seq + rank
        altered = (
            Payload(one.name, one.salt[:-1] + b"\xff", one.content),
            Payload(one.name, one.salt, one.content.replace(b"of", b"fo")),
            Payload(f"{one.name}s", one.salt, one.content),
        )
        lines = [[payload_line(seq, change)] for change in altered] + [[]]
        for line in lines:
            report = judge(HONEST, [*LINES[:at], *line, *LINES[at + 1 :]])
            assert report.integrity is Status.FAILED
            assert seq in {item.where.seq for item in report.findings if item.is_failure}
