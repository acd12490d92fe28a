"""docs/operate.md lists the findings, metrics, addresses and settings that there are."""

import re

import pytest
from docs.reading import ROOT, rows, spelled
from fastapi import FastAPI
from starlette.testclient import TestClient

from governance import config, livecheck
from governance.assemble import KeySigner
from governance.errors import InvalidInputError
from governance.ids import Micros, Origin
from governance.livecheck import LiveCheck
from governance.store import inspection
from governance.store.connection import BUSY_TIMEOUT_S
from governance.store.inspection import Subject
from governance.store.memory import MemoryStore
from governance.store.reckoning import Difference
from governance.store.stands import KeptStand
from governance.store.tables import METADATA
from governance.web.health import watch

TEXT = (ROOT / "docs" / "operate.md").read_text()


def test_every_kind_of_finding_is_listed_in_order():
    assert [spelled(row[0]) for row in rows(TEXT, "kind")] == [[kind] for kind in Difference]


def test_every_table_is_compared_or_said_not_to_be():
    compared = {name for row in rows(TEXT, "compared") for name in spelled(row[0])}
    prose = {"checkpoint", "payload"}  # "each stored checkpoint", "content and its salt"
    left_out = set(spelled(TEXT.split("not checked:")[1].split(".")[0]))
    tables = {table.name for table in METADATA.tables.values()}
    assert (compared | prose | left_out) - {"--full"} == tables


def test_numbers_are_those_of_the_code():
    assert f"slices of {inspection.SLICE_ENTRIES} entries" in TEXT
    assert f"once in {livecheck.WHOLE_EVERY_S // 3600} hours" in TEXT
    assert livecheck.OVERDUE_AFTER == 3
    assert "in three intervals" in TEXT
    assert livecheck.REST == 1
    assert f"over {BUSY_TIMEOUT_S:.0f} s" in TEXT


def test_the_interval_has_the_default_and_the_bounds_it_says(monkeypatch):
    ((name, meaning, default),) = rows(TEXT, "variable")
    low, high = map(int, re.findall(r"(\d+) to (\d+)", meaning)[0])
    monkeypatch.delenv(*spelled(name), raising=False)
    assert config.check_seconds() == int(default)
    for given in (low, high):
        monkeypatch.setenv(*spelled(name), str(given))
        assert config.check_seconds() == given
    for given in (low - 1, high + 1):
        monkeypatch.setenv(*spelled(name), str(given))
        with pytest.raises(InvalidInputError):
            config.check_seconds()


def test_every_metric_and_address_is_listed(tmp_path):
    signer = KeySigner.from_seed(Origin("test/docs"), bytes(32))
    store = MemoryStore(signer.origin, signer, lambda: Micros(1), bytes)
    subject = Subject(
        tmp_path / "none.db", tmp_path / "none.keyring", signer.origin, signer.verifier_key
    )
    live = LiveCheck(subject, KeptStand(tmp_path / "verified", signer), lambda: Micros(1), 60)
    app = FastAPI()
    watch(app, store, live)
    listed = [name for row in rows(TEXT, "metric") for name in spelled(row[0])]
    shown = re.findall(r"# TYPE (\S+)", TestClient(app).get("/metrics").text)
    assert set(shown) < set(listed)
    assert "absent before the first" in TEXT
    assert len(listed) == 5
    paths = {name for row in rows(TEXT, "address") for name in spelled(row[0])}
    assert {route.path for route in app.routes if route.path in paths} == paths - {"/healthz"}
