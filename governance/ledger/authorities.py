"""Does a certificate lead to a time-stamping authority that is pinned? Reading, paths, and what is allowed.

Paths are built by `cryptography`'s verifier, at the time of the stamp. Its defaults are made for web
servers, so that what a certificate may be used for is said here.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from governance.errors import InvalidInputError, RefusedError

__all__ = ["UNREADABLE", "Authorities", "check_path", "load_certificate", "read_authorities"]

Authorities: TypeAlias = tuple[x509.Certificate, ...]
"""Certificates that somebody pinned: the authority's root, and what leads from there to it."""

UNREADABLE: Final = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)
"""What `cryptography` says of a certificate that it cannot read; it looks at most of it only when asked."""


def read_authorities(pem: bytes) -> Authorities:
    """Read certificates to pin, in PEM. Raises InvalidInputError when there is none."""
    try:
        found = tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as exc:
        raise InvalidInputError(
            "certificates of a time-stamping authority cannot be read", hint="give them in PEM"
        ) from exc
    if not any(_is_authority(certificate) for certificate in found):
        raise InvalidInputError(
            "none of the certificates is an authority's own",
            hint="pin the root (or intermediate) that the authority publishes",
        )
    return found


def check_path(
    leaf: x509.Certificate,
    known: Sequence[x509.Certificate],
    authorities: Authorities,
    at: dt.datetime,
) -> None:
    """Check that `leaf` is for time stamping alone, and leads to one of the pinned `authorities`.

    `known` are certificates that may help on the way. Raises RefusedError.
    """
    roots = [certificate for certificate in authorities if _is_authority(certificate)]
    between = [certificate for certificate in known if certificate not in roots]
    try:
        (
            verification.PolicyBuilder()
            .store(verification.Store(roots))
            .time(at)
            .extension_policies(ca_policy=_CA, ee_policy=_LEAF)
            .build_client_verifier()
            .verify(leaf, between)
        )
    except (verification.VerificationError, ValueError) as exc:
        raise RefusedError(
            "no pinned authority vouches for the stamp's signer at that time",
            hint="pin the certificates that the authority publishes",
        ) from exc


def load_certificate(raw: bytes) -> x509.Certificate:
    """Read one certificate. Raises InvalidInputError."""
    try:
        return x509.load_der_x509_certificate(raw)
    except UNREADABLE as exc:
        raise InvalidInputError("a certificate in the stamp cannot be read") from exc


def _is_for_stamps(
    _policy: verification.Policy, _certificate: x509.Certificate, uses: x509.ExtendedKeyUsage
) -> None:
    if list(uses) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        raise ValueError("the certificate is not for time stamping alone")


def _may_sign_certificates(
    _policy: verification.Policy, _certificate: x509.Certificate, uses: x509.KeyUsage | None
) -> None:
    if uses is not None and not uses.key_cert_sign:
        raise ValueError("the certificate may not sign others")


_CA: Final = (
    verification.ExtensionPolicy.permit_all()
    .require_present(x509.BasicConstraints, verification.Criticality.AGNOSTIC, None)
    .may_be_present(x509.KeyUsage, verification.Criticality.AGNOSTIC, _may_sign_certificates)
)
_LEAF: Final = verification.ExtensionPolicy.permit_all().require_present(
    x509.ExtendedKeyUsage, verification.Criticality.CRITICAL, _is_for_stamps
)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False
