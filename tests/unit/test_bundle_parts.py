"""Bundles of a range and of one run: what they hold, and that no part passes for more than it is."""

import hashlib
import shutil
from dataclasses import replace

import orjson
import pytest
from bundles import KEY, PINS, Builder, busy_log, choices, write

from governance.bundle import (
    choose_range,
    choose_run,
    choose_whole,
    export_part,
    parse_withholding,
    records,
    verify_bundle,
)
from governance.errors import InvalidInputError, TamperedError
from governance.ids import RunId
from governance.ledger.checkpoint import sign_note
from governance.ledger.entry import Kind
from governance.ledger.manifest import Manifest, Stored, manifest_text
from governance.ledger.merkle import root_of
from governance.ledger.parts import OneRun, Span, WholeLog
from governance.ledger.report import Flaw, Status

LOG = busy_log()
SIZE = len(LOG.entries)
KINDS = ["log", "range", "run"]


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def kinds(report):
    return {item.kind for item in report.findings if item.is_failure}


def resigned(folder, **changes):
    """Sign the folder as it lies there with the log's own key, as its operator could."""
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    found = files(folder)
    listed = {
        name: Stored(len(raw), hashlib.sha256(raw).hexdigest())
        for name, raw in found.items()
        if not name.startswith(("manifest", "tile/"))
    }
    raw = replace(manifest, files=listed, **changes).to_bytes()
    (folder / "manifest.json").write_bytes(raw)
    (folder / "manifest.sig").write_text(sign_note(manifest_text(manifest.log, raw), KEY))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_holds_and_reads_back(tmp_path, kind):
    folder = write(LOG, kind, tmp_path / kind)
    report = verify_bundle(folder, PINS)
    assert report.ok, report.findings
    assert report.summary.part == choices(LOG)[kind].part
    wanted = [seq for a, b in choices(LOG)[kind].stretches for seq in range(a, b)]
    assert [record.entry.seq for record in records(folder)] == wanted
    assert [r for r in LOG.entries if r.entry.seq in wanted] == list(records(folder))
    assert report.summary.entries == len(wanted)


def test_a_run_holds_what_its_decisions_rest_on_and_its_erasures(tmp_path):
    chosen = choose_run(LOG, RunId("run-0"))
    seqs = [seq for a, b in chosen.stretches for seq in range(a, b)]
    picked = [LOG.entries[seq].entry for seq in seqs]
    assert [entry.kind for entry in picked if entry.run is None] == [
        Kind.LOG_CREATED,
        Kind.POLICY_ACTIVATED,
        Kind.TOOL_REGISTERED,
        Kind.PAYLOAD_ERASED,
    ]
    assert {entry.run for entry in picked} == {None, "run-0"}
    export_part(LOG, chosen, tmp_path / "b", KEY)
    report = verify_bundle(tmp_path / "b", PINS)
    assert report.ok
    assert report.counts[Flaw.PAYLOAD_ERASED] == 1


def test_only_the_rules_and_tools_in_question_go_with_a_run():
    builder = Builder()
    builder.add(Kind.LOG_CREATED, {"keys": [KEY.verifier_key]})
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "aa" * 32})
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "bb" * 32})
    builder.add(Kind.TOOL_REGISTERED, {"tool": "pay", "definition": "11" * 32})
    builder.add(Kind.TOOL_REGISTERED, {"tool": "look", "definition": "22" * 32})
    builder.add(Kind.TOOL_CHANGED, {"tool": "pay", "definition": "33" * 32})
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "aa" * 32})
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "cc" * 32})
    builder.add(Kind.RUN_STARTED, {}, run="r")
    body = {"tool": "pay", "definition": "33" * 32, "policy": "aa" * 32}
    builder.add(Kind.CALL_DECIDED, body, run="r")
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "aa" * 32})
    builder.add(Kind.RUN_COMPLETED, {}, run="r")
    builder.sign()
    chosen = choose_run(builder.log, RunId("r"))
    assert chosen.stretches == [(0, 1), (5, 10), (11, 12)]
    # 5: the tool as decided about; 6: its policy's last activation before; 7: what was in force at the start


def test_a_range_takes_the_smallest_checkpoint_that_covers_it_and_its_erasures():
    sizes = [size for size, _ in LOG.notes]
    plain = choose_range(LOG, 5, 9)
    assert plain.part == Span(5, 9, min(size for size in sizes if size >= 9))
    assert plain.stretches == [(5, 9)]
    erased = choose_range(LOG, 2, 6)
    assert erased.part.size == SIZE
    assert erased.stretches == [(2, 6), (SIZE - 2, SIZE - 1)]


@pytest.mark.parametrize("first", range(0, SIZE, 3))
def test_every_range_holds(tmp_path, first):
    for end in range(first + 1, SIZE + 1, 4):
        folder = tmp_path / f"{end}"
        export_part(LOG, choose_range(LOG, first, end), folder, KEY)
        report = verify_bundle(folder, PINS)
        assert report.ok, (first, end, report.findings)


@pytest.mark.parametrize("span", [(-1, 3), (3, 3), (5, 2), (0, SIZE + 1)])
def test_ranges_that_are_not_there(span):
    with pytest.raises(InvalidInputError):
        choose_range(LOG, *span)


def test_a_run_under_no_checkpoint_is_not_exported():
    builder = Builder()
    builder.add(Kind.LOG_CREATED, {})
    builder.sign()
    builder.add(Kind.RUN_STARTED, {}, run="r")
    with pytest.raises(InvalidInputError, match="no checkpoint covers entry `1`"):
        choose_run(builder.log, RunId("r"))


# --- what nobody may make of a part ------------------------------------------------------------------


def drop_line(folder, number):
    """Take one entry out of a bundle, with its payloads."""
    (file,) = (folder / "entries").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    gone = lines.pop(number)
    file.write_bytes(b"".join(lines))
    seq = orjson.loads(gone)["seq"]
    (beside,) = (folder / "payloads").iterdir()
    kept = [
        line
        for line in beside.read_bytes().splitlines(keepends=True)
        if orjson.loads(line)["seq"] != seq
    ]
    beside.write_bytes(b"".join(kept))
    return seq


@pytest.mark.attack
@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_can_be_left_out_even_by_the_key_holder(tmp_path, kind):
    pristine = write(LOG, kind, tmp_path / "pristine")
    (file,) = (pristine / "entries").iterdir()
    for number in range(len(file.read_bytes().splitlines())):
        folder = shutil.copytree(pristine, tmp_path / f"{number}")
        drop_line(folder, number)
        report = verify_bundle(folder, PINS)
        assert not report.ok, number
        resigned(folder)
        report = verify_bundle(folder, PINS)
        assert Status.FAILED in (report.integrity, report.completeness), number
        assert Flaw.ROOT_DIFFERS in kinds(report) or kind == "log"


@pytest.mark.attack
def test_hashes_in_place_of_a_hidden_entry_do_not_hide_it(tmp_path):
    """The operator computes honest hashes for a range or a run with an entry taken out."""
    inside = choose_range(LOG, 3, 14)
    cut = replace(inside, stretches=[(3, 8), (9, 14), *inside.stretches[1:]])
    export_part(LOG, cut, tmp_path / "range", KEY)
    report = verify_bundle(tmp_path / "range", PINS)
    missing = [item.where.seq for item in report.findings if item.kind == Flaw.ENTRY_MISSING]
    assert missing == [8]

    short = replace(inside, stretches=[(3, 12), *inside.stretches[1:]])
    export_part(LOG, short, tmp_path / "short", KEY)
    assert Flaw.ENTRY_MISSING in kinds(verify_bundle(tmp_path / "short", PINS))

    late = replace(inside, stretches=[(5, 14), *inside.stretches[1:]])
    export_part(LOG, late, tmp_path / "late", KEY)
    assert Flaw.ENTRY_MISSING in kinds(verify_bundle(tmp_path / "late", PINS))

    chosen = choose_run(LOG, RunId("run-1"))
    own = [r.entry.seq for r in LOG.run_records(RunId("run-1"))]
    for seq in own:
        stretches = [
            piece
            for start, end in chosen.stretches
            for piece in ((start, min(end, seq)), (max(start, seq + 1), end))
            if piece[0] < piece[1]
        ]
        export_part(LOG, replace(chosen, stretches=stretches), tmp_path / f"run{seq}", KEY)
        report = verify_bundle(tmp_path / f"run{seq}", PINS)
        assert not report.ok, seq
        if seq == own[-1]:
            assert report.completeness is Status.NOT_CHECKED
        else:
            assert Flaw.RUN_LINK_BROKEN in kinds(report)


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["range", "run"])
def test_a_part_does_not_pass_for_another(tmp_path, kind):
    """Each bundle, signed again by the operator under every other claim."""
    claims = [WholeLog(SIZE), Span(0, SIZE, SIZE), Span(2, 14, SIZE), Span(3, 15, SIZE)]
    claims += [OneRun(RunId("run-2"), SIZE), OneRun(RunId("nobody"), SIZE)]
    pristine = write(LOG, kind, tmp_path / "pristine")
    for number, claim in enumerate(claims):
        folder = shutil.copytree(pristine, tmp_path / f"{number}")
        resigned(folder, part=claim)
        report = verify_bundle(folder, PINS)
        assert not report.ok, claim
        assert not isinstance(report.summary.part, WholeLog)


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["range", "run"])
def test_hashes_that_are_changed_cut_or_too_many(tmp_path, kind):
    pristine = write(LOG, kind, tmp_path / "pristine")
    good = (pristine / "hashes").read_bytes()
    assert len(good) % 32 == 0
    bad = [good[:-32], good[:-1], good + bytes(32), good + b"x", b"", bytes(len(good)), good[::-1]]
    for number, raw in enumerate(bad):
        folder = shutil.copytree(pristine, tmp_path / f"{number}")
        (folder / "hashes").write_bytes(raw)
        assert Flaw.FILE_ALTERED in kinds(verify_bundle(folder, PINS))
        resigned(folder)
        found = kinds(verify_bundle(folder, PINS))
        assert found & {Flaw.HASHES_WRONG, Flaw.ROOT_DIFFERS}, number


@pytest.mark.attack
def test_another_checkpoint_does_not_cover_a_part(tmp_path):
    folder = write(LOG, "run", tmp_path / "b")
    older = LOG.notes[0][1]
    (name,) = (folder / "checkpoints").iterdir()
    for path in (name, folder / "checkpoint"):
        path.write_text(older)
    resigned(folder)
    report = verify_bundle(folder, PINS)
    assert Flaw.TAIL_UNCOVERED in kinds(report)


@pytest.mark.attack
def test_a_checkpoint_that_cannot_be_compared_is_named(tmp_path):
    chosen = choose_range(LOG, 3, 14)
    inner = next(size for size, _ in LOG.notes if 3 < size <= 14)
    export_part(LOG, chosen, tmp_path / "b", KEY)
    beyond = next(text for size, text in LOG.notes if 14 < size < chosen.part.size)
    (tmp_path / "b" / "checkpoints" / f"{inner:016}").write_text(beyond)
    resigned(tmp_path / "b")
    assert Flaw.CHECKPOINT_BEYOND in kinds(verify_bundle(tmp_path / "b", PINS))


# --- kept back ---------------------------------------------------------------------------------------


def test_what_is_kept_back_is_listed_apart_from_all_else(tmp_path):
    rules = [parse_withholding(text) for text in ("message", "run:run-2/args", "entry:1/text")]
    manifest = export_part(LOG, choose_whole(LOG.notes[-1], rules), tmp_path / "b", KEY)
    message = [r.entry.seq for r in LOG.entries if r.entry.kind is Kind.MODEL_RESPONDED]
    args = [r.entry.seq for r in LOG.run_records(RunId("run-2")) if "args" in r.payloads]
    assert manifest.withheld == {"message": message, "args": args, "text": [1]}
    report = verify_bundle(tmp_path / "b", PINS)
    assert report.ok
    assert report.counts[Flaw.PAYLOAD_WITHHELD] == len(message) + len(args) + 1
    assert report.counts[Flaw.PAYLOAD_ERASED] == 1
    assert b"Ana" not in b"".join(files(tmp_path / "b").values())


@pytest.mark.attack
def test_taking_content_away_is_not_withholding_it(tmp_path):
    folder = write(LOG, "log", tmp_path / "b")
    (file,) = (folder / "payloads").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line for line in lines if b'"name":"message"' not in line))
    assert Flaw.PAYLOAD_MISSING in kinds(verify_bundle(folder, PINS))
    raw = (folder / "manifest.json").read_bytes()
    seqs = [r.entry.seq for r in LOG.entries if r.entry.kind is Kind.MODEL_RESPONDED]
    said = b'"withheld":{"message":[%s]}' % b",".join(b"%d" % seq for seq in seqs)
    (folder / "manifest.json").write_bytes(raw.replace(b'"withheld":{}', said))
    report = verify_bundle(folder, PINS)
    assert Flaw.MANIFEST_DIFFERS in kinds(report)
    assert not report.ok


@pytest.mark.parametrize("listed", [{"message": [0]}, {"nothing": [4]}, {"args": [10**9]}])
def test_what_is_listed_as_kept_back_has_to_be_absent_and_committed_to(tmp_path, listed):
    folder = write(LOG, "log", tmp_path / "b")
    resigned(folder, withheld=listed)
    assert kinds(verify_bundle(folder, PINS)) == {Flaw.MANIFEST_DIFFERS}


# --- tiles -------------------------------------------------------------------------------------------


def long_log(size):
    builder = Builder()
    for seq in range(size):
        builder.add(Kind.LOG_BEAT if seq else Kind.LOG_CREATED, {})
    builder.sign()
    return builder.log


def test_tiles_are_what_c2sp_says_and_are_compared(tmp_path):
    log = long_log(600)
    folder = tmp_path / "b"
    export_part(log, choose_whole(log.notes[-1]), folder, KEY)
    found = {name: raw for name, raw in files(folder).items() if name.startswith("tile/")}
    assert sorted(found) == ["tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2"]
    leaves = [record.entry.hash for record in log.entries]
    assert found["tile/0/001"] == b"".join(leaves[256:512])
    assert found["tile/1/000.p/2"] == root_of(leaves[:256]) + root_of(leaves[256:512])
    assert verify_bundle(folder, PINS).ok
    for name, raw in found.items():
        for bad in (raw[:-1], raw + b"x", raw[:-1] + bytes([raw[-1] ^ 1]), b"", None):
            if bad is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(bad)
            flaw = Flaw.FILE_MISSING if bad is None else Flaw.TILE_DIFFERS
            assert kinds(verify_bundle(folder, PINS)) == {flaw}, name
            (folder / name).write_bytes(raw)


@pytest.mark.attack
def test_what_is_no_tile_is_found(tmp_path):
    log = long_log(3)
    folder = tmp_path / "b"
    export_part(log, choose_whole(log.notes[-1]), folder, KEY)
    deep = folder / "tile" / "/".join("x" * 30)
    deep.mkdir(parents=True)
    (folder / "tile" / "0" / "001").write_bytes(b"")
    (folder / "tile" / "0" / "link").symlink_to(folder / "keys")
    report = verify_bundle(folder, PINS)
    odd = {item.where.file for item in report.findings if item.kind == Flaw.FILE_UNEXPECTED}
    assert {"tile/0/001", "tile/0/link"} <= odd
    assert len(odd) == 3


def test_a_bundle_of_a_part_has_no_tiles(tmp_path):
    folder = write(LOG, "run", tmp_path / "b")
    assert not (folder / "tile").exists()
    (folder / "tile").mkdir()
    (folder / "tile" / "x").touch()
    assert kinds(verify_bundle(folder, PINS)) == {Flaw.FILE_UNEXPECTED}


@pytest.mark.parametrize("kind", ["range", "run"])
def test_records_of_a_part_must_stand_where_it_allows(tmp_path, kind):
    folder = write(LOG, kind, tmp_path / "b")
    (file,) = (folder / "entries").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    lines[0], lines[1] = lines[1], lines[0]
    file.write_bytes(b"".join(lines))
    with pytest.raises(TamperedError):
        list(records(folder))


def test_many_entries_of_a_part_go_into_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr("governance.bundle.writing.SEGMENT_ENTRIES", 4)
    folder = write(LOG, "run", tmp_path / "b")
    assert len(list((folder / "entries").iterdir())) > 1
    assert verify_bundle(folder, PINS).ok
    assert [r.entry.seq for r in records(folder)] == [
        seq for a, b in choices(LOG)["run"].stretches for seq in range(a, b)
    ]
