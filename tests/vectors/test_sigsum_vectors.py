"""Sigsum's proofs of logging, and what a witness answers to checkpoints: the tree, the head, the cosignature."""

import base64
import hashlib

import pytest

from governance.errors import GovernanceError, InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    format_checkpoint,
    note_text,
    open_note,
    parse_checkpoint,
)
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import EMPTY_ROOT, proves_consistency, proves_inclusion

pytestmark = pytest.mark.conformance


def fields(proof: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in proof.split("\n"):
        name, _, value = line.partition("=")
        found.setdefault(name, []).append(value)
    return found


def holds(message: bytes, given: dict, case: dict) -> bool:
    """Verify a proof of logging with the parts of this program, and nothing of Sigsum's but the layout."""
    submitter, signature = given["leaf"][0].split(" ")
    checksum = hashlib.sha256(message).digest()
    leaf = leaf_hash(checksum + bytes.fromhex(signature) + bytes.fromhex(submitter))
    submit_key = VerifierKey("submitter", bytes.fromhex(case["submit_key"]))
    log_key = VerifierKey("log", bytes.fromhex(case["log_key"]))
    named = [hashlib.sha256(key.public).hexdigest() for key in (submit_key, log_key)]
    head = Checkpoint(
        f"sigsum.org/v1/tree/{given['log'][0]}",
        int(given["size"][0]),
        Digest(bytes.fromhex(given["root_hash"][0])),
    )
    signed = b"sigsum.org/v1/tree-leaf\0" + checksum
    text = format_checkpoint(head)
    path = [bytes.fromhex(hash) for hash in given.get("node_hash", [])]
    return (
        named == [submitter, given["log"][0]]
        and submit_key.verifies_bytes(signed, bytes.fromhex(signature))
        and log_key.verifies(text, bytes.fromhex(given["signature"][0]))
        and proves_inclusion(leaf, int(given["leaf_index"][0]), head.size, path, head.root)
        and all(cosigned(line, text, case) for line in given.get("cosignature", []))
    )


def cosigned(line: str, text: str, case: dict) -> bool:
    name, moment, signature = line.split(" ")
    public = bytes.fromhex(case["witness_key"])
    witness = VerifierKey("witness", public, KeyType.COSIGNATURE)
    stamped = int(moment).to_bytes(8, "big") + bytes.fromhex(signature)
    return name == hashlib.sha256(public).hexdigest() and witness.verifies(text, stamped)


def test_proofs_of_logging(json_vectors):
    data = json_vectors("sigsum/proofs.json")
    message = bytes.fromhex(data["message_hex"])
    assert [holds(message, fields(case["proof"]), case) for case in data["proofs"]] == [True, True]


def test_each_changed_digit_of_a_proof_of_logging_is_refused(json_vectors):
    data = json_vectors("sigsum/proofs.json")
    message = bytes.fromhex(data["message_hex"])
    seen = 0
    for case in data["proofs"]:
        given = fields(case["proof"])
        assert not holds(message[:-1] + b"?", given, case)
        for name in given.keys() - {"version", ""}:
            for at, value in enumerate(given[name]):
                for place in (0, len(value) // 2, len(value) - 1):
                    other = "1" if value[place] != "1" else "2"
                    values = [*given[name]]
                    values[at] = value[:place] + other + value[place + 1 :]
                    seen += 1
                    assert not holds(message, {**given, name: values}, case), (name, place)
        nodes = given["node_hash"]
        for path in (nodes[1:], nodes[:1], nodes[::-1], [*nodes, nodes[0]], [nodes[0], *nodes], []):
            assert not holds(message, {**given, "node_hash": path}, case)
    assert seen > 40


class Witness:
    """What a witness does (C2SP tlog-witness), of the parts that are tested here."""

    def __init__(self, key: VerifierKey) -> None:
        self.key = key
        self.size, self.root = 0, EMPTY_ROOT

    def add_checkpoint(self, request: str) -> int:
        head, _, note = request.partition("\n\n")
        old, *proof = head.split("\n")
        try:
            checkpoint = parse_checkpoint(note_text(note))
            open_note(note, [self.key])
        except (InvalidInputError, RefusedError, TamperedError):
            return 403  # one of these signatures is not even base64 in its one spelling
        if checkpoint.origin != self.key.name:
            return 403
        if int(old.removeprefix("old ")) != self.size:
            return 409
        path = [base64.b64decode(line) for line in proof]
        if not proves_consistency(self.size, checkpoint.size, path, self.root, checkpoint.root):
            return 422
        self.size, self.root = checkpoint.size, checkpoint.root
        return 200


def test_a_witness_gives_the_published_answers(json_vectors):
    data = json_vectors("tlog/notes/witness-add-checkpoint.json")
    name = parse_checkpoint(note_text(data["exchanges"][0]["request"].partition("\n\n")[2])).origin
    witness = Witness(VerifierKey(name, bytes.fromhex(data["log_public_key_hex"])))
    answers = [witness.add_checkpoint(item["request"]) for item in data["exchanges"]]
    assert answers == [item["status"] for item in data["exchanges"]]
    assert len(answers) == 9


def test_no_changed_byte_of_a_request_gets_a_cosignature(json_vectors):
    data = json_vectors("tlog/notes/witness-add-checkpoint.json")
    good = [item["request"] for item in data["exchanges"] if item["status"] == 200]
    name = parse_checkpoint(note_text(good[0].partition("\n\n")[2])).origin
    key = VerifierKey(name, bytes.fromhex(data["log_public_key_hex"]))
    raw = good[1].encode()
    for at in range(len("old 1\n"), len(raw)):
        witness = Witness(key)
        assert witness.add_checkpoint(good[0]) == 200
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        try:
            answer = witness.add_checkpoint(changed.decode())
        except (GovernanceError, ValueError):
            continue
        assert answer != 200, at
