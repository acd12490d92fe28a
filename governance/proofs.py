"""Does the signed log hold this entry, and does it begin with that older one? Proofs from the store.

A proof is for a tree whose root was signed: it is checked against the checkpoint of exactly that size
before it is handed out, so that a database altered behind the store's back gives no proof, only a
`TamperedError`. The signature itself is for whoever has pinned the key.
"""

from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import Checkpoint, note_text, parse_checkpoint
from governance.ledger.merkle import (
    EMPTY_ROOT,
    Node,
    consistency_proof,
    inclusion_proof,
    proves_consistency,
    proves_inclusion,
)
from governance.ports import Reader

__all__ = ["consistency", "inclusion", "signed_head"]


def inclusion(reader: Reader, seq: int, size: int) -> tuple[Digest, ...]:
    """Prove that entry `seq` is in the log of which the first `size` entries were signed.

    Raises InvalidInputError when no checkpoint covers exactly `size` entries or `seq` is not among
    them, TamperedError when the database does not have the root that was signed.
    """
    root = signed_head(reader, size).root
    proof = inclusion_proof(seq, size, reader.tree.nodes)
    (leaf,) = reader.tree.nodes([Node(0, seq)])
    if not proves_inclusion(leaf, seq, size, proof, root):
        raise _altered(size)
    return proof


def consistency(reader: Reader, old: int, new: int) -> tuple[Digest, ...]:
    """Prove that the log signed at `new` entries begins with the log signed at `old`.

    Raises InvalidInputError when one of them was not signed or `old` is larger, TamperedError when the
    database does not have the roots that were signed.
    """
    old_root = signed_head(reader, old).root if old else EMPTY_ROOT
    new_root = signed_head(reader, new).root
    proof = consistency_proof(old, new, reader.tree.nodes)
    if not proves_consistency(old, new, proof, old_root, new_root):
        raise _altered(new)
    return proof


def signed_head(reader: Reader, size: int) -> Checkpoint:
    """Read the checkpoint over exactly `size` entries.

    Raises InvalidInputError when there is none, TamperedError when it is not what it is stored as.
    """
    note = reader.tree.checkpoint(size)
    if note is None:
        raise InvalidInputError(
            f"no checkpoint covers exactly `{size}` entries",
            hint="give the size of one that was signed, or sign the head and give its size",
        )
    try:
        head = parse_checkpoint(note_text(note))
    except InvalidInputError as exc:
        raise TamperedError(f"checkpoint of size {size} cannot be read") from exc
    if head.size != size:
        raise TamperedError(f"checkpoint of size {size} covers {head.size} entries")
    end = reader.head().size
    if size > end:
        raise TamperedError(f"database ends at {end} entries, {size} were signed", seq=end)
    return head


def _altered(size: int) -> TamperedError:
    return TamperedError(
        f"entries or tree do not have the root that was signed at {size} entries",
        hint="stop writing, export a bundle and run `governance verify` on it",
    )
