"""How fast is an exported log verified, beside hashing the same file and beside re-canonicalising it?

All in CPU time, in turns, the best of each: what another program takes of the machine is nobody's speed.
The floor of our own is what no such check can do without: each leaf and node hashed, each entry parsed and
written again, each checkpoint's signature verified; nothing compared.
"""

import functools
import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import rfc8785

sys.path.insert(0, str(Path(__file__).parents[1]))

from governance.assemble import KeySigner
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    open_note,
    parse_verifier_key,
    sign_checkpoint,
)
from governance.ledger.entry import Draft, Entry, Kind, Link, RunLink, genesis, leaf_hash, seal
from governance.ledger.merkle import Edge
from governance.ledger.verify import verify
from governance.spelling import read, spell_strict

ENTRIES = 10_000
ROUNDS = 9
EVERY = 256
TOGETHER = 128
ORIGIN = Origin("bench.example/verify")
RUN = RunId("run-1")
AGENT = SubjectId("agent:bench")


@functools.cache
def _log() -> tuple[list[bytes], list[tuple[str, bytes]], str]:
    """A log of one long run, its entries those of governed calls: lines, checkpoints, the key to pin."""
    signer = KeySigner.from_seed(ORIGIN, b"\1" * 32)
    lines: list[bytes] = []
    notes: list[tuple[str, bytes]] = []
    edge, link = Edge(0, ()), Link(0, genesis(ORIGIN), Micros(1))
    run: RunLink | None = None
    for n in range(ENTRIES):
        entry = seal(_draft(n, signer), ORIGIN, link, run, {})
        lines.append(entry.raw + b"\n")
        edge, link, run = (
            edge.append(entry.hash),
            Link(n + 1, entry.hash, Micros(n + 2)),
            _next(entry),
        )
        if edge.size % EVERY == 0 or edge.size == ENTRIES:
            head = Checkpoint(ORIGIN, edge.size, edge.root())
            notes.append((f"checkpoints/{edge.size:016d}", sign_checkpoint(head, signer).encode()))
    return lines, notes, signer.verifier_key


def _draft(n: int, signer: KeySigner) -> Draft:
    if n == 0:
        return Draft(Kind.LOG_CREATED, AGENT, {"keys": [signer.verifier_key]})
    turn, step = divmod(n, 5)
    uid = f"{RUN}/{turn}.0"
    kind, body = (
        (Kind.MODEL_REQUESTED, {"turn": turn, "messages": 2 * turn}),
        (
            Kind.MODEL_RESPONDED,
            {
                "turn": turn,
                "stop": "tool_calls",
                "tokens": {"input": 900, "output": n},
                "calls": [uid],
            },
        ),
        (Kind.CALL_DECIDED, {"uid": uid, **_DECIDED}),
        (Kind.CALL_STARTED, {"uid": uid, "attempt": 1, "decision": n - 1, "key": "35" * 16}),
        (Kind.CALL_FINISHED, {"uid": uid, "attempt": 1, "duration_us": n}),
    )[step]
    return Draft(kind, AGENT, body, run=RUN)


_DECIDED = {
    "tool": "look",
    "definition": "6d" * 32,
    "effect": "allow",
    "tier": "low",
    "policy": "69" * 32,
    "rules": ["bench/reads"],
    "reasons": [],
    "steps": 12,
}


def _next(entry: Entry) -> RunLink:
    return RunLink(0 if entry.rseq is None else entry.rseq + 1, entry.hash if entry.run else _START)


_START = bytes(32)


def _seconds(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


@functools.cache
def _measured() -> list[float]:
    """CPU seconds of (sha256 of the file, parse + rfc8785, full verification, its floor), the best of runs in
    turns."""
    lines, notes, key = _log()
    file, raws, pin = b"".join(lines), [line[:-1] for line in lines], parse_verifier_key(key)

    def ours() -> None:
        report = verify([("entries", lines)], [], notes, [pin])
        assert report.integrity == "ok", report.findings[:3]

    def canonical() -> None:
        for line in lines:
            rfc8785.dumps(json.loads(line))

    def floor() -> None:
        for at in range(0, len(raws), TOGETHER):
            spell_strict(list(map(read, raws[at : at + TOGETHER])))
        Edge().extend(list(map(leaf_hash, raws)))
        for _, note in notes:
            open_note(note.decode(), [pin])

    def sha256() -> None:
        hashlib.sha256(file).digest()

    acts = (sha256, canonical, ours, floor)
    rounds = [[_seconds(act) for act in acts] for _ in range(ROUNDS)]
    return list(map(min, zip(*rounds, strict=True)))


def against_sha256() -> float:
    """Our speed as a part of sha256's."""
    sha256, _, ours, _ = _measured()
    return sha256 / ours


def against_rfc8785() -> float:
    """How many times faster than parsing and canonicalising each entry again."""
    _, canonical, ours, _ = _measured()
    return canonical / ours


def floor_against_rfc8785() -> float:
    """The same of the floor: what is left of it for every comparison."""
    _, canonical, _, floor = _measured()
    return canonical / floor
