"""An installation is made whole or not at all, and opened only with its own private key."""

import base64
import stat

import pytest

from governance import ConflictError, Governance, InvalidInputError, RefusedError
from governance.assemble import KeySigner, init, new_id, read_verifier_key
from governance.config import Home, read_policy_files, shipped_policy
from governance.ids import Origin, parse_run_id, parse_subject_id

ALLOW = "policy: p\nversion: 1\nrules: [{id: a, effect: allow}]\n"


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home", tmp_path / "elsewhere" / "checkpoint")
    found.checkpoint.parent.mkdir()
    return found


def test_an_installation_is_private_and_its_key_reads_back(home):
    key = init(home, Origin("acme.example/agents"))
    for path in (home.key, home.ledger, home.verifier_key, home.checkpoint):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    signer = KeySigner.load(home.key)
    assert (signer.origin, signer.verifier_key) == ("acme.example/agents", key)
    assert read_verifier_key(str(home.verifier_key)) == read_verifier_key(key) == key
    assert "private" not in repr(signer).lower()


@pytest.mark.parametrize("present", ["key", "ledger", "checkpoint"])
def test_nothing_is_overwritten(home, present):
    path = getattr(home, present)
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious")
    with pytest.raises(ConflictError, match="exists already"):
        init(home, Origin("acme.example/agents"))
    assert path.read_text() == "precious"


def ruined(text: str) -> list[str]:
    prefix, _, rest = text.partition("+")
    name, key_id, seed = text.removeprefix("PRIVATE+KEY+").split("+", 2)
    raw = base64.b64decode(seed)
    other = base64.b64encode(b"\2" + raw[1:]).decode()
    return [
        "",
        "PRIVATE+KEY+x",
        f"PUBLIC+{rest}",
        f"PRIVATE+KEY+{name}+{key_id}+not base64",
        f"PRIVATE+KEY+{name}+{key_id}+{base64.b64encode(raw[:20]).decode()}",
        f"PRIVATE+KEY+{name}+{key_id}+{other}",
        f"PRIVATE+KEY+{name}+00000000+{seed}",
        f"PRIVATE+KEY+other+{key_id}+{seed}",
        f"{prefix}+{rest}x",
    ]


def test_a_key_file_in_any_other_spelling_is_refused(home):
    init(home, Origin("acme.example/agents"))
    for text in ruined(home.key.read_text().strip()):
        home.key.write_text(text)
        with pytest.raises(InvalidInputError, match=r"malformed|log name"):
            KeySigner.load(home.key)
    home.key.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        KeySigner.load(home.key)
    home.key.chmod(0o644)
    with pytest.raises(RefusedError, match="can be read by others"):
        KeySigner.load(home.key)


@pytest.mark.parametrize("given", ["nowhere", "a\0b", "x" * 5000, "name+deadbeef+AAAA"])
def test_what_is_no_verifier_key_is_said_to_be_none(given):
    with pytest.raises(InvalidInputError):
        read_verifier_key(given)


def test_ids_are_names_and_do_not_repeat():
    drawn = {new_id("run") for _ in range(1000)}
    assert len(drawn) == 1000
    parse_run_id(drawn.pop())
    assert parse_subject_id(new_id("user:")).count("-") == 0


def test_policies_come_from_a_file_a_folder_a_text_or_the_shipped_ones(tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "p.yaml").write_text(ALLOW)
    (folder / "p.test.yaml").write_text("cases: []")
    wanted = {"p": 1}
    for given in (folder / "p.yaml", str(folder), [folder], {"p.yaml": ALLOW}):
        with Governance.in_memory(policies=given) as governance:
            assert dict(governance.policies.versions) == wanted
    with Governance.in_memory() as governance:
        assert "baseline" in governance.policies.versions


def test_policies_that_cannot_be_read_say_which(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.yaml").write_bytes(b"\xff")
    for path, told in (
        ("nowhere.yaml", "no file"),
        ("empty", "holds no policies"),
        ("odd.yaml", "not UTF-8"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            read_policy_files((tmp_path / path,))


def test_another_engine_is_another_policy_set_and_an_unknown_one_fails_the_load(monkeypatch):
    digests = set()
    for engine in ("closure", "celpy", "celexpr"):
        monkeypatch.setenv("GOVERNANCE_ENGINE", engine)
        with Governance.in_memory(policies={"p.yaml": ALLOW}) as governance:
            assert governance.policies.engine.startswith(f"{engine} ")
            digests.add(governance.policies.digest)
    assert len(digests) == 3
    monkeypatch.setenv("GOVERNANCE_ENGINE", "closures")
    with pytest.raises(InvalidInputError, match="unknown policy engine `closures`"):
        Governance.in_memory(policies={"p.yaml": ALLOW})


@pytest.mark.parametrize("name", ["nothing", "../pyproject", "examples/../../README"])
def test_only_shipped_policies_are_shipped(name):
    with pytest.raises(InvalidInputError, match="is shipped"):
        shipped_policy(name)


def test_the_home_is_what_is_given_else_the_environments_else_here(monkeypatch, tmp_path):
    monkeypatch.delenv("GOVERNANCE_HOME", raising=False)
    monkeypatch.delenv("GOVERNANCE_CHECKPOINT", raising=False)
    assert Home.find().folder.name == ".governance"
    monkeypatch.setenv("GOVERNANCE_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("GOVERNANCE_CHECKPOINT", str(tmp_path / "kept"))
    assert (Home.find().folder, Home.find().checkpoint) == (tmp_path / "named", tmp_path / "kept")
    assert Home.find(tmp_path).folder == tmp_path
    monkeypatch.setenv("GOVERNANCE_ENVIRONMENT", "production")
    with Governance.in_memory() as governance:
        assert governance.environment.name == "production"
