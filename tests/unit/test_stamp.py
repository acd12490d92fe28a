"""Stamps of a throw-away authority: three programs agree on the good ones, and on every broken one."""

import datetime as dt
import hashlib
import time

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from tsa import Tsa, openssl

from governance.errors import GovernanceError, InvalidInputError, RefusedError, TamperedError
from governance.ledger import der
from governance.ledger.authorities import check_path, read_authorities
from governance.ledger.stamp import check_stamp, stamp_request

DATA = b"acme.example/agents\n3\nrKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=\n"
DIGEST = hashlib.sha256(DATA).digest()
NONCE = 2**63 + 17


@pytest.fixture(scope="module")
def tsa(tmp_path_factory) -> Tsa:
    return Tsa.make(tmp_path_factory.mktemp("tsa"))


@pytest.fixture(scope="module")
def pins(tsa):
    return read_authorities(tsa.root.read_bytes())


@pytest.fixture(scope="module")
def stamp(tsa) -> bytes:
    return tsa.reply(stamp_request(DIGEST, NONCE))


def test_a_request_is_what_openssl_would_ask(tsa, tmp_path):
    ours = stamp_request(DIGEST, NONCE)
    (tmp_path / "q").write_bytes(ours)
    shown = openssl("ts", "-query", "-in", tmp_path / "q", "-text").decode()
    assert "Hash Algorithm: sha256" in shown
    assert f"Nonce: {NONCE:#X}".replace("0X", "0x") in shown
    assert "Certificate required: yes" in shown


def test_a_good_stamp_says_when_and_who(stamp, pins):
    stamped = check_stamp(stamp, DATA, pins)
    assert abs(stamped.at / 1e6 - time.time()) < 600
    assert (stamped.digest, stamped.authority, stamped.nonce) == (DIGEST, "CN=tsa", NONCE)


def test_openssl_accepts_what_we_accept(stamp, tsa, pins):
    for data in (DATA, DATA + b"x", b""):
        try:
            ours = bool(check_stamp(stamp, data, pins))
        except TamperedError:
            ours = False
        assert ours is tsa.verifies(stamp, data) is (data == DATA)


@pytest.mark.parametrize("ess", ["sha1", "sha256", "sha512"])
def test_the_signer_may_be_named_by_any_digest(tsa, pins, ess):
    assert check_stamp(tsa.reply(stamp_request(DIGEST, 1), ess=ess), DATA, pins).nonce == 1


def test_rsa_signs_too(tmp_path):
    tsa = Tsa.make(tmp_path, "rsa", signers=("tsa",))
    stamp = tsa.reply(stamp_request(DIGEST, 5))
    pins = read_authorities(tsa.root.read_bytes())
    assert check_stamp(stamp, DATA, pins).nonce == 5
    with pytest.raises(TamperedError, match="signature of a stamp is wrong"):
        check_stamp(stamp[:-1] + bytes([stamp[-1] ^ 1]), DATA, pins)


def test_other_data_is_something_else(stamp, pins):
    with pytest.raises(TamperedError, match="over something else"):
        check_stamp(stamp, DATA + b"\n", pins)


def test_an_authority_of_the_same_name_is_another(stamp, tmp_path):
    other = Tsa.make(tmp_path, signers=())
    with pytest.raises(RefusedError, match="no pinned authority"):
        check_stamp(stamp, DATA, read_authorities(other.root.read_bytes()))


@pytest.mark.parametrize("signer", ["odd", "nested"])
def test_a_signer_that_may_not_stamp_is_refused(tsa, pins, signer):
    stamp = tsa.reply(stamp_request(DIGEST, 1), signer)
    given_ = (*pins, x509.load_pem_x509_certificate((tsa.folder / "tsa.pem").read_bytes()))
    with pytest.raises(RefusedError, match="no pinned authority"):
        check_stamp(stamp, DATA, given_)


@pytest.mark.parametrize("signer", ["web", "soft"])
def test_openssl_itself_makes_no_stamp_with_a_certificate_for_something_else(tsa, signer):
    with pytest.raises(AssertionError, match=r"purpose|usage|critical"):
        tsa.reply(stamp_request(DIGEST, 1), signer)


def test_a_certificate_that_had_not_begun_vouches_for_nothing(stamp, pins):
    leaf = x509.load_der_x509_certificate(_certificate_of(stamp))
    for at, good in ((dt.timedelta(days=1), True), (dt.timedelta(days=40), False)):
        moment = leaf.not_valid_before_utc + at
        if good:
            check_path(leaf, pins, pins, moment)
        else:
            with pytest.raises(RefusedError):
                check_path(leaf, pins, pins, moment)
    with pytest.raises(RefusedError):
        check_path(leaf, pins, pins, leaf.not_valid_before_utc - dt.timedelta(days=1))


def _certificate_of(stamp: bytes) -> bytes:
    response = der.read_der(stamp, der.SEQUENCE).inside()
    response.take(der.SEQUENCE)
    token = response.take(der.SEQUENCE).inside()
    token.take(der.OID)
    data = token.take(0xA0).inside().take(der.SEQUENCE).inside()
    for tag in (der.INTEGER, der.SET, der.SEQUENCE):
        data.take(tag)
    return data.take(0xA0).inside().take(der.SEQUENCE).raw


def test_no_byte_of_a_stamp_can_be_changed_unseen(stamp, pins):
    passed = []
    for place in range(len(stamp)):
        changed = stamp[:place] + bytes([stamp[place] ^ 1]) + stamp[place + 1 :]
        try:
            check_stamp(changed, DATA, pins)
            passed.append(place)
        except GovernanceError:
            continue
    assert passed == []


def test_whatever_is_cut_or_added_is_refused(stamp, pins):
    for place in (0, 1, 2, 5, 9, len(stamp) // 2, len(stamp) - 1):
        with pytest.raises(GovernanceError):
            check_stamp(stamp[:place], DATA, pins)
    for more in (b"\0", b"\x30\0", stamp):
        with pytest.raises(GovernanceError):
            check_stamp(stamp + more, DATA, pins)


def test_a_stamp_that_was_not_granted_is_none(pins):
    refused = der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, der.encode_int(2)))
    with pytest.raises(RefusedError, match="not granted: status `2`"):
        check_stamp(refused, DATA, pins)


def test_what_is_pinned_is_an_authority(tsa, stamp):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_authorities(b"no certificate")
    with pytest.raises(InvalidInputError, match="none of the certificates is an authority"):
        read_authorities((tsa.folder / "tsa.pem").read_bytes())
    with pytest.raises(RefusedError):
        check_stamp(stamp, DATA, ())


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(tsa, pins, raw):
    with pytest.raises(GovernanceError):
        check_stamp(raw, DATA, pins)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(0, 2**70))
def test_integers_are_written_as_they_are_read(value):
    raw = der.encode_int(value)
    assert der.read_der(raw, der.INTEGER).integer() == value


@pytest.mark.parametrize(
    "raw",
    [
        b"\x30\x80\0\0",
        b"\x30\x81\x01\0",
        b"\x30\x82\0\x01\0",
        b"\x30\x85\1\1\1\1\1",
        b"\x30\x01",
        b"\x3f\x01\0",
        b"\x30",
        b"",
        b"\x31\0",
        b"\x30\0\0",
    ],
)
def test_other_spellings_of_a_value_are_refused(raw):
    with pytest.raises(InvalidInputError, match="not DER"):
        der.read_der(raw, der.SEQUENCE)


@pytest.mark.parametrize("raw", [b"", b"\0\1", b"\xff\x80"])
def test_other_spellings_of_an_integer_are_refused(raw):
    with pytest.raises(InvalidInputError, match="not DER: an integer"):
        der.Item(der.INTEGER, raw, raw).integer()


@pytest.mark.parametrize("raw", [b"", b"\x80\1", b"\x88", b"\x2a\x80\1", b"\xff" * 12 + b"\1"])
def test_other_spellings_of_an_oid_are_refused(raw):
    with pytest.raises(InvalidInputError, match="not DER: an object identifier"):
        der.Item(der.OID, raw, raw).oid()
