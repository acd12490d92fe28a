"""Who may answer, and who drives a run? The little beside the log that is no evidence."""

import sqlite3
from collections.abc import Sequence

from governance.errors import ConflictError, RefusedError
from governance.ids import Digest, RunId, SubjectId
from governance.ports import Lease, Person
from governance.store.rows import person_row, to_person

__all__ = ["SqliteLeases", "SqlitePeople", "name_taken", "read_only"]

_PERSON_BY_SUBJECT = "SELECT subject, name, roles, active FROM person WHERE subject = ?"
_PERSON_BY_NAME = "SELECT subject, name, roles, active FROM person WHERE name = ?"
_PERSON_BY_TOKEN = "SELECT subject, name, roles, active FROM person WHERE token_digest = ?"  # noqa: S105 - a query
_EVERYBODY = "SELECT subject, name, roles, active FROM person ORDER BY name"
_PUT_PERSON = """
    INSERT INTO person (subject, name, roles, active, token_digest) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (subject) DO UPDATE SET
        name = excluded.name, roles = excluded.roles, active = excluded.active,
        token_digest = coalesce(excluded.token_digest, token_digest)
"""
_DROP_PERSON = "DELETE FROM person WHERE subject = ?"
_LEASE = "SELECT run, holder, until FROM lease WHERE run = ?"
_PUT_LEASE = """
    INSERT INTO lease (run, holder, until) VALUES (?, ?, ?)
    ON CONFLICT (run) DO UPDATE SET holder = excluded.holder, until = excluded.until
"""
_DROP_LEASE = "DELETE FROM lease WHERE run = ? AND holder = ?"


def name_taken(person: Person) -> ConflictError:
    return ConflictError(
        f"name `{person.name}`, or the token, belongs to somebody else", hint="choose another name"
    )


def read_only() -> RefusedError:
    return RefusedError("a read changes nothing", hint="do it inside `Store.write`")


class SqlitePeople:
    def __init__(self, connection: sqlite3.Connection, *, writable: bool) -> None:
        self._connection = connection
        self._writable = writable

    def by_subject(self, subject: SubjectId) -> Person | None:
        return self._find(_PERSON_BY_SUBJECT, subject)

    def by_name(self, name: str) -> Person | None:
        return self._find(_PERSON_BY_NAME, name)

    def by_token(self, token_digest: Digest) -> Person | None:
        return self._find(_PERSON_BY_TOKEN, token_digest)

    def everybody(self) -> Sequence[Person]:
        return [to_person(row) for row in self._connection.execute(_EVERYBODY)]

    def put(self, person: Person, token_digest: Digest | None = None) -> None:
        if not self._writable:
            raise read_only()
        try:
            self._connection.execute(_PUT_PERSON, (*person_row(person), token_digest))
        except sqlite3.IntegrityError as exc:
            raise name_taken(person) from exc

    def drop(self, subject: SubjectId) -> bool:
        if not self._writable:
            raise read_only()
        return self._connection.execute(_DROP_PERSON, (subject,)).rowcount > 0

    def _find(self, sql: str, key: str | bytes) -> Person | None:
        row = self._connection.execute(sql, (key,)).fetchone()
        return to_person(row) if row else None


class SqliteLeases:
    def __init__(self, connection: sqlite3.Connection, *, writable: bool) -> None:
        self._connection = connection
        self._writable = writable

    def get(self, run: RunId) -> Lease | None:
        row = self._connection.execute(_LEASE, (run,)).fetchone()
        return Lease(*row) if row else None

    def put(self, lease: Lease) -> None:
        if not self._writable:
            raise read_only()
        self._connection.execute(_PUT_LEASE, (lease.run, lease.holder, lease.until))

    def drop(self, run: RunId, holder: str) -> None:
        if not self._writable:
            raise read_only()
        self._connection.execute(_DROP_LEASE, (run, holder))
