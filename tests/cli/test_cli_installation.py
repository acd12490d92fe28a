"""`init` and `users`: what a new installation looks like, and who may answer in it."""

import stat

from governance.assemble import read_verifier_key


def test_init_makes_a_private_installation_and_prints_the_key_to_pin(cli, tmp_path):
    home = tmp_path / "deep" / "home"
    done = cli("init", "--home", home, "--origin", "acme.example/agents")
    assert done.status == 0
    key = next(w for w in done.out.split() if w.startswith("acme.example/agents+"))
    assert read_verifier_key(key) == key
    assert "users add" in done.out
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for file in home.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert (home / "log.vkey").read_text().strip() == key


def test_init_in_json_is_one_object(cli, tmp_path):
    done = cli("init", "--home", tmp_path / "h", "--json")
    assert done.json.keys() == {"home", "origin", "verifier_key"}


def test_init_twice_refuses_and_overwrites_nothing(cli, home):
    before = {file.name: file.read_bytes() for file in home.iterdir()}
    done = cli("init")
    assert done.status == 4
    assert "exists already" in done.err
    assert {file.name: file.read_bytes() for file in home.iterdir()} == before


def test_a_token_is_printed_once_alone_on_stdout_and_never_again(cli, home):
    added = cli("users", "add", "Ann", "--role", "finance")
    assert added.out.startswith("gov_")
    assert added.out.count("\n") == 1
    token = added.out.strip()
    assert token not in cli("users", "list").out
    assert token not in cli("users", "list", "--json").out
    assert all(token.encode() not in file.read_bytes() for file in home.iterdir())


def test_people_are_listed_with_roles_and_removed(cli, home):
    cli("users", "add", "Ann", "--role", "finance", "--role", "approver")
    cli("users", "add", "Bob", "--role", "approver", "--json")
    people = cli("users", "list", "--json").json
    assert [(p["name"], p["roles"], p["active"]) for p in people] == [
        ("Ann", ["approver", "finance"], True),
        ("Bob", ["approver"], True),
    ]
    assert cli("users", "remove", "Bob").status == 0
    assert "removed" in cli("users", "list").out
    assert [p["active"] for p in cli("users", "list", "--json").json] == [True, False]


def test_a_second_spelling_of_a_name_is_refused(cli, home):
    cli("users", "add", "Ann", "--role", "finance")
    done = cli("users", "add", "ANN", "--role", "finance")
    assert done.status == 4
    assert "already called" in done.err


def test_an_installation_that_others_can_read_is_refused(cli, home):
    (home / "log.key").chmod(0o644)
    done = cli("users", "list")
    assert done.status == 3
    assert "can be read by others" in done.err
    assert "chmod 600" in done.err


def test_without_an_installation_the_next_step_is_named(cli, tmp_path):
    done = cli("runs", "list", "--home", tmp_path / "nowhere")
    assert done.status == 2
    assert "next: run `governance init`" in done.err
