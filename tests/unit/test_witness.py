"""A witness signs what continues what it has seen, and nothing else: codes, races, kills, garbage."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from heads import Log, witness_key
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.ledger.checkpoint import (
    KeyType,
    VerifierKey,
    note_text,
    open_note,
    parse_verifier_key,
    sign_note,
)
from governance.ledger.cosignature import add_signatures, cosign, cosigned_at, cosigner
from governance.ledger.witnessing import (
    Backwards,
    Fit,
    Inconsistent,
    Stale,
    UnknownLog,
    Unsigned,
    format_submission,
    judge_submission,
    parse_submission,
)
from governance.witness.app import Witness
from governance.witness.book import Book

LOG = Log()
NOW = 1_800_000_000_000_000


@pytest.fixture
def book(tmp_path) -> Book:
    book = Book.create(tmp_path / "book.db")
    book.add_log(LOG.key)
    return book


@pytest.fixture
def witness(book) -> Witness:
    return Witness(book, witness_key(), lambda: NOW)


def judge(old: int, new: int, seen: int | None, log: Log = LOG, proof=None):
    body = format_submission(old, log.proof(old, new) if proof is None else proof, log.note(new))
    known = {LOG.origin: [LOG.key]}
    return judge_submission(parse_submission(body), known, None if seen is None else LOG.head(seen))


@pytest.mark.parametrize("seen", [None, 0, 1, 2, 7, 8])
@pytest.mark.parametrize("old", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("new", [0, 1, 2, 7, 8, 9])
def test_only_what_starts_where_the_last_one_ended_is_fit(seen, old, new):
    if old > new:
        assert judge(old, new, seen, proof=()) == Backwards()
    elif old != (seen or 0):
        assert judge(old, new, seen) == Stale(seen or 0)
    else:
        assert judge(old, new, seen) == Fit()


def test_who_signed_is_asked_before_anything_else():
    stranger = Log(origin="other.example", seed=1)
    assert judge(9, 3, 5, stranger, proof=()) == UnknownLog()
    impostor = Log(seed=2)
    assert isinstance(judge(9, 3, 5, impostor, proof=()), Unsigned)


def test_another_root_of_the_same_size_is_a_fork():
    assert judge(8, 8, 8, Log(tale="b")) == Stale(8, forks=True)


def test_a_history_written_anew_is_not_consistent():
    assert judge(8, 20, 8, Log(tale="b")) == Inconsistent()
    assert judge(8, 20, 8, Log(tale="b", fork_at=7)) == Inconsistent()
    assert judge(8, 20, 8, Log(tale="b", fork_at=8)) == Fit()


@pytest.mark.parametrize("seen", [3, 8, 13])
def test_every_wrong_proof_is_refused(seen):
    good = list(LOG.proof(seen, 21))
    assert judge(seen, 21, seen) == Fit()
    wrong = [good[:-1], [*good, good[0]], good[::-1], []]
    for place in range(len(good)):
        flipped = bytes([good[place][0] ^ 1]) + good[place][1:]
        wrong.append([*good[:place], flipped, *good[place + 1 :]])
    for proof in wrong:
        assert judge(seen, 21, seen, proof=proof) == Inconsistent()
    assert judge(0, 21, None, proof=good) == Inconsistent()
    assert judge(8, 8, 8, proof=good) == Inconsistent()


def test_an_empty_tree_has_one_root():
    assert judge(0, 0, None) == Fit()
    text = f"{LOG.origin}\n0\n{'A' * 43}=\n"
    given_ = parse_submission(f"old 0\n\n{sign_note(text, LOG.signer)}".encode())
    assert judge_submission(given_, {LOG.origin: [LOG.key]}, None) == Inconsistent()


GOOD = LOG.submission(3, 5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0",
        b"old 0\n",
        b"old 0\n\n",
        GOOD.replace(b"old 3", b"old 03"),
        GOOD.replace(b"old 3", b"old +3"),
        GOOD.replace(b"old 3", b"old  3"),
        GOOD.replace(b"old 3", b"OLD 3"),
        GOOD.replace(b"old 3", b"old -3"),
        GOOD.replace(b"old 3", b"old 99999999999999999999"),
        GOOD.replace(b"old 3\n", b"old 3\r\n"),
        GOOD.replace(b"old 3\n", b"old 3\nAAAA\n"),
        GOOD.replace(b"old 3\n", b"old 3\n" + b"A" * 44 + b"\n"),
        GOOD.replace(b"old 3\n", b"old 3\n" + (b"A" * 43 + b"=\n") * 62),
        GOOD + b"\n",
        b"\xff" + GOOD,
    ],
)
def test_any_other_form_is_a_bad_request(witness, body):
    assert witness.add_checkpoint(body).status == 400


@pytest.mark.parametrize("body", [GOOD[:-1], GOOD[:-2] + b"\n", GOOD[:-40] + b"\n"])
def test_a_signature_that_cannot_be_read_is_none(witness, body):
    assert witness.add_checkpoint(body).status == 403


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.data())
def test_a_broken_request_is_refused_or_means_the_same(data):
    place = data.draw(st.integers(0, len(GOOD) - 1))
    byte = data.draw(st.integers(0, 255))
    body = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
    try:
        given_ = parse_submission(body)
    except InvalidInputError:
        return
    answer = judge_submission(given_, {LOG.origin: [LOG.key]}, LOG.head(3))
    assert (answer == Fit()) is (body == GOOD)


def test_the_way_of_a_log(witness):
    key = cosigner(witness.signer.verifier_key)
    first = witness.add_checkpoint(LOG.submission(0, 3))
    assert first.status == 200
    note = add_signatures(LOG.note(3), first.text)
    assert open_note(note, [LOG.key, key]) == (LOG.origin, "witness.example/w1")
    assert cosigned_at(note, [key]) == {key: NOW // 1_000_000}
    behind = witness.add_checkpoint(LOG.submission(0, 5))
    assert (behind.status, behind.text, behind.media_type) == (409, "3\n", "text/x.tlog.size")
    assert witness.add_checkpoint(LOG.submission(3, 5)).status == 200
    # The same head again, as after a lost answer.
    assert witness.add_checkpoint(LOG.submission(3, 5)).text == "5\n"
    assert witness.add_checkpoint(LOG.submission(5, 5)).status == 200
    # Smaller, and another history.
    assert witness.add_checkpoint(LOG.submission(3, 4)).status == 409
    lie = Log(tale="b", fork_at=4)
    assert witness.add_checkpoint(lie.submission(5, 9)).status == 422
    assert witness.add_checkpoint(lie.submission(5, 5)).text == "5\n"
    (known,) = witness.book.known()
    assert (known.size, known.note, known.forks) == (5, LOG.note(5), 1)


def test_a_log_with_two_keys_may_use_either(book):
    second = Log(seed=3)
    witness = Witness(book, witness_key(), lambda: NOW)
    assert witness.add_checkpoint(second.submission(0, 3)).status == 403
    book.add_log(second.key)
    assert witness.add_checkpoint(second.submission(0, 3)).status == 200
    assert witness.add_checkpoint(LOG.submission(3, 4)).status == 200


def test_a_clock_set_back_is_not_signed(book):
    times = iter([NOW, NOW - 3_600_000_000])
    witness = Witness(book, witness_key(), lambda: next(times))
    witness.add_checkpoint(LOG.submission(0, 3))
    line = witness.add_checkpoint(LOG.submission(3, 3)).text
    key = cosigner(witness.signer.verifier_key)
    assert cosigned_at(add_signatures(LOG.note(3), line), [key]) == {key: NOW // 1_000_000}


@pytest.mark.attack
def test_of_requests_that_race_one_wins(book):
    """Two histories, many times: whatever is signed lies on one line."""
    lie, signer = Log(tale="b", fork_at=3), witness_key()
    Witness(book, signer, lambda: NOW).add_checkpoint(LOG.submission(0, 3))
    gate = threading.Barrier(8)

    def ask(number: int):
        log = (LOG, lie)[number % 2]
        witness = Witness(Book.open(book.path), signer, lambda: NOW)
        gate.wait()
        return witness.add_checkpoint(log.submission(3, 4 + number % 4)).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(ask, range(8)))
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 409, 422}


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from heads import Log, witness_key
from governance.witness.app import Witness
from governance.witness.book import Book
witness = Witness(Book.open(Path(sys.argv[1])), witness_key(), lambda: 1)
log = Log()
(known,) = witness.book.known()
for size in range(known.size, 63):
    assert witness.add_checkpoint(log.submission(size, size + 1)).status == 200
    print(size + 1, flush=True)
"""


@pytest.mark.crash
def test_a_killed_witness_remembers_what_it_has_signed(book):
    signed = 0
    tests = Path(__file__).parents[1]
    for after in (1, 3, 7):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(book.path), str(tests)],
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            for _ in range(after):
                signed = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            signed = max([signed, *map(int, child.stdout.read().split())])
        (known,) = Book.open(book.path).known()
        assert known.size in (signed, signed + 1)
        signed = known.size
    witness = Witness(book, witness_key(), lambda: NOW)
    lie = Log(tale="b", fork_at=signed - 1)
    assert witness.add_checkpoint(lie.submission(signed - 1, signed)).status == 409
    assert witness.add_checkpoint(lie.submission(signed, signed)).status == 409
    assert witness.add_checkpoint(LOG.submission(signed, signed)).status == 200


def test_a_book_is_made_once_and_is_its_owners_alone(book, tmp_path):
    with pytest.raises(ConflictError):
        Book.create(book.path)
    assert book.path.stat().st_mode & 0o777 == 0o600
    book.path.chmod(0o644)
    with pytest.raises(RefusedError, match="open to others"):
        Book.open(book.path)
    with pytest.raises(InvalidInputError, match="no witness at"):
        Book.open(tmp_path / "none.db")


def test_only_the_keys_of_logs_are_witnessed(book):
    with pytest.raises(InvalidInputError, match="is not a log's"):
        book.add_log(cosigner(witness_key().verifier_key))


def test_only_the_keys_of_witnesses_cosign():
    with pytest.raises(InvalidInputError, match="is not a witness's"):
        cosign(note_text(LOG.note(3)), LOG.signer, 7)


def test_a_cosignature_holds_for_its_text_time_and_key_alone():
    signer, note = witness_key(), LOG.note(3)
    key = cosigner(signer.verifier_key)
    good = add_signatures(note, cosign(note_text(note), signer, 7))
    assert cosigned_at(good, [key]) == {key: 7}
    assert cosigned_at(note, [key]) == {}
    assert cosigned_at(good, [cosigner(witness_key(seed=8).verifier_key)]) == {}
    moved = good.replace(note_text(note), note_text(LOG.note(4)))
    assert cosigned_at(moved, [key]) == {}
    as_log = VerifierKey(key.name, key.public, KeyType.ED25519)
    assert cosigned_at(good, [as_log]) == {}
    # A later line of the same witness takes the place of the first.
    again = add_signatures(good, cosign(note_text(note), signer, 9))
    assert cosigned_at(again, [key]) == {key: 9}
    assert again.count("witness.example") == 1
    assert parse_verifier_key(signer.verifier_key) == key
