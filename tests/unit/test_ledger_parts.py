"""Hashes in place of entries that are left out, and tiles: both come to the root of all entries."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.ids import RunId
from governance.ledger.merkle import Edge, over_leaves, root_of
from governance.ledger.parts import OneRun, Span, WholeLog, filled, gap, may_lack
from governance.ledger.tiles import Tiles, tile_name, tile_names

LEAVES = [hashlib.sha256(b"%d" % n).digest() for n in range(1_000)]


def rebuilt(leaves, kept):
    """The root from some leaves, and hashes for all others."""
    read, edge = over_leaves(leaves), Edge()
    for seq in [*sorted(kept), len(leaves)]:
        nodes = list(gap(edge.size, seq))
        for node, root in zip(nodes, read(nodes), strict=True):
            edge = filled(edge, node.level, root)
        if seq < len(leaves):
            edge = edge.append(leaves[seq])
    return edge


@settings(derandomize=True, max_examples=200, deadline=None)
@given(size=st.integers(0, 300), kept=st.sets(st.integers(0, 299), max_size=40))
def test_any_entries_and_hashes_for_the_rest_come_to_the_root(size, kept):
    edge = rebuilt(LEAVES[:size], {seq for seq in kept if seq < size})
    assert edge == Edge().extend(LEAVES[:size])
    assert edge.root() == root_of(LEAVES[:size])


def test_every_gap_of_small_logs_is_covered_once_and_with_few_hashes():
    for start in range(70):
        for end in range(start, 70):
            nodes = list(gap(start, end))
            at = start
            for level, place in nodes:
                assert place << level == at
                at += 1 << level
            assert at == end
            assert len(nodes) <= 2 * max(1, (end - start).bit_length())


def test_a_gap_of_any_length_is_short():
    assert len(list(gap(1, 2**53))) == 53
    assert list(gap(5, 5)) == list(gap(7, 5)) == []


def test_what_a_part_may_be_without():
    assert may_lack(OneRun(RunId("r"), 9), 0, 9)
    assert not may_lack(WholeLog(9), 3, 4)
    span = Span(3, 6, 9)
    assert may_lack(span, 0, 3)
    assert may_lack(span, 6, 9)
    for start, end in [(0, 4), (5, 9), (4, 5), (0, 9)]:
        assert not may_lack(span, start, end), (start, end)


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "000"), (7, "007"), (999, "999"), (1_000, "x001/000"), (1_234_067, "x001/x234/067")],
)
def test_tiles_are_named_as_c2sp_says(number, name):
    assert tile_name(0, number) == f"tile/0/{name}"
    assert tile_name(3, number, 17) == f"tile/3/{name}.p/17"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 511, 512, 1_000])
def test_tiles_hold_the_leaves_and_the_roots_of_whole_tiles(size):
    tiles = Tiles()
    found = [*tiles.take(LEAVES[: size // 2]), *tiles.take(LEAVES[size // 2 : size])]
    found += tiles.finish()
    assert sorted(name for name, _ in found) == sorted(tile_names(size))
    assert len(dict(found)) == len(found)
    named = dict(found)
    low = b"".join(named[name] for name in tile_names(size) if name.startswith("tile/0/"))
    assert low == b"".join(LEAVES[:size])
    high = b"".join(named[name] for name in tile_names(size) if name.startswith("tile/1/"))
    assert high == b"".join(
        root_of(LEAVES[at : at + 256]) for at in range(0, size - size % 256, 256)
    )


def test_a_large_log_has_three_levels():
    names = list(tile_names(70_000))
    assert len(names) == 277
    assert names[272:] == [
        "tile/0/272",
        "tile/0/273.p/112",
        "tile/1/000",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
    ]
