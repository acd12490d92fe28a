"""What the root over some leaves is, and whether a proof shows that a tree contains another, or a leaf.

The tree of RFC 6962 section 2.1 (RFC 9162 section 2.1), SHA-256, over leaf hashes:

    node(left, right) = SHA-256(0x01 || left || right)       root of no leaves = SHA-256("")
    a tree of n leaves splits after the first k, the largest power of two below n

Leaves are hashed with the prefix 0x00 (`entry.leaf_hash`), so that no inner node can pass for an entry.

An `Edge` is all that is needed to go on appending: the roots of the perfect subtrees along the right
side, largest first, one for each set bit of the size. Its bytes are the size (8 bytes, big-endian) and
those roots (32 bytes each): at most 2,056 bytes, 200 at 100,000 entries.

Proofs are made over a reader of *nodes*: (level, place) is the perfect subtree over the leaves from
`place << level` on, `1 << level` of them. All nodes of a proof are asked for at once.

A *tile* is 256 nodes side by side. Whoever keeps the roots of whole tiles (`completed_by`), of leaves,
of tiles of leaves and so on, can compute every node from at most 128 hashes.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from governance.errors import InvalidInputError
from governance.ids import Digest

__all__ = [
    "EMPTY_ROOT",
    "TILE_HEIGHT",
    "Edge",
    "Node",
    "NodeReader",
    "completed_by",
    "consistency_proof",
    "inclusion_proof",
    "over_leaves",
    "proves_consistency",
    "proves_inclusion",
    "root_of",
]

EMPTY_ROOT: Final = Digest(hashlib.sha256(b"").digest())
SIZE_MAX: Final = 2**63 - 1
TILE_HEIGHT: Final = 8
"""The levels of a tile: 256 nodes wide, as in C2SP tlog-tiles."""

_SIZE_BYTES: Final = 8
_TILE_MASK: Final = (1 << TILE_HEIGHT) - 1
_HASH_BYTES: Final = 32
_sha256: Final = hashlib.sha256


class Node(NamedTuple):
    """A perfect subtree: the leaves from `place << level` on, `1 << level` of them."""

    level: int
    place: int


NodeReader: TypeAlias = Callable[[Sequence[Node]], Sequence[Digest]]
"""Gives the hashes of nodes, in the order asked."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The right edge of a tree of `size` leaves. `peaks` are its perfect subtrees, largest first."""

    size: int = 0
    peaks: tuple[Digest, ...] = ()

    def append(self, leaf: Digest) -> "Edge":
        size, node, kept = self.size, leaf, len(self.peaks)
        while size & 1:  # each trailing set bit is a peak as large as what we hold: join them
            kept -= 1
            node = Digest(_sha256(b"\1" + self.peaks[kept] + node).digest())
            size >>= 1
        return Edge(self.size + 1, (*self.peaks[:kept], node))

    def extend(self, leaves: Iterable[Digest]) -> "Edge":
        """Append many; the same as one `append` each, level by level and twice as fast."""
        row, peaks, lone = list(leaves), list(self.peaks), list[Digest]()
        size, bits = self.size + len(row), self.size
        while row:
            if bits & 1:
                row.insert(0, peaks.pop())
            if len(row) & 1:
                lone.append(row.pop())
            pairs = zip(row[::2], row[1::2], strict=True)
            row = [Digest(_sha256(b"\1" + left + right).digest()) for left, right in pairs]
            bits >>= 1
        return Edge(size, (*peaks, *reversed(lone)))

    def root(self) -> Digest:
        return _join(self.peaks) if self.peaks else EMPTY_ROOT

    def to_bytes(self) -> bytes:
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.peaks)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Edge":
        """Read what `to_bytes` wrote. Raises InvalidInputError on any other length."""
        size = int.from_bytes(raw[:_SIZE_BYTES], "big")
        expected = _SIZE_BYTES + _HASH_BYTES * size.bit_count()
        if len(raw) != expected or size > SIZE_MAX:
            raise InvalidInputError(f"malformed tree edge of {len(raw)} bytes")
        cuts = range(_SIZE_BYTES, expected, _HASH_BYTES)
        return cls(size, tuple(Digest(raw[at : at + _HASH_BYTES]) for at in cuts))


def completed_by(leaf: Digest, edge: Edge) -> Sequence[tuple[Node, Digest]]:
    """The roots of tiles that are whole once `leaf` stands behind `edge`: mostly none."""
    if ~edge.size & _TILE_MASK:  # asked at every append
        return ()
    level, node, found = 0, leaf, list[tuple[Node, Digest]]()
    for peak in reversed(edge.peaks):
        if not edge.size >> level & 1:  # not as large as what we hold: the next leaves join it
            break
        level, node = level + 1, _node(peak, node)
        if level % TILE_HEIGHT == 0:
            found.append((Node(level, edge.size >> level), node))
    return found


def root_of(leaves: Sequence[Digest]) -> Digest:
    """Root over `leaves`, level by level: a node without a partner moves up unchanged."""
    level = list(leaves)
    if not level:
        return EMPTY_ROOT
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        lone = level[-1:] if len(level) % 2 else []
        level = [_node(left, right) for left, right in pairs] + lone
    return level[0]


def over_leaves(leaves: Sequence[Digest]) -> NodeReader:
    """Read nodes by computing them from all leaves at hand."""

    def read(nodes: Sequence[Node]) -> Sequence[Digest]:
        return [
            root_of(leaves[node.place << node.level : (node.place + 1) << node.level])
            for node in nodes
        ]

    return read


def inclusion_proof(index: int, size: int, read: NodeReader) -> tuple[Digest, ...]:
    """PATH(index, D[size]) of RFC 9162 section 2.1.3.1, from the leaf upwards."""
    if not 0 <= index < size <= SIZE_MAX:
        raise InvalidInputError(f"no entry `{index}` in a tree of {size}")
    start, end, ranges = 0, size, list[tuple[int, int]]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return _roots(ranges[::-1], read)


def consistency_proof(old: int, new: int, read: NodeReader) -> tuple[Digest, ...]:
    """PROOF(old, D[new]) of RFC 9162 section 2.1.4.1. Empty when `old` is 0 or equals `new`."""
    if not 0 <= old <= new <= SIZE_MAX:
        raise InvalidInputError(f"a tree of {new} does not contain one of `{old}`")
    if old in (0, new):
        return ()
    start, end, whole, ranges = 0, new, True, list[tuple[int, int]]()
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start, whole = middle, False
    if not whole:  # when the old tree is a left edge of the new one, its root is known
        ranges.append((start, end))
    return _roots(ranges[::-1], read)


def proves_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Tell whether `leaf` stands at `index` of the tree of `size` with `root` (RFC 9162 2.1.3.2)."""
    if not 0 <= index < size <= SIZE_MAX or not _all_hashes((leaf, root, *proof)):
        return False
    position, last, node = index, size - 1, Digest(leaf)
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = _node(sibling, node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = _node(node, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and node == root


def proves_consistency(
    old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes
) -> bool:
    """Tell whether the tree (`new`, `new_root`) begins with (`old`, `old_root`) (RFC 9162 2.1.4.2)."""
    if not 0 <= old <= new <= SIZE_MAX or not _all_hashes((old_root, new_root, *proof)):
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    if not proof:
        return False
    # A power of two is a perfect subtree of the new tree: its root opens the proof unsaid.
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    older = newer = Digest(path[0])
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            older, newer = _node(sibling, older), _node(sibling, newer)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            newer = _node(newer, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and older == old_root and newer == new_root


def _node(left: bytes, right: bytes) -> Digest:
    return Digest(_sha256(b"\1" + left + right).digest())


def _join(peaks: Sequence[Digest]) -> Digest:
    node = peaks[-1]
    for peak in peaks[-2::-1]:
        node = Digest(_sha256(b"\1" + peak + node).digest())
    return node


def _split(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def _roots(ranges: Sequence[tuple[int, int]], read: NodeReader) -> tuple[Digest, ...]:
    plan = [_perfect(start, end) for start, end in ranges]
    hashes = iter(read([node for nodes in plan for node in nodes]))
    return tuple(_join([next(hashes) for _ in nodes]) for nodes in plan)


def _perfect(start: int, end: int) -> list[Node]:
    """Cut [start, end) into perfect subtrees, largest first. `start` is where the RFC split it."""
    nodes = list[Node]()
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append(Node(level, start >> level))
        start += 1 << level
    return nodes


def _all_hashes(values: Iterable[bytes]) -> bool:
    return all(len(value) == _HASH_BYTES for value in values)
