"""`approvals`: a person proves who they are, sees exactly what would run, and answers exactly that."""

import pytest

HOSTILE = '{"to":"bob\\u202e\\u001b[31m \\u200b [red]x[/]"}'


@pytest.fixture
def request_id(cli, desk) -> str:
    target, *policy = desk()
    return cli("run", target, '{"to":"bob"}', *policy, "--run-id", "r1", "--json").json["pending"][
        0
    ]["request"]


@pytest.fixture
def hostile_id(cli, desk) -> str:
    target, *policy = desk()
    return cli("run", target, HOSTILE, *policy, "--json").json["pending"][0]["request"]


def test_what_waits_is_listed(cli, request_id):
    out = cli("approvals", "list").out
    assert request_id in out
    assert "0/1 finance" in out
    (waiting,) = cli("approvals", "list", "--json").json["pending"]
    assert waiting["request"] == request_id
    assert waiting["rules"] == ["desk/pays"]


def test_a_card_shows_arguments_rules_seats_and_digest(cli, request_id):
    out = cli("approvals", "show", request_id).out
    digest = cli("approvals", "show", request_id, "--json").json["digest"]
    for part in ('{"to":"bob"}', "desk/pays", "1 of finance", digest, "critical", "agent:desk"):
        assert part in out


def test_hostile_characters_are_shown_and_marked(cli, hostile_id):
    out = cli("approvals", "show", hostile_id).out
    for sign in ("\u202e", "\u200b", "\x1b"):
        assert sign not in out
    assert "bob<U+202E><U+001B>[31m <U+200B> [red]x[/]" in out
    assert "not all of this is what it looks like" in out
    assert '{"to":"bob\\u202e\\u001b[31m \\u200b [red]x[/]"}' in out


def test_approving_names_the_card_and_the_run_goes_on(cli, desk, request_id, token):
    digest = cli("approvals", "show", request_id, "--json").json["digest"]
    done = cli("approvals", "approve", request_id, "--as", "Ann", "--reason", "ok", stdin=token)
    assert done.status == 0
    assert digest in done.out
    assert "granted" in done.out
    assert [g["request"] for g in cli("approvals", "list", "--json").json["granted"]] == [
        request_id
    ]
    target, *policy = desk()
    assert "so: paid bob" in cli("runs", "resume", target, "r1", *policy).out
    votes = [
        e for e in cli("runs", "show", "r1", "--json").json["entries"]
        if e["type"] == "approval.voted"
    ]  # fmt: skip
    assert votes[0]["body"]["card"] == digest
    assert votes[0]["payloads"]["note"] == "ok"
    assert "Ann approves" in cli("runs", "show", "r1").out


def test_rejecting_tells_the_agent_why(cli, desk, request_id, token):
    answer = ("approvals", "reject", request_id, "--as", "Ann", "--reason", "no!", "--json")
    assert cli(*answer, stdin=token).json["state"] == "rejected"
    target, *policy = desk()
    assert "a person rejected it: no!" in cli("runs", "resume", target, "r1", *policy).out


@pytest.mark.parametrize("reason", [(), ("--reason", ""), ("--reason", "  ")])
def test_a_rejection_without_a_reason_is_no_answer(cli, request_id, token, reason):
    assert cli("approvals", "reject", request_id, "--as", "Ann", *reason, stdin=token).status == 2
    assert cli("approvals", "list", "--json").json["pending"]


def test_the_token_may_come_from_the_environment(cli, request_id, token, monkeypatch):
    monkeypatch.setenv("GOVERNANCE_TOKEN", token)
    assert cli("approvals", "approve", request_id, "--as", "Ann").status == 0


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [
        ("Ann", "", 2),
        ("Ann", "gov_" + "a" * 52, 3),
        ("Ann", "nonsense", 3),
        ("Somebody", "Ann's", 3),
        ("ann\u202e", "Ann's", 3),
    ],
)
def test_who_cannot_prove_who_they_are_does_not_vote(cli, request_id, name, given, status):
    token = cli("users", "add", "Ann", "--role", "finance").out.strip()
    done = cli(
        "approvals", "approve", request_id, "--as", name, stdin=given.replace("Ann's", token)
    )
    assert done.status == status
    assert "\u202e" not in done.err
    assert token not in done.err
    assert cli("approvals", "list", "--json").json["pending"]


def test_somebody_without_the_right_is_refused_and_that_is_recorded(cli, request_id, home):
    bob = cli("users", "add", "Bob", "--role", "sales").out.strip()
    done = cli("approvals", "approve", request_id, "--as", "Bob", stdin=bob)
    assert done.status == 3
    from governance import Governance
    from governance.ledger.entry import Kind

    with Governance.open(home) as gov:
        assert gov.store.read(lambda r: r.latest((Kind.ACCESS_REFUSED,))) is not None


def test_a_removed_person_no_longer_votes(cli, request_id, token):
    cli("users", "remove", "Ann")
    assert cli("approvals", "approve", request_id, "--as", "Ann", stdin=token).status == 3


def test_a_right_that_was_taken_no_longer_votes(cli, request_id, token):
    changed = cli("users", "roles", "Ann", "--role", "sales", "--role", "support")
    assert (changed.status, changed.out.strip()) == (0, "Ann is now: sales, support")
    assert cli("approvals", "approve", request_id, "--as", "Ann", stdin=token).status == 3
    given = cli("users", "roles", "Ann", "--role", "finance", "--json").json
    assert (given["name"], given["roles"]) == ("Ann", ["finance"])
    assert cli("approvals", "approve", request_id, "--as", "Ann", stdin=token).status == 0


def test_a_lost_token_is_replaced_and_void(cli, request_id, token):
    fresh = cli("users", "token", "Ann").out.strip()
    assert fresh.startswith("gov_")
    assert cli("approvals", "approve", request_id, "--as", "Ann", stdin=token).status == 3
    assert cli("approvals", "approve", request_id, "--as", "Ann", stdin=fresh).status == 0
    assert cli("users", "token", "Ann", "--json").json["token"] not in (token, fresh)


def test_a_second_answer_comes_too_late(cli, request_id, token):
    cli("approvals", "approve", request_id, "--as", "Ann", stdin=token)
    done = cli("approvals", "reject", request_id, "--as", "Ann", "--reason", "no", stdin=token)
    assert done.status == 4


def test_a_card_other_than_the_one_seen_is_a_conflict(cli, request_id, token):
    seen = ("--card", "0" * 64)
    done = cli("approvals", "approve", request_id, "--as", "Ann", *seen, stdin=token)
    assert done.status == 4
    assert "not the one you saw" in done.err


def test_odd_arguments_are_approved_only_by_who_read_them_all(cli, hostile_id, token):
    answer = ("approvals", "approve", hostile_id, "--as", "Ann")
    refused = cli(*answer, stdin=token)
    assert refused.status == 3
    assert "--read-all" in refused.err
    done = cli(*answer, "--read-all", stdin=token)
    assert done.status == 0
    assert "\x1b" not in done.out


def test_an_unknown_request_is_refused(cli, home):
    done = cli("approvals", "show", "apr-nope")
    assert done.status == 3
    assert "no approval request is called `apr-nope`" in done.err
