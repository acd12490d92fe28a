"""Policies signed and reloaded from a shell: what an operator types, and what it refuses."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli.test_cli_serving import serving, until

RULES = "policy: desk\nversion: {}\nrules: [{{id: a, match: {{tools: [pay]}}, effect: {}}}]\n"


@pytest.fixture
def key(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = cli("policy", "keygen", "acme.example/policies", "--out", "policy.key", "--json")
    assert made.status == 0
    return made.json["verifier_key"]


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "desk.yaml").write_text(RULES.format(1, "allow"))
    return folder


def test_a_key_is_made_once_and_is_private(cli, key, tmp_path):
    assert (tmp_path / "policy.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "policy.key.vkey").read_text().strip() == key
    assert "PRIVATE" not in key
    again = cli("policy", "keygen", "acme.example/policies")
    assert (again.status, again.out) == (4, "")
    assert "exists already" in again.err


def test_a_set_is_signed_checked_and_changed(cli, key, rules, monkeypatch):
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", key)
    unsigned = cli("policy", "check", rules)
    assert unsigned.status == 3
    assert "there is no signature" in unsigned.err
    assert "governance policy sign" in unsigned.err
    signed = cli("policy", "sign", rules, "--key", "policy.key")
    assert signed.status == 0
    assert "desk 1 signed in" in signed.out
    note = (rules / "policies.sig").read_text()
    assert note.startswith("governance/policy-signature/v1\ndesk 1 ")
    assert cli("policy", "check", rules, "--json").json["signed_by"] == "acme.example/policies"
    assert "signed with the key acme.example/policies" in cli("policy", "check", rules).out
    (rules / "desk.yaml").write_text(RULES.format(2, "deny"))
    changed = cli("policy", "check", rules)
    assert (changed.status, "is not what was signed" in changed.err) == (3, True)
    assert cli("policy", "sign", rules, "--key", "policy.key").status == 0
    assert cli("policy", "check", rules).status == 0
    assert [path.name for path in rules.iterdir() if path.name.startswith(".")] == []


def test_what_cannot_be_signed_leaves_the_old_signature(cli, key, rules, tmp_path):
    assert cli("policy", "sign", rules, "--key", "policy.key").status == 0
    before = (rules / "policies.sig").read_text()
    (rules / "desk.yaml").write_text("policy: desk\n")
    assert cli("policy", "sign", rules, "--key", "policy.key").status == 2
    (rules / "desk.yaml").write_text(RULES.format(2, "deny"))
    assert cli("policy", "sign", rules, "--key", "nowhere.key").status == 2
    (tmp_path / "policy.key").chmod(0o644)
    others = cli("policy", "sign", rules, "--key", "policy.key")
    assert (others.status, "can be read by others" in others.err) == (3, True)
    (tmp_path / "policy.key").chmod(0o600)
    (tmp_path / "policy.key").write_text("PRIVATE+KEY+x\n")
    assert cli("policy", "sign", rules, "--key", "policy.key").status == 2
    assert (rules / "policies.sig").read_text() == before


def test_policies_in_two_folders_are_signed_where_one_says(cli, key, rules, tmp_path, monkeypatch):
    (tmp_path / "more.yaml").write_text(RULES.format(1, "deny").replace("desk", "more"))
    paths = (rules, "more.yaml")
    unclear = cli("policy", "sign", *paths, "--key", "policy.key")
    assert (unclear.status, "say with `--out`" in unclear.err) == (2, True)
    place = rules / "policies.sig"
    assert cli("policy", "sign", *paths, "--key", "policy.key", "--out", place).status == 0
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", "policy.key.vkey")
    assert cli("policy", "check", *paths).status == 0
    assert cli("policy", "check", rules).status == 3


def test_with_a_key_configured_what_decides_nothing_goes_on(cli, home, key, monkeypatch):
    """The shipped baseline is not signed, and answering needs no rules."""
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", key)
    assert cli("users", "add", "Ann", "--role", "finance").status == 0
    assert cli("runs", "list").status == 0
    assert cli("approvals", "list").status == 0
    assert cli("export", "bundle").status == 0
    with serving("serve", "--port", "0") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[1] == ""


def test_a_run_under_unsigned_rules_does_not_begin(cli, desk, key, tmp_path, monkeypatch):
    target, *policy = desk()
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", key)
    unsigned = cli("run", target, '{"to":"friend"}', *policy, "--run-id", "r1")
    assert (unsigned.status, "there is no signature" in unsigned.err) == (3, True)
    baseline = cli("run", target, '{"to":"friend"}', "--run-id", "r1")
    assert (baseline.status, "there is no signature" in baseline.err) == (3, True)
    assert cli("runs", "list", "--json").json == []
    assert cli("policy", "sign", tmp_path / "desk.yaml", "--key", "policy.key").status == 0
    assert cli("run", target, '{"to":"friend"}', *policy, "--run-id", "r1").status == 0
    assert cli("export", "bundle").status == 0
    pins = ("--key", tmp_path / "home" / "log.vkey", "--policy-key")
    assert cli("verify", "bundle", *pins, key).status == 0
    other = cli("policy", "keygen", "acme.example/policies", "--out", "other.key", "--json").json
    judged = cli("verify", "bundle", *pins, other["verifier_key"])
    assert (judged.status, "policy-unsigned" in judged.out) == (5, True)


@pytest.mark.parametrize("signed", [False, True])
def test_a_running_server_takes_up_new_rules_on_sighup_and_keeps_the_old_when_they_are_broken(
    cli, desk, key, monkeypatch, signed
):
    target, *policy = desk()
    here = Path.cwd()
    path = here / "desk.yaml"
    first = path.read_text()

    def write(text: str) -> None:
        path.write_text(text)
        if signed:
            assert cli("policy", "sign", path, "--key", "policy.key").status == 0

    if signed:
        monkeypatch.setenv("GOVERNANCE_POLICY_KEY", key)
    write(first)
    with serving("serve", "--port", "0", "--agent", target, *policy) as (process, _):
        path.write_text(first.replace("version: 1", "version: 2").replace("effect", "efect", 1))
        process.send_signal(signal.SIGHUP)
        line = process.stderr.readline()
        wanted = "is not what was signed" if signed else "desk.yaml:8: unknown field `efect`"
        assert "policies were not reloaded, what was in force stays: " in line
        assert wanted in line
        write(first.replace("version: 1", "version: 2"))
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        assert "policies in force: desk 2" in process.stderr.readline()
        until(lambda: "policy.activated" in kinds(here))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert cli("export", "bundle").status == 0
    pin = ("--policy-key", key) if signed else ()
    assert cli("verify", "bundle", "--key", here / "home" / "log.vkey", *pin).status == 0
    assert kinds(here).count("policy.activated") == 1


def kinds(here: Path) -> list[str]:
    code = (
        "from governance import Governance\n"
        f"with Governance.without_rules({str(here / 'home')!r}) as g:\n"
        "    print(*[r.entry.kind.value for r in g.store.read(lambda r: r.records())])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def openssl(*args: object) -> None:
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


@pytest.fixture
def kms(tmp_path):
    """A key of which policies know the public half, as a KMS gives it; openssl holds the other."""
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / "kms.key")
    openssl("pkey", "-in", tmp_path / "kms.key", "-pubout", "-out", tmp_path / "kms.pem")
    return tmp_path / "kms.pem"


def test_a_key_that_only_openssl_holds_signs_a_set(cli, desk, kms, tmp_path, monkeypatch):
    target, *policy = desk()
    rules = tmp_path / "desk.yaml"
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", str(kms))
    asked = cli("policy", "sign", rules, "--to-sign", "set.bin")
    assert (asked.status, "bytes to sign in set.bin" in asked.out) == (0, True)
    assert cli("policy", "check", rules).status == 3
    assert (tmp_path / "set.bin").read_bytes().startswith(b"DSSEv1 40 application/vnd.governance.")
    openssl("dgst", "-sha256", "-sign", "kms.key", "-out", "set.sig", "set.bin")
    put = ("policy", "sign", rules, "--signature", "set.sig", "--public-key", kms)
    done = cli(*put, "--json")
    assert done.status == 0
    assert done.json["key"].startswith("p256:")
    assert cli("policy", "check", rules, "--json").json["signed_by"].startswith("sha256:")
    assert cli("run", target, '{"to":"friend"}', *policy, "--run-id", "r1").status == 0
    assert cli("export", "bundle").status == 0
    pins = ("--key", tmp_path / "home" / "log.vkey", "--policy-key")
    for pin in (kms, kms.read_text(), done.json["key"]):
        assert cli("verify", "bundle", *pins, pin).status == 0
    other = cli("policy", "keygen", "acme.example/policies", "--json").json["verifier_key"]
    judged = cli("verify", "bundle", *pins, other)
    assert (judged.status, "policy-unsigned" in judged.out) == (5, True)
    rules.write_text(rules.read_text() + "# fine\n")
    stale = cli(*put)
    assert (stale.status, "is no signature of `sha256:" in stale.err) == (3, True)
    changed = cli("policy", "check", rules)
    assert (changed.status, "is not what was signed" in changed.err) == (3, True)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--key", "policy.key", "--to-sign", "set.bin"),
        ("--signature", "set.sig"),
        ("--public-key", "kms.pem"),
        ("--key", "policy.key", "--signature", "set.sig", "--public-key", "kms.pem"),
    ],
)
def test_who_signs_is_said_in_one_way(cli, key, rules, options):
    unclear = cli("policy", "sign", rules, *options)
    assert (unclear.status, "it is not clear who signs" in unclear.err) == (2, True)
    assert not (rules / "policies.sig").exists()


def test_what_an_outside_key_did_not_sign_is_not_put_beside_policies(cli, rules, kms, tmp_path):
    (tmp_path / "set.sig").write_bytes(b"\0" * 64)
    answer = ("policy", "sign", rules, "--signature", tmp_path / "set.sig", "--public-key")
    assert cli(*answer, kms).status == 3
    assert cli(*answer, tmp_path / "kms.key").status == 2
    assert cli(*answer, tmp_path / "nowhere.pem").status == 2
    assert not (rules / "policies.sig").exists()
