"""What does the Merkle tree add to an append, beside one hash of a node? And how large is what is kept?

CPU time, in turns, the best of each: an append joins one pair of nodes on average, so one hash is the
floor of it. At the sizes of real logs, not at the beginning of an empty one.
"""

import hashlib
import time
from collections.abc import Callable

from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import Edge, completed_by

SIZE = 100_000
LARGEST = 2**40 - 1
APPENDS = 4_096
ROUNDS = 40


def append_over_hash() -> float:
    """Time to move the edge past a leaf and to notice a whole tile, over that of one node's hash."""
    leaves = [leaf_hash(b"%d" % n) for n in range(APPENDS)]
    begin = Edge().extend(leaf_hash(b"before %d" % n) for n in range(SIZE))
    pair = b"\1" + leaves[0] + leaves[1]

    def append() -> None:
        edge = begin
        for leaf in leaves:
            completed_by(leaf, edge)
            edge = edge.append(leaf)

    def hash_only() -> None:
        for _ in leaves:
            hashlib.sha256(pair).digest()

    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        best = [
            min(known, _cpu(work)) for known, work in zip(best, (append, hash_only), strict=True)
        ]
    return best[0] / best[1]


def state_kilobytes() -> float:
    """What is kept to go on appending, at the worst size below 2^40."""
    peaks = (leaf_hash(b""),) * LARGEST.bit_count()
    return len(Edge(LARGEST, peaks).to_bytes()) / 1000


def _cpu(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
