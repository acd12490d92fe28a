"""docs/verify.md lists every kind of finding, the files of a bundle and the exit statuses."""

import os

import pytest
from cryptography.exceptions import InvalidSignature
from docs.reading import ROOT, blocks, rows, spelled

from governance.assemble import KeySigner
from governance.cli.evidence import DOES_NOT_HOLD
from governance.errors import InvalidInputError
from governance.ids import Micros, Origin, RunId, SubjectId
from governance.lawful.report import Fault
from governance.ledger.checkpoint import parse_verifier_key
from governance.ledger.entry import Draft, Kind
from governance.ledger.receipt import ENTRIES_MAX, FORMAT, RECEIPT_BYTES_MAX
from governance.ledger.report import FINDINGS_MAX, Flaw, Verdict, Where, finding
from governance.receipts import make_receipt
from governance.store.memory import MemoryStore

TEXT = (ROOT / "docs" / "verify.md").read_text()


def test_every_finding_about_the_log_is_listed_in_order():
    table = rows(TEXT, "finding")
    assert [spelled(row[0]) for row in table] == [[flaw] for flaw in Flaw]
    for (flaw,), verdicts, meaning in ((spelled(row[0]), row[1], row[2]) for row in table):
        assert set(verdicts.split(", ")) <= set(Verdict)
        weight = finding(Verdict.INTEGRITY, Flaw(flaw), Where(), "").is_failure
        assert meaning.startswith("information:") is not weight, flaw


def test_every_finding_about_lawfulness_is_listed_in_order():
    assert [spelled(row[0]) for row in rows(TEXT, "fault")] == [[fault] for fault in Fault]


def test_every_verdict_is_explained():
    assert [row[0] for row in rows(TEXT, "verdict")] == list(Verdict)


def test_exit_statuses_and_bounds_are_those_of_the_code():
    listed = [row[0] for row in rows(TEXT, "exit")]
    assert listed == ["0", str(DOES_NOT_HOLD), str(InvalidInputError.exit_status)]
    assert f"{FINDINGS_MAX:,}" in TEXT


SIGNER = KeySigner.from_seed(Origin("acme.example/agents"), bytes(32))


@pytest.fixture(scope="module")
def receipt():
    store = MemoryStore(SIGNER.origin, SIGNER, lambda: Micros(1), os.urandom)
    run, agent = RunId("run-1"), SubjectId("agent:desk")
    for n in range(7):
        body = {"uid": f"run-1/{n % 3}.0"}
        draft = Draft(
            Kind.CALL_DECIDED, agent, body, {"args": {"n": n, "text": "\u00e9\u2028"}}, run
        )
        store.write(lambda tx, draft=draft: tx.append(draft, Micros(1)))
    store.checkpoint()
    key = parse_verifier_key(SIGNER.verifier_key)
    return store.read(lambda reader: make_receipt(reader, "run-1/1.0", key))


def test_the_fields_of_a_receipt_are_those_of_the_code(receipt):
    table = {spelled(row[0])[0]: row[1] for row in rows(TEXT, "field")}
    made = receipt.to_json()
    assert list(table) == list(made)
    for name in ("entries", "payloads"):
        named = spelled(table[name])[0].strip("{}").split(", ")
        assert named == list(made[name][0])
    assert spelled(table["format"]) == [FORMAT]
    assert f"{ENTRIES_MAX:,}" in table["entries"]
    assert f"at most {RECEIPT_BYTES_MAX // 1024**2} MiB" in TEXT


def test_the_program_on_the_page_verifies_receipts(receipt):
    (program,) = blocks(ROOT / "docs" / "verify.md", "python")
    names: dict = {}
    exec(program, names)  # the page's own
    raw = receipt.to_bytes().decode()
    found = names["check"](raw, SIGNER.verifier_key)
    assert [entry["body"]["uid"] for entry in found.values()] == ["run-1/1.0"] * 2
    other = KeySigner.from_seed(SIGNER.origin, b"\1" * 32).verifier_key
    for changed, key in (
        (raw, other),
        (raw.replace("agents\\n8", "agents\\n9", 1), SIGNER.verifier_key),
        (raw.replace('"path":[0', '"path":[1', 1), SIGNER.verifier_key),
        (raw.replace("agent:desk", "agent:dusk", 1), SIGNER.verifier_key),
        (raw.replace('\\"n\\":1', '\\"n\\":2', 1), SIGNER.verifier_key),
    ):
        assert (changed, key) != (raw, SIGNER.verifier_key)
        with pytest.raises((AssertionError, InvalidSignature)):
            names["check"](changed, key)
