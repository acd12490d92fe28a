"""Bundles for tests: a log of governed-looking entries of several runs, and its three kinds of bundle."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.bundle import Choice, choose_range, choose_run, choose_whole, export_part
from governance.canonical import payload_bytes
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    seal,
)
from governance.ledger.merkle import Edge, over_leaves
from governance.ports import Head

ORIGIN = Origin("acme.example/agents")
_SECRET = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)


class Key:
    """The log's key."""

    origin = ORIGIN
    verifier_key = verifier_key(ORIGIN, _SECRET.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return _SECRET.sign(message)


KEY = Key()
PINS = [parse_verifier_key(KEY.verifier_key)]


@dataclass
class Log:
    """What `choose_*` and `export_part` need of a reader, over records in memory."""

    entries: list[Record] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)

    @property
    def tree(self) -> "Log":
        return self

    def nodes(self, nodes):
        return over_leaves([record.entry.hash for record in self.entries])(nodes)

    def head(self) -> Head:
        last = self.entries[-1].entry
        return Head(len(self.entries), last.hash, last.hash, last.ts)

    def records(self, *, start: int = 0, limit: int = 10_000) -> list[Record]:
        return self.entries[start : start + limit]

    def latest(self, kinds, *, tool: str | None = None) -> Record | None:
        newest = (r for r in reversed(self.entries) if r.entry.kind in kinds)
        return next((r for r in newest if tool in (None, r.entry.body.get("tool"))), None)

    def run_records(self, run: RunId, *, start: int = 0) -> list[Record]:
        return [record for record in self.entries if record.entry.run == run][start:]

    def checkpoints(self) -> list[tuple[int, str]]:
        return self.notes


class Builder:
    """Appends entries, signs heads."""

    def __init__(self) -> None:
        self.log = Log()
        self._link = Link(0, genesis(ORIGIN), Micros(1))
        self._edge = Edge()
        self._runs: dict[RunId, RunLink] = {}

    def add(
        self, kind: Kind, body: dict, contents: dict | None = None, run: str | None = None
    ) -> Record:
        seq = self._link.seq
        payloads = {
            name: Payload(
                name, hashlib.sha256(f"{seq}{name}".encode()).digest(), payload_bytes(value)
            )
            for name, value in (contents or {}).items()
        }
        of = None if run is None else RunId(run)
        link = None if of is None else self._runs.get(of, RunLink(0, RUN_START))
        commitments = {name: payload.commitment for name, payload in payloads.items()}
        draft = Draft(kind, SubjectId("agent:desk"), body, run=of)
        entry = seal(draft, ORIGIN, self._link, link, commitments)
        if of is not None and link is not None:
            self._runs[of] = RunLink(link.rseq + 1, entry.hash)
        self._link = Link(seq + 1, entry.hash, Micros(entry.ts + seq % 2))
        self._edge = self._edge.append(entry.hash)
        self.log.entries.append(Record(entry, payloads))
        return self.log.entries[-1]

    def erase(self, seq: int, name: str) -> None:
        """Drop a payload, and record that."""
        self.add(Kind.PAYLOAD_ERASED, {"subject": "user:1", "targets": [[seq, [name]]]})
        old = self.log.entries[seq]
        kept = {key: value for key, value in old.payloads.items() if key != name}
        self.log.entries[seq] = Record(old.entry, kept)

    def sign(self) -> None:
        head = Checkpoint(ORIGIN, self._edge.size, self._edge.root())
        self.log.notes.append((head.size, sign_checkpoint(head, KEY)))


def busy_log(runs: int = 3, *, every: int = 7) -> Log:
    """Runs that take turns, each with content; the first one's input erased; heads signed now and then."""
    builder = Builder()
    builder.add(Kind.LOG_CREATED, {"keys": [KEY.verifier_key]})
    builder.add(Kind.POLICY_ACTIVATED, {"policy": "ab" * 32}, {"text": {"a.yaml": "policy: a"}})
    builder.add(Kind.TOOL_REGISTERED, {"tool": "pay", "definition": "cd" * 32})
    names = [f"run-{n}" for n in range(runs)]
    steps = [
        (Kind.RUN_STARTED, {}, {"input": {"messages": ["pay ana"]}}),
        (Kind.MODEL_RESPONDED, {"turn": 1}, {"message": {"content": "für Ana 💶"}}),
        (
            Kind.CALL_DECIDED,
            {"tool": "pay", "definition": "cd" * 32, "policy": "ab" * 32},
            {"args": {"amount": 5, "ratio": 0.5}, "input": {"now": 1}},
        ),
        (Kind.CALL_STARTED, {"attempt": 1}, {}),
        (Kind.CALL_FINISHED, {"attempt": 1}, {"result": {"content": "paid"}}),
        (Kind.RUN_COMPLETED, {}, {}),
    ]
    first = None
    for kind, body, contents in steps:
        for name in names:
            record = builder.add(kind, body, contents, run=name)
            first = record.entry.seq if first is None else first
            if record.entry.seq % every == 0:
                builder.sign()
        builder.add(Kind.LOG_BEAT, {})
    builder.erase(first, "input")
    builder.add(Kind.LOG_BEAT, {})
    builder.sign()
    return builder.log


def choices(log: Log) -> dict[str, Choice]:
    """One choice of each kind: the whole log, a range within it, one of its runs."""
    return {
        "log": choose_whole(log.notes[-1]),
        "range": choose_range(log, 3, 14),
        "run": choose_run(log, RunId("run-1")),
    }


def write(log: Log, kind: str, folder: Path) -> Path:
    export_part(log, choices(log)[kind], folder, KEY)
    return folder
