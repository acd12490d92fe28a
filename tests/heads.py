"""Logs without a store, for tests of witnesses and of those who ask them: leaves, heads, proofs, keys."""

import hashlib
from dataclasses import dataclass, field

from governance.assemble import KeySigner
from governance.ids import Digest, Origin
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    parse_verifier_key,
    sign_checkpoint,
)
from governance.ledger.merkle import consistency_proof, over_leaves, root_of
from governance.ledger.witnessing import format_submission


def witness_key(name: str = "witness.example/w1", seed: int = 9) -> KeySigner:
    return KeySigner.from_seed(Origin(name), bytes([seed]) * 32, KeyType.COSIGNATURE)


@dataclass(frozen=True)
class Log:
    """A history. Two with one `origin` and `seed`, and other `tale`s, are one log that lies."""

    origin: str = "acme.example/agents"
    seed: int = 1
    tale: str = ""
    fork_at: int = 0
    leaves: list[Digest] = field(default_factory=list)

    def __post_init__(self):
        for number in range(64):
            tale = self.tale if number >= self.fork_at else ""
            leaf = hashlib.sha256(f"{self.origin}{tale}{number}".encode()).digest()
            self.leaves.append(Digest(leaf))

    @property
    def signer(self) -> KeySigner:
        return KeySigner.from_seed(Origin(self.origin), bytes([self.seed]) * 32)

    @property
    def key(self) -> VerifierKey:
        return parse_verifier_key(self.signer.verifier_key)

    def head(self, size: int) -> Checkpoint:
        return Checkpoint(self.origin, size, root_of(self.leaves[:size]))

    def note(self, size: int) -> str:
        return sign_checkpoint(self.head(size), self.signer)

    def proof(self, old: int, new: int) -> tuple[Digest, ...]:
        return consistency_proof(old, new, over_leaves(self.leaves))

    def submission(self, old: int, new: int) -> bytes:
        return format_submission(old, self.proof(old, new), self.note(new))
