"""Every attack is seen where docs/attacks.md says that it is, and for the reason given there; and not before."""

import pytest
from attacks.attempts import ATTACKS
from attacks.matrix import COMMAND, LEVELS, failures, judged, row, table
from attacks.scene import Scene, play
from docs.reading import ROOT

pytestmark = pytest.mark.attack

UNSEEN = ""
SAME = "same"
STUDIED = (7, 17, 19, 22)
"""How many of 22 attacks a log of this design was expected to show at each level."""

BROKEN = "link-broken run-link-broken"
EXPECTED = {
    "field_edited": (BROKEN, "root-differs", "history-differs", SAME),
    "entry_deleted": (
        f"entry-missing {BROKEN}",
        "root-differs tail-cut",
        "history-differs",
        "history-shorter",
    ),
    "entry_inserted": (
        f"entry-moved {BROKEN}",
        "root-differs tail-uncovered",
        "history-differs",
        SAME,
    ),
    "entries_swapped": (
        f"entry-missing entry-moved {BROKEN} time-reversed",
        "root-differs",
        "history-differs",
        SAME,
    ),
    "beginning_dropped": (
        "log-partial run-link-broken",
        "root-differs tail-cut",
        "history-differs",
        "history-shorter",
    ),
    "field_edited_relinked": (UNSEEN, "root-differs", "history-differs", SAME),
    "entry_deleted_relinked": (
        UNSEEN,
        "root-differs tail-cut",
        "history-differs",
        "history-shorter",
    ),
    "entry_inserted_relinked": (UNSEEN, "root-differs tail-uncovered", "history-differs", SAME),
    "entries_swapped_relinked": (UNSEEN, "root-differs", "history-differs", SAME),
    "beginning_dropped_relinked": (
        UNSEEN,
        "root-differs tail-cut",
        "history-differs",
        "history-shorter",
    ),
    "payload_replaced": ("payload-altered", SAME, SAME, SAME),
    "payload_deleted": ("payload-missing", SAME, SAME, SAME),
    "key_repeated": ("entry-malformed", "root-differs", SAME, "history-differs"),
    "tail_cut": (UNSEEN, "tail-cut", SAME, "history-shorter"),
    "checkpoints_dropped": (UNSEEN, "tail-uncovered", SAME, "history-differs"),
    "log_emptied": ("log-empty", "tail-cut", "history-shorter", SAME),
    "all_gone": ("log-empty", "nothing-signed", "history-shorter", "quorum-missing"),
    "unknown_key": (UNSEEN, "key-unknown tail-uncovered", "history-differs", "quorum-missing"),
    "checkpoint_of_another_log": (
        UNSEEN,
        "checkpoint-foreign key-unknown tail-uncovered",
        "history-differs",
        "quorum-missing",
    ),
    "tail_cut_below_kept": (UNSEEN, UNSEEN, "history-shorter", SAME),
    "rewritten_below_kept": (UNSEEN, UNSEEN, "history-differs", "quorum-missing"),
    "begun_anew": (UNSEEN, UNSEEN, "history-shorter", "quorum-missing"),
    "tail_cut_with_checkpoints": (UNSEEN, UNSEEN, UNSEEN, "history-shorter"),
    "rewritten_since_kept": (UNSEEN, UNSEEN, UNSEEN, "history-differs quorum-missing"),
    "second_history": (UNSEEN, UNSEEN, UNSEEN, "history-differs quorum-missing"),
}
"""At each level what is found beyond the level before."""


@pytest.fixture(scope="module")
def scene() -> Scene:
    return play()


def test_every_attack_is_expected_somewhere():
    assert [attack.__name__ for attack in ATTACKS] == list(EXPECTED)
    assert len(ATTACKS) >= STUDIED[-1]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_honest_log_is_found_to_be_good_as_far_as_one_can_know(scene, level):
    report = judged(scene, scene.honest(), level)
    unknowable = set() if level.checkpoints else {"UNPINNED", "tail-uncovered"}
    assert failures(report) == unknowable
    assert report.ok is level.checkpoints


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_seen_for_its_reason_and_not_before(scene, attack):
    expected, before = [], frozenset()
    for added in EXPECTED[attack.__name__]:
        before |= frozenset() if added == SAME else frozenset(added.split())
        expected.append(before)
    assert list(row(scene, attack)) == expected


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_what_is_seen_is_not_verified_and_what_is_not_seen_is(scene, attack):
    """The limits are the mathematics', and are said: an unseen attack is `verified`."""
    shown = attack(scene)
    assert shown != scene.honest()
    for level, kinds in zip(LEVELS, row(scene, attack), strict=True):
        assert judged(scene, shown, level).ok is (level.checkpoints and not kinds), level.name


def test_each_level_sees_at_least_what_was_to_be_seen(scene):
    cells = [row(scene, attack) for attack in ATTACKS]
    counts = [sum(bool(found[at]) for found in cells) for at in range(len(LEVELS))]
    assert all(count >= least for count, least in zip(counts, STUDIED, strict=True)), counts
    assert counts[-1] == len(ATTACKS)


def test_the_page_holds_what_a_run_gives():
    page = (ROOT / "docs" / "attacks.md").read_text()
    assert table() in page, f"put into docs/attacks.md what this prints: {COMMAND}"
