"""The scene of every attack: a governed log, its checkpoints, and what somebody with the database can do to it.

The attacker may write every byte. Whatever needs no key he makes fit again: positions, times, links, links
within runs, payload lines. With the stolen key he signs too.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import Plays, call, calls, person, say, vote

from agent import DurableAgent, tool
from governance import Governance
from governance.assemble import KeySigner
from governance.canonical import entry_bytes, thaw
from governance.ids import Digest, Origin
from governance.ledger.checkpoint import Checkpoint, KeyType, note_text, sign_checkpoint
from governance.ledger.cosignature import add_signatures, cosign
from governance.ledger.entry import RUN_START, Payload, Record, genesis, leaf_hash
from governance.ledger.heads import Note
from governance.ledger.merkle import root_of
from governance.ledger.payloads import payload_line

RULES = """
policy: desk
version: 1
rules:
  - {id: looks, match: {tools: [look]}, effect: allow}
  - id: payments
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver}], decide_by: 4h, use_by: 1h}
"""
RUNS = 3
COSIGNED_AT = 1_900_000_000
AUDITED = 1
"""After this run, counted from 0, the auditor was given a bundle, and kept its checkpoint."""


@dataclass
class Item:
    """One entry in the attacker's hands, with what lies beside it."""

    fields: dict[str, Any]
    payloads: dict[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True)
class Export:
    """What is put before the auditor."""

    entries: Sequence[bytes]
    payloads: Sequence[bytes]
    notes: Sequence[Note]


@dataclass(frozen=True)
class Scene:
    """The honest log, its heads by size, its key and its witness's, and the key and head of another log."""

    records: Sequence[Record]
    heads: Sequence[tuple[int, Note]]
    signer: KeySigner
    witness: KeySigner
    other: tuple[KeySigner, Note]

    @property
    def size(self) -> int:
        return len(self.records)

    @property
    def kept(self) -> int:
        """The size that the auditor's own checkpoint covers."""
        return self.heads[-(RUNS - AUDITED)][0]

    @property
    def notes(self) -> list[Note]:
        return [note for _, note in self.heads]

    def notes_to(self, size: int) -> list[Note]:
        return [note for covered, note in self.heads if covered <= size]

    def items(self) -> list[Item]:
        """Everything, to be changed at will."""
        return [
            Item(copy.deepcopy(thaw(record.entry.raw)), dict(record.payloads))
            for record in self.records
        ]

    def at(self, kind: str, *, after: int = 0) -> int:
        """Where the first entry of this kind stands from `after` on."""
        return next(
            record.entry.seq
            for record in self.records
            if record.entry.seq >= after and record.entry.kind == kind
        )

    def honest(self) -> Export:
        return as_they_stand(self.items(), self.notes)


def as_they_stand(items: Iterable[Item], notes: Sequence[Note]) -> Export:
    """Put entries together as they are, their payloads beside them."""
    items = list(items)
    lines = [
        payload_line(item.fields["seq"], payload)
        for item in items
        for _, payload in sorted(item.payloads.items())
    ]
    return Export([entry_bytes(item.fields) for item in items], lines, notes)


def relinked(items: Iterable[Item], notes: Sequence[Note]) -> Export:
    """Make everything fit again that needs no key."""
    items = list(items)
    previous, time, runs = genesis(items[0].fields["log"]), 0, dict[str, tuple[int, Digest]]()
    for seq, item in enumerate(items):
        time = max(time, item.fields["ts"])
        item.fields |= {"seq": seq, "prev": previous.hex(), "ts": time}
        run = item.fields.get("run")
        if run is not None:
            rseq, before = runs.get(run, (0, RUN_START))
            item.fields |= {"rseq": rseq, "rprev": before.hex()}
        previous = leaf_hash(entry_bytes(item.fields))
        if run is not None:
            runs[run] = (rseq + 1, previous)
    return as_they_stand(items, notes)


def signed_anew(
    export: Export, sizes: Iterable[int], signer: KeySigner, known: Sequence[Note] = ()
) -> Export:
    """Sign these heads of the entries as they are now; those that are still `known` keep their cosignatures."""
    leaves = [leaf_hash(raw) for raw in export.entries]
    notes = [
        note_of(Checkpoint(signer.origin, size, root_of(leaves[:size])), signer) for size in sizes
    ]
    cosigned = {note_text(raw.decode()): (name, raw) for name, raw in known}
    notes = [cosigned.get(note_text(raw.decode()), (name, raw)) for name, raw in notes]
    return Export(export.entries, export.payloads, notes)


def note_of(head: Checkpoint, signer: KeySigner) -> Note:
    return f"checkpoints/{head.size:016}", sign_checkpoint(head, signer).encode()


def cosigned(note: str, witness: KeySigner) -> str:
    return add_signatures(note, cosign(note_text(note), witness, COSIGNED_AT))


@tool(verb="READ")
def look(id: str) -> str:
    """Look."""
    return f"seen {id}"


@tool(verb="FINANCIAL", side_effect=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def play() -> Scene:
    """Three runs, each with a look and a payment that a person approves; after each a head that a witness cosigns."""
    gov = Governance.in_memory(policies={"desk.yaml": RULES})
    somebody = person(gov)
    for number in range(RUNS):
        turns = calls(call("look", id="a")), calls(call("pay", cents=900 + number)), say()
        agent = DurableAgent(Plays(*turns), (look, pay), governance=gov, name="desk")
        run = f"run-{number}"
        (held,) = agent.run("pay ana", run_id=run).pending_approvals
        vote(gov, somebody, held.request)
        assert agent.resume(run).status == "completed"
        gov.store.checkpoint()
    records = gov.store.read(lambda reader: reader.records())
    signed = gov.store.read(lambda reader: reader.checkpoints())
    witness = KeySigner.from_seed(Origin("witness.example/w"), b"\7" * 32, KeyType.COSIGNATURE)
    heads = [
        (size, (f"checkpoints/{size:016}", cosigned(note, witness).encode()))
        for size, note in signed
    ]
    assert heads[-1][0] == len(records)
    stranger = KeySigner.from_seed(Origin("other.example/log"), b"\5" * 32)
    foreign = Checkpoint(stranger.origin, len(records), Digest(b"\5" * 32))
    return Scene(records, heads, gov.signer, witness, (stranger, note_of(foreign, stranger)))
