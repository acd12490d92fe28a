"""What does a KMS, an HSM or a card sign for policies? The payload of a DSSE envelope, with a P-256 key.

    {"payload": "Z292ZXJuYW5jZS9wb2xpY3ktc2lnbmF0dXJlL3Yx…",          base64 of the text of `signature.Signed`
     "payloadType": "application/vnd.governance.policy-set.v1",
     "signatures": [{"sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F…"}]}    base64 of ECDSA over P-256 and SHA-256

What is signed is the pre-authentication encoding of type and payload (DSSE v1.0.0, protocol.md), so a
signature over one type of payload is none over another. A signature is r and s of 32 bytes each, as smart
cards give it, or DER, as KMSs and openssl do. Signatures of others in the same envelope are passed over,
and so is `keyid`, which nothing authenticates.

A **P-256 key** is pinned as PEM (SubjectPublicKeyInfo, RFC 5480), or in one line as `p256:<base64 of the
DER>`. It is named by its fingerprint, the SHA-256 of that DER.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from governance.base64_text import from_base64, to_base64
from governance.canonical import parse_json, payload_bytes
from governance.errors import InvalidInputError

__all__ = ["POLICY_SET", "Envelope", "P256Key", "is_p256", "pae", "parse_envelope", "parse_p256"]

POLICY_SET: Final = "application/vnd.governance.policy-set.v1"
"""The type of a payload that is the text of `signature.Signed`."""

ENVELOPE_CHARS_MAX: Final = 512 * 1024
SIGNATURES_MAX: Final = 100

_SPELT: Final = "p256:"
_PEM: Final = "-----BEGIN PUBLIC KEY-----"
_GIVE: Final = "give it in PEM, as `openssl pkey -pubout` or your KMS writes it"
_HALF: Final = 32
_URL_SAFE: Final = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class P256Key:
    """A public key that somebody pinned, as the DER of its SubjectPublicKeyInfo."""

    public: bytes

    @property
    def name(self) -> str:
        """Its fingerprint, as `sha256sum` tells it of the DER."""
        return f"sha256:{hashlib.sha256(self.public).hexdigest()}"

    @property
    def text(self) -> str:
        """The key in one line."""
        return _SPELT + to_base64(self.public)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Tell whether `signature` is this key's over `message`: ECDSA with SHA-256 (FIPS 186-5)."""
        if len(signature) == 2 * _HALF:
            r, s = (int.from_bytes(signature[at : at + _HALF], "big") for at in (0, _HALF))
            signature = encode_dss_signature(r, s)
        key = _on_curve(load_der_public_key(self.public))
        try:
            key.verify(signature, message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload of some type, and what are said to be signatures over both."""

    kind: str
    payload: bytes
    signatures: tuple[bytes, ...]

    def is_signed_by(self, key: P256Key) -> bool:
        message = pae(self.kind, self.payload)
        return any(key.verifies(message, signature) for signature in self.signatures)

    def to_text(self) -> str:
        """Write it as DSSE's JSON envelope, in a line."""
        signatures = [{"sig": to_base64(signature)} for signature in self.signatures]
        fields = {
            "payload": to_base64(self.payload),
            "payloadType": self.kind,
            "signatures": signatures,
        }
        return payload_bytes(fields).decode() + "\n"


def pae(kind: str, payload: bytes) -> bytes:
    """Say what is signed for a payload (DSSE v1.0.0, Signature Definition)."""
    named = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(named), named, len(payload), payload)


def parse_envelope(text: str) -> Envelope:
    """Read a JSON envelope, its signatures unchecked. Raises InvalidInputError.

    Empty fields may be left out, others may stand beside them, and base64 is of either alphabet: so has it
    DSSE's envelope.md.
    """
    fields = _object(parse_json(text, limit=ENVELOPE_CHARS_MAX))
    kind, listed = fields.get("payloadType", ""), fields.get("signatures", [])
    if not isinstance(kind, str) or not isinstance(listed, list):
        raise InvalidInputError("`payloadType` is no text, or `signatures` no list")
    found = cast("list[object]", listed)
    if len(found) > SIGNATURES_MAX:
        raise InvalidInputError(f"envelope has {len(found)} signatures, over {SIGNATURES_MAX}")
    return Envelope(
        kind,
        _bytes("payload", fields.get("payload", "")),
        tuple(_bytes("sig", _object(item).get("sig", "")) for item in found),
    )


def is_p256(text: str) -> bool:
    """Tell whether `text` means to be a P-256 key, in PEM or in one line."""
    return text.startswith((_SPELT, _PEM))


def parse_p256(text: str) -> P256Key:
    """Read a P-256 key. Raises InvalidInputError, also for keys of other kinds."""
    try:
        if text.startswith(_SPELT):
            loaded = load_der_public_key(from_base64(text.removeprefix(_SPELT)) or b"")
        else:
            loaded = load_pem_public_key(text.encode())
        public = _on_curve(loaded).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise InvalidInputError(f"`{text[:80]}` is no P-256 public key", hint=_GIVE) from exc
    key = P256Key(public)
    if text.startswith(_SPELT) and text != key.text:
        raise InvalidInputError(f"`{text[:80]}` is a P-256 key in another spelling", hint=_GIVE)
    return key


def _on_curve(loaded: object) -> EllipticCurvePublicKey:
    if not isinstance(loaded, EllipticCurvePublicKey) or not isinstance(loaded.curve, SECP256R1):
        raise ValueError  # noqa: TRY004 - as the loaders raise for what is no key at all
    return loaded


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidInputError("envelope, or a signature in it, is no JSON object")
    return cast("dict[str, object]", value)


def _bytes(field: str, text: object) -> bytes:
    """Read base64 of either alphabet."""
    raw = from_base64(text.translate(_URL_SAFE)) if isinstance(text, str) else None
    if raw is None:
        raise InvalidInputError(f"`{field}` of the envelope is not base64")
    return raw
