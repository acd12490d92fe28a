"""Since when does this digest exist, by the word of a time-stamping authority? RFC 3161, offline.

A **stamp** is a `TimeStampResp` as the authority returned it: a CMS signature over the digest and a
time. It is good if

1. it was granted, and signs exactly this digest by SHA-256, SHA-384 or SHA-512;
2. there is one signer, whose certificate is named in the signed attributes (RFC 5816), and whose
   signature is over them, and they over the content;
3. that certificate is for time stamping and nothing else (critical), and leads to a *pinned* authority
   by certificates that were valid at the time of the stamp.

Certificates in a stamp are help on the way, never a pin. Revocation is not asked for: offline nobody
answers. Whoever pins an authority trusts its clock and its key.
"""

import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Micros
from governance.ledger import der
from governance.ledger.authorities import UNREADABLE, Authorities, check_path, load_certificate

__all__ = [
    "STAMP_BYTES_MAX",
    "Authorities",
    "Stamped",
    "check_stamp",
    "stamp_request",
]

STAMP_BYTES_MAX: Final = 64 * 1024

_SIGNED_DATA: Final = "1.2.840.113549.1.7.2"
_CMS_VERSION: Final = "3"
_TST_INFO: Final = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE: Final = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST: Final = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE: Final = "1.2.840.113549.1.9.16.2.12"
_SIGNING_CERTIFICATE_V2: Final = "1.2.840.113549.1.9.16.2.47"
_RSA: Final = "1.2.840.113549.1.1.1"
_ED25519: Final = "1.3.101.112"
_SHA256: Final = "2.16.840.1.101.3.4.2.1"
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    _SHA256: hashes.SHA256(),
    "2.16.840.1.101.3.4.2.2": hashes.SHA384(),
    "2.16.840.1.101.3.4.2.3": hashes.SHA512(),
}
_SIGNATURES: Final[dict[str, hashes.HashAlgorithm]] = {
    "1.2.840.113549.1.1.11": hashes.SHA256(),
    "1.2.840.113549.1.1.12": hashes.SHA384(),
    "1.2.840.113549.1.1.13": hashes.SHA512(),
    "1.2.840.10045.4.3.2": hashes.SHA256(),
    "1.2.840.10045.4.3.3": hashes.SHA384(),
    "1.2.840.10045.4.3.4": hashes.SHA512(),
}
_GRANTED: Final = 0
_GENERAL_TIME: Final = re.compile(r"(\d{14})(?:\.(\d{0,8}[1-9]))?Z")
_CONTEXT_0: Final = 0xA0
_CONTEXT_1: Final = 0xA1
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Stamped:
    """What a good stamp says: `digest` existed at `at`, says `authority`."""

    digest: bytes
    at: Micros
    authority: str
    nonce: int | None


@dataclass(frozen=True, slots=True)
class _Signer:
    issuer: bytes
    serial: int
    hashed: hashes.HashAlgorithm
    attributes: der.Item
    algorithm: str
    signature: bytes


def stamp_request(digest: bytes, nonce: int) -> bytes:
    """Write a `TimeStampReq` for a SHA-256 `digest` that asks for the signer's certificate."""
    hashed = der.encode(der.SEQUENCE, _encode_oid(_SHA256), b"\x05\0")
    imprint = der.encode(der.SEQUENCE, hashed, der.encode(der.OCTETS, digest))
    wants_certificate = der.encode(der.BOOLEAN, b"\xff")
    return der.encode(
        der.SEQUENCE, der.encode_int(1), imprint, der.encode_int(nonce), wants_certificate
    )


def check_stamp(stamp: bytes, data: bytes, authorities: Authorities) -> Stamped:
    """Check that `stamp` is by one of the pinned `authorities`, over `data`.

    Raises InvalidInputError when it is malformed, RefusedError when it was not granted or no pinned
    authority vouches for it, TamperedError when it is over something else or its signature is wrong.
    """
    content, certificates, signer = _signed_data(_granted(stamp))
    stamped = _read_info(content, data)
    known = (*certificates, *authorities)
    try:
        certificate = _find(signer, known)
        _check_attributes(signer, content, certificate)
        _check_signature(signer, certificate)
        at = _EPOCH + dt.timedelta(microseconds=stamped.at)
        check_path(certificate, known, authorities, at)
        name = certificate.subject.rfc4514_string()
    except UNREADABLE as exc:
        raise InvalidInputError("a certificate in the stamp cannot be read") from exc
    return replace(stamped, authority=name)


def _granted(stamp: bytes) -> der.Item:
    if len(stamp) > STAMP_BYTES_MAX:
        raise InvalidInputError(f"stamp of {len(stamp)} bytes exceeds {STAMP_BYTES_MAX}")
    response = der.read_der(stamp, der.SEQUENCE).inside()
    status = response.take(der.SEQUENCE).inside().take(der.INTEGER).integer()
    if status != _GRANTED:
        raise RefusedError(f"stamp was not granted: status `{status}`")
    token = response.take(der.SEQUENCE)
    response.end()
    return token


def _signed_data(token: der.Item) -> tuple[bytes, list[x509.Certificate], _Signer]:
    outer = token.inside()
    _expect(outer.take(der.OID).oid(), _SIGNED_DATA, "CMS content")
    data = _only(outer.take(_CONTEXT_0), der.SEQUENCE).inside()
    outer.end()
    _expect(str(data.take(der.INTEGER).integer()), _CMS_VERSION, "version")
    hashed = [_hash(item).name for item in data.take(der.SET).inside().rest()]
    inner = data.take(der.SEQUENCE).inside()
    _expect(inner.take(der.OID).oid(), _TST_INFO, "signed content")
    content = _only(inner.take(_CONTEXT_0), der.OCTETS).content
    inner.end()
    held = data.maybe(_CONTEXT_0)
    certificates = [load_certificate(item.raw) for item in held.inside().rest()] if held else []
    data.maybe(_CONTEXT_1)
    signer = _read_signer(_only(data.take(der.SET), der.SEQUENCE))
    data.end()
    if signer.hashed.name not in hashed:
        raise InvalidInputError("stamp does not announce the hash that its signer used")
    return content, certificates, signer


def _read_signer(item: der.Item) -> _Signer:
    reading = item.inside()
    _expect(str(reading.take(der.INTEGER).integer()), "1", "signer version")
    name = reading.take(der.SEQUENCE).inside()
    issuer, serial = name.take(der.SEQUENCE).raw, name.take(der.INTEGER).integer()
    hashed = _hash(reading.take(der.SEQUENCE))
    attributes = reading.take(_CONTEXT_0)
    algorithm = _algorithm(reading.take(der.SEQUENCE))
    signature = reading.take(der.OCTETS).content
    reading.maybe(_CONTEXT_1)
    reading.end()
    return _Signer(issuer, serial, hashed, attributes, algorithm, signature)


def _read_info(content: bytes, data: bytes) -> Stamped:
    info = der.read_der(content, der.SEQUENCE).inside()
    _expect(str(info.take(der.INTEGER).integer()), "1", "version")
    info.take(der.OID)
    imprint = info.take(der.SEQUENCE).inside()
    hashed, digest = _hash(imprint.take(der.SEQUENCE)), imprint.take(der.OCTETS).content
    info.take(der.INTEGER)
    at = _time(info.take(der.TIME).content)
    info.maybe(der.SEQUENCE)
    info.maybe(der.BOOLEAN)
    nonce = info.maybe(der.INTEGER)
    info.maybe(_CONTEXT_0)
    info.maybe(_CONTEXT_1)
    info.end()
    if not hmac.compare_digest(_digest(hashed, data), digest):
        raise TamperedError("stamp is over something else")
    return Stamped(digest, at, "", nonce.integer() if nonce else None)


def _find(signer: _Signer, certificates: Sequence[x509.Certificate]) -> x509.Certificate:
    for certificate in certificates:
        issuer = certificate.issuer.public_bytes()
        if (issuer, certificate.serial_number) == (signer.issuer, signer.serial):
            return certificate
    raise RefusedError(
        "the certificate of the stamp's signer is not at hand",
        hint="pin it beside the authority's own",
    )


def _check_attributes(signer: _Signer, content: bytes, certificate: x509.Certificate) -> None:
    values = dict[str, der.Item]()
    for attribute in signer.attributes.inside().rest():
        reading = attribute.inside()
        name = reading.take(der.OID).oid()
        if name in values:
            raise InvalidInputError("stamp has a signed attribute twice")
        held = reading.take(der.SET).inside()
        values[name] = held.any()
        held.end()
        reading.end()
    kind = values.get(_CONTENT_TYPE)
    if kind is None or kind.oid() != _TST_INFO:
        raise TamperedError("signed attributes are of other content than a stamp's")
    digest = values.get(_MESSAGE_DIGEST)
    if digest is None or digest.content != _digest(signer.hashed, content):
        raise TamperedError("signed attributes are over another content")
    if not _names(values, certificate):
        raise TamperedError("signed attributes name another certificate than the signer's")


def _names(values: dict[str, der.Item], certificate: x509.Certificate) -> bool:
    """Tell whether ESSCertIDv2, or the older ESSCertID where that is all there is, is `certificate`."""
    raw = certificate.public_bytes(Encoding.DER)
    if _SIGNING_CERTIFICATE_V2 in values:
        first = values[_SIGNING_CERTIFICATE_V2].inside().take(der.SEQUENCE).inside()
        named = first.take(der.SEQUENCE).inside()
        algorithm = named.maybe(der.SEQUENCE)
        hashed = _hash(algorithm) if algorithm else _HASHES[_SHA256]
        return named.take(der.OCTETS).content == _digest(hashed, raw)
    if _SIGNING_CERTIFICATE in values:
        first = values[_SIGNING_CERTIFICATE].inside().take(der.SEQUENCE).inside()
        named = first.take(der.SEQUENCE).inside()
        # SHA-1 only tells which certificate; the signature and the path do not rest on it.
        return named.take(der.OCTETS).content == hashlib.sha1(raw, usedforsecurity=False).digest()
    return False


def _check_signature(signer: _Signer, certificate: x509.Certificate) -> None:
    # The attributes are signed as the SET they are, not under the tag that they travel with.
    message = der.encode(der.SET, signer.attributes.content)
    hashed = signer.hashed if signer.algorithm == _RSA else _SIGNATURES.get(signer.algorithm)
    try:
        match certificate.public_key():
            case rsa.RSAPublicKey() as key if hashed and signer.algorithm.startswith(_RSA[:-2]):
                key.verify(signer.signature, message, padding.PKCS1v15(), hashed)
            case ec.EllipticCurvePublicKey() as key if hashed and ".10045." in signer.algorithm:
                key.verify(signer.signature, message, ec.ECDSA(hashed))
            case ed25519.Ed25519PublicKey() as key if signer.algorithm == _ED25519:
                key.verify(signer.signature, message)
            case _:
                raise RefusedError(f"stamp is signed by unknown means: `{signer.algorithm}`")
    except InvalidSignature as exc:
        raise TamperedError("signature of a stamp is wrong") from exc


def _only(item: der.Item, tag: int) -> der.Item:
    reading = item.inside()
    inner = reading.take(tag)
    reading.end()
    return inner


def _expect(found: str, wanted: str, what: str) -> None:
    if found != wanted:
        raise InvalidInputError(f"{what} of the stamp is of another type: `{found[:80]}`")


def _algorithm(item: der.Item) -> str:
    """The name of an algorithm without parameters: none, or the NULL that older texts ask for."""
    reading = item.inside()
    name = reading.take(der.OID).oid()
    given = reading.maybe(der.NULL)
    reading.end()
    if item.tag != der.SEQUENCE or (given and given.content):
        raise InvalidInputError(f"algorithm `{name[:80]}` of a stamp is malformed")
    return name


def _hash(algorithm: der.Item) -> hashes.HashAlgorithm:
    name = _algorithm(algorithm)
    if name not in _HASHES:
        raise RefusedError(f"stamp rests on a hash that is not trusted: `{name[:80]}`")
    return _HASHES[name]


def _digest(algorithm: hashes.HashAlgorithm, data: bytes) -> bytes:
    made = hashes.Hash(algorithm)
    made.update(data)
    return made.finalize()


def _time(text: bytes) -> Micros:
    found = _GENERAL_TIME.fullmatch(text.decode("ascii", "replace"))
    try:
        whole = dt.datetime.strptime(f"{found[1]}+0000" if found else "", "%Y%m%d%H%M%S%z")
    except ValueError as exc:
        raise InvalidInputError("stamp has a malformed time") from exc
    fraction = (found[2] or "") if found else ""
    seconds = (whole - _EPOCH) // dt.timedelta(seconds=1)
    if seconds < 0:
        raise InvalidInputError("stamp has a time before 1970")
    return Micros(seconds * 1_000_000 + int(fraction[:6].ljust(6, "0")))


def _encode_oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytearray()
    for arc in (40 * first + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        content += bytes(reversed(groups))
    return der.encode(der.OID, bytes(content))
