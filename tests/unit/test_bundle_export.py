"""What an export writes: the same bytes each time, for its owner alone, whole or not at all."""

import errno
import hashlib
import stat
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.bundle import export, read_bundle, records, verify_bundle
from governance.canonical import payload_bytes
from governance.errors import ConflictError, InvalidInputError, TamperedError, UnavailableError
from governance.ids import Micros, Origin, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    note_text,
    open_note,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from governance.ledger.entry import Draft, Kind, Link, Payload, Record, genesis, seal
from governance.ledger.manifest import Manifest, manifest_text
from governance.ledger.merkle import Edge
from governance.ledger.parts import OneRun, Span, WholeLog

ORIGIN = Origin("acme.example/agents")
SECRET = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)


class Key:
    origin = ORIGIN
    verifier_key = verifier_key(ORIGIN, SECRET.public_key().public_bytes_raw())

    def sign(self, message):
        return SECRET.sign(message)


KEY = Key()
PINS = [parse_verifier_key(KEY.verifier_key)]


@dataclass
class Log:
    entries: list[Record] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def records(self, *, start=0, limit=10_000):
        self.asked.append(limit)
        return self.entries[start : start + limit]

    def checkpoints(self):
        return self.notes


def build(size, every=5):
    log, link, edge = Log(), Link(0, genesis(ORIGIN), Micros(1)), Edge()
    for seq in range(size):
        contents = (
            {} if seq == 0 else {"text": {"n": seq, "ratio": seq / 2, "é": "\u2028"}, "a": seq}
        )
        payloads = {
            name: Payload(name, hashlib.sha256(b"%d" % seq).digest(), payload_bytes(value))
            for name, value in contents.items()
        }
        kind = Kind.LOG_BEAT if seq else Kind.LOG_CREATED
        commitments = {name: payload.commitment for name, payload in payloads.items()}
        entry = seal(Draft(kind, SubjectId("system:log"), {}), ORIGIN, link, None, commitments)
        link, edge = Link(seq + 1, entry.hash, entry.ts), edge.append(entry.hash)
        log.entries.append(Record(entry, payloads))
        if (seq + 1) % every == 0 or seq + 1 == size:
            head = Checkpoint(ORIGIN, seq + 1, edge.root())
            log.notes.append((seq + 1, sign_checkpoint(head, KEY)))
    return log


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_bundle_holds_what_its_format_says(tmp_path):
    log = build(12)
    manifest = export(log, log.notes[-1], tmp_path / "out", KEY)
    found = files(tmp_path / "out")
    assert sorted(found) == [
        "checkpoint",
        "checkpoints/0000000000000005",
        "checkpoints/0000000000000010",
        "checkpoints/0000000000000012",
        "entries/0000000000000000.jsonl",
        "keys",
        "manifest.json",
        "manifest.sig",
        "payloads/0000000000000000.jsonl",
        "tile/0/000.p/12",
    ]
    hashes = [record.entry.hash for record in log.entries]
    assert found["tile/0/000.p/12"] == b"".join(hashes)
    raws = [record.entry.raw for record in log.entries]
    assert found["entries/0000000000000000.jsonl"] == b"".join(raw + b"\n" for raw in raws)
    assert found["keys"] == f"{KEY.verifier_key}\n".encode()
    assert found["checkpoint"] == found["checkpoints/0000000000000012"]
    assert Manifest.from_bytes(found["manifest.json"]) == manifest
    for name, stored in manifest.files.items():
        assert (stored.length, stored.sha256) == (
            len(found[name]),
            hashlib.sha256(found[name]).hexdigest(),
        )
    note = found["manifest.sig"].decode()
    assert open_note(note, PINS) == (ORIGIN,)
    assert note_text(note) == manifest_text(ORIGIN, found["manifest.json"])
    assert verify_bundle(tmp_path / "out", PINS).ok


def test_the_same_range_gives_the_same_bytes_also_later(tmp_path):
    log, longer = build(12), build(30, every=6)
    longer.notes = sorted({*log.notes, *longer.notes[-1:]})
    export(log, log.notes[-1], tmp_path / "a", KEY)
    export(longer, log.notes[-1], tmp_path / "b", KEY)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_segments_follow_the_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("governance.bundle.writing.SEGMENT_ENTRIES", 4)
    monkeypatch.setattr("governance.ledger.manifest.SEGMENT_ENTRIES", 4)
    log = build(10)
    manifest = export(log, log.notes[-1], tmp_path / "out", KEY)
    assert [name for name in sorted(manifest.files) if name.startswith("entries")] == [
        f"entries/{first:016}.jsonl" for first in (0, 4, 8)
    ]
    report = verify_bundle(tmp_path / "out", PINS)
    assert report.ok
    assert list(records(tmp_path / "out")) == log.entries
    (tmp_path / "out" / f"entries/{4:016}.jsonl").unlink()
    assert not verify_bundle(tmp_path / "out", PINS).ok


def test_files_are_for_their_owner_alone(tmp_path):
    log = build(3)
    export(log, log.notes[-1], tmp_path / "out", KEY)
    for path in (tmp_path / "out").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def test_records_come_back_with_their_payloads(tmp_path):
    log = build(7)
    export(log, log.notes[-1], tmp_path / "out", KEY)
    again = list(records(tmp_path / "out"))
    assert again == log.entries
    assert again[3].content("text") == {"n": 3, "ratio": 1.5, "é": "\u2028"}


def test_an_export_streams_in_batches_and_tells_how_far_it_is(tmp_path):
    log, told = build(1_200, every=400), []
    export(log, log.notes[-1], tmp_path / "out", KEY, told.append)
    assert told == [512, 1_024, 1_200]
    assert max(log.asked) <= 512


def test_progress_of_a_verification_ends_at_what_the_manifest_says(tmp_path):
    log, told = build(20), []
    manifest = export(log, log.notes[-1], tmp_path / "out", KEY)
    verify_bundle(tmp_path / "out", PINS, told.append)
    assert told[-1] == manifest.total_bytes


def test_only_what_the_checkpoint_covers_is_written(tmp_path):
    log = build(12)
    export(log, log.notes[1], tmp_path / "out", KEY)
    report = verify_bundle(tmp_path / "out", PINS)
    assert (report.ok, report.summary.entries, report.summary.checkpoint) == (True, 10, 10)


@pytest.mark.parametrize("kind", ["full", "file", "link"])
def test_nothing_is_overwritten(tmp_path, kind):
    target = tmp_path / "out"
    if kind == "full":
        target.mkdir()
        (target / "mine").write_text("keep")
    elif kind == "file":
        target.write_text("keep")
    else:
        target.symlink_to(tmp_path / "elsewhere")
    log = build(3)
    with pytest.raises(ConflictError, match="exists already; name a new folder"):
        export(log, log.notes[-1], target, KEY)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "out").mkdir()
    log = build(3)
    export(log, log.notes[-1], tmp_path / "out", KEY)
    assert verify_bundle(tmp_path / "out", PINS).ok


def test_a_store_shorter_than_its_checkpoint_is_tampered_and_leaves_nothing(tmp_path):
    log = build(9)
    log.entries = log.entries[:7]
    with pytest.raises(TamperedError, match="ends at entry 7"):
        export(log, log.notes[-1], tmp_path / "out", KEY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [2, 4])
def test_a_checkpoint_of_another_size_is_refused(tmp_path, size):
    log = build(3)
    with pytest.raises(InvalidInputError, match=f"at 3 is not of `{ORIGIN}` at {size}"):
        export(log, (size, log.notes[-1][1]), tmp_path / "out", KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("governance.bundle.writing.os.fsync", full)
    log = build(3)
    with pytest.raises(UnavailableError, match="No space left on device; free the disk"):
        export(log, log.notes[-1], tmp_path / "out", KEY)
    assert list(tmp_path.iterdir()) == []


def manifest_json(names=("checkpoint", "keys"), **changes):
    files = {name: {"bytes": 1, "sha256": "0" * 64} for name in names}
    whole = {"files": files, "format": "governance/bundle/v2", "log": ORIGIN}
    whole |= {"part": {"kind": "log"}, "size": 0, "withheld": {}} | changes
    return orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)


RANGE = {"kind": "range", "first": 2, "end": 5}
OF_PART = (
    *("checkpoint", "hashes", "keys", "checkpoints/0000000000000009"),
    *("entries/0000000000000002.jsonl", "payloads/0000000000000002.jsonl"),
)


def test_the_smallest_manifests_read():
    assert Manifest.from_bytes(manifest_json()).part == WholeLog(0)
    read = Manifest.from_bytes(
        manifest_json(OF_PART, part=RANGE, size=9, withheld={"args": [2, 4], "input": [2]})
    )
    assert (read.part, read.size) == (Span(2, 5, 9), 9)
    assert read.withheld == {"args": [2, 4], "input": [2]}
    run = manifest_json(OF_PART, part={"kind": "run", "run": "run-1"}, size=9)
    assert Manifest.from_bytes(run).part == OneRun("run-1", 9)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        manifest_json() + b"\n",
        manifest_json(size=1),
        manifest_json(size=-1),
        manifest_json(size=True),
        manifest_json(first=1),
        manifest_json(format="governance/bundle/v1"),
        manifest_json(withheld=[[1, "args"]]),
        manifest_json(withheld={"args": []}),
        manifest_json(withheld={"args": [2, 2]}),
        manifest_json(withheld={"args": [3, 2]}),
        manifest_json(withheld={"args": [-1]}),
        manifest_json(withheld={"args": "12"}),
        manifest_json(withheld={"args": {"1": 2}}),
        manifest_json(log="two words"),
        manifest_json(extra=1),
        manifest_json(files={}),
        manifest_json(files=[]),
        manifest_json(files={"checkpoint": {"bytes": 1}}),
        manifest_json(files={"keys": {"bytes": 1, "sha256": "0" * 64}, "../x": None}),
        manifest_json(("checkpoint", "keys", "hashes")),
        manifest_json(("checkpoint", "keys", "tile/0/000.p/1")),
        manifest_json(part=None),
        manifest_json(part="log"),
        manifest_json(part={"kind": "log", "first": 0}),
        manifest_json(part={"kind": "half"}),
        manifest_json(OF_PART, part=RANGE | {"end": 10}, size=9),
        manifest_json(OF_PART, part=RANGE | {"end": 2}, size=9),
        manifest_json(OF_PART, part=RANGE | {"first": "2"}, size=9),
        manifest_json(OF_PART, part={"kind": "run", "run": "two words"}, size=9),
        manifest_json(OF_PART, part={"kind": "run", "run": 7}, size=9),
        manifest_json(OF_PART[:-1], part=RANGE, size=9),
        manifest_json([n for n in OF_PART if n != "hashes"], part=RANGE, size=9),
        manifest_json((*OF_PART, "checkpoints/0000000000000002"), part=RANGE, size=9),
        manifest_json((*OF_PART, "checkpoints/0000000000000007"), part=RANGE, size=9),
        manifest_json((*OF_PART, "entries/../../x"), part=RANGE, size=9),
    ],
)
def test_manifests_that_are_not_read(raw):
    with pytest.raises(InvalidInputError):
        Manifest.from_bytes(raw)


def test_names_that_cannot_be_shown_are_shown_escaped(tmp_path):
    log = build(3)
    export(log, log.notes[-1], tmp_path / "out", KEY)
    (tmp_path / "out" / "\udcff").touch()
    bundle = read_bundle(tmp_path / "out")
    assert [item.where.file for item in bundle.findings] == ["\\udcff"]
