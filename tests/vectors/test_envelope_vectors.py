"""DSSE's own example: its encoding, its envelope, its key; and every byte of them changed."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from governance.errors import InvalidInputError
from governance.policy.envelope import Envelope, P256Key, pae, parse_envelope, parse_p256


@pytest.fixture(scope="module")
def example(vectors):
    return json.loads((vectors / "dsse" / "dsse-v1.json").read_text())


@pytest.fixture(scope="module")
def key(example) -> P256Key:
    numbers = EllipticCurvePublicNumbers(example["X"], example["Y"], SECP256R1()).public_key()
    pem = numbers.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return parse_p256(pem.strip())


def read(example) -> Envelope:
    return parse_envelope(json.dumps(example["envelope"]))


def test_the_encoding_of_type_and_payload_is_the_published_one(example):
    found = pae(example["payloadType"], example["payload"].encode())
    assert found == example["pae"].encode()


def test_the_published_envelope_is_signed_by_the_published_key(example, key):
    envelope = read(example)
    assert (envelope.kind, envelope.payload) == (
        example["payloadType"],
        example["payload"].encode(),
    )
    assert envelope.is_signed_by(key)
    assert parse_envelope(envelope.to_text()) == envelope
    assert json.loads(envelope.to_text()) == example["envelope"]


@pytest.mark.attack
def test_with_any_bit_changed_it_is_not(example, key):
    envelope = read(example)
    (signature,) = envelope.signatures
    changed = 0
    for field, raw in {
        "payload": envelope.payload,
        "kind": envelope.kind.encode(),
        "signature": signature,
    }.items():
        for bit in range(8 * len(raw)):
            other = bytearray(raw)
            other[bit // 8] ^= 1 << bit % 8
            parts = {"payload": envelope.payload, "kind": envelope.kind, "signature": signature}
            parts[field] = bytes(other).decode("latin-1") if field == "kind" else bytes(other)
            forged = Envelope(parts["kind"], parts["payload"], (parts["signature"],))
            assert not forged.is_signed_by(key)
            changed += 1
    assert changed == 8 * (11 + 29 + 64)


@pytest.mark.attack
@pytest.mark.parametrize("length", [0, 1, 31, 63, 65, 128])
def test_a_signature_of_another_length_is_none(example, key, length):
    envelope = read(example)
    (signature,) = envelope.signatures
    cut = (signature * 2)[:length]
    assert not Envelope(envelope.kind, envelope.payload, (cut,)).is_signed_by(key)


def test_either_alphabet_of_base64_is_read_and_each_in_one_spelling(example):
    given = example["envelope"]
    url_safe = base64.urlsafe_b64encode(base64.b64decode(given["signatures"][0]["sig"])).decode()
    assert "-" in url_safe or "_" in url_safe
    other = {**given, "signatures": [{"sig": url_safe, "keyid": "whoever"}]}
    assert parse_envelope(json.dumps(other)) == read(example)
    for odd in (url_safe + "\n", url_safe[:-2], url_safe[:-3] + "R==", "é" + url_safe[1:]):
        with pytest.raises(InvalidInputError, match="`sig` of the envelope is not base64"):
            parse_envelope(json.dumps({**given, "signatures": [{"sig": odd}]}))


def test_signatures_of_others_stand_beside_it(example, key):
    envelope = read(example)
    others = (b"", b"\0" * 64, b"\xff" * 70)
    assert Envelope(envelope.kind, envelope.payload, others + envelope.signatures).is_signed_by(key)
    assert not Envelope(envelope.kind, envelope.payload, others).is_signed_by(key)
    assert not Envelope(envelope.kind, envelope.payload, ()).is_signed_by(key)
