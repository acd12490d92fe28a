"""Every claim of SECURITY.md and of the documents names tests, and each of these exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from docs.reading import ROOT, name_of, pages, rows, spelled

PAGE = (ROOT / "SECURITY.md").read_text()
NODE = re.compile(r"tests/[a-z_/]+\.py(?:::[A-Za-z_0-9]+)*")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The node ids of a test file below its name: functions, methods, and machines made test cases."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                methods = [m for m in body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
                found |= {f"{name}::{method.name}" for method in methods}
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case _:
                pass
    return frozenset(
        name for name in found if name.rpartition("::")[2].startswith(("test_", "Test"))
    )


def exists(node: str) -> bool:
    file, _, name = node.partition("::")
    path = ROOT / file
    return path.is_file() and (not name or name in names_in(path))


def tables() -> list[tuple[str, list[list[str]]]]:
    return [
        (part.splitlines()[0], rows(part, heading))
        for part in re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
        for heading in ("no", "what fails")
        if f"\n| {heading} |" in part
    ]


@pytest.mark.parametrize(
    ("title", "table"), tables(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_row_names_tests_that_exist(title, table):
    widths = {len(row) for row in table}
    assert widths == {5}
    for row in table:
        named = spelled(row[-1])
        assert named, row[:2]
        for node in named:
            assert "::" in node, node
            assert exists(node), node


def test_both_tables_are_there_and_threats_are_numbered_in_order():
    assert [title for title, _ in tables()][-1] == "What happens when something fails"
    numbers = [int(row[0]) for _, table in tables()[:-1] for row in table]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_tests_named_anywhere_exist(page):
    for node in NODE.findall(page.read_text()):
        assert exists(node), node


def test_a_name_that_is_none_is_noticed():
    assert not exists("tests/docs/test_security_tables.py::test_nothing")
    assert not exists("tests/docs/test_nothing.py::test_nothing")
    assert exists("tests/docs/test_security_tables.py::test_a_name_that_is_none_is_noticed")
