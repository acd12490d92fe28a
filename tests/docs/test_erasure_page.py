"""docs/erasure.md: its program runs, and what it says of numbers and names is so."""

import re

from agents import Plays, call, calls, say
from docs.reading import ROOT, blocks

from agent.tools.secrets import SECRET_CHARS_MIN
from governance import Governance
from governance.config import Home
from governance.erasure import ERASER

PAGE = ROOT / "docs" / "erasure.md"
TEXT = PAGE.read_text()
ALLOW = """
policy: all
version: 1
rules:
  - {id: all, match: {tools: ["*"]}, effect: allow, allow_tier: critical}
"""


def test_the_program_on_the_page_runs(monkeypatch):
    (program,) = blocks(PAGE, "python")
    (name,) = re.findall(r"`(GOVERNANCE_SECRET_[A-Z_]+)`", TEXT)
    monkeypatch.setenv(name, "a-key-of-the-page")
    model = Plays(calls(call("pay", to="bob", cents=5)), say())
    with Governance.in_memory(policies={"all.yaml": ALLOW}) as governance:
        names = {"model": model, "governance": governance}
        exec(program, names)  # the page's own text
        assert names["agent"].run("go").status == "completed"
        (result,) = model.results()
    assert "failed" not in result


def test_numbers_and_names_are_those_of_the_code(tmp_path):
    assert f"at least {SECRET_CHARS_MIN} characters" in TEXT
    assert f"role\n`{ERASER}`" in TEXT or f"role `{ERASER}`" in TEXT
    assert f"`{Home(tmp_path, tmp_path).keyring.name}`" in TEXT
