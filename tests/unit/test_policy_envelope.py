"""Policies signed by a key that no file holds: a P-256 key in a KMS signs an envelope over the set."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import Governance, InvalidInputError, RefusedError
from governance.assemble import KeySigner, load, read_policy_key
from governance.ids import Origin
from governance.ledger.checkpoint import sign_note
from governance.policy.document import load_policies
from governance.policy.envelope import POLICY_SET, Envelope, pae, parse_envelope, parse_p256
from governance.policy.signature import Signed

KMS = ec.derive_private_key(4711, ec.SECP256R1())
STRANGER = ec.derive_private_key(4712, ec.SECP256R1())
LOGS = KeySigner.from_seed(Origin("acme.example/policies"), b"p" * 32)
DESK = "policy: desk\nversion: 3\nrules: [{id: a, match: {tools: [look]}, effect: allow}]\n"
STOP = "policy: stop\nversion: 1\nrules: [{id: a, match: {tools: [wipe]}, effect: deny}]\n"


def pem(private) -> str:
    spki = PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(Encoding.PEM, spki).decode()


KEY = parse_p256(pem(KMS).strip())


def text(*policies: str) -> bytes:
    named = {str(number): policy for number, policy in enumerate(policies)}
    return Signed.of(load_policies(named)).to_text().encode()


def signed(payload: bytes, *, kind: str = POLICY_SET, by=KMS, raw: bool = False) -> Envelope:
    signature = by.sign(pae(kind, payload), ec.ECDSA(SHA256()))
    if raw:
        signature = b"".join(n.to_bytes(32, "big") for n in decode_dss_signature(signature))
    return Envelope(kind, payload, (signature,))


def files(envelope: str) -> dict[str, str]:
    return {"desk.yaml": DESK, "stop.yaml": STOP, "policies.sig": envelope}


@pytest.mark.parametrize("raw", [False, True], ids=["DER", "r and s"])
@pytest.mark.parametrize("way", ["PEM", "a line", "a file", "configured"])
def test_what_the_key_signed_is_loaded_and_says_who_vouches(tmp_path, monkeypatch, way, raw):
    (tmp_path / "kms.pem").write_text(pem(KMS))
    given_files = files(signed(text(DESK, STOP), raw=raw).to_text())
    match way:
        case "PEM":
            policies = load(given_files, pem(KMS))
        case "a line":
            policies = load(given_files, KEY.text)
        case "a file":
            policies = load(given_files, str(tmp_path / "kms.pem"))
        case _:
            monkeypatch.setenv("GOVERNANCE_POLICY_KEY", str(tmp_path / "kms.pem"))
            policies = load(given_files)
    assert dict(policies.versions) == {"desk": 3, "stop": 1}
    assert policies.signature is not None
    assert policies.signature.key == KEY.text


def edited(envelope: Envelope) -> str:
    """Another version: somebody who cannot sign edits the payload."""
    return Envelope(
        envelope.kind, envelope.payload.replace(b"desk 3 ", b"desk 4 "), envelope.signatures
    ).to_text()


ATTACKS = {
    "another key": (signed(text(DESK, STOP), by=STRANGER).to_text(), "not signed with the key"),
    "edited": (edited(signed(text(DESK, STOP))), "not signed with the key"),
    "no signature": (Envelope(POLICY_SET, text(DESK, STOP), ()).to_text(), "not signed with"),
    "another type": (
        signed(text(DESK, STOP), kind="application/vnd.in-toto+json").to_text(),
        "what is signed is of type `application/vnd.in-toto",
    ),
    "its type exchanged": (
        Envelope(POLICY_SET, text(DESK, STOP), signed(text(DESK, STOP), kind="a").signatures).to_text(),
        "not signed with the key",
    ),
    "no type": (signed(text(DESK, STOP), kind="").to_text(), "what is signed is of type ``"),
    "over fewer": (signed(text(DESK)).to_text(), "is not what was signed"),
    "over more": (signed(text(DESK, STOP, DESK.replace("desk", "wide"))).to_text(), "was signed and is not here"),
    "no policy set": (signed(b"yes, all fine\n").to_text(), "what is signed is no policy set"),
    "no text": (signed(b"\xff\xfe").to_text(), "what is signed is no text"),
    "a note": (sign_note(text(DESK, STOP).decode(), LOGS), "text is not JSON"),
    "empty": ("", "text is not JSON"),
    "a list": ("[]", "is no JSON object"),
    "a number for a signature": ('{"signatures": [1]}', "is no JSON object"),
    "numbers for fields": ('{"payload": 1, "signatures": []}', "`payload` of the envelope is not base64"),
    "a type that is none": ('{"payloadType": [], "signatures": []}', "`payloadType` is no text"),
    "a field twice": ('{"payload": "", "payload": ""}', "malformed"),
    "very many": (json.dumps({"signatures": [{}] * 101}), "101 signatures"),
}  # fmt: skip


@pytest.mark.attack
@pytest.mark.parametrize(("envelope", "why"), ATTACKS.values(), ids=ATTACKS)
def test_anything_else_is_refused(envelope, why):
    with pytest.raises(RefusedError, match=why) as refused:
        load(files(envelope), KEY.text)
    assert refused.value.hint
    with pytest.raises(RefusedError):
        Governance.in_memory(policies=files(envelope), policy_key=pem(KMS))


@pytest.mark.attack
def test_an_envelope_is_nothing_to_a_key_that_signs_notes():
    with pytest.raises(RefusedError, match="malformed"):
        load(files(signed(text(DESK, STOP)).to_text()), LOGS.verifier_key)


def test_empty_fields_may_be_left_out_and_lists_and_texts_end():
    empty = Envelope("", b"", ())
    for written in ("{}", '{"signatures": []}', '{"payload": "", "payloadType": "", "keyid": "x"}'):
        assert parse_envelope(written) == empty
    assert parse_envelope('{"signatures": [{}, {"sig": ""}]}').signatures == (b"", b"")
    assert len(parse_envelope(json.dumps({"signatures": [{}] * 100})).signatures) == 100
    with pytest.raises(InvalidInputError, match="exceeds 524288"):
        parse_envelope(" " * 512 * 1024 + "{}")


def test_the_type_is_written_as_it_is_published():
    assert POLICY_SET == "application/vnd.governance.policy-set.v1"


OTHERS = {
    "Ed25519": pem(ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)),
    "P-384": pem(ec.derive_private_key(4711, ec.SECP384R1())),
    "secp256k1": pem(ec.derive_private_key(4711, ec.SECP256K1())),
    "RSA": pem(rsa.generate_private_key(65537, 2048)),
    "cut": pem(KMS)[:-40],
    "empty line": "p256:",
    "no base64": "p256:!",
    "a point off the curve": "p256:"
    + base64.b64encode(KEY.public[:-1] + bytes([KEY.public[-1] ^ 1])).decode(),
    "not in letters": "p256:é",
}


@pytest.mark.parametrize("key", OTHERS.values(), ids=OTHERS)
def test_a_key_of_another_kind_is_no_key(key):
    with pytest.raises(InvalidInputError, match="is no P-256 public key") as refused:
        read_policy_key(key)
    assert refused.value.hint


def test_a_key_in_one_line_has_one_spelling():
    point = KMS.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    short = KEY.public[:1] + bytes([57]) + KEY.public[2:23] + b"\x03\x22\x00" + point
    with pytest.raises(InvalidInputError, match="in another spelling"):
        read_policy_key("p256:" + base64.b64encode(short).decode())
    assert read_policy_key(KEY.text) == KEY
    assert parse_p256(KEY.text).name == KEY.name


GOOD = signed(text(DESK)).to_text()


@settings(derandomize=True, max_examples=300)
@given(st.data())
def test_no_text_makes_the_reader_fail_in_another_way(data):
    at = data.draw(st.integers(0, len(GOOD)))
    length = data.draw(st.integers(0, 8))
    given_text = GOOD[:at] + data.draw(st.text(max_size=6)) + GOOD[at + length :]
    try:
        parse_envelope(given_text).is_signed_by(KEY)
    except InvalidInputError:
        return
