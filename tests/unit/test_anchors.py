"""Every sink, alone: what is anchored, what is refused, and that nothing is lost or said twice."""

import base64
import json
import os
from contextlib import closing
from dataclasses import replace

import pytest
from fastapi import FastAPI, Response
from heads import Log, witness_key
from tsa import Tsa
from witnesses import on_socket, running

from governance import Governance
from governance.anchors.file import FileSink
from governance.anchors.rounds import anchor, state_of
from governance.anchors.schedule import Schedule
from governance.anchors.settings import Settings, read_settings
from governance.anchors.sink import Target
from governance.anchors.stamp import StampSink
from governance.anchors.troubles import LONGEST_WAIT_S, Trouble, Troubles
from governance.anchors.witness import WitnessSink
from governance.assemble import init
from governance.config import Home
from governance.errors import (
    ConflictError,
    InvalidInputError,
    RefusedError,
    TamperedError,
    UnavailableError,
)
from governance.ids import Origin, SubjectId
from governance.ledger.authorities import read_authorities
from governance.ledger.checkpoint import note_text, open_note, parse_checkpoint
from governance.ledger.cosignature import cosigner
from governance.ledger.entry import Draft, Kind
from governance.ledger.stamp import check_stamp

LOG = Log()
US = 1_000_000


def target(size: int, last: int = 0, log: Log = LOG) -> Target:
    def prove(old: int):
        if old % 2 and old not in (3, 5):
            raise InvalidInputError("no head of that size was signed")
        return log.proof(old, size)

    return Target(log.head(size), log.note(size), last, prove)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000 * US

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gov(clock) -> Governance:
    gov = replace(Governance.in_memory(policies={}), clock=clock)
    happen(gov)  # what came before is of the machine's own time, and this may not lie behind it
    clock.now = max(clock.now, gov.store.read(lambda r: r.head().ts))
    return gov


def happen(gov: Governance) -> None:
    gov.store.write(
        lambda tx: tx.append(
            Draft(Kind.BUNDLE_EXPORTED, SubjectId("system:t"), {"size": 1}), gov.clock()
        )
    )


def kinds(gov: Governance) -> list[Kind]:
    return [record.entry.kind for record in gov.store.read(lambda r: r.records())]


# --- the file


@pytest.fixture
def file(tmp_path) -> FileSink:
    return FileSink("vault", tmp_path / "vault.jsonl")


def lines(sink: FileSink) -> list[int]:
    return [json.loads(line)["size"] for line in sink.path.read_bytes().splitlines()]


def test_a_file_grows_by_a_line_for_each_head_and_by_none_for_the_same(file):
    first = file.anchor(target(3))
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.anchor(target(3, 3)).digest == first.digest
    file.anchor(target(5, 3))
    assert lines(file) == [3, 5]
    note = json.loads(file.path.read_bytes().splitlines()[-1])["note"]
    assert open_note(note, [LOG.key]) == (LOG.origin,)


@pytest.mark.attack
def test_a_log_that_does_not_continue_the_file_is_refused(file):
    file.anchor(target(8))
    before = file.path.read_bytes()
    lie = Log(tale="b", fork_at=5)
    for other in (
        target(12, 8, lie),
        target(8, 8, lie),
        target(4, 4),
        target(12, 8, Log(origin="other.example")),
    ):
        with pytest.raises(TamperedError, match="does not continue the head of `8`"):
            file.anchor(other)
    assert file.path.read_bytes() == before


@pytest.mark.attack
def test_a_file_that_lost_heads_is_not_filled_up_again(file):
    file.anchor(target(3))
    file.anchor(target(8, 3))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole.splitlines(keepends=True)[0])
    with pytest.raises(TamperedError, match="ends at 3 entries, and was given a head of `8`"):
        file.anchor(target(12, 8))
    file.path.write_bytes(b"")
    with pytest.raises(TamperedError, match="ends at 0 entries"):
        file.anchor(target(12, 8))
    file.path.unlink()
    with pytest.raises(TamperedError, match="is gone"):
        file.anchor(target(12, 8))
    assert not file.path.exists()


def test_a_line_that_a_crash_cut_off_is_ended_and_passed_over(file):
    file.anchor(target(3))
    with file.path.open("ab") as raw:
        raw.write(b'{"note":"acme')
    file.anchor(target(5, 3))
    assert json.loads(file.path.read_bytes().splitlines()[-1])["size"] == 5
    file.anchor(target(8, 5))
    assert len(file.path.read_bytes().splitlines()) == 4


def test_a_volume_that_is_not_there_may_come_back(tmp_path):
    sink = FileSink("vault", tmp_path / "absent" / "vault.jsonl")
    with pytest.raises(UnavailableError, match="no folder for"):
        sink.anchor(target(3))
    sink.path.parent.mkdir()
    sink.anchor(target(3))
    with pytest.raises(UnavailableError, match="cannot be written"):
        FileSink("vault", tmp_path).anchor(target(3))


def test_a_link_in_the_place_of_the_file_is_not_followed(file, tmp_path):
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnavailableError):
        file.anchor(target(3))
    assert not (tmp_path / "elsewhere").exists()


# --- the stamp


@pytest.fixture(scope="module")
def tsa(tmp_path_factory) -> Tsa:
    return Tsa.make(tmp_path_factory.mktemp("tsa"), signers=("tsa",))


def stamp_sink(tsa: Tsa, url: str) -> StampSink:
    return StampSink("clock", url, read_authorities(tsa.root.read_bytes()), os.urandom)


def test_a_stamp_is_over_the_text_of_the_head(tsa):
    with tsa.served() as url:
        sink = stamp_sink(tsa, url)
        given = sink.anchor(target(3))
    stamp = base64.b64decode(given.evidence["stamp"])
    text = note_text(LOG.note(3)).encode()
    assert check_stamp(stamp, text, sink.authorities).at == given.at
    assert tsa.verifies(stamp, text)


def test_an_answer_that_is_no_stamp_over_this_head_does_not_count(tsa, tmp_path):
    old = {}

    def replay(asked: bytes) -> bytes:
        return old.setdefault("stamp", tsa.reply(asked))

    with tsa.served(replay) as url:
        sink = stamp_sink(tsa, url)
        sink.anchor(target(3))
        with pytest.raises(RefusedError, match="answers another request"):
            sink.anchor(target(3))
        with pytest.raises(RefusedError, match="over something else"):
            sink.anchor(target(5))
    with tsa.served(lambda asked: b"junk") as url, pytest.raises(RefusedError, match="not count"):
        stamp_sink(tsa, url).anchor(target(3))
    other = Tsa.make(tmp_path, signers=())
    with tsa.served() as url, pytest.raises(RefusedError, match="no pinned authority"):
        stamp_sink(other, url).anchor(target(3))
    with (
        tsa.served(lambda asked: b"x" * 100_000) as url,
        pytest.raises(UnavailableError, match="answers more than"),
    ):
        stamp_sink(tsa, url).anchor(target(3))


# --- the witness


@pytest.fixture
def witness(tmp_path):
    with running(tmp_path / "w", "bank.example/w", LOG.signer.verifier_key) as found:
        yield found


def test_a_witness_cosigns_from_wherever_it_stands(witness):
    sink = WitnessSink("bank", witness.url, witness.key)
    given = sink.anchor(target(3))
    assert open_note(given.evidence["note"], [LOG.key, witness.key]) == (
        LOG.origin,
        "bank.example/w",
    )
    # We have forgotten that it has seen 3, or it has forgotten what we remember.
    assert sink.anchor(target(5)).lines != given.lines
    sink.anchor(target(8, 5))
    sink.anchor(target(8, 8))
    assert witness.book.known()[0].size == 8


@pytest.mark.attack
def test_a_witness_does_not_cosign_a_history_written_anew(witness):
    sink = WitnessSink("bank", witness.url, witness.key)
    sink.anchor(target(8))
    lie = Log(tale="b", fork_at=5)
    with pytest.raises(TamperedError, match="does not continue what it has seen"):
        sink.anchor(target(12, 8, lie))
    with pytest.raises(TamperedError, match="another head of 8 entries"):
        sink.anchor(target(8, 8, lie))
    with pytest.raises(TamperedError, match="has seen 8 entries, 4 are here"):
        sink.anchor(target(4))
    sink.anchor(target(9, 8))
    with pytest.raises(TamperedError, match="no head of that size was signed here"):
        sink.anchor(target(12, 8))


def test_a_witness_that_does_not_know_the_log_refuses(witness):
    stranger = Log(origin="stranger.example")
    sink = WitnessSink("bank", witness.url, witness.key)
    with pytest.raises(RefusedError, match="does not witness this log"):
        sink.anchor(target(3, log=stranger))
    with pytest.raises(RefusedError, match="no key that it knows"):
        sink.anchor(target(3, log=Log(seed=2)))


def test_only_the_pinned_key_counts(witness):
    other = cosigner(witness_key("bank.example/w", 99).verifier_key)
    with pytest.raises(RefusedError, match="not by the pinned key"):
        WitnessSink("bank", witness.url, other).anchor(target(3))


def answers(status: int, body: bytes):
    app = FastAPI()
    app.add_api_route("/add-checkpoint", lambda: Response(body, status), methods=["POST"])
    return on_socket(app)


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        (200, b"", RefusedError, "not by the pinned key"),
        (200, b"thanks", RefusedError, "no cosignature"),
        (200, b"\xff\n", RefusedError, "no cosignature"),
        (200, LOG.note(3).partition("\n\n")[2].encode(), RefusedError, "not by the pinned key"),
        (409, b"", UnavailableError, "and no size"),
        (409, b"2", UnavailableError, "and no size"),
        (409, b"02\n", UnavailableError, "and no size"),
        (409, b"2\n", TamperedError, "another head of 2 entries"),
        (409, b"7\n", TamperedError, "has seen 7 entries, 3 are here"),
        (500, b"", UnavailableError, "answers 500"),
        (302, b"", UnavailableError, "answers 302"),
        (400, b"", RefusedError, "malformed"),
    ],
)
def test_whatever_a_witness_answers_is_an_error_of_a_family(status, body, error, reason):
    key = cosigner(witness_key().verifier_key)
    with answers(status, body) as url, pytest.raises(error, match=reason):
        WitnessSink("bank", url, key).anchor(target(3))


def test_nobody_there_may_be_tried_again():
    key = cosigner(witness_key().verifier_key)
    for url in ("http://127.0.0.1:1/", "http://[::1/", "http://nowhere.invalid/"):
        with pytest.raises(UnavailableError):
            WitnessSink("bank", url, key).anchor(target(3))


# --- a round


def test_each_success_is_an_entry_and_calls_for_no_other(gov, file, clock, tmp_path):
    settings, troubles = Settings((file,)), Troubles(tmp_path / "t")
    (first,) = anchor(gov.store, settings, troubles, clock)
    assert (first.size, first.error) == (2, "")
    assert kinds(gov)[2:] == [Kind.ANCHOR_RECORDED]
    assert anchor(gov.store, settings, troubles, clock) == []
    (record,) = gov.store.read(lambda r: r.records(start=2))
    assert record.entry.body["sink"] == "vault"
    assert record.entry.body["size"] == 2
    state = gov.store.read(lambda r: state_of(r, "vault"))
    assert (state.size, state.since) == (2, None)
    happen(gov)
    assert gov.store.read(lambda r: state_of(r, "vault")).since is not None
    (second,) = anchor(gov.store, settings, troubles, clock)
    assert second.size == 4
    assert lines(file) == [2, 4]


def test_a_cosignature_is_kept_under_the_checkpoint(gov, clock, tmp_path):
    with running(tmp_path / "w", "bank.example/w", gov.signer.verifier_key) as witness:
        sink = WitnessSink("bank", witness.url, witness.key)
        (done,) = anchor(gov.store, Settings((sink,)), Troubles(tmp_path / "t"), clock)
    assert not done.error
    notes = dict(gov.store.read(lambda r: r.checkpoints()))
    assert open_note(notes[done.size], [witness.key]) == ("bank.example/w",)


def test_a_failing_sink_stops_no_other_and_is_tried_again_ever_more_rarely(
    gov, file, clock, tmp_path
):
    absent = FileSink("gone", tmp_path / "absent" / "f")
    settings, troubles = Settings((absent, file)), Troubles(tmp_path / "t")
    bad, good = anchor(gov.store, settings, troubles, clock)
    assert "no folder for" in bad.error
    assert not good.error
    (trouble,) = troubles.read().values()
    assert (trouble.failures, trouble.again - trouble.at) == (1, 5 * US)
    assert anchor(gov.store, settings, troubles, clock) == []
    assert len(anchor(gov.store, settings, troubles, clock, patient=False)) == 1
    for wait in (20, 40):
        clock.now += 100 * US
        assert len(anchor(gov.store, settings, troubles, clock)) == 1
        (trouble,) = troubles.read().values()
        assert trouble.again - trouble.at == wait * US
    absent.path.parent.mkdir()
    clock.now += 100 * US
    (mended,) = anchor(gov.store, settings, troubles, clock)
    assert not mended.error
    assert troubles.read() == {}
    longest = Trouble(90, "x", clock.now, clock.now)
    assert Trouble.after(longest, "x", clock.now).again - clock.now == LONGEST_WAIT_S * US


def test_a_log_in_which_nothing_happens_says_so(gov, file, clock, tmp_path):
    settings, troubles = Settings((file,), beat_s=3600), Troubles(tmp_path / "t")
    anchor(gov.store, settings, troubles, clock)
    clock.now += 3599 * US
    assert anchor(gov.store, settings, troubles, clock) == []
    clock.now += 2 * US
    assert len(anchor(gov.store, settings, troubles, clock)) == 1
    assert kinds(gov)[-2:] == [Kind.LOG_BEAT, Kind.ANCHOR_RECORDED]
    beat = gov.store.read(lambda r: r.latest((Kind.LOG_BEAT,)))
    assert beat.entry.body == {"every_s": 3600}


@pytest.mark.crash
def test_an_anchor_whose_entry_was_lost_is_made_again(gov, file, clock, tmp_path):
    """The process died between the sink and the commit."""
    with running(tmp_path / "w", "bank.example/w", gov.signer.verifier_key) as witness:
        sinks = (file, WitnessSink("bank", witness.url, witness.key))
        size, note = gov.store.checkpoint()
        head = parse_checkpoint(note_text(note))
        for sink in sinks:
            sink.anchor(Target(head, note, 0, lambda old: ()))
        happen(gov)
        done = anchor(gov.store, Settings(sinks), Troubles(tmp_path / "t"), clock)
    assert [(outcome.size, outcome.error) for outcome in done] == [(size + 1, "")] * 2
    assert lines(file) == [size, size + 1]
    assert kinds(gov).count(Kind.ANCHOR_RECORDED) == 2


def test_while_one_anchors_another_does_not(gov, file, clock, tmp_path):
    settings, troubles = Settings((file,)), Troubles(tmp_path / "t")
    with troubles.alone(), pytest.raises(ConflictError, match="another process anchors"):
        anchor(gov.store, settings, Troubles(tmp_path / "t"), clock)
    assert len(anchor(gov.store, settings, troubles, clock)) == 1


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"1", b'{"a":1}', b'{"a":{"failures":"x"}}'])
def test_a_troubles_file_that_is_none_says_nothing(tmp_path, junk):
    (tmp_path / "t").write_bytes(junk)
    assert Troubles(tmp_path / "t").read() == {}


def test_a_schedule_anchors_what_comes_and_reports_what_fails(gov, file, tmp_path):
    said = []
    absent = FileSink("gone", tmp_path / "absent" / "f")
    settings = Settings((file, absent), every_s=1)
    with Schedule(gov.store, settings, Troubles(tmp_path / "t"), gov.clock, said.append):
        pass
    assert lines(file) == [2]
    assert said[0].startswith("anchor gone: no folder for")


def test_anchored_heads_outlive_the_database(tmp_path):
    """A database put back to an older copy, its kept checkpoint too, is found by the file."""
    home = Home(tmp_path / "home", tmp_path / "home" / "checkpoint")
    init(home, Origin("t/log"))
    settings = Settings((FileSink("vault", tmp_path / "vault.jsonl"),))
    with Governance.open(home.folder) as gov:
        happen(gov)
    older = {path: path.read_bytes() for path in (home.ledger, home.checkpoint)}
    with Governance.open(home.folder) as gov:
        happen(gov)
        anchor(gov.store, settings, Troubles(tmp_path / "t"), gov.clock)
    for path, raw in older.items():
        path.write_bytes(raw)
    with closing(Governance.open(home.folder)) as gov:
        (outcome,) = anchor(gov.store, settings, Troubles(tmp_path / "t"), gov.clock)
    assert "does not continue the head of `3`" in outcome.error


def test_a_kept_checkpoint_takes_the_cosignature_along(tmp_path):
    home = Home(tmp_path / "home", tmp_path / "home" / "checkpoint")
    key = init(home, Origin("t/log"))
    with running(tmp_path / "w", "bank.example/w", key) as witness:
        sink = WitnessSink("bank", witness.url, witness.key)
        with Governance.open(home.folder) as gov:
            (done,) = anchor(gov.store, Settings((sink,)), Troubles(tmp_path / "t"), gov.clock)
            assert not done.error
            assert open_note(home.checkpoint.read_text(), [witness.key]) == ("bank.example/w",)
    with Governance.open(home.folder) as gov:
        assert gov.store.read(lambda r: r.head().size) == 2


# --- where


def settings_of(tmp_path, text: str) -> Settings:
    (tmp_path / "anchors.yaml").write_text(text)
    return read_settings(tmp_path / "anchors.yaml", os.urandom)


def test_the_file_says_where_and_how_often(tmp_path, tsa):
    (tmp_path / "root.pem").write_bytes(tsa.root.read_bytes())
    found = settings_of(
        tmp_path,
        f"""
every: 30s
overdue: 10m
beat: 2h
sinks:
  - {{name: vault, file: vault.jsonl}}
  - {{name: clock, stamp: "https://tsa.example/tsr", authority: root.pem}}
  - {{name: bank, witness: "https://w.example/", key: {witness_key().verifier_key}}}
""",
    )
    assert (found.every_s, found.overdue_s, found.beat_s) == (30, 600, 7200)
    assert [(sink.name, sink.kind) for sink in found.sinks] == [
        ("vault", "file"),
        ("clock", "stamp"),
        ("bank", "witness"),
    ]
    assert found.sinks[0].path == tmp_path / "vault.jsonl"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing in it"),
        ("every: 1m\n", "anchors has no `sinks`"),
        ("sinks: []\n", "`sinks` is empty"),
        ("sinks:\n- {file: x}\n", "anchors.yaml:2: sink has no `name`"),
        ("sinks:\n- {name: A, file: x}\n", "name is malformed"),
        ("sinks:\n- {name: a, fiel: x}\n", "unknown field `fiel`"),
        ("sinks:\n- {name: a}\n", "sink `a` is of no kind"),
        ("sinks:\n- {name: a, file: x, key: k}\n", "sink `a` is of no kind"),
        ("sinks:\n- {name: a, file: x}\n- {name: a, file: y}\n", "a second sink `a`"),
        ("sinks:\n- {name: a, witness: ftp://x, key: k}\n", "address is malformed"),
        ("sinks:\n- {name: a, witness: https://x, key: k}\n", "of no known type"),
        ("sinks:\n- {name: a, stamp: https://x, authority: none.pem}\n", "no file"),
        ("sinks:\n- {name: a, stamp: https://x, authority: anchors.yaml}\n", "cannot be read"),
        ("every: 0s\nsinks:\n- {name: a, file: x}\n", "duration"),
        ("sinks:\n- {name: a, file: x}\nsinks:\n- {name: b, file: x}\n", "duplicate key"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path, text, reason):
    with pytest.raises(InvalidInputError, match=reason) as caught:
        settings_of(tmp_path, text)
    assert caught.value.message.count("anchors.yaml:") == 1
