"""What somebody who holds a bundle might do to it, and that verification fails and names the place."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.bundle import export, records, verify_bundle
from governance.errors import InvalidInputError, TamperedError
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    seal,
)
from governance.ledger.lines import cut_lines
from governance.ledger.merkle import root_of
from governance.ledger.report import Status
from governance.ledger.verify import verify

pytestmark = pytest.mark.attack

ORIGIN = Origin("acme.example/agents")
RUN = RunId("run-7k3f")
AGENT = SubjectId("agent:refund-desk")
ANA = SubjectId("user:7f3k9q")
STEPS = [
    (Kind.LOG_CREATED, {"keys": []}, {}, None),
    (Kind.POLICY_ACTIVATED, {"policy": "ab" * 32}, {"text": {"baseline": "rules: []"}}, None),
    (Kind.RUN_STARTED, {"limits": {"iterations": 10}}, {"input": {"messages": ["refund 7"]}}, RUN),
    (Kind.MODEL_REQUESTED, {"turn": 1, "messages": 1}, {}, RUN),
    (Kind.MODEL_RESPONDED, {"turn": 1, "calls": [f"{RUN}/1.0"]}, {"message": "ok"}, RUN),
    (
        Kind.CALL_DECIDED,
        {"uid": f"{RUN}/1.0", "effect": "allow", "rules": ["pay/small"]},
        {"args": {"amount": 500, "ratio": 0.5}, "input": {"now": 1}},
        RUN,
    ),
    (Kind.CALL_STARTED, {"uid": f"{RUN}/1.0", "attempt": 1, "decision": 5}, {}, RUN),
    (Kind.CALL_FINISHED, {"uid": f"{RUN}/1.0"}, {"result": {"content": "für Ana"}}, RUN),
    (Kind.RUN_COMPLETED, {"iterations": 1, "calls": 1}, {}, RUN),
    (Kind.PAYLOAD_ERASED, {"subject": ANA, "targets": [[2, ["input"]]]}, {}, None),
    (Kind.LOG_BEAT, {}, {}, None),
    (Kind.BUNDLE_EXPORTED, {"size": 11}, {}, None),
]
CHECKPOINTS = (4, 9, 12)


class Key:
    """A log's key, made from a seed."""

    def __init__(self, seed: int = 1, origin: Origin = ORIGIN) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.origin = origin

    @property
    def verifier_key(self) -> str:
        return verifier_key(self.origin, self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


@dataclass
class Log:
    """What a store would give to `export`."""

    entries: list[Record]
    notes: list[tuple[int, str]]

    def records(self, *, start: int = 0, limit: int = 10_000) -> list[Record]:
        return self.entries[start : start + limit]

    def checkpoints(self) -> list[tuple[int, str]]:
        return self.notes


Change = Callable[[int, dict], dict]


def build(key: Key, change: Change = lambda _, body: body) -> Log:
    """The same twelve entries each time; `change` rewrites a body before it is sealed and linked."""
    link, run = Link(0, genesis(key.origin), Micros(1_700_000_000_000_000)), RunLink(0, RUN_START)
    entries, notes = [], []
    for seq, (kind, body, contents, in_run) in enumerate(STEPS):
        payloads = {
            name: Payload(name, hashlib.sha256(f"{seq}{name}".encode()).digest(), text)
            for name, text in ((n, json_text(v)) for n, v in contents.items())
        }
        draft = Draft(
            kind, AGENT, change(seq, body), run=in_run, on_behalf_of=ANA if in_run else None
        )
        commitments = {name: payload.commitment for name, payload in payloads.items()}
        entry = seal(draft, key.origin, link, run if in_run else None, commitments)
        link = Link(seq + 1, entry.hash, Micros(entry.ts + (seq % 3)))
        if in_run:
            run = RunLink(run.rseq + 1, entry.hash)
        if seq == 2:
            payloads = {}  # erased: entry 9 says so
        entries.append(Record(entry, payloads))
        if seq + 1 in CHECKPOINTS:
            root = root_of([record.entry.hash for record in entries])
            notes.append((seq + 1, sign_checkpoint(Checkpoint(key.origin, seq + 1, root), key)))
    return Log(entries, notes)


def json_text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


KEY = Key()
PINS = [parse_verifier_key(KEY.verifier_key)]
ENTRIES = "entries/0000000000000000.jsonl"
PAYLOADS = "payloads/0000000000000000.jsonl"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "good"
    log = build(KEY)
    export(log, log.notes[-1], folder, KEY)
    return folder


@pytest.fixture
def bundle(pristine, tmp_path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "bundle"))


def kinds(report) -> set[str]:
    return {finding.kind for finding in report.findings if finding.is_failure}


def places(report) -> set[tuple[str | None, int | None, int | None]]:
    return {
        (item.where.file, item.where.line, item.where.seq)
        for item in report.findings
        if item.is_failure
    }


def edit_lines(bundle: Path, name: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = bundle / name
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_an_untouched_bundle_is_ok_and_says_what_was_erased(bundle):
    report = verify_bundle(bundle, PINS)
    assert report.ok
    assert [(item.kind, item.where.seq, item.is_failure) for item in report.findings] == [
        ("payload-erased", 2, False)
    ]
    assert (report.summary.entries, report.summary.checkpoint) == (12, 12)
    assert report.summary.signers == (ORIGIN,)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", [ENTRIES, PAYLOADS])
def test_every_flipped_byte_is_found_at_its_line(pristine, name, part):
    """By the ledger's own checks: no manifest helps here."""
    files = {file: (pristine / file).read_bytes() for file in (ENTRIES, PAYLOADS)}
    notes = [
        (f"{size:016}", (pristine / f"checkpoints/{size:016}").read_bytes()) for size in CHECKPOINTS
    ]
    good = files[name]
    for at in range(part, len(good), 4):
        flipped = files | {name: good[:at] + bytes([good[at] ^ (1 << at % 7)]) + good[at + 1 :]}
        streams = [[(file, cut_lines([raw], 65_535))] for file, raw in flipped.items()]
        report = verify(*streams, notes, None)
        assert report.integrity is Status.FAILED, at
        line = good.count(b"\n", 0, at) + 1
        found = {(file, row) for file, row, _ in places(report)}
        # A changed value in an entry shows at the next one, whose link it breaks, or in the root.
        near = {(name, line), (name, line + 1)}
        is_last = name == ENTRIES and line == len(STEPS)
        assert found & near or (is_last and (f"{12:016}", None) in found), at


@pytest.mark.parametrize("name", [ENTRIES, PAYLOADS])
def test_a_flipped_byte_changes_the_hash_of_its_file(bundle, name):
    path = bundle / name
    good = path.read_bytes()
    for at in range(0, len(good), 61):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert ("file-altered", name) in {
            (item.kind, item.where.file) for item in verify_bundle(bundle, None).findings
        }


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "manifest.sig",
        "checkpoint",
        f"checkpoints/{4:016}",
        f"checkpoints/{12:016}",
        "keys",
    ],
)
def test_every_flipped_byte_of_the_small_files_is_found(bundle, name):
    path = bundle / name
    good = path.read_bytes()
    for at in range(0, len(good), 3 if len(good) > 250 else 1):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        report = verify_bundle(bundle, PINS)
        assert not report.ok
        assert {name, f"{Path(name).stem}.sig"} & {file for file, _, _ in places(report)}, at


@pytest.mark.parametrize("seq", range(12))
def test_a_deleted_entry_is_missed(bundle, seq):
    edit_lines(bundle, ENTRIES, lambda lines: lines[:seq] + lines[seq + 1 :])
    report = verify_bundle(bundle, PINS)
    assert report.integrity is Status.FAILED
    assert report.completeness is Status.FAILED
    assert "tail-cut" in kinds(report)
    if seq == 0:
        assert "log-partial" in kinds(report)
    elif seq < 11:
        assert ("entry-missing", seq + 1) in {(f.kind, f.where.seq) for f in report.findings}


@pytest.mark.parametrize("seq", range(11))
def test_swapped_entries_are_named(bundle, seq):
    edit_lines(bundle, ENTRIES, lambda old: [*old[:seq], old[seq + 1], old[seq], *old[seq + 2 :]])
    report = verify_bundle(bundle, PINS)
    assert {"entry-moved", "root-differs", "file-altered"} <= kinds(report)
    assert (ENTRIES, seq + 2, seq) in places(report)


@pytest.mark.parametrize("seq", range(12))
def test_a_repeated_entry_is_named(bundle, seq):
    edit_lines(bundle, ENTRIES, lambda old: [*old[: seq + 1], *old[seq:]])
    report = verify_bundle(bundle, PINS)
    assert "entry-moved" in kinds(report)
    assert (ENTRIES, seq + 2, seq) in places(report)


@pytest.mark.parametrize("kept", range(12))
def test_a_tail_cut_below_the_last_checkpoint_is_seen(bundle, kept):
    edit_lines(bundle, ENTRIES, lambda old: old[:kept])
    report = verify_bundle(bundle, PINS)
    assert report.completeness is Status.FAILED
    assert ("log-empty" if kept == 0 else "tail-cut") in kinds(report)


@pytest.mark.parametrize("seq", range(12))
def test_a_history_relinked_without_the_key_has_another_root(bundle, seq):
    """Everything an operator without the key can redo is redone: links, payloads, hashes, manifest."""
    forged = build(KEY, lambda at, body: body | {"forged": True} if at == seq else body)
    forged.notes = build(KEY).notes
    shutil.rmtree(bundle)
    export(forged, forged.notes[-1], bundle, KEY)
    report = verify_bundle(bundle, PINS)
    assert kinds(report) == {"root-differs"}
    first = next(size for size in CHECKPOINTS if size > seq)
    assert f"checkpoints/{first:016}" in {file for file, _, _ in places(report)}


def test_a_history_signed_with_another_key_is_not_trusted(bundle):
    thief = Key(seed=2)
    forged = build(thief)
    shutil.rmtree(bundle)
    export(forged, forged.notes[-1], bundle, thief)
    report = verify_bundle(bundle, PINS)
    assert report.integrity is Status.OK
    assert report.trust is Status.FAILED
    assert "key-unknown" in kinds(report)
    assert verify_bundle(bundle, [parse_verifier_key(thief.verifier_key)]).ok


def test_another_logs_checkpoint_is_foreign(bundle):
    other = Key(origin=Origin("other.example/log"))
    note = build(other).notes[-1][1]
    (bundle / f"checkpoints/{12:016}").write_text(note)
    (bundle / "checkpoint").write_text(note)
    report = verify_bundle(bundle, [*PINS, parse_verifier_key(other.verifier_key)])
    assert report.trust is Status.FAILED
    assert {"checkpoint-foreign", "tail-uncovered"} <= kinds(report)


def test_without_a_pin_nothing_is_trusted(bundle):
    report = verify_bundle(bundle, None)
    assert (report.integrity, report.completeness) == (Status.OK, Status.OK)
    assert report.trust is Status.NOT_CHECKED
    assert not report.ok
    assert kinds(report) == {"UNPINNED"}


def test_an_empty_set_of_pins_trusts_nobody(bundle):
    report = verify_bundle(bundle, [])
    assert report.trust is Status.FAILED
    assert "pins-empty" in kinds(report)


def test_a_wrong_pin_fails(bundle):
    stranger = Key(origin=Origin("other.example/log"))
    report = verify_bundle(bundle, [parse_verifier_key(stranger.verifier_key)])
    assert report.trust is Status.FAILED
    assert {"pin-wrong", "key-unknown"} <= kinds(report)


def test_a_removed_newest_checkpoint_leaves_the_tail_uncovered(bundle):
    log = build(KEY)
    log.notes = log.notes[:-1]
    shutil.rmtree(bundle)
    export(log, log.notes[-1], bundle, KEY)
    assert verify_bundle(bundle, PINS).summary.entries == 9
    full = build(KEY)
    edit_lines(
        bundle, ENTRIES, lambda old: [*old, *(r.entry.raw + b"\n" for r in full.entries[9:])]
    )
    report = verify_bundle(bundle, PINS)
    assert ("tail-uncovered", 9) in {(item.kind, item.where.seq) for item in report.findings}


@pytest.mark.parametrize(
    ("garbage", "kind"),
    [
        (b"\n", "line-broken"),
        (b"{}\n", "entry-malformed"),
        (b"\xff\x00garbage", "line-broken"),
        (b'{"a":1,"a":2}\n', "entry-malformed"),
        (b"x" * 200_000 + b"\n", "entry-malformed"),
    ],
)
def test_trailing_garbage_is_found(bundle, garbage, kind):
    edit_lines(bundle, ENTRIES, lambda old: [*old, garbage])
    report = verify_bundle(bundle, PINS)
    assert kind in kinds(report)
    assert (ENTRIES, 13) in {(file, line) for file, line, _ in places(report)}


def test_a_missing_final_newline_is_found(bundle):
    edit_lines(bundle, ENTRIES, lambda old: [*old[:-1], old[-1].rstrip(b"\n")])
    report = verify_bundle(bundle, PINS)
    assert "line-broken" in kinds(report)
    assert (ENTRIES, 12, 11) in places(report)


def test_a_duplicate_key_is_named(bundle):
    edit_lines(bundle, ENTRIES, lambda old: [*old[:3], b'{"actor":"x",' + old[3][1:], *old[4:]])
    report = verify_bundle(bundle, PINS)
    assert ("entry-malformed", 4, "duplicate key `actor` at `$`") in {
        (item.kind, item.where.line, item.message) for item in report.findings
    }


@pytest.mark.parametrize("row", range(5))
def test_a_deleted_payload_is_missing(bundle, row):
    gone = json.loads((bundle / PAYLOADS).read_bytes().splitlines()[row])
    edit_lines(bundle, PAYLOADS, lambda old: old[:row] + old[row + 1 :])
    report = verify_bundle(bundle, PINS)
    assert ("payload-missing", gone["seq"]) in {(i.kind, i.where.seq) for i in report.findings}


@pytest.mark.parametrize("row", range(5))
def test_a_repeated_payload_is_named(bundle, row):
    edit_lines(bundle, PAYLOADS, lambda old: [*old[: row + 1], *old[row:]])
    report = verify_bundle(bundle, PINS)
    assert ("payload-repeated", row + 2) in {(i.kind, i.where.line) for i in report.findings}


@pytest.mark.parametrize("row", range(4))
def test_swapped_payloads_are_out_of_order(bundle, row):
    edit_lines(bundle, PAYLOADS, lambda old: [*old[:row], old[row + 1], old[row], *old[row + 2 :]])
    report = verify_bundle(bundle, PINS)
    assert "payload-moved" in kinds(report)
    assert PAYLOADS in {file for file, _, _ in places(report)}


def test_a_payload_that_no_entry_names_is_unexpected(bundle):
    line = {"content": "1", "name": "zzz", "salt": "0" * 64, "seq": 11}
    edit_lines(bundle, PAYLOADS, lambda old: [*old, json_text(line) + b"\n"])
    report = verify_bundle(bundle, PINS)
    assert ("payload-unexpected", 6, 11) in {
        (i.kind, i.where.line, i.where.seq) for i in report.findings
    }


def test_erasure_excuses_only_with_a_later_entry(bundle):
    """Blanking a payload and claiming its erasure needs an entry, and an entry needs the key."""
    log = build(KEY, lambda seq, body: {"targets": [[9, ["input"]]]} if seq == 9 else body)
    shutil.rmtree(bundle)
    export(log, log.notes[-1], bundle, KEY)
    report = verify_bundle(bundle, PINS)
    assert ("payload-missing", 2) in {(item.kind, item.where.seq) for item in report.findings}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (ENTRIES, "file-missing"),
        (PAYLOADS, "file-missing"),
        ("manifest.json", "file-missing"),
        ("manifest.sig", "file-missing"),
        ("checkpoint", "file-missing"),
        (f"checkpoints/{9:016}", "file-missing"),
        ("keys", "file-missing"),
    ],
)
def test_a_removed_file_is_missed(bundle, name, kind):
    (bundle / name).unlink()
    report = verify_bundle(bundle, PINS)
    assert not report.ok
    assert (kind, name) in {(item.kind, item.where.file) for item in report.findings}


@pytest.mark.parametrize(
    "name", ["run-me.sh", "entries/0000000000065536.jsonl", "checkpoints/0000000000000013"]
)
def test_an_added_file_is_noticed(bundle, name):
    (bundle / name).write_bytes(b"")
    report = verify_bundle(bundle, PINS)
    assert ("file-unexpected", name) in {(item.kind, item.where.file) for item in report.findings}


@pytest.mark.parametrize("name", [ENTRIES, "checkpoint", "manifest.json", "entries"])
def test_symbolic_links_are_refused(bundle, tmp_path, name):
    aside = tmp_path / "aside"
    (bundle / name).rename(aside)
    (bundle / name).symlink_to(aside)
    report = verify_bundle(bundle, PINS)
    assert not report.ok
    assert ("file-unexpected", name) in {(item.kind, item.where.file) for item in report.findings}


def test_a_pipe_does_not_hang_the_verifier(bundle):
    (bundle / ENTRIES).unlink()
    os.mkfifo(bundle / ENTRIES)
    assert "file-unexpected" in kinds(verify_bundle(bundle, PINS))


def test_no_folder_is_an_error_and_not_a_verdict(tmp_path):
    with pytest.raises(InvalidInputError, match="no bundle at"):
        verify_bundle(tmp_path / "absent", PINS)


def test_records_stop_at_what_does_not_follow(bundle):
    edit_lines(bundle, ENTRIES, lambda old: old[:3] + old[4:])
    with pytest.raises(TamperedError, match="does not follow"):
        list(records(bundle))


def test_records_refuse_files_that_are_not_those_listed(bundle):
    edit_lines(bundle, PAYLOADS, lambda old: old[:-1])
    with pytest.raises(TamperedError, match="not the file that the manifest lists"):
        list(records(bundle))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (ENTRIES, lambda old: old[1:], "does not follow"),
        (ENTRIES, lambda old: [b"{}\n", *old], "missing or unknown fields"),
        (PAYLOADS, lambda old: [old[1], old[0], *old[2:]], "out of order"),
        (PAYLOADS, lambda old: [b"{}\n", *old], "payload line"),
    ],
)
def test_records_refuse_what_they_cannot_place(bundle, name, change, message):
    edit_lines(bundle, name, change)
    with pytest.raises(TamperedError, match=message):
        list(records(bundle))


def test_a_manifest_of_another_size_is_incomplete(bundle):
    """The log's own key may sign a manifest, and still not make nine entries twelve."""
    short = build(KEY)
    shutil.rmtree(bundle)
    export(short, short.notes[1], bundle, KEY)
    edit_lines(bundle, ENTRIES, lambda old: [*old, short.entries[9].entry.raw + b"\n"])
    report = verify_bundle(bundle, PINS)
    assert {"manifest-differs", "tail-uncovered"} <= kinds(report)


def test_a_manifest_of_another_log_differs(bundle, tmp_path):
    other = Key(origin=Origin("other.example/log"))
    log = build(other)
    export(log, log.notes[-1], tmp_path / "other", other)
    for name in ("manifest.json", "manifest.sig"):
        shutil.copy(tmp_path / "other" / name, bundle / name)
    report = verify_bundle(bundle, [*PINS, parse_verifier_key(other.verifier_key)])
    assert ("manifest-differs", "manifest.json") in {
        (i.kind, i.where.file) for i in report.findings
    }


def test_an_unreadable_file_is_a_finding(bundle, monkeypatch):
    def broken(_path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("governance.bundle.reading._open", broken)
    report = verify_bundle(bundle, PINS)
    assert not report.ok
    assert kinds(report) >= {"file-unreadable", "log-empty"}


def test_a_missing_folder_is_a_finding(bundle):
    shutil.rmtree(bundle / "payloads")
    assert "file-missing" in kinds(verify_bundle(bundle, PINS))


def test_a_line_without_end_is_read_in_bounds(bundle):
    (bundle / ENTRIES).write_bytes(b"x" * 3_000_000)
    report = verify_bundle(bundle, PINS)
    assert {"line-broken", "entry-malformed", "tail-cut"} <= kinds(report)
    assert report.summary.entries == 1
