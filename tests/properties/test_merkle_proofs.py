"""Trees of any size: the edge that is kept, the tiles that are kept, and every proof made from them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.ids import Digest
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import (
    TILE_HEIGHT,
    Edge,
    Node,
    completed_by,
    consistency_proof,
    inclusion_proof,
    over_leaves,
    proves_consistency,
    proves_inclusion,
    root_of,
)

LEAVES = [leaf_hash(b"%d" % number) for number in range(70_000)]
PAIRS_MAX = 33
ROOTS = [root_of(LEAVES[:size]) for size in range(PAIRS_MAX + 1)]


@pytest.fixture(scope="module")
def edges() -> list[Edge]:
    """The edge at every size, leaf by leaf."""
    found = [Edge()]
    for leaf in LEAVES:
        found.append(found[-1].append(leaf))
    assert found[-1].root() == root_of(LEAVES)
    return found


@pytest.fixture(scope="module")
def tiles(edges) -> dict[Node, Digest]:
    """What a store keeps while 70,000 leaves are appended one by one."""
    kept: dict[Node, Digest] = {}
    for leaf, edge in zip(LEAVES, edges, strict=False):
        for node, hash in completed_by(leaf, edge):
            assert node not in kept
            kept[node] = hash
    return kept


def test_every_whole_tile_is_kept_once_with_its_root(tiles):
    expected = {Node(8, place) for place in range(len(LEAVES) >> 8)} | {Node(16, 0)}
    assert tiles.keys() == expected
    wanted = sorted(tiles)
    assert [tiles[node] for node in wanted] == list(over_leaves(LEAVES)(wanted))


@given(st.integers(0, len(LEAVES) - 1), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_leaf_completes_the_tiles_that_end_with_it(edges, size, data):
    edge = edges[size]
    levels = [node.level for node, _ in completed_by(LEAVES[size], edge)]
    after = size + 1
    whole = (after & -after).bit_length() - 1
    assert levels == list(range(TILE_HEIGHT, whole + 1, TILE_HEIGHT))
    more = data.draw(st.integers(0, min(300, len(LEAVES) - size)))
    assert edge.extend(LEAVES[size : size + more]) == edges[size + more]


@pytest.fixture(scope="module")
def read(tiles):
    """Read nodes as a store does: from whole tiles, and from the leaves of partial ones."""

    def node(wanted: Node) -> Digest:
        above = wanted.level % TILE_HEIGHT
        level = wanted.level - above
        places = range(wanted.place << above, (wanted.place + 1) << above)
        return root_of([tiles[Node(level, p)] if level else LEAVES[p] for p in places])

    return lambda nodes: [node(wanted) for wanted in nodes]


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proofs_from_tiles_hold_for_any_tree(read, edges, data):
    new = data.draw(st.integers(1, len(LEAVES)), "new")
    old = data.draw(st.integers(0, new), "old")
    index = data.draw(st.integers(0, new - 1), "index")
    root, old_root = edges[new].root(), edges[old].root()
    included = inclusion_proof(index, new, read)
    assert proves_inclusion(LEAVES[index], index, new, included, root)
    assert not proves_inclusion(LEAVES[index - 1], index, new, included, root) or new == 1
    continued = consistency_proof(old, new, read)
    assert proves_consistency(old, new, continued, old_root, root)
    assert len(included) <= new.bit_length()
    assert len(continued) <= new.bit_length() + 1
    for proof, holds in (
        (included, lambda p: proves_inclusion(LEAVES[index], index, new, p, root)),
        (continued, lambda p: proves_consistency(old, new, p, old_root, root)),
    ):
        assert not holds((*proof, root))
        if proof:
            at = data.draw(st.integers(0, len(proof) - 1), "at")
            bit = data.draw(st.integers(0, 255), "bit")
            other = (int.from_bytes(proof[at], "big") ^ (1 << bit)).to_bytes(32, "big")
            assert not holds((*proof[:at], other, *proof[at + 1 :]))
            assert not holds((*proof[:at], *proof[at + 1 :]))


def test_all_pairs_of_small_trees():
    for new in range(1, PAIRS_MAX + 1):
        nodes = over_leaves(LEAVES[:new])
        for index in range(new):
            proof = inclusion_proof(index, new, nodes)
            places = [
                at
                for at in range(new)
                if proves_inclusion(LEAVES[index], at, new, proof, ROOTS[new])
            ]
            assert places == [index]
        for old in range(new + 1):
            proof = consistency_proof(old, new, nodes)
            roots = [
                at
                for at, root in enumerate(ROOTS)
                if proves_consistency(old, new, proof, root, ROOTS[new])
            ]
            assert roots == [old]
