"""`run` and `runs`: from a shell, a run is started, looked at, gone on with, resolved and ended."""

from pathlib import Path

import pytest

FRIEND = '{"to":"friend bob"}'
BOB = '{"to":"bob"}'


def paid() -> int:
    return len(Path("paid").read_text()) if Path("paid").exists() else 0


def start(cli, desk, text=BOB, *more):
    target, *policy = desk()
    return cli("run", target, text, *policy, "--run-id", "r1", *more)


def test_an_allowed_run_completes(cli, desk):
    done = start(cli, desk, FRIEND)
    assert done.status == 0
    assert "so: paid friend bob" in done.out
    assert "completed" in done.out
    assert paid() == 1


def test_a_held_run_suspends_and_names_the_next_step(cli, desk):
    done = start(cli, desk)
    assert done.status == 0
    assert "suspended (approval)" in done.out
    assert 'waits for an answer: pay {"to":"bob"}' in done.out
    assert "governance approvals show apr-" in done.out
    assert paid() == 0


def test_the_answer_in_json(cli, desk):
    got = start(cli, desk, BOB, "--json").json
    assert got["status"] == "suspended"
    assert got["run"] == "r1"
    assert got["pending"][0]["arguments"] == BOB
    assert got["pending"][0]["rules"] == ["desk/pays"]


def test_a_run_that_reaches_its_limit_is_not_reported_as_done(cli, desk):
    target, *policy = desk("loops")
    done = cli("run", target, FRIEND, *policy)
    assert done.status == 1
    assert "limit_reached" in done.out


def test_the_same_run_id_twice_is_a_conflict(cli, desk):
    start(cli, desk)
    done = start(cli, desk)
    assert done.status == 4
    assert "run `r1` exists already" in done.err


def test_on_whose_behalf_is_recorded(cli, desk):
    start(cli, desk, BOB, "--principal", "user:carla")
    shown = cli("runs", "show", "r1", "--json").json
    assert shown["entries"][0]["body"]["principal"]["id"] == "user:carla"
    assert "for user:carla" in cli("runs", "show", "r1").out


def test_runs_are_listed_and_filtered(cli, desk):
    assert cli("runs", "list").out == "no runs\n"
    start(cli, desk)
    assert "agent:desk" in cli("runs", "list").out
    assert [r["run"] for r in cli("runs", "list", "--json").json] == ["r1"]
    assert cli("runs", "list", "--status", "completed", "--json").json == []


def test_a_run_is_shown_as_a_timeline(cli, desk):
    start(cli, desk, FRIEND)
    out = cli("runs", "show", "r1").out
    for word in ("started", "allowed", "desk/friends", "starts", "finished", "completed"):
        assert word in out


def test_resuming_a_run_that_still_waits_changes_nothing(cli, desk):
    start(cli, desk)
    before = cli("runs", "show", "r1", "--json").out
    target, *policy = desk()
    done = cli("runs", "resume", target, "r1", *policy)
    assert done.status == 0
    assert "suspended" in done.out
    assert cli("runs", "show", "r1", "--json").out == before


def test_a_run_is_cancelled_and_stays_cancelled(cli, desk):
    start(cli, desk)
    target, *policy = desk()
    assert "cancelled" in cli("runs", "cancel", target, "r1", *policy, "--note", "not now").out
    assert cli("approvals", "list").out == "nothing waits for an answer\n"
    assert "“not now”" in cli("runs", "show", "r1").out
    assert "cancelled" in cli("runs", "resume", target, "r1", *policy).out


def test_an_unknown_run_is_said_to_be_unknown(cli, desk):
    target, *policy = desk()
    for words in (("runs", "show", "nope"), ("runs", "resume", target, "nope", *policy)):
        done = cli(*words)
        assert done.status == 2
        assert "no run `nope`" in done.err


@pytest.fixture
def unknown(cli, desk) -> None:
    """Run `r1` stands with a call that was started and never heard of again."""
    target, *policy = desk("dies")
    assert cli("run", target, FRIEND, *policy, "--run-id", "r1").status == 130
    target, *policy = desk()
    done = cli("runs", "resume", target, "r1", *policy)
    assert "suspended (unknown)" in done.out
    assert "governance runs resolve r1 1.0" in done.out
    assert paid() == 1


def test_a_call_that_happened_is_not_run_again(cli, desk, unknown, token):
    done = cli("runs", "resolve", "r1", "1.0", "--happened", '"paid"', "--by", "Ann", stdin=token)
    assert done.status == 0
    target, *policy = desk()
    assert "so: paid" in cli("runs", "resume", target, "r1", *policy).out
    assert paid() == 1
    assert "Ann says it happened" in cli("runs", "show", "r1").out


def test_a_call_that_did_not_happen_is_decided_and_started_again(cli, desk, unknown, token):
    done = cli("runs", "resolve", "r1", "r1/1.0", "--again", "--by", "Ann", stdin=token)
    assert done.status == 0
    target, *policy = desk()
    assert "completed" in cli("runs", "resume", target, "r1", *policy).out
    assert paid() == 2


def test_a_call_is_given_up_with_a_note_that_the_model_reads(cli, desk, unknown, token):
    cli(
        "runs", "resolve", "r1", "1.0", "--give-up", "--note", "bank is shut", "--by", "Ann",
        stdin=token,
    )  # fmt: skip
    target, *policy = desk()
    assert "bank is shut" in cli("runs", "resume", target, "r1", *policy).out
    assert paid() == 1


def test_resolving_needs_exactly_one_answer_the_right_person_and_an_unknown_call(
    cli, desk, unknown, token
):
    resolve = ("runs", "resolve", "r1", "1.0", "--by", "Ann")
    assert cli(*resolve, stdin=token).status == 2
    assert cli(*resolve, "--again", "--give-up", stdin=token).status == 2
    assert cli(*resolve, "--happened", "{not json", stdin=token).status == 2
    assert cli(*resolve, "--again", stdin="gov_wrong").status == 3
    bob = cli("users", "add", "Bob", "--role", "finance").out.strip()
    assert cli("runs", "resolve", "r1", "1.0", "--by", "Bob", "--again", stdin=bob).status == 3
    assert cli("runs", "resolve", "nope", "1.0", "--by", "Ann", "--again", stdin=token).status == 2
    assert cli(*resolve, "--again", stdin=token).status == 0
    done = cli(*resolve, "--again", stdin=token)
    assert done.status == 4
    assert "is not unknown" in done.err


def test_a_run_whose_model_fails_is_kept_and_named(cli, desk, tmp_path):
    target, *policy = desk("away")
    done = cli("run", target, BOB, *policy)
    assert done.status == 6
    assert "error: model away" in done.err
    (kept,) = cli("runs", "list", "--json").json
    assert kept["status"] == "suspended"
    assert f"governance runs resume {target} {kept['run']}" in done.err
