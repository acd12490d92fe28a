"""A lawful log of any length, and what it costs to export, verify and judge it: each in a child process.

    python long_log.py make DATABASE ENTRIES      one governed run, recorded again and again under new names
    python long_log.py export DATABASE FOLDER     its bundle
    python long_log.py verify FOLDER              integrity, trust, completeness
    python long_log.py judge FOLDER               lawfulness

All but the first print seconds of CPU and the largest resident size in MB of the process.
"""

import resource
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from governance.bundle import export, read_bundle, records, verify_bundle
from governance.ids import Micros, Origin, RunId
from governance.ledger.checkpoint import Checkpoint, parse_verifier_key, sign_checkpoint
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Entry,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    read_entry,
    seal,
)
from governance.ledger.merkle import Edge

ORIGIN = Origin("bench.example/long")
CALLS = 8
EVERY = 256
MOMENT = Micros(1_700_000_000_000_000)
RULES = (
    "policy: bench\nversion: 1\nrules:\n  - {id: reads, match: {tools: [look]}, effect: allow}\n"
)
TEXT = "x" * 200


def _signer():
    from governance.assemble import KeySigner

    return KeySigner.from_seed(ORIGIN, b"\1" * 32)


def _template() -> list[Record]:
    """One run of some calls, driven for real, all at one moment."""
    from agents import Plays, call, calls, say

    from agent import DurableAgent, tool
    from governance import Governance, assemble
    from governance.rulebook import Rulebook

    @tool(verb="READ", side_effect=False)
    async def look(n: int) -> str:
        """Look, and tell at length."""
        return TEXT

    signer = _signer()
    store = assemble.MemoryStore(ORIGIN, signer, lambda: MOMENT, bytes)
    rules = Rulebook.of(assemble.load({"bench.yaml": RULES}))
    governance = Governance(store, signer, rules, assemble.Environment(), clock=lambda: MOMENT)
    plays = Plays(*(calls(call("look", n=n)) for n in range(CALLS)), say())
    agent = DurableAgent(plays, [look], governance=governance, name="b", max_iterations=CALLS + 1)
    assert agent.run("go").status == "completed"
    found = list(store.read(lambda r: r.records()))
    governance.close()
    return found


class _Tape:
    """Plays the template again and again: drafts with their payloads, in the order of a log."""

    def __init__(self, template: Sequence[Record]) -> None:
        self.once = [record for record in template if record.entry.run is None]
        self.run = [record for record in template if record.entry.run is not None]
        assert [r.entry.seq for r in self.once] == list(range(len(self.once)))
        self.name = str(self.run[0].entry.run)

    def play(self) -> Iterator[tuple[Draft, list[Payload]]]:
        for record in self.once:
            yield self._draft(record, 0, None)
        count = 0
        while True:
            run = RunId(f"run-{count:016}")
            for record in self.run:
                yield self._draft(record, count * len(self.run), run)
            count += 1

    def _draft(self, record: Record, shift: int, run: RunId | None) -> tuple[Draft, list[Payload]]:
        entry = record.entry
        body = _renamed(dict(entry.body), self.name, run)
        if "decision" in body:
            body["decision"] += shift
        payloads = [
            Payload(p.name, p.salt, p.content.replace(self.name.encode(), str(run).encode()))
            for p in record.payloads.values()
        ]
        draft = Draft(entry.kind, entry.actor, body, run=run, on_behalf_of=entry.on_behalf_of)
        return draft, payloads


def _renamed(value, old: str, new: RunId | None):
    if isinstance(value, str):
        return value.replace(old, str(new))
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item, old, new) for key, item in value.items()}
    return value


def make(database: Path, size: int) -> None:
    signer, edge, link = _signer(), Edge(), Link(0, genesis(ORIGIN), MOMENT)
    runs: dict[RunId, RunLink] = {}
    kept = sqlite3.connect(database, isolation_level=None)
    kept.executescript(
        "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
        "CREATE TABLE entry (seq INTEGER PRIMARY KEY, raw BLOB);"
        "CREATE TABLE payload (seq INTEGER, name TEXT, salt BLOB, content BLOB);"
        "CREATE INDEX beside ON payload (seq);"
        "CREATE TABLE checkpoint (size INTEGER PRIMARY KEY, note TEXT); BEGIN;"
    )
    for draft, payloads in _Tape(_template()).play():
        run_link = None
        if draft.run is not None:
            if draft.run not in runs:
                runs = {draft.run: RunLink(0, RUN_START)}
            run_link = runs[draft.run]
        entry = seal(draft, ORIGIN, link, run_link, {p.name: p.commitment for p in payloads})
        if run_link is not None and draft.run is not None:
            runs[draft.run] = RunLink(run_link.rseq + 1, entry.hash)
        edge, link = edge.append(entry.hash), Link(entry.seq + 1, entry.hash, entry.ts)
        kept.execute("INSERT INTO entry VALUES (?, ?)", (entry.seq, entry.raw))
        kept.executemany(
            "INSERT INTO payload VALUES (?, ?, ?, ?)",
            [(entry.seq, p.name, p.salt, p.content) for p in payloads],
        )
        if edge.size % EVERY == 0 or edge.size == size:
            note = sign_checkpoint(Checkpoint(ORIGIN, edge.size, edge.root()), signer)
            kept.execute("INSERT INTO checkpoint VALUES (?, ?)", (edge.size, note))
        if edge.size == size:
            break
    kept.execute("COMMIT")
    kept.close()


class _Reader:
    """What `export` asks of a reader, from the database that `make` wrote."""

    def __init__(self, database: Path) -> None:
        self._kept = sqlite3.connect(database)

    def records(self, *, start: int = 0, limit: int = 10_000) -> list[Record]:
        span = (start, start + limit)
        beside: dict[int, dict[str, Payload]] = {}
        sql = "SELECT seq, name, salt, content FROM payload WHERE seq >= ? AND seq < ?"
        for seq, *payload in self._kept.execute(sql, span):
            beside.setdefault(seq, {})[payload[0]] = Payload(*payload)
        sql = "SELECT raw FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq"
        entries: list[Entry] = [read_entry(raw) for (raw,) in self._kept.execute(sql, span)]
        return [Record(entry, beside.get(entry.seq, {})) for entry in entries]

    def checkpoints(self) -> list[tuple[int, str]]:
        return self._kept.execute("SELECT size, note FROM checkpoint ORDER BY size").fetchall()


def write(database: Path, folder: Path) -> None:
    reader = _Reader(database)
    export(reader, reader.checkpoints()[-1], folder, _signer())  # type: ignore[arg-type] # all it asks for


def verify(folder: Path) -> None:
    key = (folder / "keys").read_text().strip()
    report = verify_bundle(folder, [parse_verifier_key(key)])
    assert report.ok, report.findings[:3]


def judge(folder: Path) -> None:
    from governance.lawful.check import check

    manifest = read_bundle(folder).manifest
    assert manifest is not None
    report = check(records(folder), None, manifest.part, manifest.withheld)
    assert report.ok, report.findings[:3]


def main(what: str, *given: str) -> None:
    began = time.process_time()
    match what:
        case "make":
            make(Path(given[0]), int(given[1]))
        case "export":
            write(Path(given[0]), Path(given[1]))
        case "verify":
            verify(Path(given[0]))
        case "judge":
            judge(Path(given[0]))
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.process_time() - began:.2f} {largest:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
