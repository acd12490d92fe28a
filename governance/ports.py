"""What the use cases need from the outside, in the domain's words. `assemble` joins these to real things.

A `Store` holds the ledger, its payloads and a little that is no evidence: people, leases. It promises:

- `write` runs `work` inside one transaction; when it returns, everything appended is durable. `work`
  may run again after a conflict, so it computes and appends, nothing else. When `work` raises, nothing
  of it is kept. Several callers' works may share one commit; none sees another's failure.
- Entries get their place inside the transaction: no gap, no fork, times that never go back.
- After an I/O error the store writes no more until it is opened again (UnavailableError).
- `read` sees one consistent moment, and never waits for a writer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from governance.ids import Digest, Micros, Origin, RequestId, RunId, SubjectId
from governance.ledger.entry import Draft, Kind, Record
from governance.ledger.erasure import Belonging, Erasure
from governance.ledger.merkle import Node

__all__ = [
    "Clock",
    "Head",
    "Lease",
    "Leases",
    "NewId",
    "People",
    "Person",
    "Reader",
    "RunHead",
    "Signer",
    "Store",
    "Transaction",
    "Tree",
]

T = TypeVar("T")


class Clock(Protocol):
    def __call__(self) -> Micros:
        """Tell the time, once per use case."""
        ...


class NewId(Protocol):
    def __call__(self, prefix: str) -> str:
        """Draw an identifier nobody can guess: `prefix` and at least 80 random bits, like `run-7k3f…`."""
        ...


class Signer(Protocol):
    """The log's own Ed25519 key. It never leaves the implementation."""

    @property
    def origin(self) -> Origin: ...

    @property
    def verifier_key(self) -> str:
        """The C2SP verifier key to pin: `<origin>+<hash>+<base64>`."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Sign `message`: 64 bytes, RFC 8032."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the log: how many entries, the last leaf hash, the RFC 6962 root over all of them."""

    size: int
    last: Digest
    root: Digest
    ts: Micros


@dataclass(frozen=True, slots=True)
class RunHead:
    """The end of one run. `rseq` is the next position; `epoch` the seq by which its driver took it.

    `status` is `running`, `suspended`, `waiting`, `completed`, `failed` or `cancelled`; it indexes the
    run's last `run.*` entry and decides nothing. `principal` is whom the run acts for, the agent where
    that is nobody else.
    """

    run: RunId
    agent: SubjectId
    principal: SubjectId
    rseq: int
    last: Digest
    epoch: int
    status: str
    started: Micros
    updated: Micros


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may answer. `subject` is pseudonymous and permanent, `name` is erasable."""

    subject: SubjectId
    name: str
    roles: frozenset[str]
    active: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """Who drives a run, and until when unless renewed. No evidence: the epoch is the fence."""

    run: RunId
    holder: str
    until: Micros


class Leases(Protocol):
    def get(self, run: RunId) -> Lease | None: ...

    def put(self, lease: Lease) -> None:
        """Take or renew the lease of `lease.run`, whoever held it: the caller has looked first."""
        ...

    def drop(self, run: RunId, holder: str) -> None:
        """Release the lease if `holder` still has it."""
        ...


class People(Protocol):
    def by_subject(self, subject: SubjectId) -> Person | None: ...

    def by_name(self, name: str) -> Person | None: ...

    def by_token(self, token_digest: Digest) -> Person | None:
        """Find the person whose personal token hashes to `token_digest`."""
        ...

    def everybody(self) -> Sequence[Person]: ...

    def put(self, person: Person, token_digest: Digest | None = None) -> None:
        """Store a person; with a `token_digest`, replace the token too. Raises ConflictError when
        another subject has that name."""
        ...

    def drop(self, subject: SubjectId) -> bool:
        """Forget a person, name and token; False when nobody is known by `subject`."""
        ...


class Tree(Protocol):
    """The Merkle tree over the log, and what was signed of it. No evidence before a signature agrees."""

    def nodes(self, nodes: Sequence[Node]) -> Sequence[Digest]:
        """Give the hashes of perfect subtrees, in the order asked, without reading the whole log.

        Raises InvalidInputError for one that reaches past the head, TamperedError when what it would
        be computed from is missing.
        """
        ...

    def checkpoint(self, size: int) -> str | None:
        """Find the signed note over exactly `size` entries."""
        ...


class Reader(Protocol):
    """One consistent moment of the log. Every record read is checked against its own hash and links."""

    @property
    def people(self) -> People: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def tree(self) -> Tree: ...

    def head(self) -> Head: ...

    def run_head(self, run: RunId) -> RunHead | None: ...

    def runs(self, *, status: Collection[str] = (), limit: int = 1000) -> Sequence[RunHead]:
        """List runs, newest first; with `status`, only those."""
        ...

    def records(self, *, start: int = 0, limit: int = 10_000) -> Sequence[Record]:
        """Read entries by `seq`, with the payloads at hand.

        Raises InvalidInputError, here and below, for what was archived: it names the archive.
        """
        ...

    def run_records(self, run: RunId, *, start: int = 0) -> Sequence[Record]:
        """Read all entries of `run` from position `start` on, in order.

        Raises TamperedError when they do not link.
        """
        ...

    def about(self, run: RunId, key: str) -> Sequence[Record]:
        """Read the entries of `run` whose body names `key` as its `uid` or `request`, in order."""
        ...

    def open_requests(self) -> Sequence[tuple[RunId, RequestId]]:
        """List approval requests with no final entry, oldest first. Deadlines are the reader's business."""
        ...

    def find_request(self, request: RequestId) -> RunId | None:
        """Tell which run an approval request belongs to."""
        ...

    def starts(self, principal: SubjectId, since: Micros) -> Mapping[str, int]:
        """Count by tool the calls that were started on behalf of `principal` later than `since`, whatever
        the run. The tool is the one that the decision behind a start names."""
        ...

    def latest(
        self, kinds: Collection[Kind], *, tool: str | None = None, sink: str | None = None
    ) -> Record | None:
        """Read the newest entry of one of `kinds`; with `tool` or `sink`, the newest outside any run
        about it."""
        ...

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        """List (size, signed note), smallest first."""
        ...


class Transaction(Reader, Protocol):
    def append(self, draft: Draft, at: Micros) -> Record:
        """Add an entry after the current head. Visible to this transaction at once, durable once the
        enclosing `Store.write` returns. `at` is clamped to the previous entry's time."""
        ...

    def belongings(self, subject: SubjectId) -> Sequence[Belonging]:
        """List the payloads at hand that belong to `subject` (`ledger.erasure`), in order."""
        ...

    def erase(self, erasure: Erasure, at: Micros) -> Sequence[Record]:
        """Append the entries that name everything `belongings` lists, and remove it, content and salts.

        Entries and removal are one commit. Where content is encrypted, the subject's keys are destroyed
        before `Store.write` returns; a crash between leaves keys without content, and they are destroyed
        at the next opening.
        """
        ...

    def cosign(self, size: int, lines: str) -> None:
        """Put signature lines of others, verified by the caller, under the checkpoint over `size` entries.

        Raises InvalidInputError when there is no such checkpoint or the lines are malformed.
        """
        ...

    def prune(self, tiles: int) -> int:
        """Drop what the newest `log.archived` entry hands over, at most `tiles` times 256 entries; tell how
        many went. A store that is gone with its process keeps all, and answers 0.

        Raises ConflictError when no checkpoint covers that entry yet, TamperedError when what would go
        is not what was signed.
        """
        ...


class Store(Protocol):
    @property
    def origin(self) -> Origin: ...

    def submit(self, work: Callable[[Transaction], T]) -> "Future[T]":
        """Queue `work`; the future resolves after the commit that holds it is durable."""
        ...

    def write(self, work: Callable[[Transaction], T]) -> T:
        """`submit` and wait."""
        ...

    def read(self, work: Callable[[Reader], T]) -> T: ...

    def checkpoint(self) -> tuple[int, str]:
        """Sign the head if it is not signed yet, and return (size, note) covering every entry.

        Raises TamperedError when the database is shorter than, or not consistent with, the last
        checkpoint kept outside it; UnavailableError without a signer.
        """
        ...

    def scrub(self) -> bool:
        """Take out of the files what was deleted and still stands in a journal.

        False when another process reads so that it cannot be done now; it may be asked again.
        """
        ...

    def rekey(
        self, work: Callable[[Transaction], object], also: Sequence[Signer]
    ) -> tuple[int, str]:
        """Append what `work` appends and sign the head with the keys of `also` too, in one commit.

        For entries about keys: the old one and the new one both sign the head that covers the change.
        Returns (size, note). Raises as `checkpoint` does, RefusedError when none of the keys may sign.
        """
        ...

    def close(self) -> None:
        """Finish queued works, sign the head, let go of the files."""
        ...
