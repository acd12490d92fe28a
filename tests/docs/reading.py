"""How tests read the documents: which there are, their tables, what they set in code type."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Everything people read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of the table whose first column is called `heading`, cell by cell."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[0] == heading:
            inside = True
        elif inside and set(cells[0]) - set("-: "):
            found.append(cells)
    assert found, f"no table `{heading}`"
    return found


def spelled(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of `language`."""
    return [text for name, text in FENCE.findall(page.read_text()) if name == language]
