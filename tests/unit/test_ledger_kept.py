"""A checkpoint that the verifier kept: the log has to contain what it covers, whole or in part."""

from dataclasses import replace

import pytest
from bundles import KEY, PINS, Log, busy_log, choices, write

from governance.bundle import read_kept, verify_bundle
from governance.errors import InvalidInputError
from governance.ids import Digest, Origin
from governance.ledger.checkpoint import Checkpoint, parse_checkpoint
from governance.ledger.kept import Kept, parse_kept
from governance.ledger.merkle import root_of

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def log() -> Log:
    return busy_log()


def head(log: Log, at: int) -> Checkpoint:
    return parse_kept("kept", log.notes[at][1].encode()).checkpoint


def judged(folder, *heads: Checkpoint):
    kept = [Kept(f"kept-{head.size}", head) for head in heads]
    report = verify_bundle(folder, PINS, kept=kept)
    return [(item.kind, item.verdict, item.message) for item in report.findings if item.is_failure]


def test_a_log_that_grew_contains_every_head_it_had(log, tmp_path):
    folder = write(log, "log", tmp_path / "b")
    assert len(log.notes) > 2
    assert judged(folder, *(head(log, at) for at in range(len(log.notes)))) == []
    assert judged(folder, Checkpoint(KEY.origin, 0, root_of([]))) == []


def test_another_root_says_from_where_on_history_differs(log, tmp_path):
    folder = write(log, "log", tmp_path / "b")
    first, last = head(log, 0), head(log, -1)
    assert judged(folder, replace(last, root=Digest(bytes(32))), first) == [
        (
            "history-differs",
            "integrity",
            f"entries {first.size} to {last.size - 1} are not those that it was signed over",
        )
    ]


def test_more_entries_than_are_here_are_a_shorter_history(log, tmp_path):
    folder = write(log, "log", tmp_path / "b")
    size = len(log.entries)
    assert judged(folder, replace(head(log, -1), size=size + 1)) == [
        ("history-shorter", "completeness", f"covers {size + 1} entries, and {size} are here")
    ]


def test_a_head_of_another_log_compares_with_nothing(log, tmp_path):
    folder = write(log, "log", tmp_path / "b")
    foreign = replace(head(log, -1), origin=Origin("other.example/log"))
    assert [kind for kind, *_ in judged(folder, foreign)] == ["checkpoint-foreign"]


@pytest.mark.parametrize("kind", ["range", "run"])
def test_a_part_says_what_it_cannot_compare(log, kind, tmp_path):
    folder, size = write(log, kind, tmp_path / "b"), choices(log)[kind].part.size
    same = next(head(log, at) for at, (n, _) in enumerate(log.notes) if n == size)
    assert judged(folder, same) == []
    assert [k for k, *_ in judged(folder, replace(same, root=Digest(bytes(32))))] == [
        "history-differs"
    ]
    assert [k for k, *_ in judged(folder, replace(same, size=size + 1))] == ["checkpoint-beyond"]


@pytest.mark.parametrize("raw", [b"", b"\xff", b"x" * 100_000, b"acme\n1\nAAAA\n"])
def test_what_is_no_checkpoint_is_refused(raw, tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(raw)
    with pytest.raises(InvalidInputError, match="is no checkpoint"):
        read_kept(path)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_kept(tmp_path)


def test_the_checkpoint_of_a_bundle_is_what_one_keeps(log, tmp_path):
    folder = write(log, "log", tmp_path / "b")
    kept = read_kept(folder / "checkpoint")
    assert kept.checkpoint == parse_checkpoint(log.notes[-1][1].split("\n\n")[0] + "\n")
    assert verify_bundle(folder, PINS, kept=[kept]).ok
