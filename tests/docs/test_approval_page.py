"""docs/approval.md draws the table of the code, and names every reason."""

from docs.reading import ROOT, blocks

from governance.approval.model import Refusal
from governance.approval.transitions import diagram

PAGE = ROOT / "docs" / "approval.md"


def test_the_diagram_is_the_one_of_the_code():
    assert blocks(PAGE, "mermaid") == [diagram()]


def test_every_reason_for_refusing_an_answer_is_listed():
    entries = (ROOT / "docs" / "entries.md").read_text()
    assert [reason for reason in Refusal if f"`{reason}`" not in entries] == []
