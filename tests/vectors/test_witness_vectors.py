"""The requests of litewitness's own test, replayed in order, and the example of C2SP's text."""

import pytest

from governance.assemble import KeySigner
from governance.ids import Origin
from governance.ledger.checkpoint import KeyType, VerifierKey
from governance.ledger.cosignature import cosigned_at, cosigner
from governance.witness.app import Witness
from governance.witness.book import Book

pytestmark = pytest.mark.conformance

UNKNOWN_LOG = 2
"""In the recorded answers an unknown log is 403; the text of tlog-witness fixes 404, and so do we."""


def test_litewitness_exchanges(json_vectors, tmp_path):
    data = json_vectors("tlog/notes/witness-add-checkpoint.json")
    exchanges = data["exchanges"]
    origin = exchanges[0]["request"].split("\n")[2]
    signer = KeySigner.from_seed(Origin("example.com/witness"), bytes(32), KeyType.COSIGNATURE)
    book = Book.create(tmp_path / "book.db")
    book.add_log(VerifierKey(origin, bytes.fromhex(data["log_public_key_hex"])))
    witness = Witness(book, signer, lambda: 1_700_000_000_000_000)
    for number, exchange in enumerate(exchanges):
        assert exchange["call"] == "add-checkpoint"
        reply = witness.add_checkpoint(exchange["request"].encode())
        if number == UNKNOWN_LOG:
            assert (exchange["status"], reply.status) == (403, 404)
            continue
        assert reply.status == exchange["status"], number
        if reply.status == 200:
            assert reply.text.startswith("\u2014 example.com/witness ")
            note = exchange["request"].partition("\n\n")[2] + reply.text
            key = cosigner(signer.verifier_key)
            assert cosigned_at(note, [key]) == {key: 1_700_000_000}
        if reply.status == 409:
            assert f'body == "{reply.text[:-1]}\\n"' == exchange["asserts"]
            assert reply.media_type == "text/x.tlog.size"
    assert len(exchanges) == 9


def test_cosignatures_of_sigsum(json_vectors):
    cases = {case["name"]: case for case in json_vectors("tlog/notes/notes.json")}
    good = cases["sigsum/cosignature v1 at time 1234"]
    key = cosigner(good["vkeys"][0])
    assert cosigned_at(good["note"], [key]) == {key: 1234}
    assert cosigned_at(cases["sigsum/cosignature v1 timestamp changed"]["note"], [key]) == {}
