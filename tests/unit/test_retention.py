"""Archiving: what leaves the log stays provable, what must not leave stays, and nothing goes unseen."""

import hashlib
import json
import shutil
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import (
    ConflictError,
    Governance,
    InvalidInputError,
    RefusedError,
    TamperedError,
    assemble,
    keys,
    people,
    proofs,
    retention,
)
from governance.anchors.rounds import state_of
from governance.bundle import (
    choose_range,
    choose_rest,
    choose_run,
    export_part,
    newest_archive,
    records_together,
    verify_bundle,
    verify_together,
)
from governance.canonical import payload_bytes
from governance.config import Home
from governance.holds import Hold, On
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.lawful.check import check
from governance.ledger.checkpoint import Checkpoint, parse_verifier_key, sign_checkpoint
from governance.ledger.entry import Draft, Kind
from governance.ledger.kept import parse_kept
from governance.ledger.report import Flaw, Status
from governance.ports import Lease, Person
from governance.receipts import make_receipt
from governance.retention_plan import Order, Plan, survey
from governance.store.inspection import Subject, inspect

DAY = 24 * 3600 * 1_000_000
NOW = Micros(1_800_000_000_000_000)
RULES = """
policy: desk
version: 1
rules:
  - {id: pays, match: {tools: [pay]}, effect: allow, allow_tier: critical}
  - {id: asks, match: {tools: [ask]}, effect: require_approval,
     approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}}
"""
OPERATOR = "olga"


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool(verb="WRITE", side_effect=True)
def ask(to: str) -> str:
    """Ask first."""
    return f"asked {to}"


def ago(days: int) -> Micros:
    return Micros(NOW - days * DAY)


def at(gov: Governance, days: int) -> Governance:
    return replace(gov, clock=lambda: ago(days))


def run(gov: Governance, name: str, *, uses: str = "pay") -> None:
    model = Plays(calls(call(uses, to=f"secret-{name}")), say("done"))
    DurableAgent(model, [pay, ask], governance=gov, name="desk").run("go", run_id=name)


def beat(gov: Governance, upto: int) -> None:
    """Fill the log with entries about nothing, up to a size."""
    moment = gov.clock()
    draft = Draft(Kind.LOG_BEAT, SubjectId("system:test"), {})

    def work(tx):
        while tx.head().size < upto:
            tx.append(draft, moment)

    gov.store.write(work)


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A log of three eras: 400 and 300 days ago, and of late. Its boundaries are at 512 and 1,024."""
    folder = tmp_path_factory.mktemp("retention") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "now", lambda: ago(400))
        assemble.init(Home(folder, folder / "checkpoint"), Origin("acme.example/agents"))
    with Governance.open(folder, policies={"desk.yaml": RULES}) as gov:
        people.add(gov.store, gov.new_id, lambda n: b"o" * n, OPERATOR, ["operator"])
        run(at(gov, 400), "run-old")
        beat(at(gov, 400), 505)
        run(at(gov, 400), "run-over")  # lies on both sides of 512
        beat(at(gov, 400), 560)
        beat(at(gov, 300), 1_030)
        run(at(gov, 10), "run-late")
        beat(at(gov, 10), 1_100)
    return folder


@pytest.fixture
def home(template, tmp_path) -> Path:
    shutil.copytree(template, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def gov(home):
    with Governance.open(home, policies={"desk.yaml": RULES}) as opened:
        yield replace(opened, clock=lambda: NOW)


@pytest.fixture
def pins(gov):
    return [parse_verifier_key(gov.signer.verifier_key)]


def olga(gov: Governance) -> Person:
    return gov.store.read(lambda reader: reader.people.by_name(OPERATOR))


def archive(gov: Governance, folder: Path, days: int = 350, holds=()) -> retention.Receipt:
    order = Order(folder, ago(days), olga(gov))
    return retention.archive(gov.store, gov.signer, gov.clock, order, lambda: holds)


def export_rest(gov: Governance, folder: Path) -> Path:
    checkpoint = gov.store.checkpoint()
    gov.store.read(
        lambda r: export_part(r, choose_rest(r, checkpoint), folder, gov.signer),
    )
    return folder


def test_a_sink_that_was_never_used_waits_for_what_is_there(gov, tmp_path):
    archive(gov, tmp_path / "a")
    assert gov.store.read(lambda r: state_of(r, "new")).since == ago(400)


def rows(home: Path, sql: str, *values):
    with sqlite3.connect(home / "ledger.db") as connection:
        found = connection.execute(sql, values).fetchall()
    connection.close()
    return found


def found(report) -> set[str]:
    return {item.kind for item in report.findings if item.is_failure}


def test_entries_leave_the_log_and_the_bundle_holds_them(gov, home, tmp_path, pins):
    done = archive(gov, tmp_path / "a")
    assert (done.archived.segments[-1].first, done.archived.end) == (0, 512)
    assert done.archived.kept == (0, 1, 2, 3)  # created, activated, two tools
    assert done.pruned == 508
    report = verify_bundle(tmp_path / "a", pins)
    assert report.ok, report.findings
    manifest = (tmp_path / "a" / "manifest.json").read_bytes()
    assert done.archived.segments[-1].manifest == hashlib.sha256(manifest).digest()
    (told,) = gov.store.read(lambda r: r.records(start=done.seq, limit=1))
    assert told.entry.kind is Kind.LOG_ARCHIVED
    assert told.entry.actor == olga(gov).subject
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(4,)]
    assert rows(home, "SELECT min(seq) FROM entry WHERE seq > 3") == [(512,)]
    assert rows(home, "SELECT count(*) FROM payload WHERE place >= 64 AND place < 8192") == [(0,)]


def test_what_was_archived_is_refused_by_name_and_the_rest_goes_on(gov, tmp_path):
    done = archive(gov, tmp_path / "a")
    digest = done.archived.segments[-1].manifest.hex()
    reads = [
        lambda r: r.records(start=4, limit=1),
        lambda r: r.records(start=0, limit=600),
        lambda r: r.run_records(RunId("run-old")),
        lambda r: r.run_records(RunId("run-over")),
        lambda r: choose_run(r, RunId("run-old")),
        lambda r: choose_range(r, 100, 600),
        lambda r: make_receipt(r, "run-old/1.0", parse_verifier_key(gov.signer.verifier_key)),
    ]
    for read in reads:
        with pytest.raises(InvalidInputError, match=digest):
            gov.store.read(read)
    assert [r.entry.seq for r in gov.store.read(lambda r: r.records(start=0, limit=4))] == [
        0,
        1,
        2,
        3,
    ]
    listed = [head.run for head in gov.store.read(lambda r: r.runs())]
    assert listed == ["run-late", "run-over", "run-old"]
    before = gov.store.read(lambda r: r.head().size)
    run(gov, "run-next")  # nothing is activated or registered again
    kinds = {r.entry.kind for r in gov.store.read(lambda r: r.records(start=before))}
    assert not kinds & {Kind.POLICY_ACTIVATED, Kind.TOOL_REGISTERED, Kind.TOOL_CHANGED}
    with pytest.raises(ConflictError, match="exists already"):
        run(gov, "run-old")  # an archived name is not free again


def test_an_older_policy_is_still_refused(gov, home, tmp_path):
    newer = RULES.replace("version: 1", "version: 2")
    gov.store.close()
    with Governance.open(home, policies={"desk.yaml": newer}) as opened:
        run(at(opened, 9), "run-newer")
    with Governance.open(home, policies={"desk.yaml": RULES}) as opened:
        archive(replace(opened, clock=lambda: NOW), tmp_path / "a", 200)
        with pytest.raises(RefusedError):
            run(opened, "run-older")


def test_proofs_hold_across_the_boundary(gov, tmp_path):
    sizes = [size for size, _ in gov.store.read(lambda r: r.checkpoints())]
    early = next(size for size in sizes if size % 256)  # no whole number of tiles
    before = gov.store.read(lambda r: proofs.consistency(r, early, sizes[-1]))
    inclusion = gov.store.read(lambda r: proofs.inclusion(r, 77, sizes[-1]))
    archive(gov, tmp_path / "a")
    assert gov.store.read(lambda r: proofs.consistency(r, early, sizes[-1])) == before
    assert gov.store.read(lambda r: proofs.inclusion(r, 77, sizes[-1])) == inclusion
    size, _ = gov.store.checkpoint()
    for old in sizes:
        gov.store.read(lambda r, old=old: proofs.consistency(r, old, size))
    for seq in (0, 3, 4, 511, 512, size - 1):
        gov.store.read(lambda r, seq=seq: proofs.inclusion(r, seq, size))


def test_a_late_run_is_exported_and_judged_with_what_was_kept(gov, tmp_path, pins):
    archive(gov, tmp_path / "a", 200)
    gov.store.checkpoint()
    gov.store.read(
        lambda r: export_part(r, choose_run(r, RunId("run-late")), tmp_path / "run", gov.signer)
    )
    assert verify_bundle(tmp_path / "run", pins).ok


@pytest.fixture
def three(gov, tmp_path):
    """The rest of the log, and two archives of it."""
    archive(gov, tmp_path / "a", 350)
    archive(gov, tmp_path / "b", 200)
    gov.store.checkpoint()
    return [export_rest(gov, tmp_path / "live"), tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_segments_in_any_order_make_the_whole_log(three, pins, order):
    joined = verify_together([three[n] for n in order], pins)
    assert joined.report.ok, joined.report.findings
    assert joined.chain == (three[1], three[2], three[0])
    assert joined.report.summary.runs == 3
    assert joined.report.summary.open_runs == 0
    lawful = check(records_together(joined.chain))
    assert lawful.verdict is Status.OK, lawful.findings
    assert lawful.starts_checked == 3
    seqs = [record.entry.seq for record in records_together(joined.chain)]
    assert seqs == list(range(len(seqs)))


@pytest.mark.parametrize(
    ("given", "told"),
    [((0,), 2), ((0, 1), 1), ((0, 2), 1)],
)
def test_absent_archives_are_archived_not_presented(three, pins, given, told):
    folders = [three[n] for n in given]
    report = (
        verify_together(folders, pins).report if len(given) > 1 else verify_bundle(folders[0], pins)
    )
    assert report.integrity is report.trust is Status.OK
    assert report.completeness is Status.NOT_CHECKED
    named = [item for item in report.findings if item.kind == Flaw.ARCHIVED]
    assert len(named) == told
    assert all("archived, not presented: entries" in item.message for item in named)
    assert not found(report)


def test_without_the_log_itself_an_absence_is_a_gap(gov, three, pins, tmp_path):
    report = verify_together([three[1], three[2]], pins).report
    # What is signed up to here is all here; of what came after, this evidence knows nothing.
    assert report.completeness is (
        Status.OK if report.summary.checkpoint == 1_024 else Status.FAILED
    )
    gov.store.read(
        lambda r: export_part(r, choose_range(r, 1_040, 1_050), tmp_path / "late", gov.signer)
    )
    report = verify_together([three[1], tmp_path / "late"], pins).report
    assert {Flaw.PART_MISSING, Flaw.PART_DIFFERS} <= found(report)
    assert report.completeness is Status.FAILED


def test_the_statement_of_an_untrusted_log_excuses_nothing(three):
    stranger = assemble.KeySigner.from_seed(Origin("acme.example/agents"), b"\7" * 32)
    report = verify_together(three[:2], [parse_verifier_key(stranger.verifier_key)]).report
    assert report.trust is Status.FAILED
    assert Flaw.PART_MISSING in found(report)


def test_an_archive_altered_afterwards_is_found(three, pins):
    file = next((three[1] / "entries").iterdir())
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b'"log.beat"', b'"log.BEAT"', 1))
    joined = verify_together(three, pins)
    assert joined.report.integrity is Status.FAILED
    assert not joined.chain
    assert Flaw.FILE_ALTERED in found(joined.report)


def test_a_wrong_archive_is_found(gov, three, pins, tmp_path):
    other = tmp_path / "other"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "now", lambda: ago(400))
        assemble.init(Home(other, other / "checkpoint"), Origin("other.example/agents"))
    with Governance.open(other) as opened:
        beat(at(opened, 400), 600)
        opened.store.checkpoint()
        opened.store.read(
            lambda r: export_part(r, choose_range(r, 0, 512), tmp_path / "o", opened.signer)
        )
        both = [*pins, parse_verifier_key(opened.signer.verifier_key)]
    report = verify_together([three[0], tmp_path / "o", three[2]], both).report
    assert Flaw.LOG_MIXED in found(report)
    # Another history of the same log, under the same key.
    rewritten = _rewritten(gov, tmp_path)
    report = verify_together([three[0], rewritten, three[2]], pins).report
    assert report.integrity is Status.FAILED
    report = verify_together([three[0], rewritten], pins).report
    assert Flaw.PART_DIFFERS in found(report)


def _rewritten(gov: Governance, tmp_path: Path) -> Path:
    """An archive that verifies by itself, of a history that the holder of the key made up."""
    from governance.store.memory import MemoryStore

    store = MemoryStore(gov.store.origin, gov.signer, lambda: ago(400), lambda n: b"s" * n)
    beat(replace(gov, store=store, clock=lambda: ago(400)), 520)
    store.checkpoint()
    store.read(lambda r: export_part(r, choose_range(r, 0, 512), tmp_path / "forged", gov.signer))
    return tmp_path / "forged"


def test_a_log_that_belies_a_kept_head_is_found(three, pins):
    own = (three[0] / "checkpoint").read_text()
    parts = own.split("\n")
    other = assemble.KeySigner.from_seed(Origin("acme.example/agents"), b"\7" * 32)
    forged = sign_checkpoint(Checkpoint(other.origin, int(parts[1]), Digest(b"\1" * 32)), other)
    good = verify_together(three, pins, kept=[parse_kept("mine", own.encode())]).report
    assert good.ok, good.findings
    bad = verify_together(three, pins, kept=[parse_kept("mine", forged.encode())]).report
    assert not bad.ok


def test_the_same_entries_twice_are_found(three, pins, tmp_path):
    shutil.copytree(three[1], tmp_path / "again")
    report = verify_together([*three, tmp_path / "again"], pins).report
    assert Flaw.PART_OVERLAPS in found(report)
    assert report.completeness is Status.FAILED


def test_a_run_and_a_log_are_not_joined(gov, three, pins, tmp_path):
    gov.store.read(
        lambda r: export_part(r, choose_run(r, RunId("run-late")), tmp_path / "run", gov.signer)
    )
    with pytest.raises(InvalidInputError, match="holds one run"):
        verify_together([three[0], tmp_path / "run"], pins)


def test_rows_deleted_by_hand_are_tampering_not_archiving(gov, home):
    rows(home, "DELETE FROM entry WHERE seq < 512 AND seq > 3")
    with pytest.raises(TamperedError, match="missing"):
        gov.store.read(lambda r: r.records(start=4, limit=10))
    with pytest.raises(TamperedError):
        gov.store.read(lambda r: r.run_records(RunId("run-old")))


def test_nor_do_they_hide_behind_an_archive(gov, home, tmp_path):
    archive(gov, tmp_path / "a")
    rows(home, "DELETE FROM entry WHERE seq >= 512 AND seq < 600")
    with pytest.raises(TamperedError, match="missing"):
        gov.store.read(lambda r: r.records(start=512, limit=10))
    rows(home, "DELETE FROM entry WHERE run = (SELECT no FROM run WHERE run = 'run-late')")
    with pytest.raises(TamperedError):
        gov.store.read(lambda r: r.run_records(RunId("run-late")))


def test_a_database_altered_before_it_is_archived_is_not_pruned(gov, home, tmp_path):
    (raw,) = rows(home, "SELECT raw FROM entry WHERE seq = 200")[0]
    rows(
        home,
        "UPDATE entry SET raw = ? WHERE seq = 200",
        raw.replace(b"system:test", b"system:tesT"),
    )
    with pytest.raises(TamperedError):
        archive(gov, tmp_path / "a")
    assert gov.store.read(newest_archive) is None
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(512,)]


def test_a_tile_that_changed_after_it_was_recorded_stays(gov, home, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "_prune", lambda store: None)
    archive(gov, tmp_path / "a")
    (raw,) = rows(home, "SELECT raw FROM entry WHERE seq = 300")[0]
    rows(
        home,
        "UPDATE entry SET raw = ? WHERE seq = 300",
        raw.replace(b"system:test", b"system:tesT"),
    )
    monkeypatch.undo()
    with pytest.raises(TamperedError, match="256 to 511"):
        archive(gov, tmp_path / "a")
    assert rows(home, "SELECT count(*) FROM entry WHERE seq >= 256 AND seq < 512") == [(256,)]


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", ["_verify", "_archived", "_prune"])
def test_a_crash_between_steps_loses_nothing(gov, home, tmp_path, monkeypatch, step):
    def die(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(retention, step, die)
        with pytest.raises(Killed):
            archive(gov, tmp_path / "a")
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(512,)]
    if step == "_prune":  # recorded: the same command goes on
        assert gov.store.read(newest_archive).end == 512
        assert archive(gov, tmp_path / "a").pruned == 508
    else:
        with pytest.raises(ConflictError, match="exists already"):
            archive(gov, tmp_path / "a")
        assert gov.store.read(newest_archive) is None
        assert archive(gov, tmp_path / "again").pruned == 508
    with pytest.raises(ConflictError, match="exists already"):
        archive(gov, tmp_path / "a")


def test_a_crash_while_pruning_is_gone_on_from(gov, home, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "TILES_A_COMMIT", 1)
    prune = retention._prune

    def one_tile(store):
        store.checkpoint()
        store.write(lambda tx: tx.prune(1))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(retention, "_prune", one_tile)
        with pytest.raises(Killed):
            archive(gov, tmp_path / "a")
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(260,)]
    with pytest.raises(InvalidInputError):
        gov.store.read(lambda r: r.records(start=10, limit=1))
    with pytest.raises(InvalidInputError):  # still here, and promised to nobody any more
        gov.store.read(lambda r: r.records(start=200, limit=100))
    assert prune is retention._prune
    assert archive(gov, tmp_path / "a").pruned == 256


def test_nothing_is_pruned_before_its_entry_is_signed(gov, home, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "_prune", lambda store: None)
    archive(gov, tmp_path / "a")
    with pytest.raises(ConflictError, match="not signed yet"):
        gov.store.write(lambda tx: tx.prune(1))
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(512,)]


def test_an_archive_changed_before_pruning_goes_on_stops_it(gov, home, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(retention, "_prune", lambda store: None)
        archive(gov, tmp_path / "a")
    file = next((tmp_path / "a" / "payloads").iterdir())
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(TamperedError, match="does not verify"):
        archive(gov, tmp_path / "a")
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(512,)]


def test_a_bundle_that_does_not_verify_prunes_nothing(gov, home, tmp_path, monkeypatch):
    real = retention.export_part

    def cut(reader, choice, folder, signer):
        real(reader, choice, folder, signer)
        (folder / "hashes").write_bytes(b"x" * 32)

    monkeypatch.setattr(retention, "export_part", cut)
    with pytest.raises(TamperedError, match="does not verify, and nothing was dropped"):
        archive(gov, tmp_path / "a")
    assert gov.store.read(newest_archive) is None
    assert rows(home, "SELECT count(*) FROM entry WHERE seq < 512") == [(512,)]


def test_of_two_archives_at_once_one_is_told_so(gov, tmp_path, home):
    both, told = threading.Barrier(2), []
    real = retention._verify

    def meet(folder, keys):
        digest = real(folder, keys)
        both.wait(20)
        return digest

    def go(name):
        try:
            told.append(archive(gov, tmp_path / name))
        except ConflictError as exc:
            told.append(exc)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "_verify", meet)
        threads = [threading.Thread(target=go, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(type(one).__name__ for one in told) == ["ConflictError", "Receipt"]
    assert len(gov.store.read(newest_archive).segments) == 1


def test_appends_go_on_meanwhile(gov, tmp_path, pins, monkeypatch):
    monkeypatch.setattr(retention, "TILES_A_COMMIT", 1)
    stop, draft = threading.Event(), Draft(Kind.LOG_BEAT, SubjectId("system:test"), {})

    def append():
        while not stop.is_set():
            gov.store.write(lambda tx: tx.append(draft, NOW))

    thread = threading.Thread(target=append)
    thread.start()
    try:
        archive(gov, tmp_path / "a", 350)
        archive(gov, tmp_path / "b", 200)
    finally:
        stop.set()
        thread.join()
    live = export_rest(gov, tmp_path / "live")
    assert verify_together([live, tmp_path / "b", tmp_path / "a"], pins).report.ok


def rekey(home: Path, gov: Governance, seed: int) -> str:
    """Rotate the log's key, as `governance keys rotate` does; the store is to be opened again."""
    new = assemble.KeySigner.from_seed(gov.signer.origin, bytes([seed]) * 32)
    by = SubjectId("user:olga")
    gone = keys.retire(by, gov.signer.verifier_key, "yearly")
    keys.rotate(gov.store, gov.clock, by, new, gone)
    (home / "log.key").write_text(new.to_text() + "\n")
    return new.verifier_key


def test_archives_outlive_the_keys_they_were_signed_with(tmp_path):
    home = tmp_path / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "now", lambda: ago(400))
        first = assemble.init(Home(home, home / "checkpoint"), Origin("acme.example/agents"))
    with Governance.open(home, policies={"desk.yaml": RULES}) as gov:
        people.add(gov.store, gov.new_id, lambda n: b"o" * n, OPERATOR, ["operator"])
        beat(at(gov, 400), 600)
        archive(replace(gov, clock=lambda: NOW), tmp_path / "a", 350)
        beat(gov, 700)
        second = rekey(home, gov, 8)
    later = Micros(NOW + 300 * DAY)
    with Governance.open(home, policies={"desk.yaml": RULES}) as gov:
        beat(replace(gov, clock=lambda: NOW), 1_100)
        order = Order(tmp_path / "b", Micros(NOW + DAY), olga(gov))
        retention.archive(gov.store, gov.signer, lambda: later, order, tuple)
        third = rekey(home, replace(gov, clock=lambda: later), 9)
    with Governance.open(home, policies={"desk.yaml": RULES}) as gov:
        live = export_rest(gov, tmp_path / "live")
        assert gov.store.read(newest_archive).end == 1_024
    for key in (first, second, third):
        folders = [live, tmp_path / "b", tmp_path / "a"]
        joined = verify_together(folders, [parse_verifier_key(key)])
        assert joined.report.ok, (key, joined.report.findings)
    # A key that nobody pins and no trusted entry names is worth nothing.
    stranger = assemble.KeySigner.from_seed(Origin("acme.example/agents"), b"\7" * 32)
    report = verify_together(folders, [parse_verifier_key(stranger.verifier_key)]).report
    assert report.trust is Status.FAILED


def test_the_floor_holds(gov, tmp_path):
    with pytest.raises(RefusedError, match="at least 183 days"):
        archive(gov, tmp_path / "a", 182)
    order = Order(tmp_path / "a", ago(399), olga(gov), 400)
    with pytest.raises(RefusedError, match="at least 400 days"):
        retention.archive(gov.store, gov.signer, gov.clock, order, tuple)
    assert not (tmp_path / "a").exists()


def test_nothing_old_enough_and_everything_old_enough(gov, tmp_path):
    with pytest.raises(InvalidInputError, match="nothing to archive"):
        archive(gov, tmp_path / "a", 500)
    gov.store.write(lambda tx: None)
    beat(gov, 1_280)
    later = replace(gov, clock=lambda: Micros(NOW + 500 * DAY))
    with pytest.raises(RefusedError, match="would leave the log"):
        archive(later, tmp_path / "a", -300)


def test_only_an_operator_archives(gov, tmp_path):
    ann, _ = people.add(gov.store, gov.new_id, lambda n: b"a" * n, "ann", ["approver"])
    order = Order(tmp_path / "a", ago(350), ann)
    with pytest.raises(RefusedError, match="may not archive"):
        retention.archive(gov.store, gov.signer, gov.clock, order, tuple)


def pinned_by(gov, tmp_path, days, holds=()) -> Plan:
    order = Order(tmp_path / "a", ago(days), olga(gov))
    return gov.store.read(lambda r: survey(r, order, NOW, holds))


def test_an_open_run_stays(template, tmp_path):
    folder = tmp_path / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "now", lambda: ago(400))
        assemble.init(Home(folder, folder / "checkpoint"), Origin("acme.example/agents"))
    with Governance.open(folder, policies={"desk.yaml": RULES}) as gov:
        people.add(gov.store, gov.new_id, lambda n: b"o" * n, OPERATOR, ["operator"])
        beat(at(gov, 400), 300)
        run(at(gov, 400), "run-waits", uses="ask")
        beat(at(gov, 300), 900)
        plan = pinned_by(gov, tmp_path, 200)
        assert plan.end == 256
        assert plan.pins == ("run `run-waits`, which has not ended",)
        archive(replace(gov, clock=lambda: NOW), tmp_path / "a", 200)
        with pytest.raises(InvalidInputError, match="nothing to archive") as told:
            archive(replace(gov, clock=lambda: NOW), tmp_path / "b", 200)
        assert "run-waits" in told.value.hint
        # It still waits, and can still be answered.
        ((_, request),) = gov.store.read(lambda r: r.open_requests())
        assert gov.store.read(lambda r: r.find_request(request)) == "run-waits"


def test_a_call_under_way_stays_while_somebody_may_tell_of_it(gov, tmp_path, home):
    started = Draft(
        Kind.CALL_STARTED, SubjectId("agent:desk"), {"uid": "run-late/9.0", "attempt": 1}
    )
    gov.store.write(lambda tx: tx.append(replace(started, run=RunId("run-late")), NOW))
    later = replace(gov, clock=lambda: Micros(NOW + 300 * DAY))
    beat(later, 1_400)
    order = Order(tmp_path / "a", NOW, olga(gov))
    now = later.clock()
    assert gov.store.read(lambda r: survey(r, order, now, ())).end == 1_024
    order = Order(tmp_path / "a", Micros(NOW + 10 * DAY), olga(gov))
    assert gov.store.read(lambda r: survey(r, order, now, ())).pins == ()
    lease = Lease(RunId("run-late"), "worker", Micros(now + DAY))
    gov.store.write(lambda tx: tx.leases.put(lease))
    plan = gov.store.read(lambda r: survey(r, order, now, ()))
    assert plan.pins == ("call `run-late/9.0`, which is still under way",)
    assert plan.end == 1_024


@pytest.mark.parametrize(
    ("on", "name", "end"),
    [(On.RUN, "run-over", 256), (On.RUN, "run-late", 1_024), (On.SUBJECT, "system:nobody", 1_024)],
)
def test_what_is_held_stays(gov, tmp_path, on, name, end):
    held = Hold(on, name, SubjectId("user:olga"), "a claim", NOW)
    assert pinned_by(gov, tmp_path, 200, [held]).end == end


def test_a_hold_on_a_subject_keeps_all_they_did(gov, tmp_path):
    held = Hold(On.SUBJECT, "agent:desk", SubjectId("user:olga"), "a claim", NOW)
    with pytest.raises(InvalidInputError, match="nothing to archive") as told:
        archive(gov, tmp_path / "a", 200, [held])
    assert "subject `agent:desk`, which is under hold" in told.value.hint


def test_a_hold_put_there_meanwhile_is_seen(gov, tmp_path, home):
    held = Hold(On.RUN, "run-old", SubjectId("user:olga"), "a claim", NOW)
    answers = iter([(), (held,)])
    order = Order(tmp_path / "a", ago(350), olga(gov))
    with pytest.raises(ConflictError, match="changed meanwhile"):
        retention.archive(gov.store, gov.signer, gov.clock, order, lambda: next(answers))
    assert gov.store.read(newest_archive) is None


def test_what_the_entry_says_is_what_is_there(gov, tmp_path):
    done = archive(gov, tmp_path / "a")
    with_body = json.loads(
        payload_bytes(gov.store.read(lambda r: r.latest((Kind.LOG_ARCHIVED,))).entry.body)
    )
    assert with_body == done.archived.to_body()
    (b,) = gov.store.read(lambda r: r.records(start=512, limit=1))
    assert b.entry.prev == done.archived.last
    assert done.archived.segments[-1].manifest.hex() == with_body["manifest"]


def check_live(gov, home, stand=None):
    own = gov.signer.verifier_key
    where = home / "ledger.db"
    subject = Subject(where, Home.find(home).keyring, gov.store.origin, own)
    return inspect(subject, stand)


def test_the_live_check_goes_on_behind_the_boundary(gov, home, tmp_path):
    gov.store.checkpoint()
    before = check_live(gov, home)
    assert before.ok, before.findings
    for name, days in (("a", 350), ("b", 200)):
        archive(gov, tmp_path / name, days)
        gov.store.checkpoint()
        whole = check_live(gov, home)
        assert whole.ok, whole.findings
        assert whole.begin == gov.store.read(newest_archive).end
        again = check_live(gov, home, before.stand)
        assert again.ok, again.findings
        assert not again.refused
    rows(home, "UPDATE entry SET uid = '/9.9' WHERE seq = 1050")
    rows(home, "UPDATE node SET hash = zeroblob(32) WHERE level = 8 AND place = 1")
    kinds = {item.kind for item in check_live(gov, home).findings}
    assert {"index-differs", "root-differs"} <= kinds


def test_rows_that_no_archive_names_are_missed_by_the_live_check(gov, home, tmp_path):
    archive(gov, tmp_path / "a")
    rows(home, "DELETE FROM entry WHERE seq >= 512 AND seq < 600")
    assert "entry-missing" in {item.kind for item in check_live(gov, home).findings}
