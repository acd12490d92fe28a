"""The log's keys change; heads are trusted by whoever trusts one of the keys, for the sizes it may sign."""

import contextlib
import os
from pathlib import Path

import pytest

from governance import keys
from governance.assemble import KeySigner
from governance.errors import InvalidInputError, RefusedError
from governance.ids import Micros, Origin, SubjectId
from governance.ledger.checkpoint import Checkpoint, parse_verifier_key, sign_checkpoint
from governance.ledger.entry import Draft, Kind
from governance.ledger.keys import KeyHistory
from governance.ledger.verify import verify
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("keys.example/agents")
OPERATOR = SubjectId("user:operator")
FIRST, SECOND, THIRD = (KeySigner.from_seed(ORIGIN, bytes([n]) * 32) for n in (1, 2, 3))


def clock() -> Micros:
    return Micros(1_767_323_045_000_000)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "memory":
        yield MemoryStore(ORIGIN, FIRST, clock, os.urandom)
        return
    made = SqliteStore.create(
        tmp_path / "ledger.db",
        origin=ORIGIN,
        signer=FIRST,
        clock=clock,
        salts=os.urandom,
        kept_checkpoint=tmp_path / "kept",
    )
    yield made
    with contextlib.suppress(RefusedError):  # the key it was opened with may have been retired
        made.close()


def beat(store) -> None:
    store.write(lambda tx: tx.append(Draft(Kind.LOG_BEAT, OPERATOR, {}), clock()))


def judged(store, *pins: KeySigner, notes=None):
    entries, kept = store.read(
        lambda r: ([x.entry.raw + b"\n" for x in r.records()], r.checkpoints())
    )
    notes = (
        [(f"checkpoints/{size}", note.encode()) for size, note in kept] if notes is None else notes
    )
    found = verify(
        [("entries", entries)], [], notes, [parse_verifier_key(p.verifier_key) for p in pins]
    )
    return found, [str(finding.kind) for finding in found.findings]


def test_one_key_after_the_other_is_trusted_by_whoever_pins_any(store) -> None:
    beat(store)
    store.checkpoint()
    size = keys.rotate(
        store, clock, OPERATOR, SECOND, keys.retire(OPERATOR, FIRST.verifier_key, "yearly")
    )
    assert size == 4
    for pin in (FIRST, SECOND):
        report, flaws = judged(store, pin)
        assert report.trust == "ok", flaws
    assert store.read(keys.signing) == [SECOND.verifier_key]


def test_a_retired_key_signs_no_more(store) -> None:
    keys.rotate(store, clock, OPERATOR, SECOND, keys.retire(OPERATOR, FIRST.verifier_key, "yearly"))
    beat(store)
    with pytest.raises(RefusedError, match="no longer"):
        store.checkpoint()


def test_nor_is_it_believed_when_it_does(store) -> None:
    keys.rotate(store, clock, OPERATOR, SECOND, keys.retire(OPERATOR, FIRST.verifier_key, "yearly"))
    kept = store.read(lambda r: r.checkpoints())
    head = store.read(lambda r: r.head())
    forged = sign_checkpoint(Checkpoint(ORIGIN, head.size + 1, head.root), FIRST)
    notes = [(str(size), note.encode()) for size, note in kept]
    for pins in ([FIRST], [SECOND], [FIRST, SECOND]):
        report, flaws = judged(store, *pins, notes=[*notes, ("forged", forged.encode())])
        assert report.trust == "failed"
        assert flaws[0] in ("key-ended", "key-unknown")


def test_a_key_that_the_log_adds_under_nobodys_signature_is_not_trusted(store) -> None:
    """A thief who can write entries and heads, and has no key, adds his own."""
    beat(store)
    store.write(
        lambda tx: tx.append(
            Draft(
                Kind.KEY_ADDED,
                OPERATOR,
                {
                    "key": THIRD.verifier_key,
                    "signing": sorted([FIRST.verifier_key, THIRD.verifier_key]),
                },
            ),
            clock(),
        )
    )
    head = store.read(lambda r: r.head())
    note = sign_checkpoint(Checkpoint(ORIGIN, head.size, head.root), THIRD)
    report, flaws = judged(store, FIRST, notes=[("checkpoint", note.encode())])
    assert report.trust == "failed"
    assert "key-unknown" in flaws


def test_what_a_compromised_key_signed_beyond_is_void(store) -> None:
    beat(store)
    since, _ = store.checkpoint()
    beat(store)
    store.checkpoint()
    keys.rotate(
        store,
        clock,
        OPERATOR,
        SECOND,
        keys.declare_compromised(OPERATOR, FIRST.verifier_key, since=since, reason="laptop stolen"),
    )
    assert judged(store, SECOND)[0].trust == "ok", "heads before are under the new key's head"
    report, flaws = judged(store, FIRST)
    assert report.trust == "failed"
    assert "key-ended" in flaws


def test_the_last_key_is_not_retired(store) -> None:
    with pytest.raises(RefusedError, match="no key would be left"):
        keys.change(store, clock, keys.retire(OPERATOR, FIRST.verifier_key, "why not"))
    with pytest.raises(InvalidInputError, match="does not sign"):
        keys.change(store, clock, keys.retire(OPERATOR, SECOND.verifier_key, "why not"))
    keys.add(store, clock, OPERATOR, SECOND)
    with pytest.raises(InvalidInputError, match="signs already"):
        keys.add(store, clock, OPERATOR, SECOND)
    keys.change(store, clock, keys.retire(OPERATOR, SECOND.verifier_key, "a mistake"))
    assert store.read(keys.signing) == [FIRST.verifier_key]


@pytest.mark.parametrize("reason", ["", "x" * 501, "two\nlines", "\u202etext"])
def test_a_reason_is_a_printable_line(store, reason: str) -> None:
    keys.add(store, clock, OPERATOR, SECOND)
    with pytest.raises(InvalidInputError, match="printable"):
        keys.change(store, clock, keys.retire(OPERATOR, SECOND.verifier_key, reason))


def test_three_keys_in_a_row(store) -> None:
    for old, new in ((FIRST, SECOND), (SECOND, THIRD)):
        # Each rotation is made by a program that was opened with the key of the day.
        store._charter = type(store._charter)(
            ORIGIN, os.urandom, old, getattr(store._charter, "kept", None)
        )
        if hasattr(store, "_writer"):
            store._writer._charter = store._charter
        keys.rotate(store, clock, OPERATOR, new, keys.retire(OPERATOR, old.verifier_key, "yearly"))
    for pin in (FIRST, SECOND, THIRD):
        assert judged(store, pin)[0].trust == "ok"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("key.added", {}),
        ("key.added", {"key": 7, "signing": []}),
        ("key.added", {"key": "no key", "signing": []}),
        ("key.retired", {"key": FIRST.verifier_key, "signing": []}),
        ("key.compromised", {"key": FIRST.verifier_key, "since": "x", "signing": []}),
    ],
)
def test_entries_that_say_nonsense_about_keys_are_findings(
    kind: str, body: dict[str, object]
) -> None:
    assert list(KeyHistory().follow(5, kind, body))
