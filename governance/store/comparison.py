"""Do the tables beside the entries say what the entries make of them? Names each row that does not.

All of a table is compared after a walk from entry 0, with nothing left over on either side; after a walk
from a stand, whatever its entries have moved.
"""

import itertools
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest
from governance.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    note_text,
    parse_checkpoint,
    signing_keys,
)
from governance.ledger.report import Flaw
from governance.ports import RunHead
from governance.store.projection import PAYLOADS_MAX
from governance.store.reckoning import Difference, Reckoning, Say, keys_at
from governance.store.rows import run_row

__all__ = ["compare_checkpoints", "compare_tables"]

_Key: TypeAlias = tuple[Any, ...]
_Values: TypeAlias = tuple[Any, ...]

_HEAD: Final = "SELECT size, last, edge, ts FROM head WHERE only = 0"
_STRAY_ENTRIES: Final = "SELECT seq FROM entry WHERE seq < 0 LIMIT 100"
_STRAY_PAYLOADS: Final = "SELECT place FROM payload WHERE place < 0 OR place >= ? LIMIT 100"
_STRAY_CODE: Final = "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'view')"
_COUNT_STARTS: Final = "SELECT count(*) FROM start WHERE principal = ? AND tool = ?"
_STRAY_KEYS: Final = """
    SELECT p.place, p.key FROM payload p LEFT JOIN subjectkey k ON k.no = p.key
    WHERE p.key IS NOT NULL AND (k.no IS NULL OR k.doomed) ORDER BY p.place LIMIT 100
"""
_CHECKPOINTS: Final = "SELECT size, note FROM checkpoint WHERE size >= ? ORDER BY size"


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def select(self) -> str:
        columns = ", ".join((*self.keys, *self.values))
        return f"SELECT {columns} FROM {self.name}"  # noqa: S608 - constants only

    @property
    def select_one(self) -> str:
        return f"{self.select} WHERE {' AND '.join(f'{key} = ?' for key in self.keys)}"


_RUN: Final = _Table("run", ("run",), ("no", *(field.name for field in fields(RunHead)[1:])))
_REQUEST: Final = _Table("request", ("request",), ("run", "seq", "open"))
_LATEST: Final = _Table("latest", ("key",), ("seq",))
_ERASED: Final = _Table("erased", ("place",), ("by",))
_START: Final = _Table("start", ("principal", "tool", "ts", "nth"), ())
_NODE: Final = _Table("node", ("level", "place"), ("hash",))

Expected: TypeAlias = Mapping[_Key, tuple[_Values, int]]
"""What a row must hold by its key, and the entry that last moved it."""


def compare_tables(connection: sqlite3.Connection, found: Reckoning, say: Say) -> None:
    """Compare every table that indexes entries, as `connection` sees it at the moment `found` ends."""
    tables: tuple[tuple[_Table, Expected], ...] = (
        (
            _RUN,
            {
                (run,): ((number, *run_row(head)[1:]), found.newest[run])
                for run, (number, head) in found.heads.items()
            },
        ),
        (
            _REQUEST,
            {
                (key,): ((one.run, one.seq, one.open), one.seq)
                for key, one in found.requests.items()
            },
        ),
        (_ERASED, {(place,): ((by,), by) for place, by in found.erased.items()}),
        (_START, _starts(connection, found)),
        (_LATEST, {(key,): ((seq,), seq) for key, seq in found.latest.items()}),
        (
            _NODE,
            {
                tuple(node): ((hash,), ((node.place + 1) << node.level) - 1)
                for node, hash in found.nodes.items()
            },
        ),
    )
    for table, expected in tables:
        if table is not _NODE or found.unbroken:
            _compare(connection, table, expected, whole=found.begin == 0, say=say)
    _compare_head(connection, found, say)
    _find_strays(connection, found, say)


def _starts(connection: sqlite3.Connection, found: Reckoning) -> Expected:
    """Starts are numbered by principal and tool. Those before a stand are counted, as they were compared."""
    expected: dict[_Key, tuple[_Values, int]] = {}
    for (principal, tool), starts in found.starts.items():
        if principal in found.untold:
            continue
        (count,) = connection.execute(_COUNT_STARTS, (principal, tool)).fetchone()
        before = count - len(starts) if found.begin else 0
        for nth, (ts, seq) in enumerate(starts, before + 1):
            expected[principal, tool, ts, nth] = (), seq
    return expected


def _compare(
    connection: sqlite3.Connection, table: _Table, expected: Expected, *, whole: bool, say: Say
) -> None:
    missing = dict(expected)
    width = len(table.keys)
    if whole:
        asked: list[tuple[str, _Key]] = [(table.select, ())]
    else:
        asked = [(table.select_one, key) for key in expected]
    for row in itertools.chain.from_iterable(itertools.starmap(connection.execute, asked)):
        key, values = row[:width], row[width:]
        if key not in missing:
            message = f"`{table.name}` has a row for `{_spell(key)}` that no entry accounts for"
            say(Difference.ROW_UNEXPECTED, table.name, None, message)
            continue
        meant, seq = missing.pop(key)
        for column, want, value in zip(table.values, meant, values, strict=True):
            if want != value:
                message = f"`{column}` of `{_spell(key)}` is not what the entries make of it"
                say(Difference.INDEX_DIFFERS, f"{table.name}.{column}", seq, message)
    for key, (_, seq) in missing.items():
        message = f"`{table.name}` has no row for `{_spell(key)}`"
        say(Difference.ROW_MISSING, table.name, seq, message)


def _compare_head(connection: sqlite3.Connection, found: Reckoning, say: Say) -> None:
    rows = connection.execute(_HEAD).fetchall()
    if not rows:
        say(Difference.ROW_MISSING, "head", None, "the log has no head")
        return
    tip = found.tip
    size, last, edge, ts = rows[0]
    said = [
        ("size", found.next_seq, size),
        ("last", tip.last, last),
        ("edge", tip.edge.to_bytes(), edge),
        ("ts", tip.ts, ts),
    ]
    for column, meant, stored in said:
        if meant != stored and (found.unbroken or column != "edge"):
            message = f"`{column}` of the head is not what the entries make of it"
            say(Difference.INDEX_DIFFERS, f"head.{column}", max(found.next_seq - 1, 0), message)


def _find_strays(connection: sqlite3.Connection, found: Reckoning, say: Say) -> None:
    """Rows outside the log, and code in the database: it has none of its own."""
    for (seq,) in connection.execute(_STRAY_ENTRIES):
        say(Difference.ROW_UNEXPECTED, "entry", seq, f"no entry stands at {seq}")
    for (place,) in connection.execute(_STRAY_PAYLOADS, (found.next_seq * PAYLOADS_MAX,)):
        seq = place // PAYLOADS_MAX
        say(Flaw.PAYLOAD_UNEXPECTED, "payload.place", seq, f"there is no entry {seq}")
    if found.begin == 0:
        for place, no in connection.execute(_STRAY_KEYS):
            message = (
                f"content lies under key {no}, which is not listed or is about to be destroyed"
            )
            say(Difference.INDEX_DIFFERS, "subjectkey", place // PAYLOADS_MAX, message)
    for kind, name in connection.execute(_STRAY_CODE):
        message = f"the database has a {kind} `{name[:80]}`, and a log has none"
        say(Difference.ROW_UNEXPECTED, "sqlite_schema", None, message)


def compare_checkpoints(
    connection: sqlite3.Connection, found: Reckoning, roots: Mapping[int, Digest], say: Say
) -> None:
    """Compare every signed note from the beginning of the walk on with the tree over the entries.

    Of roots that differ only the first is told: all later ones cover the same entries.
    """
    agreed = True
    for size, note in connection.execute(_CHECKPOINTS, (found.begin,)).fetchall():
        last = max(size - 1, 0)
        checkpoint = _read(note, last, say)
        if checkpoint is None:
            continue
        _check_signature(note, size, keys_at(found.about_keys, size), say)
        if checkpoint.size != size:
            message = f"the note of checkpoint {size} is over {checkpoint.size} entries"
            say(Difference.INDEX_DIFFERS, "checkpoint.size", last, message)
            continue
        if checkpoint.origin != found.tip.origin:
            message = f"checkpoint {size} is of log `{checkpoint.origin[:80]}`"
            say(Flaw.CHECKPOINT_FOREIGN, "checkpoint.note", last, message)
        if size > found.next_seq:
            message = f"checkpoint {size} covers more entries than the {found.next_seq} there are"
            say(Flaw.TAIL_CUT, "checkpoint.size", found.next_seq, message)
        elif found.unbroken and agreed and roots.get(size) != checkpoint.root:
            agreed = False
            message = f"the root over the first {size} entries is not the one that was signed"
            say(Flaw.ROOT_DIFFERS, "checkpoint.note", last, message)


def _read(note: Any, last: int, say: Say) -> Checkpoint | None:
    try:
        return parse_checkpoint(note_text(note))
    except (InvalidInputError, TypeError) as exc:
        message = exc.message if isinstance(exc, InvalidInputError) else "note is no text"
        say(Flaw.CHECKPOINT_MALFORMED, "checkpoint.note", last, message)
        return None


def _check_signature(note: str, size: int, keys: list[VerifierKey], say: Say) -> None:
    try:
        signing_keys(note, keys)
    except TamperedError as exc:
        say(Flaw.SIGNATURE_WRONG, "checkpoint.note", max(size - 1, 0), exc.message)
    except (RefusedError, InvalidInputError):
        message = f"no key that the log names signed checkpoint {size}"
        say(Flaw.KEY_UNKNOWN, "checkpoint.note", max(size - 1, 0), message)


def _spell(key: _Key) -> str:
    return "/".join(str(part)[:80] for part in key)
