"""Stamps of four authorities, from the fixtures of rfc3161-client: good ones, and ones to refuse."""

import hashlib

import pytest
from cryptography import x509

from governance.errors import RefusedError, TamperedError
from governance.ledger.authorities import read_authorities
from governance.ledger.stamp import check_stamp, stamp_request

pytestmark = pytest.mark.conformance

HELLO = b"hello"


def pins(folder):
    raw = (folder / "ts_chain.pem").read_bytes()
    if raw.startswith(b"-----BEGIN"):
        return read_authorities(raw)
    return (x509.load_der_x509_certificate(raw),)  # one of them is DER, whatever its name says


@pytest.mark.parametrize(
    ("name", "authority", "at"),
    [
        ("test_tsa/response.tsr", "CN=Test TSA Timestamping,O=local", 1728402032),
        ("test_tsa/response-injected-certs.tsr", "CN=Test TSA Timestamping,O=local", 1728402032),
        ("sigstage/response-sha256.tsr", "CN=sigstore-tsa,O=sigstore.dev", 1746791935),
        ("sigstage/response-sha384.tsr", "CN=sigstore-tsa,O=sigstore.dev", 1746791935),
        ("sigstage/response-sha512.tsr", "CN=sigstore-tsa,O=sigstore.dev", 1746791936),
        ("sigstage/response-no-embedded-cert.tsr", "CN=sigstore-tsa,O=sigstore.dev", 1750234382),
        ("identrust/issue-104.tsr", "CN=TrustID Timestamp Authority,O=IdenTrust,C=US", 1741683128),
    ],
)
def test_good_ones(vectors, name, authority, at):
    path = vectors / "rfc3161" / name
    stamped = check_stamp(path.read_bytes(), HELLO, pins(path.parent))
    assert (stamped.authority, stamped.at) == (authority, at * 1_000_000)
    with pytest.raises(TamperedError):
        check_stamp(path.read_bytes(), b"hallo", pins(path.parent))


def test_one_whose_certificate_has_run_out_since_is_good(vectors):
    folder = vectors / "rfc3161" / "sigstore.mock"
    stamp, data = (folder / "response-expired.tsr").read_bytes(), folder / "payload"
    stamped = check_stamp(stamp, data.read_bytes(), pins(folder))
    assert stamped.at == 1675209600 * 1_000_000


@pytest.mark.parametrize(
    ("name", "pinned", "error", "reason"),
    [
        ("sigstage/response-invalid-signature.tsr", "sigstage", TamperedError, "signature"),
        ("test_tsa/other_response.tsr", "test_tsa", RefusedError, "no pinned authority"),
        ("test_tsa/response.tsr", "sigstage", RefusedError, "no pinned authority"),
    ],
)
def test_bad_ones(vectors, name, pinned, error, reason):
    folder = vectors / "rfc3161"
    stamp, known = (folder / name).read_bytes(), pins(folder / pinned)
    with pytest.raises(error, match=reason):
        check_stamp(stamp, HELLO, known)


def test_our_requests_have_the_form_of_theirs(vectors):
    theirs = (vectors / "rfc3161/sigstage/request.der").read_bytes()
    ours = stamp_request(hashlib.sha256(HELLO).digest(), 1)
    assert (theirs[0], ours[0]) == (0x30, 0x30)
    assert ours[2:5] == b"\x02\x01\x01"
