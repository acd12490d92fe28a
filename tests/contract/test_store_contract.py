"""One suite over every store: what `governance.ports` promises."""

import threading
from concurrent.futures import Future

import pytest

from governance.errors import ConflictError, InvalidInputError, RefusedError, UnavailableError
from governance.ids import Digest, Micros, RequestId, RunId, SubjectId
from governance.ledger.checkpoint import (
    note_text,
    open_note,
    parse_checkpoint,
    parse_verifier_key,
)
from governance.ledger.entry import RUN_START, Kind, genesis, read_entry
from governance.ledger.merkle import root_of
from governance.ports import Lease, Person, Store

T0 = Micros(1_764_000_000_000_000)
RUN = RunId("run-1")


def records(store: Store):
    return store.read(lambda reader: reader.records())


def head(store: Store):
    return store.read(lambda reader: reader.head())


def assert_linked(found, origin) -> None:
    prev = genesis(origin)
    ends: dict[RunId, tuple[int, Digest]] = {}
    for seq, record in enumerate(found):
        entry = record.entry
        assert (entry.seq, entry.prev) == (seq, prev)
        assert read_entry(entry.raw) == entry
        if entry.run is not None:
            assert (entry.rseq, entry.rprev) == ends.get(entry.run, (0, RUN_START))
            ends[entry.run] = (entry.rseq + 1, entry.hash)
        prev = entry.hash


def test_a_log_begins_with_its_keys(store, signer) -> None:
    (first,) = records(store)
    assert first.entry.kind is Kind.LOG_CREATED
    assert first.entry.body == {"keys": [signer.verifier_key]}
    assert first.entry.actor == "system:governance"
    assert first.entry.ts == T0


def test_entries_get_their_place_and_links(store, draft) -> None:
    for turn in range(3):
        for run in ("run-1", "run-2", None):
            store.write(lambda tx, turn=turn, run=run: tx.append(draft(run=run, id=str(turn)), T0))
    found = records(store)
    assert len(found) == 10
    assert_linked(found, store.origin)
    end = head(store)
    assert (end.size, end.last) == (10, found[-1].entry.hash)
    assert end.root == root_of([record.entry.hash for record in found])


def test_what_write_returns_is_what_is_read_later(store, draft) -> None:
    content = {"message": {"text": "é\u2028 \U0001f600", "n": [1.5, None, -0.0]}}
    written = store.write(lambda tx: tx.append(draft(payloads=content, id="a"), T0))
    read = records(store)[-1]
    assert read.entry == written.entry
    assert read.payloads == written.payloads
    assert read.content("message") == content["message"]
    assert read.payloads["message"].salt != bytes(32)


def test_time_never_goes_back(store, draft) -> None:
    for at in (T0 + 5, T0 - 3_600_000_000, T0 + 7):
        store.write(lambda tx, at=at: tx.append(draft(), Micros(at)))
    assert [record.entry.ts - T0 for record in records(store)] == [0, 5, 5, 7]


def test_a_work_that_raises_leaves_nothing(store, draft) -> None:
    before = head(store)

    def half(tx) -> None:
        tx.append(draft(Kind.RUN_STARTED, agent="agent:a", payloads={"input": [1]}), T0)
        tx.people.put(Person(SubjectId("user:1"), "Ann", frozenset(), active=True))
        tx.leases.put(Lease(RUN, "w", T0))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        store.write(half)
    assert head(store) == before
    assert store.read(lambda reader: reader.run_head(RUN)) is None
    assert store.read(lambda reader: reader.people.everybody()) == []
    assert store.read(lambda reader: reader.leases.get(RUN)) is None
    after = store.write(lambda tx: tx.append(draft(), T0))
    assert (after.entry.seq, after.entry.rseq) == (1, 0)


@pytest.mark.parametrize("looks_back", [False, True], ids=["appends", "appends and reads"])
def test_works_that_share_a_commit_fail_alone(store, draft, looks_back) -> None:
    """While one work holds the writer, others queue behind it and go into one commit."""
    entered, release = threading.Event(), threading.Event()

    def hold(tx):
        entered.set()
        assert release.wait(10)
        return tx.append(draft(id="hold"), T0)

    def work(n):
        def do(tx):
            record = tx.append(draft(run=f"run-{n % 3}", uid=f"run-{n % 3}/{n}.0"), T0)
            if looks_back:
                assert tx.about(RunId(f"run-{n % 3}"), f"run-{n % 3}/{n}.0") == [record]
            if n % 2:
                raise ValueError(str(n))
            return record

        return do

    futures: list[Future] = []
    first = threading.Thread(target=lambda: futures.append(store.submit(hold)))
    first.start()
    assert entered.wait(10)
    others = [
        threading.Thread(target=lambda n=n: futures.append(store.submit(work(n))))
        for n in range(20)
    ]
    for other in others:
        other.start()
    release.set()
    for thread in (first, *others):
        thread.join(10)
    failed = [future for future in futures if future.exception(10) is not None]
    assert {type(future.exception()) for future in failed} == {ValueError}
    assert len(failed) == 10
    found = records(store)
    assert len(found) == 12
    assert_linked(found, store.origin)
    kept = {future.result().entry.raw for future in futures if future not in failed}
    assert kept == {record.entry.raw for record in found[1:]}


def test_a_transaction_reads_its_own_appends(store, draft) -> None:
    def work(tx):
        began = tx.append(draft(Kind.RUN_STARTED, agent="agent:a"), T0)
        asked = tx.append(draft(Kind.APPROVAL_REQUESTED, request="req-1", uid="run-1/1.0"), T0)
        assert tx.head().size == 3
        assert tx.head().last == asked.entry.hash
        assert tx.run_head(RUN).rseq == 2
        assert [run.run for run in tx.runs()] == [RUN]
        assert tx.records(start=1) == [began, asked]
        assert tx.run_records(RUN) == [began, asked]
        assert tx.about(RUN, "req-1") == [asked]
        assert tx.open_requests() == [(RUN, "req-1")]
        assert tx.find_request(RequestId("req-1")) == RUN
        assert tx.latest([Kind.RUN_STARTED]) == began
        late = tx.append(draft(Kind.APPROVAL_EXPIRED, request="req-1"), T0)
        assert tx.open_requests() == []
        assert tx.run_records(RUN) == [began, asked, late]
        assert tx.run_head(RUN).last == late.entry.hash

    store.write(work)
    assert [record.entry.seq for record in records(store)] == [0, 1, 2, 3]
    assert store.write(lambda tx: tx.append(draft(), T0)).entry.rseq == 3


def test_a_read_sees_one_moment_and_waits_for_no_writer(store, draft) -> None:
    def read(reader):
        before = reader.head()
        store.write(lambda tx: tx.append(draft(), T0))
        return (
            before,
            reader.head(),
            reader.records(),
            reader.run_head(RUN),
            reader.run_records(RUN),
        )

    before, after, found, run, of_run = store.read(read)
    assert before == after
    assert len(found) == before.size == 1
    assert run is None
    assert of_run == []
    assert head(store).size == 2


def test_a_read_changes_nothing(store) -> None:
    ann = Person(SubjectId("user:1"), "Ann", frozenset(), active=True)
    for change in (
        lambda reader: reader.people.put(ann),
        lambda reader: reader.leases.put(Lease(RUN, "w", T0)),
        lambda reader: reader.leases.drop(RUN, "w"),
    ):
        with pytest.raises(RefusedError, match="a read changes nothing"):
            store.read(change)


def test_run_heads_follow_their_run(store, draft) -> None:
    steps = [
        (Kind.RUN_STARTED, "running", 1),
        (Kind.MODEL_REQUESTED, "running", 1),
        (Kind.RUN_SUSPENDED, "suspended", 1),
        (Kind.APPROVAL_VOTED, "suspended", 1),
        (Kind.RUN_RESUMED, "running", 5),
        (Kind.CALL_STARTED, "running", 5),
        (Kind.RUN_COMPLETED, "completed", 5),
    ]
    for n, (kind, status, epoch) in enumerate(steps):
        body = {"agent": "agent:desk"} if kind is Kind.RUN_STARTED else {}
        entry = store.write(
            lambda tx, n=n, kind=kind, body=body: tx.append(draft(kind, **body), Micros(T0 + n))
        ).entry
        found = store.read(lambda reader: reader.run_head(RUN))
        assert (found.status, found.epoch, found.rseq) == (status, epoch, n + 1)
        assert (found.last, found.agent, found.run) == (entry.hash, "agent:desk", RUN)
        assert (found.started, found.updated) == (T0, T0 + n)


@pytest.mark.parametrize(
    ("kind", "status"), [(Kind.RUN_FAILED, "failed"), (Kind.RUN_CANCELLED, "cancelled")]
)
def test_ends_of_runs_are_told_apart(store, draft, kind, status) -> None:
    store.write(lambda tx: tx.append(draft(kind), T0))
    assert store.read(lambda reader: reader.run_head(RUN)).status == status


def test_runs_are_listed_newest_first(store, draft) -> None:
    for n in range(4):
        kind = Kind.RUN_SUSPENDED if n % 2 else Kind.RUN_STARTED
        store.write(lambda tx, n=n, kind=kind: tx.append(draft(kind, run=f"run-{n}"), T0))
    store.write(lambda tx: tx.append(draft(run="run-0"), T0))

    def listed(**given):
        return [run.run for run in store.read(lambda reader: reader.runs(**given))]

    assert listed() == ["run-3", "run-2", "run-1", "run-0"]
    assert listed(status=("suspended",)) == ["run-3", "run-1"]
    assert listed(status=("suspended", "running"), limit=3) == ["run-3", "run-2", "run-1"]
    assert listed(status=("failed",)) == []


def test_entries_are_found_by_what_they_are_about(store, draft) -> None:
    def fill(tx):
        return [
            tx.append(draft(Kind.CALL_DECIDED, uid="run-1/1.0"), T0),
            tx.append(draft(Kind.APPROVAL_REQUESTED, uid="run-1/1.0", request="req-1"), T0),
            tx.append(draft(Kind.CALL_DECIDED, uid="run-1/1.1"), T0),
            tx.append(draft(Kind.CALL_DECIDED, run="run-2", uid="run-1/1.0"), T0),
            tx.append(draft(Kind.APPROVAL_USED, uid="run-1/1.0", request="req-1"), T0),
            tx.append(draft(Kind.APPROVAL_WITHDRAWN, request="/1.1"), T0),
        ]

    a, b, c, other, e, f = store.write(fill)

    def about(run, key):
        return store.read(lambda reader: reader.about(RunId(run), key))

    assert about("run-1", "run-1/1.0") == [a, b, e]
    assert about("run-1", "req-1") == [b, e]
    assert about("run-1", "run-1/1.1") == [c]
    assert about("run-1", "/1.1") == [f]
    assert about("run-2", "run-1/1.0") == [other]
    assert about("run-3", "run-1/1.0") == []
    assert about("run-1", "1.0") == []


@pytest.mark.parametrize(
    ("then", "still_open"),
    [
        (Kind.APPROVAL_VOTED, True),
        (Kind.APPROVAL_GRANTED, True),
        (Kind.APPROVAL_REJECTED, False),
        (Kind.APPROVAL_EXPIRED, False),
        (Kind.APPROVAL_WITHDRAWN, False),
        (Kind.APPROVAL_USED, False),
    ],
)
def test_requests_stay_open_until_a_final_entry(store, draft, then, still_open) -> None:
    for n in (2, 1, 3):
        store.write(
            lambda tx, n=n: tx.append(draft(Kind.APPROVAL_REQUESTED, request=f"req-{n}"), T0)
        )
    store.write(lambda tx: tx.append(draft(then, request="req-1"), T0))
    listed = store.read(lambda reader: reader.open_requests())
    middle = [(RUN, "req-1")] if still_open else []
    assert listed == [(RUN, "req-2"), *middle, (RUN, "req-3")]
    assert store.read(lambda reader: reader.find_request(RequestId("req-1"))) == RUN
    assert store.read(lambda reader: reader.find_request(RequestId("req-9"))) is None


def test_a_request_is_asked_once(store, draft) -> None:
    ask = draft(Kind.APPROVAL_REQUESTED, request="req-1")
    store.write(lambda tx: tx.append(ask, T0))
    with pytest.raises(ConflictError, match="approval `req-1` was requested before"):
        store.write(lambda tx: tx.append(ask, T0))

    def twice(tx):
        tx.append(draft(Kind.APPROVAL_REQUESTED, request="req-2"), T0)
        with pytest.raises(ConflictError):
            tx.append(draft(Kind.APPROVAL_REQUESTED, request="req-2"), T0)
        return tx.append(draft(), T0)

    assert store.write(twice).entry.seq == 3
    assert_linked(records(store), store.origin)


def test_a_request_without_run_or_name_is_refused(store, draft) -> None:
    for bad in (
        draft(Kind.APPROVAL_REQUESTED, run=None, request="req-1"),
        draft(Kind.APPROVAL_REQUESTED),
    ):
        with pytest.raises(InvalidInputError, match="needs a run and a `request`"):
            store.write(lambda tx, bad=bad: tx.append(bad, T0))
    assert head(store).size == 1


def test_what_json_cannot_say_is_refused_and_leaves_nothing(store, draft) -> None:
    for bad in (draft(n=1.5), draft(payloads={"a": float("nan")}), draft(payloads={"a": "\ud800"})):
        with pytest.raises(InvalidInputError):
            store.write(lambda tx, bad=bad: tx.append(bad, T0))
    with pytest.raises(InvalidInputError, match="more than 16 payloads"):
        store.write(lambda tx: tx.append(draft(payloads={f"p{n}": n for n in range(17)}), T0))
    assert head(store).size == 1


def test_the_newest_of_some_kinds_is_found(store, draft) -> None:
    def fill(tx):
        return [
            tx.append(draft(Kind.STOP_ENGAGED, run=None), T0),
            tx.append(draft(Kind.STOP_LIFTED, run=None), T0),
            tx.append(draft(Kind.TOOL_REGISTERED, run=None, tool="refund"), T0),
            tx.append(draft(Kind.TOOL_REGISTERED, run=None, tool="deploy"), T0),
            tx.append(draft(Kind.CALL_DECIDED, tool="refund"), T0),
        ]

    engaged, lifted, refund, deploy, _ = store.write(fill)

    def latest(*kinds, **given):
        return store.read(lambda reader: reader.latest(kinds, **given))

    assert latest(Kind.STOP_ENGAGED, Kind.STOP_LIFTED) == lifted
    assert latest(Kind.STOP_ENGAGED) == engaged
    assert latest(Kind.TOOL_REGISTERED) == deploy
    assert latest(Kind.TOOL_REGISTERED, tool="refund") == refund
    assert latest(Kind.CALL_DECIDED, tool="refund") is None
    assert latest(Kind.POLICY_ACTIVATED) is None


def test_records_come_in_portions(store, draft) -> None:
    for n in range(5):
        store.write(lambda tx, n=n: tx.append(draft(payloads={"m": n}), T0))

    def portion(start, limit):
        return store.read(lambda reader: reader.records(start=start, limit=limit))

    assert [r.entry.seq for r in portion(2, 2)] == [2, 3]
    assert [r.content("m") for r in portion(4, 100)] == [3, 4]
    assert list(portion(6, 10)) == []
    of_run = store.read(lambda reader: reader.run_records(RUN, start=3))
    assert [r.entry.rseq for r in of_run] == [3, 4]
    assert store.read(lambda reader: list(reader.run_records(RUN, start=5))) == []
    assert store.read(lambda reader: list(reader.run_records(RunId("run-9")))) == []


def test_people_are_found_by_subject_name_and_token(store) -> None:
    ann = Person(SubjectId("user:1"), "Ann", frozenset({"finance", "security"}), active=True)
    bob = Person(SubjectId("user:2"), "Bob", frozenset(), active=False)
    token, fresh = Digest(b"\1" * 32), Digest(b"\2" * 32)
    store.write(lambda tx: tx.people.put(ann, token))
    store.write(lambda tx: tx.people.put(bob))

    def people(look):
        return store.read(lambda reader: look(reader.people))

    assert people(lambda p: p.by_subject(SubjectId("user:1"))) == ann
    assert people(lambda p: p.by_name("Bob")) == bob
    assert people(lambda p: p.by_token(token)) == ann
    assert people(lambda p: p.by_token(fresh)) is None
    assert people(lambda p: p.by_name("Eve")) is None
    assert people(lambda p: p.everybody()) == [ann, bob]
    gone = Person(ann.subject, "Ann", frozenset(), active=False)
    store.write(lambda tx: tx.people.put(gone))
    assert people(lambda p: p.by_token(token)) == gone
    store.write(lambda tx: tx.people.put(gone, fresh))
    assert people(lambda p: p.by_token(token)) is None
    assert people(lambda p: p.by_token(fresh)) == gone


def test_two_people_share_no_name_and_no_token(store) -> None:
    token = Digest(b"\1" * 32)
    store.write(
        lambda tx: tx.people.put(Person(SubjectId("user:1"), "Ann", frozenset(), True), token)
    )
    for other, its_token in (("Ann", None), ("Eve", token)):
        with pytest.raises(ConflictError, match=f"name `{other}`"):
            store.write(
                lambda tx, other=other, its_token=its_token: tx.people.put(
                    Person(SubjectId("user:2"), other, frozenset(), True), its_token
                )
            )
    assert len(store.read(lambda reader: reader.people.everybody())) == 1


def test_leases_are_taken_renewed_and_dropped_by_their_holder(store) -> None:
    def lease():
        return store.read(lambda reader: reader.leases.get(RUN))

    assert lease() is None
    for until in (1, 2):
        store.write(lambda tx, until=until: tx.leases.put(Lease(RUN, "worker-1", Micros(until))))
    assert lease() == Lease(RUN, "worker-1", Micros(2))
    store.write(lambda tx: tx.leases.drop(RUN, "worker-2"))
    assert lease() is not None
    store.write(lambda tx: tx.leases.drop(RUN, "worker-1"))
    assert lease() is None


def test_checkpoints_verify_and_grow(store, draft, signer) -> None:
    for _ in range(3):
        store.write(lambda tx: tx.append(draft(), T0))
        size, note = store.checkpoint()
        assert store.checkpoint() == (size, note)
        assert open_note(note, [parse_verifier_key(signer.verifier_key)]) == (store.origin,)
        end = head(store)
        signed = parse_checkpoint(note_text(note))
        assert (signed.origin, signed.size, signed.root) == (store.origin, end.size, end.root)
    sizes = [size for size, _ in store.read(lambda reader: reader.checkpoints())]
    assert sizes == [1, 2, 3, 4]


def test_256_entries_are_signed_without_being_asked(store, draft) -> None:
    def many(tx):
        for _ in range(300):
            tx.append(draft(), T0)

    store.write(many)
    store.write(
        lambda tx: tx.append(draft(), T0)
    )  # the signature's own commit comes before this one
    sizes = [size for size, _ in store.read(lambda reader: reader.checkpoints())]
    assert sizes == [1, 301]


def test_64_threads_leave_no_gap(store, draft) -> None:
    def work(n):
        for _ in range(5):
            store.write(lambda tx: tx.append(draft(run=f"run-{n % 7}", payloads={"n": n}), T0))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    found = records(store)
    assert len(found) == 1 + 64 * 5
    assert_linked(found, store.origin)
    for n in range(7):
        store.read(lambda reader, n=n: reader.run_records(RunId(f"run-{n}")))


def test_close_drains_what_is_queued_and_ends_it(store, draft) -> None:
    futures = [store.submit(lambda tx: tx.append(draft(), T0)) for _ in range(50)]
    store.close()
    assert sorted(future.result(10).entry.seq for future in futures) == list(range(1, 51))
    late = store.submit(lambda tx: tx.append(draft(), T0))
    with pytest.raises(UnavailableError, match="store is closed"):
        late.result(10)
    with pytest.raises(UnavailableError, match="store is closed"):
        store.read(lambda reader: reader.head())
    with pytest.raises(UnavailableError, match="store is closed"):
        store.checkpoint()
    store.close()


def test_nothing_is_dropped_that_no_archive_has(store, draft):
    store.write(lambda tx: [tx.append(draft(), T0) for _ in range(600)])
    store.checkpoint()
    assert store.write(lambda tx: tx.prune(10)) == 0
    assert len(store.read(lambda reader: reader.records())) == 601
