"""The tree: two ways to every root, proofs that hold, and proofs that do not once anything changes."""

import functools
import hashlib

import pytest

from governance.errors import InvalidInputError
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import (
    EMPTY_ROOT,
    SIZE_MAX,
    Edge,
    Node,
    consistency_proof,
    inclusion_proof,
    over_leaves,
    proves_consistency,
    proves_inclusion,
    root_of,
)

LEAVES = [leaf_hash(b"%d" % number) for number in range(2_000)]
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33]


def test_the_root_of_nothing_is_the_hash_of_nothing():
    assert root_of([]) == Edge().root() == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_roots_by_two_methods_agree_for_sizes_0_to_2000():
    edge = Edge()
    for size in range(2_001):
        assert edge.size == size
        assert edge.root() == by_definition(0, size)
        if size < 200 or size % 37 == 0:
            assert edge.root() == root_of(LEAVES[:size])
        if size < 2_000:
            edge = edge.append(LEAVES[size])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 6, 7, 64, 65, 1_000])
def test_appending_many_is_appending_each(size):
    for start in (0, 1, 5, 8, 63):
        one_by_one = Edge().extend(LEAVES[:start])
        for leaf in LEAVES[start : start + size]:
            one_by_one = one_by_one.append(leaf)
        assert Edge().extend(LEAVES[:start]).extend(LEAVES[start : start + size]) == one_by_one


def test_an_edge_survives_its_bytes_and_nothing_else_does():
    edge = Edge().extend(LEAVES[:1_111])
    raw = edge.to_bytes()
    assert Edge.from_bytes(raw) == edge
    assert Edge.from_bytes(Edge().to_bytes()) == Edge()
    for broken in (b"", raw[:-1], raw + b"\0", raw[8:], b"\xff" * 8 + raw[8:]):
        with pytest.raises(InvalidInputError, match="malformed tree edge"):
            Edge.from_bytes(broken)


def test_an_edge_is_small():
    assert len(Edge(2**40 - 1, (EMPTY_ROOT,) * 40).to_bytes()) == 1_288


@pytest.mark.parametrize("size", SIZES)
def test_every_inclusion_proof_holds_and_no_other(size):
    root, read = root_of(LEAVES[:size]), over_leaves(LEAVES[:size])
    for index in range(size):
        proof = inclusion_proof(index, size, read)
        assert proves_inclusion(LEAVES[index], index, size, proof, root)
        assert not proves_inclusion(LEAVES[size], index, size, proof, root)
        assert not proves_inclusion(LEAVES[index], index, size, proof, LEAVES[0] + b"x")
        assert not proves_inclusion(LEAVES[index], size, size, proof, root)
        assert not proves_inclusion(LEAVES[index], -1, size, proof, root)
        for wrong in mutations(proof):
            assert not proves_inclusion(LEAVES[index], index, size, wrong, root)
        for other in range(size):
            assert other == index or not proves_inclusion(LEAVES[index], other, size, proof, root)


@pytest.mark.parametrize("new", SIZES)
def test_every_consistency_proof_holds_and_no_other(new):
    read, root = over_leaves(LEAVES[:new]), root_of(LEAVES[:new])
    for old in range(new + 1):
        old_root = root_of(LEAVES[:old])
        proof = consistency_proof(old, new, read)
        assert proves_consistency(old, new, proof, old_root, root)
        assert not proves_consistency(old, new, proof, LEAVES[0][:31] + b"?", root)
        assert not proves_consistency(new + 1, new, proof, old_root, root)
        if 0 < old < new:
            assert not proves_consistency(old, new, proof, old_root, LEAVES[0][:31] + b"?")
            assert not proves_consistency(old, new, (), old_root, root)
        for wrong in mutations(proof):
            assert not proves_consistency(old, new, wrong, old_root, root)


@pytest.mark.attack
def test_an_inner_node_cannot_pass_for_an_entry():
    root = root_of(LEAVES[:4])
    left, right = root_of(LEAVES[:2]), root_of(LEAVES[2:4])
    assert not proves_inclusion(leaf_hash(left + right), 0, 1, (), root)
    assert not proves_inclusion(leaf_hash(left), 0, 2, (right,), root)


def test_a_proof_asks_for_its_nodes_once():
    asked = []

    def read(nodes):
        asked.append(list(nodes))
        return over_leaves(LEAVES[:7])(nodes)

    inclusion_proof(2, 7, read)
    assert asked == [[Node(0, 3), Node(1, 0), Node(1, 2), Node(0, 6)]]


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 3), (0, SIZE_MAX + 1)])
def test_no_proof_for_an_entry_that_is_not_there(index, size):
    with pytest.raises(InvalidInputError, match="no entry"):
        inclusion_proof(index, size, over_leaves([]))


@pytest.mark.parametrize(("old", "new"), [(4, 3), (-1, 3)])
def test_no_proof_that_a_tree_holds_a_larger_one(old, new):
    with pytest.raises(InvalidInputError, match="does not contain"):
        consistency_proof(old, new, over_leaves([]))


@functools.cache
def by_definition(start, end):
    """MTH of RFC 6962 section 2.1, word by word."""
    if end - start <= 1:
        return LEAVES[start] if end > start else hashlib.sha256(b"").digest()
    split = 1
    while split * 2 < end - start:
        split *= 2
    left, right = by_definition(start, start + split), by_definition(start + split, end)
    return hashlib.sha256(b"\1" + left + right).digest()


def mutations(proof):
    yield (*proof, LEAVES[0])
    yield (LEAVES[0], *proof)
    for at, part in enumerate(proof):
        yield proof[:at] + proof[at + 1 :]
        yield (*proof[:at], part[:-1], *proof[at + 1 :])
        yield (*proof[:at], part + b"\0", *proof[at + 1 :])
        for bit in (0, 100, 255):
            flipped = int.from_bytes(part, "big") ^ (1 << bit)
            yield (*proof[:at], flipped.to_bytes(32, "big"), *proof[at + 1 :])
    for at in range(len(proof) - 1):
        swapped = list(proof)
        swapped[at : at + 2] = swapped[at + 1], swapped[at]
        yield tuple(swapped)
