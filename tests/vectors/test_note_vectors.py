"""Signed notes of Go, C2SP and Sigsum; the Tessera log; Ed25519 cases of Wycheproof and CCTV."""

import struct

import pytest

from governance.errors import GovernanceError, InvalidInputError
from governance.ledger.checkpoint import (
    VerifierKey,
    format_checkpoint,
    format_verifier_key,
    note_text,
    open_note,
    parse_checkpoint,
    parse_verifier_key,
)
from governance.ledger.curve import is_sound_key
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import (
    Edge,
    consistency_proof,
    over_leaves,
    proves_consistency,
)

pytestmark = pytest.mark.conformance

TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"


def test_notes(json_vectors):
    cases = json_vectors("tlog/notes/notes.json")
    for case in cases:
        keys = [parse_verifier_key(text) for text in case["vkeys"]]
        assert [format_verifier_key(key) for key in keys] == case["vkeys"]
        try:
            signers = open_note(case["note"], keys)
        except GovernanceError:
            assert not case["ok"], case["name"]
            continue
        assert case["ok"], case["name"]
        assert list(signers) == case.get("verified", [keys[0].name]), case["name"]
        if "size" in case:
            checkpoint = parse_checkpoint(note_text(case["note"]))
            assert (checkpoint.origin, checkpoint.size) == (case["origin"], case["size"])
    assert len(cases) == 16


def test_tessera_log(vectors):
    folder = vectors / "tlog" / "tessera-log"
    key = parse_verifier_key(TESSERA_KEY)
    leaves = [
        leaf_hash(entry) for entry in tile_entries((folder / "tile/entries/000.p/15").read_bytes())
    ]
    heads = {}
    for path in sorted(folder.glob("checkpoint*")):
        note = path.read_text()
        assert open_note(note, [key]) == ("example.com/log/testdata",)
        text = note_text(note)
        head = parse_checkpoint(text)
        assert format_checkpoint(head) == text
        assert Edge().extend(leaves[: head.size]).root() == head.root
        heads[head.size] = head.root
    assert sorted(heads) == list(range(16))
    for old, root in heads.items():
        for new in range(old, 16):
            proof = consistency_proof(old, new, over_leaves(leaves))
            assert proves_consistency(old, new, proof, root, heads[new])


def test_tessera_hash_tile_is_the_leaf_hashes(vectors):
    tile = (vectors / "tlog/tessera-log/tile/0/000.p/15").read_bytes()
    bundle = (vectors / "tlog/tessera-log/tile/entries/000.p/15").read_bytes()
    assert tile == b"".join(leaf_hash(entry) for entry in tile_entries(bundle))


def test_wycheproof_signatures(json_vectors):
    data = json_vectors("ed25519/wycheproof_ed25519_test.json")
    seen = 0
    for group in data["testGroups"]:
        key = VerifierKey("wycheproof", bytes.fromhex(group["publicKey"]["pk"]))
        for case in group["tests"]:
            seen += 1
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            accepted = key.verifies_bytes(message, signature)
            assert accepted is (case["result"] == "valid"), case["tcId"]
    assert seen == data["numberOfTests"] == 151


def test_keys_on_which_libraries_differ_cannot_be_pinned(json_vectors):
    odd = {"low_order_A", "low_order_component_A", "non_canonical_A"}
    keys = {
        (case["key"], not odd.isdisjoint(case["flags"] or ()))
        for case in json_vectors("ed25519/cctv_ed25519vectors.json")
    }
    assert len(keys) > 10
    for text, is_odd in keys:
        assert is_sound_key(bytes.fromhex(text)) is not is_odd
        if is_odd:
            with pytest.raises(InvalidInputError, match="not a sound Ed25519 point"):
                VerifierKey("odd", bytes.fromhex(text))


def tile_entries(bundle: bytes) -> list[bytes]:
    """Entries of a tile bundle: each behind its length in 16 bits, big-endian."""
    entries, at = [], 0
    while at < len(bundle):
        (length,) = struct.unpack_from(">H", bundle, at)
        entries.append(bundle[at + 2 : at + 2 + length])
        at += 2 + length
    return entries
