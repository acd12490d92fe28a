"""The shape of the tree: how long things may get, and what must not be imported to start."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    p for room in ("governance", "agent", "audit_viewer") for p in (ROOT / room).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_outgrows_its_question(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or not tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 70, node.name
        if isinstance(node, ast.ClassDef):
            public = [
                m.name
                for m in node.body
                if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef) and m.name[0] != "_"
            ]
            assert len(public) <= 14, (node.name, public)  # the widest: a reader, one port


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("governance.errors", {"sqlmodel", "fastapi", "celpy", "openai"}),
        ("governance.ledger.verify", {"sqlmodel", "fastapi", "celpy", "openai", "agent"}),
        ("governance.lawful.check", {"sqlmodel", "fastapi", "openai", "agent"}),
        ("governance.cli", {"sqlmodel", "fastapi", "celpy", "openai", "agent"}),
        ("agent", {"fastapi", "openai", "celpy", "uvicorn"}),
    ],
)
def test_importing_it_loads_nothing_heavy(module, heavy):
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []
