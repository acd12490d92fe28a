"""What does the database look like? Table definitions, private to this room.

    entry       one row per ledger entry: the exact bytes, and an index over them
    payload     content under a commitment; a row goes when the content is erased
    erased      which payloads went, and the entry that says so
    subjectkey  the numbers of the keys that content is encrypted under; the keys are not here
    head        one row: where the next entry attaches, and the right edge of the Merkle tree
    node        roots of whole tiles of the tree, for proofs
    run         the head of every run; request, latest: other ways to find an entry
    start       one row per started call, to count them by
    checkpoint  signed notes
    person, lease, meta   no evidence

Small on purpose, since every byte here is paid per step of a run:

- an entry's leaf hash is recorded once, in the `prev` of its successor (the newest one's in `head`), and
  half of it is enough to find a difference or a fork;
- a run's id is stored once, entries hold its number; a call uid is stored without the run it starts with;
- a payload's place is its entry's seq times `PAYLOADS_MAX` plus its rank among the entry's payload
  names, so that the primary key needs no second tree and new rows always go to the right end;
- its content is one value with its salt before it. Under a key it is encrypted whole, salt included
  (`keyring`), so that neither can be read, or guessed from the commitment, without the key.

Rows never leave this room: a table class does not validate what is put into it.
"""

from typing import ClassVar, Final

from sqlalchemy import Index, MetaData, UniqueConstraint, text
from sqlalchemy.orm import declared_attr
from sqlmodel import Field, SQLModel

__all__ = ["METADATA"]

METADATA: Final = MetaData()


class _Table(SQLModel):
    metadata: ClassVar[MetaData] = METADATA  # pyright: ignore[reportIncompatibleVariableOverride] - SQLModel's own way

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805  # pyright: ignore[reportIncompatibleVariableOverride] - SQLAlchemy's way
        return cls.__name__.removesuffix("Row").lower()


class EntryRow(_Table, table=True):
    """`raw` is the evidence; every other column is an index, compared with it whenever it is read."""

    __table_args__ = (
        UniqueConstraint("run", "rseq"),
        Index("entry_uid", "run", "uid", sqlite_where=text("uid IS NOT NULL")),
        Index("entry_request", "run", "request", sqlite_where=text("request IS NOT NULL")),
    )

    seq: int = Field(primary_key=True)
    prev: bytes = Field(unique=True)
    run: int | None = Field(foreign_key="run.no")
    rseq: int | None
    uid: str | None
    request: str | None
    raw: bytes


class PayloadRow(_Table, table=True):
    place: int = Field(primary_key=True)
    name: str
    key: int | None
    content: bytes


class ErasedRow(_Table, table=True):
    """Tells a reader where to look; what excuses an absence is the entry `by` which it then reads."""

    place: int = Field(primary_key=True)
    by: int


class SubjectKeyRow(_Table, table=True):
    """A `doomed` key has no content any more, and is destroyed by whoever opens or writes next."""

    no: int = Field(primary_key=True)
    doomed: bool


class HeadRow(_Table, table=True):
    only: int = Field(primary_key=True)
    size: int
    last: bytes
    edge: bytes
    ts: int


class NodeRow(_Table, table=True):
    """The root of a whole tile (`merkle.completed_by`): of 256 entries, of 65,536, and so on. At level 0
    the leaf hashes of tiles that were archived (`pruning`)."""

    __table_args__ = ({"sqlite_with_rowid": False},)

    level: int = Field(primary_key=True)
    place: int = Field(primary_key=True)
    hash: bytes


class RunRow(_Table, table=True):
    no: int = Field(primary_key=True)
    run: str = Field(unique=True)
    agent: str
    principal: str
    rseq: int
    last: bytes
    epoch: int
    status: str
    started: int
    updated: int


class RequestRow(_Table, table=True):
    __table_args__ = (
        Index("request_open", "seq", sqlite_where=text("open")),
        {"sqlite_with_rowid": False},
    )

    request: str = Field(primary_key=True)
    run: str
    seq: int
    open: bool


class LatestRow(_Table, table=True):
    """The newest entry of each kind, and of each kind about one tool (`projection.latest_key`)."""

    __table_args__ = ({"sqlite_with_rowid": False},)

    key: str = Field(primary_key=True)
    seq: int


class StartRow(_Table, table=True):
    """A started call. `nth` counts those of one principal with one tool, so that how many there were since
    some moment is the difference of two rows, however many lie between."""

    __table_args__ = ({"sqlite_with_rowid": False},)

    principal: str = Field(primary_key=True)
    tool: str = Field(primary_key=True)
    ts: int = Field(primary_key=True)
    nth: int = Field(primary_key=True)


class CheckpointRow(_Table, table=True):
    size: int = Field(primary_key=True)
    note: str


class PersonRow(_Table, table=True):
    __table_args__ = ({"sqlite_with_rowid": False},)

    subject: str = Field(primary_key=True)
    name: str = Field(unique=True)
    roles: str
    active: bool
    token_digest: bytes | None = Field(unique=True)


class LeaseRow(_Table, table=True):
    __table_args__ = ({"sqlite_with_rowid": False},)

    run: str = Field(primary_key=True)
    holder: str
    until: int


class MetaRow(_Table, table=True):
    only: int = Field(primary_key=True)
    origin: str
    schema_version: int
