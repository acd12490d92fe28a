"""Links lead somewhere, policies in the pages load and do what their cases say, nothing names a machine."""

import re
import subprocess
from pathlib import Path

import pytest
from docs.reading import FENCE, ROOT, blocks, name_of, pages
from typer.main import get_command

from governance.cli.entry import app
from governance.policy.document import load_policies
from governance.policy.suite import read_suite, run_cases

LINK = re.compile(r"(?<!\!)\[[^\]]+\]\(([^)\s]+)\)")
ROOMS = ("governance", "agent", "audit_viewer", "policies", "tests", "docs", ".ci")
WORDS = (
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "index" + "-url http",
    "index" + "-url=http",
    "arti" + "factory",
    "/wo" + "rk/",
    "/ho" + "me/",
    "/Us" + "ers/",
)
"""What names a package index or somebody's machine; put together here, so as not to find itself."""


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_relative_links_lead_somewhere(page):
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_policies_in_a_page_load_and_pass_the_cases_beside_them(page):
    newest = None
    for number, text in enumerate(blocks(page, "yaml")):
        if re.match(r"policy:", text):
            newest = load_policies({f"{page.name}-{number}.yaml": text})
        elif re.match(r"tools:", text):
            assert newest is not None, "cases stand before their policy"
            report = run_cases(newest, read_suite(text))
            assert [case for case in report.cases if not case.passed] == []


def test_every_block_of_the_policy_page_is_a_policy_or_its_cases():
    page = ROOT / "docs" / "policy.md"
    kinds = [text.partition(":")[0] for text in blocks(page, "yaml")]
    assert kinds[:3] == ["policy", "tools", "tools"]
    assert kinds[3:] == ["policy", "tools"] * 9


def commands(page: Path) -> list[str]:
    """Every `governance …` line that a page tells people to type."""
    text = page.read_text()
    typed = [line for block in blocks(page, "sh") for line in block.splitlines()]
    typed += re.findall(r"`(governance [^`]+)`", FENCE.sub("", text))
    return [line.partition(" #")[0] for line in typed if line.startswith("governance ")]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_a_page_are_there_with_their_options(page):
    for line in commands(page):
        command, words = get_command(app), line.split()[1:]
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        options = {spelling for param in command.params for spelling in param.opts}
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert named <= options, line


def tree() -> list[Path]:
    """The files of the project: those git knows or would add, where there is a repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines()]
    inside = [path for room in ROOMS for path in (ROOT / room).rglob("*")]
    return [path for path in (*ROOT.iterdir(), *inside) if "__pycache__" not in path.parts]


def test_no_file_names_a_package_index_or_a_machine_path():
    found = []
    for path in tree():
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace").lower()
        found += [(name_of(path), word) for word in WORDS if word.lower() in text]
    assert found == []
