"""RFC 6962 roots and the proof cases of transparency-dev/merkle, good and mutated."""

import base64

import pytest

from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import (
    Edge,
    consistency_proof,
    inclusion_proof,
    over_leaves,
    proves_consistency,
    proves_inclusion,
    root_of,
)

pytestmark = pytest.mark.conformance

PLACEHOLDER_ROOT = "testdata/consistency/additional/sizes-are-equal-one-and-proof-is-empty.json"
"""Expects an 11-byte text to pass as a root. A checker that insists on 32 bytes refuses it."""


def test_roots_of_rfc_6962_by_both_methods(json_vectors):
    data = json_vectors("merkle/rfc6962-roots.json")
    leaves = [leaf_hash(bytes.fromhex(text)) for text in data["leaf_inputs_hex"]]
    for size, root in enumerate(data["root_hashes_hex_by_size"]):
        assert root_of(leaves[:size]).hex() == root
        assert Edge().extend(leaves[:size]).root().hex() == root


def test_inclusion_cases(json_lines):
    cases = json_lines("merkle/transparency-dev-inclusion.jsonl")
    wrong = [
        case["file"]
        for case in cases
        if proves_inclusion(
            decode(case["leafHash"]),
            case["leafIdx"],
            case["treeSize"],
            [decode(item) for item in case["proof"] or []],
            decode(case["root"]),
        )
        is case["wantErr"]
    ]
    assert wrong == []
    assert len(cases) == 98


def test_consistency_cases(json_lines):
    cases = json_lines("merkle/transparency-dev-consistency.jsonl")
    wrong = [
        case["file"]
        for case in cases
        if proves_consistency(
            case["size1"],
            case["size2"],
            [decode(item) for item in case["proof"] or []],
            decode(case["root1"]),
            decode(case["root2"]),
        )
        is case["wantErr"]
    ]
    assert wrong == [PLACEHOLDER_ROOT]
    assert len(cases) == 98


def test_proofs_we_make_over_the_rfc_leaves_are_accepted(json_vectors):
    data = json_vectors("merkle/rfc6962-roots.json")
    leaves = [leaf_hash(bytes.fromhex(text)) for text in data["leaf_inputs_hex"]]
    roots = [bytes.fromhex(root) for root in data["root_hashes_hex_by_size"]]
    read = over_leaves(leaves)
    for new in range(len(roots)):
        for old in range(new + 1):
            proof = consistency_proof(old, new, read)
            assert proves_consistency(old, new, proof, roots[old], roots[new])
        for index in range(new):
            proof = inclusion_proof(index, new, read)
            assert proves_inclusion(leaves[index], index, new, proof, roots[new])


def decode(text: str | None) -> bytes:
    return base64.b64decode(text or "")
