"""Whatever bytes lie in whichever file of a bundle: verification ends, and is not fooled."""

import shutil
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.bundle import export, records, verify_bundle
from governance.errors import TamperedError
from governance.ids import Micros, Origin, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from governance.ledger.entry import Draft, Kind, Link, Payload, Record, genesis, seal
from governance.ledger.merkle import root_of

ORIGIN = Origin("acme.example/agents")
SECRET = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
FILES = [
    "checkpoint",
    "checkpoints/0000000000000003",
    "entries/0000000000000000.jsonl",
    "keys",
    "manifest.json",
    "manifest.sig",
    "payloads/0000000000000000.jsonl",
]


class Key:
    origin = ORIGIN
    verifier_key = verifier_key(ORIGIN, SECRET.public_key().public_bytes_raw())

    def sign(self, message):
        return SECRET.sign(message)


class Log:
    def __init__(self):
        link, self.entries = Link(0, genesis(ORIGIN), Micros(1)), []
        for seq, kind in enumerate([Kind.LOG_CREATED, Kind.LOG_BEAT, Kind.LOG_BEAT]):
            payload = Payload("a", bytes(32), b'{"n":%d}' % seq)
            draft = Draft(kind, SubjectId("system:log"), {})
            entry = seal(draft, ORIGIN, link, None, {"a": payload.commitment})
            link = Link(seq + 1, entry.hash, Micros(1))
            self.entries.append(Record(entry, {"a": payload}))

    def records(self, *, start=0, limit=10_000):
        return self.entries[start : start + limit]

    def checkpoints(self):
        return []


PINS = [parse_verifier_key(Key.verifier_key)]


@pytest.fixture(scope="module")
def pristine():
    with tempfile.TemporaryDirectory() as place:
        log, folder = Log(), Path(place) / "bundle"
        head = Checkpoint(ORIGIN, 3, root_of([record.entry.hash for record in log.entries]))
        export(log, (3, sign_checkpoint(head, Key())), folder, Key())
        yield folder


def test_the_untouched_bundle_is_ok(pristine):
    assert verify_bundle(pristine, PINS).ok
    assert list(records(pristine)) == Log().entries


@pytest.mark.attack
@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    name=st.sampled_from(FILES),
    cut=st.tuples(st.integers(0, 300), st.integers(0, 40)),
    garbage=st.binary(max_size=60)
    | st.sampled_from([b"\n", b"\n\n", b"{}", b"[" * 5_000, b"\xff"]),
    whole=st.booleans(),
)
def test_any_bytes_in_any_file_end_in_findings(pristine, name, cut, garbage, whole):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(pristine, Path(place) / "bundle"))
        good = (folder / name).read_bytes()
        start, length = min(cut[0], len(good)), cut[1]
        bad = garbage if whole else good[:start] + garbage + good[start + length :]
        (folder / name).write_bytes(bad)
        report = verify_bundle(folder, PINS)
        assert report.ok is (bad == good)
        try:
            again = list(records(folder))
        except TamperedError:
            return
        # Notes are not read as records; everything that is, is what was written.
        assert again == Log().entries
