"""Entries: sealed as they are read, each field with one spelling, content only under its commitment."""

import dataclasses

import pytest

from governance.canonical import entry_bytes, parse_entry
from governance.errors import InvalidInputError, TamperedError
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Payload,
    Record,
    RunLink,
    genesis,
    leaf_hash,
    read_entry,
    seal,
)

ORIGIN = Origin("acme.example/agents")
LINK = Link(7, leaf_hash(b"before"), Micros(1_700_000_000_000_000))
PAYLOAD = Payload("args", bytes(32), b'{"amount":5}')
DRAFT = Draft(
    Kind.CALL_DECIDED,
    SubjectId("agent:refund-desk"),
    {"uid": "run-1/1.0"},
    run=RunId("run-1"),
    on_behalf_of=SubjectId("user:7f3k9q"),
)
ENTRY = seal(DRAFT, ORIGIN, LINK, RunLink(0, RUN_START), {"args": PAYLOAD.commitment})


def test_an_entry_reads_back_as_it_was_sealed():
    assert read_entry(ENTRY.raw) == ENTRY
    assert ENTRY.hash == leaf_hash(ENTRY.raw)


def test_acting_for_oneself_is_not_said():
    entry = seal(
        dataclasses.replace(DRAFT, on_behalf_of=DRAFT.actor),
        ORIGIN,
        LINK,
        RunLink(0, RUN_START),
        {},
    )
    assert b"on_behalf_of" not in entry.raw


@pytest.mark.parametrize("run_link", [None, RunLink(0, RUN_START)])
def test_a_run_and_its_link_come_together(run_link):
    draft = DRAFT if run_link is None else dataclasses.replace(DRAFT, run=None)
    with pytest.raises(InvalidInputError, match="needs a run and its link, or neither"):
        seal(draft, ORIGIN, LINK, run_link, {})


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": "1"},
        {"log": "two words"},
        {"seq": -1},
        {"seq": "7"},
        {"prev": "ab"},
        {"prev": "AB" * 32},
        {"prev": " ".join(["ab"] * 32)},
        {"prev": "ab" * 33},
        {"prev": "\u0661" * 64},
        {"ts": -1},
        {"ts": None},
        {"type": "call.imagined"},
        {"type": 1},
        {"actor": ""},
        {"actor": "two words"},
        {"on_behalf_of": 5},
        {"run": "a/b"},
        {"rseq": True},
        {"rprev": ""},
        {"body": []},
        {"payloads": []},
        {"payloads": {"args": 1}},
        {"payloads": {"args": "00"}},
        {"payloads": {"args": " ".join(["00"] * 32)}},
        {"more": 1},
        {"run": ...},
        {"rseq": ...},
        {"rprev": ...},
        {"body": ...},
        {"payloads": ...},
        {"ts": ...},
    ],
)
def test_every_field_has_one_form(change):
    fields = {k: v for k, v in (parse_entry(ENTRY.raw) | change).items() if v is not ...}
    with pytest.raises(InvalidInputError):
        read_entry(entry_bytes(fields))


def test_each_log_has_its_own_genesis():
    assert genesis(ORIGIN) != genesis(Origin("acme.example/agents2"))


def test_content_is_given_only_as_it_was_recorded():
    assert Record(ENTRY, {"args": PAYLOAD}).content("args") == {"amount": 5}
    with pytest.raises(TamperedError, match="payload `args` of entry 7 is missing") as missing:
        Record(ENTRY).content("args")
    assert missing.value.seq == 7
    other = dataclasses.replace(PAYLOAD, content=b'{"amount":6}')
    with pytest.raises(TamperedError, match="is not what was recorded"):
        Record(ENTRY, {"args": other}).content("args")
    with pytest.raises(TamperedError, match="is not what was recorded"):
        Record(ENTRY, {"note": dataclasses.replace(PAYLOAD, name="note")}).content("note")


def test_kinds_are_named_like_the_documents_name_them():
    assert all(kind.value.count(".") == 1 for kind in Kind)
    assert len({kind.value for kind in Kind}) == len(Kind)
