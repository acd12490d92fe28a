"""What erasing does to a store: what goes, what stays, and what is left to read. Every store alike."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.ledger.entry import Draft, ErasedError, Kind
from governance.ledger.erasure import Belonging, Erasure
from governance.ports import Person, Store
from governance.store.memory import MemoryStore

T0 = Micros(1_764_000_000_000_000)
AGENT = SubjectId("agent:refund-desk")
ANA, BEN, VERA, OP = (SubjectId(f"user:{name}") for name in ("ana", "ben", "vera", "op"))
ANAS = Erasure(ANA, OP, "asked for it")


def fill(store: Store) -> None:
    """Two people's runs, a run for nobody, rules; Vera has voted in Ana's."""

    def entry(
        run: str, behalf: SubjectId | None, actor=AGENT, kind=Kind.INPUT_RECEIVED, **payloads
    ):
        return Draft(kind, actor, {}, payloads, RunId(run), behalf)

    drafts = [
        Draft(Kind.POLICY_ACTIVATED, SubjectId("system:gate"), {}, {"text": "rules"}),
        entry("run-ana", ANA, kind=Kind.RUN_STARTED, input="ana asks"),
        entry("run-ben", BEN, kind=Kind.RUN_STARTED, input="ben asks"),
        entry("run-own", None, kind=Kind.RUN_STARTED, input="the agent's own"),
        entry("run-ana", ANA, args={"who": "ana"}, input={"n": 1}),
        entry("run-ana", None, actor=VERA, kind=Kind.APPROVAL_VOTED, note="vera on ana"),
        entry("run-ana", ANA),
        entry("run-ben", None, actor=VERA, kind=Kind.APPROVAL_VOTED, note="vera on ben"),
    ]
    for draft in drafts:
        store.write(lambda tx, draft=draft: tx.append(draft, T0))


def belongings(store: Store, subject: SubjectId):
    return list(store.write(lambda tx: tx.belongings(subject)))


def erase(store: Store, erasure: Erasure = ANAS):
    return store.write(lambda tx: tx.erase(erasure, T0))


def contents(store: Store) -> dict[int, dict[str, object]]:
    records = store.read(lambda reader: reader.records())
    return {r.entry.seq: {name: r.content(name) for name in r.payloads} for r in records}


def test_content_belongs_to_whom_the_run_acts_for_and_to_who_wrote_it(store) -> None:
    fill(store)
    ana = RunId("run-ana")
    assert belongings(store, ANA) == [
        Belonging(2, ("input",), ana),
        Belonging(5, ("args", "input"), ana),
        Belonging(6, ("note",), ana),
    ]
    assert [one.seq for one in belongings(store, VERA)] == [6, 8]
    assert [one.seq for one in belongings(store, AGENT)] == [4]
    assert belongings(store, SubjectId("user:an")) == []
    assert belongings(store, SubjectId("system:gate")) == []


def test_what_was_erased_is_gone_and_the_rest_is_not(store) -> None:
    fill(store)
    before = contents(store)
    (record,) = erase(store)
    assert record.entry.body == {
        "subject": ANA,
        "targets": [[2, ["input"]], [5, ["args", "input"]], [6, ["note"]]],
    }
    assert (record.entry.actor, record.entry.run) == (OP, None)
    after = contents(store)
    assert after.pop(record.entry.seq) == {"reason": "asked for it"}
    assert after == before | {2: {}, 5: {}, 6: {}}
    assert belongings(store, ANA) == []
    assert [one.seq for one in belongings(store, VERA)] == [8]
    assert [one.seq for one in belongings(store, OP)] == [record.entry.seq]


@pytest.mark.parametrize("read", ["records", "run_records", "about", "latest"])
def test_what_was_erased_says_so_however_it_is_read(store, read) -> None:
    fill(store)
    erase(store)
    last = Draft(
        Kind.CALL_DECIDED, AGENT, {"uid": "run-ana/1.0"}, {"args": 1}, RunId("run-ana"), ANA
    )
    late = store.write(lambda tx: tx.append(last, T0))
    erase(store)
    found = {
        "records": lambda r: r.records(start=late.entry.seq, limit=1)[0],
        "run_records": lambda r: r.run_records(RunId("run-ana"))[-1],
        "about": lambda r: r.about(RunId("run-ana"), "run-ana/1.0")[0],
        "latest": lambda r: r.latest((Kind.CALL_DECIDED,)),
    }[read]
    got = store.read(found)
    by = late.entry.seq + 1
    assert (dict(got.payloads), dict(got.erased)) == ({}, {"args": by})
    with pytest.raises(ErasedError, match=f"payload `args` of entry .* was erased; entry {by}"):
        got.content("args")


def test_erasing_twice_finds_nothing_the_second_time(store) -> None:
    fill(store)
    erase(store)
    (again,) = erase(store)
    assert again.entry.body["targets"] == []


def test_an_erased_subject_may_come_again(store) -> None:
    fill(store)
    erase(store)
    new = Draft(Kind.RUN_STARTED, AGENT, {}, {"input": "ana again"}, RunId("run-2"), ANA)
    record = store.write(lambda tx: tx.append(new, T0))
    assert contents(store)[record.entry.seq] == {"input": "ana again"}
    assert [one.seq for one in belongings(store, ANA)] == [record.entry.seq]


def test_an_erasure_that_fails_takes_nothing(store) -> None:
    fill(store)
    before = contents(store)

    def half(tx) -> None:
        tx.erase(ANAS, T0)
        assert tx.belongings(ANA) == []
        raise KeyError("mine")

    with pytest.raises(KeyError):
        store.write(half)
    assert contents(store) == before
    assert [one.seq for one in belongings(store, ANA)] == [2, 5, 6]


def test_what_one_work_wrote_and_erased_is_gone(store) -> None:
    def work(tx):
        tx.append(Draft(Kind.RUN_STARTED, AGENT, {}, {"input": "x"}, RunId("run-1"), ANA), T0)
        return tx.erase(ANAS, T0)

    (record,) = store.write(work)
    assert record.entry.body["targets"] == [[1, ["input"]]]
    assert contents(store)[1] == {}


def test_a_person_can_be_forgotten_and_only_inside_a_write(store) -> None:
    person, token = Person(VERA, "Vera", frozenset({"finance"}), active=True), Digest(bytes(32))
    store.write(lambda tx: tx.people.put(person, token))
    with pytest.raises(RefusedError):
        store.read(lambda reader: reader.people.drop(VERA))
    assert store.write(lambda tx: tx.people.drop(VERA))
    assert not store.write(lambda tx: tx.people.drop(VERA))
    assert store.read(lambda r: (r.people.by_name("Vera"), r.people.by_token(token))) == (
        None,
        None,
    )


def test_content_that_comes_in_the_same_commit_as_an_erasure_survives_it(store) -> None:
    fill(store)
    entered, release = threading.Event(), threading.Event()

    def hold(tx) -> None:
        entered.set()
        assert release.wait(10)

    new = Draft(Kind.INPUT_RECEIVED, AGENT, {}, {"message": "late"}, RunId("run-ana"), ANA)
    holder = threading.Thread(target=store.write, args=(hold,))
    holder.start()
    assert entered.wait(10)
    if isinstance(store, MemoryStore):
        release.set()  # it runs works in the thread that brings them
    works = [
        lambda tx: tx.append(new, T0),
        lambda tx: tx.erase(ANAS, T0),
        lambda tx: tx.append(new, T0),
    ]
    futures = [store.submit(work) for work in works]
    release.set()
    before, erased, after = (future.result(10) for future in futures)
    holder.join()
    found = contents(store)
    assert found[before.entry.seq] == {}
    assert found[after.entry.seq] == {"message": "late"}
    assert [before.entry.seq, ["message"]] in erased[0].entry.body["targets"]


def test_a_reason_is_not_lost_with_the_key_of_who_gave_it(store) -> None:
    store.write(lambda tx: tx.erase(Erasure(OP, OP, "first"), T0))
    (record,) = store.write(lambda tx: tx.erase(Erasure(OP, OP, "second"), T0))
    assert contents(store)[record.entry.seq] == {"reason": "second"}


def test_an_entry_alone_removes_nothing(store) -> None:
    """Only `erase` removes. Whoever appends the entry by hand has said something untrue."""
    fill(store)
    lie = Draft(Kind.PAYLOAD_ERASED, OP, {"subject": ANA, "targets": [[2, ["input"]]]}, {})
    store.write(lambda tx: tx.append(lie, T0))
    assert contents(store)[2] == {"input": "ana asks"}


# --- the files of the SQLite store ------------------------------------------------------------------


ORIGIN = Origin("acme.example/agents")


@pytest.fixture
def filled(create, tmp_path) -> Path:
    store = create(path=tmp_path / "filled.db")
    fill(store)
    store.close()
    return tmp_path / "filled.db"


@pytest.fixture
def reopen(signer):
    import os

    from governance.store.sqlite import SqliteStore

    opened = []

    def open_again(path: Path, **given: object) -> SqliteStore:
        settings = {"origin": ORIGIN, "signer": signer, "salts": os.urandom}
        opened.append(SqliteStore.open(path, **(settings | given)))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


def keys_in(path: Path) -> dict[str, bytes]:
    keyring = sqlite3.connect(path.with_suffix(".keyring"))
    found = dict(keyring.execute("SELECT owners, secret FROM key").fetchall())
    keyring.close()
    return found


def query(path: Path, sql: str):
    database = sqlite3.connect(path, isolation_level=None)
    found = database.execute(sql).fetchall()
    database.close()
    return found


def test_nothing_of_a_subject_lies_in_the_clear(filled) -> None:
    raw = filled.read_bytes()
    assert b"rules" in raw
    for text in (b"asks", b"vera on", b"agent's own"):
        assert text not in raw
    assert list(keys_in(filled)) == [
        "user:ana",
        "user:ben",
        "agent:refund-desk",
        "user:ana user:vera",
        "user:ben user:vera",
    ]


def test_a_stored_payload_grows_by_less_than_28_bytes(filled) -> None:
    """24 of encryption, and the number of the key."""
    ((length,),) = query(filled, "SELECT length(content) FROM payload WHERE place = 32")
    assert length == 32 + len('"ana asks"') + 24


def test_erasing_destroys_every_key_that_is_the_subject_s(filled, reopen) -> None:
    before = keys_in(filled)
    store = reopen(filled)
    erase(store)
    assert store.scrub()
    assert set(before) - set(keys_in(filled)) == {"user:ana", "user:ana user:vera"}
    files = [file for file in filled.parent.iterdir() if file.is_file()]
    for owners in ("user:ana", "user:ana user:vera"):
        assert not any(before[owners] in file.read_bytes() for file in files)
    assert any(before["user:ben"] in file.read_bytes() for file in files)
    assert query(filled, "SELECT no FROM subjectkey WHERE doomed") == []


def test_key_numbers_are_never_used_again(filled, reopen) -> None:
    store = reopen(filled)
    erase(store, Erasure(VERA, OP, "left"))
    store.write(
        lambda tx: tx.append(
            Draft(Kind.APPROVAL_VOTED, VERA, {}, {"note": "n"}, RunId("run-ben")), T0
        )
    )
    numbers = [
        no for (no,) in query(filled.with_suffix(".keyring"), "SELECT no FROM key ORDER BY no")
    ]
    assert numbers == [1, 2, 3, 6, 7]  # 4 and 5 were Vera's; 6 is the operator's own


@pytest.mark.attack
def test_a_mark_without_an_entry_excuses_nothing(filled, reopen) -> None:
    query(filled, "DELETE FROM payload WHERE place = 32")
    query(filled, "INSERT INTO erased (place, by) VALUES (32, 6)")
    (record,) = reopen(filled).read(lambda r: r.records(start=2, limit=1))
    assert dict(record.erased) == {}
    with pytest.raises(TamperedError, match="is missing"):
        record.content("input")


@pytest.mark.attack
def test_content_moved_to_another_place_does_not_read(filled, reopen) -> None:
    query(
        filled,
        "UPDATE payload SET (key, content) = (SELECT key, content FROM payload WHERE place = 80)"
        " WHERE place = 32",
    )
    (record,) = reopen(filled).read(lambda r: r.records(start=2, limit=1))
    with pytest.raises(TamperedError, match="not what was recorded"):
        record.content("input")


def test_without_its_keyring_a_log_is_not_opened(filled, reopen) -> None:
    ring = filled.with_suffix(".keyring")
    kept = ring.read_bytes()
    ring.unlink()
    with pytest.raises(InvalidInputError, match=r"no keyring at .*; bring it back"):
        reopen(filled)
    ring.write_bytes(kept)
    ring.chmod(0o644)
    with pytest.raises(RefusedError, match="open to others"):
        reopen(filled)
    ring.chmod(0o600)
    query(ring, "UPDATE meta SET origin = 'other'")
    with pytest.raises(InvalidInputError, match="is of log `other`"):
        reopen(filled)
    ring.write_bytes(b"")
    with pytest.raises(InvalidInputError, match="is no keyring"):
        reopen(filled)
    ring.write_bytes(b"garbage" * 1000)
    with pytest.raises(TamperedError, match="damaged"):
        reopen(filled)


def test_an_older_keyring_is_refused(filled, reopen) -> None:
    ring = filled.with_suffix(".keyring")
    old = ring.read_bytes()
    store = reopen(filled)
    new = Draft(Kind.RUN_STARTED, AGENT, {}, {"input": "x"}, RunId("run-9"), SubjectId("user:new"))
    store.write(lambda tx: tx.append(new, T0))
    store.close()
    ring.write_bytes(old)
    with pytest.raises(
        TamperedError, match="content lies under key `6`, and the keyring ends at `5`"
    ):
        reopen(filled)


def test_an_old_copy_of_the_database_says_nothing_any_more(filled, reopen, tmp_path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    copy.chmod(0o600)
    store = reopen(filled)
    erase(store)
    old = reopen(copy, keyring=filled.with_suffix(".keyring"))
    found = contents(old)
    assert (found[2], found[5], found[6]) == ({}, {}, {})
    assert found[3] == {"input": "ben asks"}


ERASE_IN_ANOTHER_PROCESS = """
import os, sys
from pathlib import Path
from governance.ids import Micros, Origin, SubjectId
from governance.ledger.erasure import Erasure
from governance.store.sqlite import SqliteStore

store = SqliteStore.open(
    Path(sys.argv[1]), origin=Origin("acme.example/agents"), signer=None, salts=os.urandom
)
erasure = Erasure(SubjectId("user:ana"), SubjectId("user:op"), "asked for it")
store.write(lambda tx: tx.erase(erasure, Micros(1)))
store.close()
"""


def test_a_process_that_remembers_a_destroyed_key_does_not_write_under_it(filled, reopen) -> None:
    """Else what it writes could be read until it ends, and by nobody afterwards."""
    store = reopen(filled)
    again = Draft(Kind.INPUT_RECEIVED, AGENT, {}, {"message": "before"}, RunId("run-ana"), ANA)
    store.write(lambda tx: tx.append(again, T0))
    subprocess.run([sys.executable, "-c", ERASE_IN_ANOTHER_PROCESS, filled], check=True, timeout=60)
    after = Draft(Kind.INPUT_RECEIVED, AGENT, {}, {"message": "after"}, RunId("run-ana"), ANA)
    record = store.write(lambda tx: tx.append(after, T0))
    store.close()
    found = contents(reopen(filled))
    assert found[record.entry.seq] == {"message": "after"}
    assert found[2] == {}
