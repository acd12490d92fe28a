"""Policies that somebody else wrote are not loaded: once a key is configured, only what it signed is."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import ConflictError, Governance, GovernanceError, InvalidInputError, RefusedError
from governance.assemble import KeySigner, load, make_policy_key, read_policy_key
from governance.ids import Digest, Origin
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    format_checkpoint,
    format_verifier_key,
    note_text,
    parse_checkpoint,
    sign_checkpoint,
    sign_note,
)
from governance.policy.document import load_policies
from governance.policy.signature import ORIGIN, Signed

SIGNER = KeySigner.from_seed(Origin("acme.example/policies"), b"p" * 32)
STRANGER = KeySigner.from_seed(Origin("acme.example/policies"), b"x" * 32)
KEY = SIGNER.verifier_key
DESK = "policy: desk\nversion: 3\nrules: [{id: a, match: {tools: [look]}, effect: allow}]\n"
STOP = "policy: stop\nversion: 1\nrules: [{id: a, match: {tools: [wipe]}, effect: deny}]\n"
WIDE = "policy: wide\nversion: 1\nrules: [{id: all, effect: allow, allow_tier: critical}]\n"


def signature(*texts: str, signer: KeySigner = SIGNER) -> str:
    named = {str(number): text for number, text in enumerate(texts)}
    return sign_note(Signed.of(load_policies(named)).to_text(), signer)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "desk.yaml").write_text(DESK)
    (tmp_path / "stop.yaml").write_text(STOP)
    (tmp_path / "policies.sig").write_text(signature(DESK, STOP))
    return tmp_path


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


WAYS = {
    "a folder": lambda folder: folder,
    "its name": str,
    "files": lambda folder: sorted(folder.glob("*.yaml")),
    "texts by name": texts,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_the_key_signed_is_loaded_and_says_who_vouches(folder, way, monkeypatch):
    given_key = load(way(folder), KEY)
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", KEY)
    configured = load(way(folder))
    for policies in (given_key, configured):
        assert dict(policies.versions) == {"desk": 3, "stop": 1}
        assert policies.signature is not None
        assert policies.signature.key == KEY
    with Governance.in_memory(policies=way(folder)) as governance:
        assert governance.policies.digest == configured.digest


def test_how_a_checkout_writes_line_ends_makes_no_difference(folder):
    as_it_was = load(folder, KEY).digest
    for file in folder.glob("*.yaml"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert load(folder, KEY).digest == as_it_was


def lies(note: str) -> str:
    """The same lines, another version: somebody who cannot sign edits the signed text."""
    return note.replace("desk 3 ", "desk 4 ")


ATTACKS = {
    "no signature": lambda f: (f / "policies.sig").unlink(),
    "an empty one": lambda f: (f / "policies.sig").write_text(""),
    "no note": lambda f: (f / "policies.sig").write_text("yes, all fine"),
    "cut": lambda f: (f / "policies.sig").write_text(signature(DESK, STOP)[:-3]),
    "edited": lambda f: (f / "policies.sig").write_text(lies(signature(DESK, STOP))),
    "another key of that name": lambda f: (f / "policies.sig").write_text(
        signature(DESK, STOP, signer=STRANGER)
    ),
    "over fewer": lambda f: (f / "policies.sig").write_text(signature(DESK)),
    "over more": lambda f: (f / "policies.sig").write_text(signature(DESK, STOP, WIDE)),
    "over a lower version": lambda f: (f / "policies.sig").write_text(
        signature(DESK.replace("version: 3", "version: 2"), STOP)
    ),
    "one byte of a rule": lambda f: (f / "stop.yaml").write_text(STOP.replace("deny", "allow")),
    "a comment": lambda f: (f / "stop.yaml").write_text(STOP + "# fine\n"),
    "a lower version": lambda f: (f / "desk.yaml").write_text(DESK.replace("3", "2")),
    "an extra file": lambda f: (f / "wide.yaml").write_text(WIDE),
    "a file less": lambda f: (f / "stop.yaml").unlink(),
    "a file twice": lambda f: (f / "again.yaml").write_text(STOP),
}


@pytest.mark.attack
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_anything_else_is_refused(folder, way, attack, monkeypatch):
    attack(folder)
    with pytest.raises(RefusedError) as refused:
        load(way(folder), KEY)
    assert refused.value.hint
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", KEY)
    with pytest.raises(RefusedError):
        Governance.in_memory(policies=way(folder))


def test_what_was_changed_is_named(folder):
    (folder / "stop.yaml").write_text(STOP.replace("deny", "allow"))
    with pytest.raises(RefusedError, match=r"`.*stop\.yaml` is not what was signed"):
        load(folder, KEY)
    (folder / "stop.yaml").unlink()
    with pytest.raises(RefusedError, match="policy `stop` was signed and is not here"):
        load(folder, KEY)


def test_what_nobody_signed_is_not_even_parsed(folder, monkeypatch):
    (folder / "stop.yaml").write_text("{[ not yaml")
    monkeypatch.setattr("governance.policy.document.read_yaml", None)
    with pytest.raises(RefusedError, match="is not what was signed"):
        load(folder, KEY)


def test_a_signature_over_other_versions_than_the_texts_say_is_refused(folder):
    """Only the key holder could make one; then the texts and the versions still have to agree."""
    lied = lies(note_text(signature(DESK, STOP)))
    (folder / "policies.sig").write_text(sign_note(lied, SIGNER))
    with pytest.raises(
        RefusedError, match="`desk` is here in version 3, and was signed in version 4"
    ):
        load(folder, KEY)


@pytest.mark.attack
def test_the_shipped_baseline_needs_a_signature_too(monkeypatch):
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", KEY)
    with pytest.raises(RefusedError, match=r"no signature at `policies\.sig`"):
        Governance.in_memory()


@pytest.mark.attack
def test_the_empty_set_needs_one_too():
    with pytest.raises(RefusedError, match="there is no signature"):
        load({}, KEY)
    assert load({"policies.sig": signature()}, KEY).rules == ()


def test_a_signature_without_a_key_to_check_it_is_refused(folder, monkeypatch):
    """A key that got lost from the configuration is noticed."""
    with pytest.raises(RefusedError, match="no key is configured"):
        load(folder)
    (folder / "policies.sig").unlink()
    assert load(folder).signature is None
    (folder / "policies.sig").symlink_to("nowhere")
    with pytest.raises(GovernanceError):
        load(folder)


def test_two_signatures_beside_one_set_are_refused(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "wide.yaml").write_text(WIDE)
    (other / "policies.sig").write_text(signature(WIDE))
    with pytest.raises(RefusedError, match="one set has one signature"):
        load([folder, other], KEY)
    (other / "policies.sig").unlink()
    (folder / "policies.sig").write_text(signature(DESK, STOP, WIDE))
    assert set(load([other, folder], KEY).versions) == {"desk", "stop", "wide"}


@pytest.mark.parametrize("given_key", ["", " ", "nowhere.vkey", "acme+00000000+AAAA"])
def test_a_key_that_is_none_is_an_error_and_never_no_key(given_key, monkeypatch, folder):
    with pytest.raises(InvalidInputError):
        load(folder, given_key)
    monkeypatch.setenv("GOVERNANCE_POLICY_KEY", given_key)
    with pytest.raises(InvalidInputError):
        Governance.in_memory(policies=folder)


@pytest.mark.attack
@pytest.mark.parametrize("y", [0, 1, 2**255 - 20])
def test_a_key_of_low_order_which_verifies_anything_is_refused(y):
    public = y.to_bytes(32, "little")
    forged = format_verifier_key(_Unchecked(public))
    with pytest.raises(InvalidInputError, match="not a sound Ed25519 point"):
        read_policy_key(forged)


@dataclass(frozen=True)
class _Unchecked(VerifierKey):
    """A key as an attacker spells it."""

    name: str = "acme.example/policies"
    public: bytes = b""
    kind: KeyType = KeyType.ED25519

    def __init__(self, public: bytes) -> None:
        object.__setattr__(self, "name", "acme.example/policies")
        object.__setattr__(self, "public", public)
        object.__setattr__(self, "kind", KeyType.ED25519)


def test_a_witness_signs_no_policies():
    key = VerifierKey("w", VerifierKey_of(KEY), KeyType.COSIGNATURE)
    with pytest.raises(InvalidInputError, match="key of a witness"):
        read_policy_key(format_verifier_key(key))


def VerifierKey_of(text: str) -> bytes:
    found = read_policy_key(text)
    assert found is not None
    return found.public


# --- what is signed is nothing else ------------------------------------------------------------------


@pytest.mark.attack
def test_no_signature_of_the_log_is_one_of_policies_and_none_the_other_way():
    """The same key for both would be unwise, and still nothing signed for one counts for the other."""
    one = KeySigner.from_seed(Origin(ORIGIN), b"o" * 32)
    head = Checkpoint(ORIGIN, 3, Digest(b"\1" * 32))
    with pytest.raises(RefusedError, match="malformed"):
        load({"policies.sig": sign_checkpoint(head, one)}, one.verifier_key)
    for given_texts in ((), (DESK,), (DESK, STOP)):
        with pytest.raises(InvalidInputError):
            parse_checkpoint(note_text(signature(*given_texts)))
    with pytest.raises(InvalidInputError):
        Signed.parse(format_checkpoint(head))


def test_what_is_signed_and_cannot_be_read_is_refused_in_words():
    for text, message in {
        "desk 3 " + "0" * 64 + "\n": "what is signed is no policy set",
        f"{ORIGIN}\ndesk 03 {'0' * 64}\n": "what is signed is no policy set",
        f"{ORIGIN}\nstop 1 {'0' * 64}\ndesk 3 {'0' * 64}\n": "what is signed is a policy set in another spelling",
    }.items():
        with pytest.raises(InvalidInputError) as caught:
            Signed.parse(text)
        assert caught.value.message == message


def test_each_refusal_of_other_policies_says_how_to_sign_them():
    signed = Signed.of(load_policies({"a": DESK, "b": STOP}))
    here = {"a": DESK, "b": STOP}
    signed.refuse_other_texts(here)
    signed.refuse_other_versions({"desk": 3, "stop": 1})
    for refuse, given_here, message in (
        (signed.refuse_other_texts, {**here, "c": WIDE}, "`c` is not what was signed"),
        (signed.refuse_other_texts, {"a": DESK}, "policy `stop` was signed and is not here"),
        (signed.refuse_other_texts, {**here, "c": STOP}, "a text that was signed once is here twice"),
        (signed.refuse_other_versions, {"desk": 3}, "policy `stop` is here in no version, and was signed in version 1"),
        (signed.refuse_other_versions, {"desk": 3, "stop": 1, "wide": 1}, "policy `wide` is here in version 1, and was signed in no version"),
    ):  # fmt: skip
        with pytest.raises(RefusedError) as caught:
            refuse(given_here)
        assert caught.value.message == message
        assert caught.value.hint == "sign the policies again with `governance policy sign`"


NAMES = st.text("aZ09_.-", min_size=1, max_size=9).filter(lambda name: name[0].isalnum())
TEXTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
SETS = st.dictionaries(NAMES, st.tuples(st.integers(1, 2**31 - 1), TEXTS), max_size=4)


@settings(derandomize=True, max_examples=100)
@given(SETS)
def test_what_is_signed_reads_back_and_is_no_checkpoint(policies):
    signed = Signed(policies)
    text = signed.to_text()
    assert Signed.parse(text) == signed
    with pytest.raises(InvalidInputError):
        parse_checkpoint(text)


@settings(derandomize=True, max_examples=200)
@given(st.data())
def test_it_has_one_spelling(data):
    text = Signed(data.draw(SETS)).to_text()
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.sampled_from([" ", "\n", "\r", "0", "١", "x"])) + text[at:]
    try:
        again = Signed.parse(changed)
    except InvalidInputError:
        return
    assert again.to_text() == changed


def test_the_order_and_place_of_files_do_not_matter_nor_does_the_engine(monkeypatch):
    note = signature(DESK, STOP)
    assert note == signature(STOP, DESK)
    for engine in ("closure", "celpy"):
        monkeypatch.setenv("GOVERNANCE_ENGINE", engine)
        load({"x/elsewhere.yaml": STOP, "a.yaml": DESK, "policies.sig": note}, KEY)


# --- keys ---------------------------------------------------------------------------------------------


def test_a_key_is_private_and_nothing_is_overwritten(tmp_path):
    made = make_policy_key(Origin("acme.example/policies"), tmp_path / "policy.key")
    private, public = tmp_path / "policy.key", tmp_path / "policy.key.vkey"
    assert private.stat().st_mode & 0o777 == 0o600
    assert KeySigner.load(private).verifier_key == made
    key = read_policy_key(str(public))
    assert key is not None
    assert format_verifier_key(key) == made
    for path in (private, public):
        kept = path.read_text()
        with pytest.raises(ConflictError, match="exists already"):
            make_policy_key(Origin("other"), tmp_path / "policy.key")
        assert path.read_text() == kept
        path.unlink()
        path.write_text(kept)
    private.chmod(0o640)
    with pytest.raises(RefusedError, match="can be read by others"):
        KeySigner.load(private)


def test_a_signer_of_another_key_gets_no_signature_out():
    odd = replace(SIGNER, verifier_key=STRANGER.verifier_key)
    with pytest.raises(GovernanceError):
        signature(DESK, signer=odd)
