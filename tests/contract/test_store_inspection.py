"""The live check finds whatever is altered in a real file: each column of each table, rows, notes, content.

Every attack writes to a copy of one log that holds something in every table, past whole tiles and several
checkpoints. The same attacks are made behind a stand that was verified, by somebody who may write every
file but has not the key.
"""

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from contract.conftest import ORIGIN, T0, Key

from governance.canonical import entry_bytes, parse_entry
from governance.errors import InvalidInputError
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import sign_note
from governance.ledger.entry import Draft, Kind, leaf_hash
from governance.ledger.erasure import Erasure
from governance.ledger.merkle import Edge
from governance.livecheck import WHOLE_EVERY_S, check
from governance.store.checkpoints import KeptCheckpoint
from governance.store.inspection import Subject, inspect
from governance.store.sqlite import SqliteStore
from governance.store.stands import KeptStand, Verified
from governance.store.tables import METADATA

SIGNER = Key()
AGENT = SubjectId("agent:refund-desk")
GONE = SubjectId("user:gone")
DAY = Micros(WHOLE_EVERY_S * 1_000_000)


def write_log(path: Path, entries: int = 270) -> None:
    store = SqliteStore.create(
        path,
        origin=ORIGIN,
        signer=SIGNER,
        clock=lambda: T0,
        salts=os.urandom,
        kept_checkpoint=path.with_name("checkpoint"),
    )
    runs = [RunId(f"run-{n}") for n in range(3)]

    def draft(n: int) -> Draft:
        run = runs[n % 3]
        kinds = {
            3: Kind.APPROVAL_REQUESTED,
            4: Kind.APPROVAL_REQUESTED,
            5: Kind.APPROVAL_REQUESTED,
            30: Kind.APPROVAL_REJECTED,
            40: Kind.RUN_SUSPENDED,
            43: Kind.RUN_RESUMED,
            60: Kind.RUN_COMPLETED,
            70: Kind.CALL_DECIDED,
            73: Kind.CALL_STARTED,
            76: Kind.CALL_STARTED,
        }
        if n == 50:
            return Draft(Kind.TOOL_REGISTERED, AGENT, {"tool": "pay"})
        body = {"agent": AGENT} if n < 3 else {"uid": f"{run}/{n}.0"}
        if n in {70, 73, 76}:
            body |= {"tool": "pay"} if n == 70 else {"decision": 71}
        if n in {3, 4, 5, 30}:
            body = {"request": f"apr-{n if n < 6 else 3}"}
        kind = Kind.RUN_STARTED if n < 3 else kinds.get(n, Kind.CALL_FINISHED)
        payloads = {"args": {"n": n}, "result": f"content {n}"} if n > 5 else {}
        return Draft(kind, AGENT, body, payloads, run)

    for n in range(entries):
        store.write(lambda tx, n=n: tx.append(draft(n), Micros(T0 + n)))
        if n in {99, 199}:
            store.checkpoint()
    gone = Draft(Kind.STOP_ENGAGED, GONE, {}, {"reason": "content that must go"})
    store.write(lambda tx: tx.append(gone, Micros(T0 + entries)))
    store.write(lambda tx: tx.erase(Erasure(GONE, AGENT, "asked"), Micros(T0 + entries)))
    store.close()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    write_log(folder / "ledger.db")
    return folder


@pytest.fixture
def log(pristine: Path, tmp_path: Path) -> Path:
    for file in pristine.iterdir():
        shutil.copy2(file, tmp_path)
    return tmp_path / "ledger.db"


def alter(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as raw:
        for statement in statements:
            assert raw.execute(statement).rowcount != 0, statement
    raw.close()


def subject(path: Path) -> Subject:
    kept = KeptCheckpoint(path.with_name("checkpoint"))
    return Subject(path, path.with_suffix(".keyring"), ORIGIN, SIGNER.verifier_key, kept)


def kept_stand(path: Path) -> KeptStand:
    return KeptStand(path.with_name("verified"), SIGNER)


def found(path: Path, **given) -> set[tuple[str, str | None, int | None]]:
    report = inspect(subject(path), **given)
    assert report.count == len(report.findings)
    assert all("export a bundle" in item.next_step for item in report.findings)
    return {(item.kind, item.where.file, item.where.seq) for item in report.findings}


def test_an_honest_log_has_no_finding_and_is_verified_to_its_newest_checkpoint(log) -> None:
    report = inspect(subject(log))
    assert (report.findings, report.size, report.begin) == ((), 273, 0)
    assert report.stand is not None
    assert report.stand.size == 273


# --- one column at a time ---------------------------------------------------------------------------

FLIPS = {
    "entry.seq": ("UPDATE entry SET seq = 900 WHERE seq = 100", "entry", 100),
    "entry.prev": ("UPDATE entry SET prev = zeroblob(16) WHERE seq = 100", "entry.prev", 100),
    "entry.run": ("UPDATE entry SET run = 2, rseq = 999 WHERE seq = 100", "entry.run", 100),
    "entry.rseq": ("UPDATE entry SET rseq = 900 WHERE seq = 100", "entry.rseq", 100),
    "entry.uid": ("UPDATE entry SET uid = '/9.9' WHERE seq = 100", "entry.uid", 100),
    "entry.request": ("UPDATE entry SET request = 'apr-9' WHERE seq = 100", "entry.request", 100),
    "entry.raw": ("UPDATE entry SET raw = replace(raw, 'refund', 'REFUND') WHERE seq = 100", "", 100),
    "payload.place": ("UPDATE payload SET place = 1602 WHERE place = 1601", "payload.name", 100),
    "payload.name": ("UPDATE payload SET name = 'x' WHERE place = 1601", "payload.name", 100),
    "payload.key": ("UPDATE payload SET key = key + 1 WHERE place = 1601", "payload", 100),
    "payload.content": ("UPDATE payload SET content = x'31' WHERE place = 1601", "payload", 100),
    "head.only": ("UPDATE head SET only = 1", "head", None),
    "head.size": ("UPDATE head SET size = size - 1", "head.size", 272),
    "head.last": ("UPDATE head SET last = zeroblob(32)", "head.last", 272),
    "head.edge": ("UPDATE head SET edge = zeroblob(8)", "head.edge", 272),
    "head.ts": ("UPDATE head SET ts = ts + 1", "head.ts", 272),
    "node.level": ("UPDATE node SET level = 16", "node", 255),
    "node.place": ("UPDATE node SET place = 7", "node", 255),
    "node.hash": ("UPDATE node SET hash = zeroblob(32)", "node.hash", 255),
    "run.no": ("UPDATE run SET no = 9 WHERE no = 3", "entry.run", 3),
    "run.run": ("UPDATE run SET run = 'run-x' WHERE no = 3", "run", 270),
    "run.agent": ("UPDATE run SET agent = 'agent:x' WHERE no = 3", "run.agent", 270),
    "run.principal": ("UPDATE run SET principal = 'user:x' WHERE no = 3", "run.principal", 270),
    "run.rseq": ("UPDATE run SET rseq = 1 WHERE no = 3", "run.rseq", 270),
    "run.last": ("UPDATE run SET last = zeroblob(32) WHERE no = 3", "run.last", 270),
    "run.epoch": ("UPDATE run SET epoch = 60 WHERE no = 3", "run.epoch", 270),
    "run.status": ("UPDATE run SET status = 'failed' WHERE no = 3", "run.status", 270),
    "run.started": ("UPDATE run SET started = 1 WHERE no = 3", "run.started", 270),
    "run.updated": ("UPDATE run SET updated = 1 WHERE no = 3", "run.updated", 270),
    "erased.place": ("UPDATE erased SET place = 7", "erased", 272),
    "erased.by": ("UPDATE erased SET by = 100", "erased.by", 272),
    "subjectkey.no": ("UPDATE subjectkey SET no = no + 5 WHERE NOT doomed", "subjectkey", 7),
    "subjectkey.doomed": ("UPDATE subjectkey SET doomed = TRUE", "subjectkey", 7),
    "start.principal": ("UPDATE start SET principal = 'x' WHERE nth = 2", "start", 77),
    "start.tool": ("UPDATE start SET tool = 'x' WHERE nth = 2", "start", 77),
    "start.ts": ("UPDATE start SET ts = ts + 1 WHERE nth = 2", "start", 77),
    "start.nth": ("UPDATE start SET nth = 1 WHERE nth = 2", "start", 77),
    "request.request": ("UPDATE request SET request = 'apr-x' WHERE seq = 5", "request", 5),
    "request.run": ("UPDATE request SET run = 'run-2' WHERE seq = 5", "request.run", 5),
    "request.seq": ("UPDATE request SET seq = 9 WHERE seq = 5", "request.seq", 5),
    "request.open": ("UPDATE request SET open = 0 WHERE seq = 5", "request.open", 5),
    "latest.key": ("UPDATE latest SET key = 'x' WHERE key = 'run.resumed'", "latest", 44),
    "latest.seq": ("UPDATE latest SET seq = 1 WHERE key = 'run.resumed'", "latest.seq", 44),
    "checkpoint.size": ("UPDATE checkpoint SET size = 99 WHERE size = 101", "checkpoint.size", 98),
    "checkpoint.note": (
        "UPDATE checkpoint SET note = replace(note, '101' || char(10), '102' || char(10)) WHERE size = 101",
        "checkpoint.note",
        100,
    ),
}  # fmt: skip
NO_EVIDENCE = {"person", "lease", "meta"}


def test_every_column_of_every_table_that_is_evidence_is_flipped_below() -> None:
    columns = {
        f"{table.name}.{column.name}"
        for table in METADATA.tables.values()
        if table.name not in NO_EVIDENCE
        for column in table.columns
    }
    assert columns == set(FLIPS)


@pytest.mark.attack
@pytest.mark.parametrize("column", FLIPS)
def test_a_flipped_column_is_found_where_it_is(log, column) -> None:
    attack, place, seq = FLIPS[column]
    with sqlite3.connect(log) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
    alter(log, attack)
    places = {(where, at) for _, where, at in found(log)}
    assert (place or "entry.raw", seq) in places, places


@pytest.mark.attack
@pytest.mark.parametrize(
    ("attacks", "want"),
    [
        (["DELETE FROM entry WHERE seq = 100"], ("entry-missing", "entry", 100)),
        (["DELETE FROM entry WHERE seq = 0"], ("entry-missing", "entry", 0)),
        (["DELETE FROM entry WHERE seq = 272"], ("index-differs", "head.size", 271)),
        (["UPDATE entry SET raw = 7 WHERE seq = 100"], ("entry-malformed", "entry.raw", 100)),
        (["UPDATE entry SET raw = x'00' WHERE seq = 100"], ("entry-malformed", "entry.raw", 100)),
        (
            ["UPDATE entry SET raw = (SELECT raw FROM entry WHERE seq = 99) WHERE seq = 100"],
            ("entry-moved", "entry.seq", 100),
        ),
        (
            [
                "UPDATE entry SET seq = -1, prev = x'01' WHERE seq = 100",
                "UPDATE entry SET seq = 100 WHERE seq = 103",
                "UPDATE entry SET seq = 103 WHERE seq = -1",
            ],
            ("entry-moved", "entry.seq", 100),
        ),
        (
            ["INSERT INTO entry (seq, prev, raw) VALUES (-5, x'02', x'00')"],
            ("row-unexpected", "entry", -5),
        ),
        (["DELETE FROM payload WHERE place = 1601"], ("payload-missing", "payload", 100)),
        (
            [
                "UPDATE payload SET place = -1 WHERE place = 1600",
                "UPDATE payload SET place = 1600 WHERE place = 1616",
                "UPDATE payload SET place = 1616 WHERE place = -1",
            ],
            ("payload-altered", "payload", 100),
        ),
        (
            ["INSERT INTO payload VALUES (1610, 'extra', NULL, x'00')"],
            ("payload-unexpected", "payload.name", 100),
        ),
        (
            ["INSERT INTO payload VALUES (99999, 'extra', NULL, x'00')"],
            ("payload-unexpected", "payload.place", 6249),
        ),
        (["UPDATE payload SET content = 'text' WHERE place = 1601"], ("payload-altered", "payload", 100)),
        (["DELETE FROM head"], ("row-missing", "head", None)),
        (["DELETE FROM run WHERE no = 3"], ("row-missing", "run", 270)),
        (
            ["INSERT INTO run VALUES (9, 'run-9', 'a', 'a', 1, x'00', 1, 'running', 1, 1)"],
            ("row-unexpected", "run", None),
        ),
        (["DELETE FROM request WHERE seq = 5"], ("row-missing", "request", 5)),
        (["INSERT INTO request VALUES ('apr-9', 'run-1', 9, 1)"], ("row-unexpected", "request", None)),
        (["DELETE FROM latest WHERE key = 'tool.registered pay'"], ("row-missing", "latest", 51)),
        (["DELETE FROM start WHERE nth = 1"], ("row-missing", "start", 74)),
        (["INSERT INTO start VALUES ('x', 'pay', 1, 1)"], ("row-unexpected", "start", None)),
        (["DELETE FROM node"], ("row-missing", "node", 255)),
        (["INSERT INTO node VALUES (8, 1, x'00')"], ("row-unexpected", "node", None)),
        (["DELETE FROM checkpoint WHERE size = 273"], ("kept-differs", "kept checkpoint", None)),
        (
            [
                "UPDATE checkpoint SET note = (SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1) WHERE size = 101"
            ],
            ("index-differs", "checkpoint.size", 100),
        ),
        (
            ["UPDATE checkpoint SET note = CAST(note AS BLOB) WHERE size = 101"],
            ("checkpoint-malformed", "checkpoint.note", 100),
        ),
        (
            ["CREATE TRIGGER quiet AFTER INSERT ON request BEGIN DELETE FROM request; END"],
            ("row-unexpected", "sqlite_schema", None),
        ),
    ],
)  # fmt: skip
def test_rows_swapped_deleted_and_added_are_found(log, attacks, want) -> None:
    alter(log, *attacks)
    assert want in found(log)


def resealed(path: Path, at: int) -> None:
    """Rewrite entry `at` and everything after it, so that chain, tree and index agree again."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT seq, raw FROM entry ORDER BY seq").fetchall()
    hashes, moved, edge = {}, {}, Edge()
    for seq, old in rows:
        fields = parse_entry(old)
        if seq == at:
            fields["ts"] += 1
        for name in ("prev", "rprev"):
            known = bytes.fromhex(fields[name]) if name in fields else b""
            fields[name] = moved.get(known, known).hex() if name in fields else None
        fresh = entry_bytes({key: value for key, value in fields.items() if value is not None})
        moved[leaf_hash(old)] = hashes[seq] = leaf_hash(fresh)
        edge = edge.append(hashes[seq])
        raw.execute("UPDATE entry SET raw = ?, prev = ? WHERE seq = ?", (fresh, bytes.fromhex(fields["prev"])[:16], seq))  # fmt: skip
    for run, last in raw.execute("SELECT run, last FROM run").fetchall():
        raw.execute("UPDATE run SET last = ? WHERE run = ?", (moved[Digest(last)], run))
    raw.execute("UPDATE head SET last = ?, edge = ?", (hashes[272], edge.to_bytes()))
    raw.execute(
        "UPDATE node SET hash = ?", (Edge().extend([hashes[n] for n in range(256)]).root(),)
    )
    raw.commit()
    raw.close()


@pytest.mark.attack
def test_a_history_rewritten_down_to_the_index_contradicts_what_was_signed(log) -> None:
    resealed(log, 150)
    assert found(log) == {("root-differs", "checkpoint.note", 200), ("kept-differs", "kept checkpoint", None)}  # fmt: skip
    alter(log, "DELETE FROM checkpoint WHERE size > 101")
    assert found(log) == {("kept-differs", "kept checkpoint", None)}


@pytest.mark.attack
def test_a_note_by_another_key_and_an_older_copy_are_found(log, pristine) -> None:
    raw = sqlite3.connect(log)
    (note,) = raw.execute("SELECT note FROM checkpoint WHERE size = 101").fetchone()
    text = note.partition("\n\n")[0] + "\n"
    raw.execute("UPDATE checkpoint SET note = ? WHERE size = 101", (sign_note(text, Key()),))
    raw.commit()
    raw.close()
    assert found(log) == {("key-unknown", "checkpoint.note", 100)}
    store = SqliteStore.open(pristine / "ledger.db", origin=ORIGIN, signer=SIGNER, salts=os.urandom)
    stranger = replace(subject(pristine / "ledger.db"), verifier_key=Key().verifier_key, kept=None)
    assert [item.kind for item in inspect(stranger).findings] == ["key-unknown"]
    store.close()


@pytest.mark.attack
def test_a_database_cut_or_filled_with_garbage_is_a_finding_not_a_crash(log) -> None:
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(8192))
    assert inspect(subject(log)).count
    with log.open("r+b") as file:
        file.truncate(size // 2 // 4096 * 4096)
    assert ("database-damaged", "database", None) in found(log)


def test_content_erased_on_record_is_no_finding_and_content_that_is_merely_gone_is(log) -> None:
    assert found(log) == set()
    store = SqliteStore.open(log, origin=ORIGIN, signer=SIGNER, salts=os.urandom)
    store.write(lambda tx: tx.erase(Erasure(AGENT, GONE, "all of it"), T0))
    store.close()
    assert found(log) == set()
    alter(log, "DELETE FROM payload")
    assert {(kind, place) for kind, place, _ in found(log)} == {("payload-missing", "payload")}
    alter(log, "DELETE FROM erased WHERE place = 1600")
    assert ("row-missing", "erased", 273) in found(log)


@pytest.mark.attack
def test_content_whose_key_is_gone_without_an_erasure_is_missing(log) -> None:
    keyring = sqlite3.connect(log.with_suffix(".keyring"))
    keyring.execute("DELETE FROM key WHERE owners LIKE '%refund%'")
    keyring.commit()
    keyring.close()
    assert ("payload-missing", "payload", 100) in found(log)


# --- going on from a stand --------------------------------------------------------------------------


def grow(path: Path, entries: int) -> None:
    store = SqliteStore.open(
        path, origin=ORIGIN, signer=SIGNER, salts=os.urandom, kept_checkpoint=path.with_name("checkpoint")
    )  # fmt: skip

    def work(tx, n: int):
        run = RunId(f"run-{n % 4}")  # the fourth is new
        tx.append(Draft(Kind.CALL_FINISHED, AGENT, {"uid": f"{run}/9{n}.0"}, {"args": n}, run), T0)

    for n in range(entries):
        store.write(lambda tx, n=n: work(tx, n))
    close = Draft(Kind.APPROVAL_WITHDRAWN, AGENT, {"request": "apr-4"}, {}, RunId("run-1"))
    store.write(lambda tx: tx.append(close, T0))
    store.close()


def test_a_check_goes_on_where_the_last_one_ended_and_sees_only_what_is_new(log) -> None:
    clock = lambda: Micros(T0 + 1)  # noqa: E731
    first = check(subject(log), kept_stand(log), clock)
    assert (first.ok, first.whole, first.kept_refused) == (True, True, "")
    grow(log, 10)
    second = check(subject(log), kept_stand(log), clock)
    assert (second.ok, second.whole, second.inspection.begin) == (True, False, 273)
    assert check(subject(log), kept_stand(log), clock).inspection.begin == 284
    later = check(subject(log), kept_stand(log), lambda: Micros(T0 + 1 + DAY))
    assert (later.ok, later.whole) == (True, True)
    assert check(subject(log), kept_stand(log), clock, whole=True).whole


GROWN_FLIPS = {
    key: (attack.replace("= 100", "= 275").replace("1601", "4400").replace("1602", "4402"), place)
    for key, (attack, place, _) in FLIPS.items()
    if key.partition(".")[0] in {"entry", "payload", "head"} or key.startswith("run.")
}


@pytest.mark.attack
@pytest.mark.parametrize("column", GROWN_FLIPS)
def test_what_came_after_the_stand_is_checked_as_strictly(log, column) -> None:
    clock = lambda: Micros(T0 + 1)  # noqa: E731
    assert check(subject(log), kept_stand(log), clock).ok
    grow(log, 10)
    alter(log, GROWN_FLIPS[column][0])
    found = check(subject(log), kept_stand(log), clock)
    assert not found.ok
    assert found.inspection.begin in {0, 273}
    # An alarm stays until a whole check finds nothing: nothing is kept of what was verified before.
    again = check(subject(log), kept_stand(log), clock)
    assert (again.ok, again.whole) == (False, True)


@pytest.mark.attack
@pytest.mark.parametrize("forger", ["another key", "no signature", "the signature of the first", "an edge of its own"])  # fmt: skip
def test_a_forged_stand_makes_nothing_be_skipped(log, forger) -> None:
    """Somebody alters entry 275 and writes, without the key, that everything up to 284 was verified."""
    clock = lambda: Micros(T0 + 1)  # noqa: E731
    assert check(subject(log), kept_stand(log), clock).ok
    file = log.with_name("verified")
    honest = file.read_text()
    grow(log, 10)
    shutil.copytree(log.parent, log.parent / "copy")
    assert check(subject(log.parent / "copy" / "ledger.db"), kept_stand(log.parent / "copy" / "x"), clock).ok  # fmt: skip
    ahead = (log.parent / "copy" / "verified").read_text()
    alter(log, "UPDATE payload SET content = x'31' WHERE place = 4400")
    text, signature = ahead.rpartition("\n\n")[0] + "\n", honest.rpartition("\n\n")[2]
    forged = {
        "another key": lambda: sign_note(text, Key()),
        "no signature": lambda: text,
        "the signature of the first": lambda: f"{text}\n{signature}",
        "an edge of its own": lambda: ahead.replace('"edge":"0000', '"edge":"0001'),
    }[forger]()
    file.write_text(forged)
    outcome = check(subject(log), kept_stand(log), clock)
    assert (outcome.ok, outcome.whole) == (False, True)
    assert str(file) in outcome.kept_refused
    assert ("payload-altered", 275) in {(f.kind, f.where.seq) for f in outcome.inspection.findings}


@pytest.mark.attack
def test_a_stand_that_fits_no_signed_checkpoint_is_not_gone_on_from(log) -> None:
    """Even one signed with the log's own key, of another history or of a size nobody signed."""
    stand = inspect(subject(log)).stand
    alter(log, "UPDATE payload SET content = x'31' WHERE place = 1601")
    other = Edge().extend([Digest(bytes([n % 256]) * 32) for n in range(stand.size)])
    unsigned = replace(stand, size=200, edge=Edge().extend([stand.last] * 200))
    for forged in (replace(stand, edge=other), unsigned, replace(stand, last=Digest(bytes(32)))):
        kept_stand(log).replace(Verified(ORIGIN, forged, T0, T0), was=None)
        outcome = check(subject(log), kept_stand(log), lambda: T0)
        assert (outcome.ok, outcome.whole) == (False, True)
        assert outcome.kept_refused


def test_an_older_stand_only_makes_the_check_longer_and_one_of_another_log_is_refused(log) -> None:
    clock = lambda: T0  # noqa: E731
    check(subject(log), kept_stand(log), clock)
    older = log.with_name("verified").read_text()
    grow(log, 10)
    check(subject(log), kept_stand(log), clock)
    log.with_name("verified").write_text(older)
    assert check(subject(log), kept_stand(log), clock).inspection.begin == 273
    stranger = KeptStand(log.with_name("verified"), Key(Origin("other.example/log")))
    assert stranger.read()[1] is None
    log.with_name("verified").write_text("")
    outcome = check(subject(log), kept_stand(log), clock)
    assert (outcome.whole, "malformed" in outcome.kept_refused) == (True, True)


def test_a_stand_is_not_put_back_by_a_check_that_ended_later_than_the_alarm(log) -> None:
    check(subject(log), kept_stand(log), lambda: T0)
    raw, verified, _ = kept_stand(log).read()
    kept_stand(log).drop()
    kept_stand(log).replace(verified, was=raw)
    assert not log.with_name("verified").exists()


def test_a_log_that_is_not_there_is_said(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="no log at"):
        inspect(subject(tmp_path / "none.db"))
