"""docs/verify.md lists every kind of finding, the files of a bundle and the exit statuses."""

from docs.reading import ROOT, rows, spelled

from governance.cli.evidence import DOES_NOT_HOLD
from governance.errors import InvalidInputError
from governance.lawful.report import Fault
from governance.ledger.report import FINDINGS_MAX, Flaw, Verdict, Where, finding

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
