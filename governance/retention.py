"""How do old entries leave the log without leaving the evidence? One use case: archive, record, prune.

Order: (1) the bundle is written whole and judged by our own verifier; (2) `log.archived` is appended, and
signed; (3) what it names is dropped, some tiles at a time, while others append. A crash after (1) leaves
a folder that nothing speaks of; after (2) a log that holds more than it says: asked again for the same
folder, (3) is finished.

What goes is a whole number of tiles of 256 entries, so that the roots of tiles stand for it.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governance.bundle import (
    choose_range,
    export_part,
    newest_archive,
    read_bundle,
    verify_bundle,
)
from governance.errors import ConflictError, GovernanceError, TamperedError
from governance.holds import Hold
from governance.ids import Digest
from governance.ledger.archived import Archived, Segment
from governance.ledger.checkpoint import parse_verifier_key
from governance.ledger.entry import Draft, Kind
from governance.ledger.merkle import Edge, Node
from governance.ledger.parts import filled, gap
from governance.ledger.report import Status
from governance.ports import Clock, Reader, Signer, Store, Transaction
from governance.retention_plan import Order, Plan, check_right, keys_kept, survey

__all__ = ["Receipt", "archive"]

TILES_A_COMMIT: Final = 16
"""How much is dropped before others get their turn to append."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was done: the entry that records it, and how many entries went."""

    archived: Archived
    seq: int
    pruned: int


def archive(
    store: Store, signer: Signer, clock: Clock, order: Order, holds: Callable[[], Sequence[Hold]]
) -> Receipt:
    """Write the bundle, verify it, record it, prune; or go on where a crash has stopped that.

    Raises ConflictError when the folder exists, or something moved meanwhile, TamperedError when the
    bundle does not verify, and what `survey` raises. Before (2) nothing in the log has changed.
    """
    now = clock()
    store.read(lambda reader: check_right(reader, order.by))
    if order.folder.exists():
        return _finish(store, signer, order.folder)
    held = tuple(holds())
    store.checkpoint()
    plan = store.read(lambda reader: survey(reader, order, now, held))
    store.read(
        lambda reader: export_part(
            reader, choose_range(reader, plan.first, plan.end), order.folder, signer
        )
    )
    manifest = _verify(order.folder, (signer.verifier_key, *plan.keys))

    def record(tx: Transaction) -> None:
        if tuple(holds()) != held or _boundary(tx) != plan.first:
            raise ConflictError(
                "holds or archives have changed meanwhile",
                hint=f"remove `{order.folder}`, which nothing speaks of, and archive again",
            )
        check_right(tx, order.by)
        archived = _archived(tx, plan, manifest)
        at = max(now, tx.head().ts)
        tx.append(Draft(Kind.LOG_ARCHIVED, order.by.subject, archived.to_body()), at)

    store.write(record)
    return _prune(store)


def _boundary(reader: Reader) -> int:
    archived = newest_archive(reader)
    return archived.end if archived else 0


def _archived(reader: Reader, plan: Plan, manifest: Digest) -> Archived:
    nodes, edge = list(gap(0, plan.end)), Edge()
    for node, hash in zip(nodes, reader.tree.nodes(nodes), strict=True):
        edge = filled(edge, node.level, hash)
    (last,) = reader.tree.nodes([Node(0, plan.end - 1)])
    segments = (*plan.earlier, Segment(plan.first, plan.end, manifest))
    return Archived(segments, edge.root(), last, plan.kept)


def _verify(folder: Path, keys: Sequence[str]) -> Digest:
    """Judge a bundle as a stranger would, and give the digest of its manifest."""
    report = verify_bundle(folder, [parse_verifier_key(key) for key in dict.fromkeys(keys)])
    # Completeness is `not-checked` where the bundle itself speaks of an earlier archive.
    sound = report.integrity is report.trust is Status.OK
    if not sound or report.completeness is Status.FAILED:
        first = next((item for item in report.findings if item.is_failure), None)
        raise TamperedError(
            f"archive `{folder}` does not verify, and nothing was dropped",
            seq=first.where.seq if first else None,
            hint=f"{first.where}: {first.message}" if first else "run `governance verify` on it",
        )
    return Digest(hashlib.sha256(read_bundle(folder).raw_manifest).digest())


def _finish(store: Store, signer: Signer, folder: Path) -> Receipt:
    """Go on with the archive that the log's newest word is about, if `folder` is that one."""
    archived = store.read(newest_archive)
    exists = ConflictError(
        f"`{folder}` exists already",
        hint="name a new folder; one that an interrupted archive has left, and no entry names, can go",
    )
    try:
        digest = hashlib.sha256(read_bundle(folder).raw_manifest).digest()
    except GovernanceError:
        raise exists from None
    if archived is None or archived.segments[-1].manifest != digest:
        raise exists
    _verify(folder, (signer.verifier_key, *store.read(lambda reader: keys_kept(reader, archived))))
    done = _prune(store)
    if not done.pruned:
        raise exists
    return done


def _prune(store: Store) -> Receipt:
    store.checkpoint()  # what goes is named by an entry that is durable and signed
    pruned = 0
    while gone := store.write(lambda tx: tx.prune(TILES_A_COMMIT)):
        pruned += gone
    store.scrub()  # as far as nobody reads; what is left is written over in time
    newest = store.read(lambda reader: reader.latest((Kind.LOG_ARCHIVED,)))
    archived = store.read(newest_archive)
    if newest is None or archived is None:
        raise TamperedError("the log has lost its `log.archived` entry")
    return Receipt(archived, newest.entry.seq, pruned)
