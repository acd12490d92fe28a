"""What every test of a store needs: a key, a clock that stands still, and both stores."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import verifier_key
from governance.ledger.entry import Draft, Kind
from governance.ports import Signer, Store
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore

ORIGIN = Origin("acme.example/agents")
AGENT = SubjectId("agent:refund-desk")
T0 = Micros(1_764_000_000_000_000)


class Key:
    """An Ed25519 key in memory."""

    def __init__(self, origin: Origin = ORIGIN) -> None:
        self.origin = origin
        self._key = Ed25519PrivateKey.generate()
        self.verifier_key = verifier_key(origin, self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


@pytest.fixture
def signer() -> Signer:
    return Key()


@pytest.fixture
def create(tmp_path: Path, signer: Signer) -> Iterator[Callable[..., SqliteStore]]:
    """Make SQLite stores in `tmp_path`; all are closed at the end."""
    made = []
    names = itertools.count()

    def make(**given: object) -> SqliteStore:
        path = given.pop("path", tmp_path / f"ledger-{next(names)}.db")
        settings = {"origin": ORIGIN, "signer": signer, "clock": lambda: T0, "salts": os.urandom}
        made.append(SqliteStore.create(path, **(settings | given)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, signer: Signer, create) -> Iterator[Store]:
    if request.param == "sqlite":
        yield create()
    else:
        memory = MemoryStore(ORIGIN, signer, lambda: T0, os.urandom)
        yield memory
        memory.close()


@pytest.fixture
def draft() -> Callable[..., Draft]:
    """An entry of a run, or with `run=None` of none."""

    def make(
        kind: Kind = Kind.INPUT_RECEIVED, run: str | None = "run-1", payloads=None, **body: object
    ) -> Draft:
        return Draft(kind, AGENT, body, payloads or {}, run=None if run is None else RunId(run))

    return make
