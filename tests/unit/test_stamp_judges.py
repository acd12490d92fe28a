"""openssl and rfc3161-client, each on its own, say of our stamps what we say of them."""

import hashlib

import rfc3161_client
from cryptography import x509
from tsa import Tsa

from governance.errors import GovernanceError
from governance.ledger.authorities import read_authorities
from governance.ledger.stamp import check_stamp, stamp_request

DATA = b"acme.example/agents\n3\nrKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=\n"


def client_says(stamp: bytes, data: bytes, tsa: Tsa) -> bool:
    root = x509.load_pem_x509_certificate(tsa.root.read_bytes())
    verifier = rfc3161_client.VerifierBuilder().add_root_certificate(root).build()
    try:
        response = rfc3161_client.decode_timestamp_response(stamp)
        return verifier.verify_message(response, data)
    except (rfc3161_client.VerificationError, ValueError):
        return False


def we_say(stamp: bytes, data: bytes, tsa: Tsa) -> bool:
    try:
        return bool(check_stamp(stamp, data, read_authorities(tsa.root.read_bytes())))
    except GovernanceError:
        return False


def test_three_programs_agree(tmp_path):
    tsa = Tsa.make(tmp_path, signers=("tsa",))
    good = tsa.reply(stamp_request(hashlib.sha256(DATA).digest(), 7))
    signed = good[:-1] + bytes([good[-1] ^ 1])
    for stamp, data, verdict in (
        (good, DATA, True),
        (good, DATA + b"x", False),
        (signed, DATA, False),
        (good[:-1], DATA, False),
    ):
        said = {says(stamp, data, tsa) for says in (we_say, client_says, Tsa.verifies_for)}
        assert said == {verdict}
    (tmp_path / "other").mkdir()
    other = Tsa.make(tmp_path / "other", signers=())
    assert {says(good, DATA, other) for says in (we_say, client_says, Tsa.verifies_for)} == {False}


def test_we_take_nothing_that_the_client_refuses(tmp_path):
    tsa = Tsa.make(tmp_path, signers=("tsa",))
    good = tsa.reply(stamp_request(hashlib.sha256(DATA).digest(), 7))
    for place in range(len(good)):
        changed = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        if we_say(changed, DATA, tsa):
            assert client_says(changed, DATA, tsa), place
