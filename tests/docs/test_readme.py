"""The README's first five minutes, and its other blocks, are run as they stand."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from governance import assemble
from governance.config import Home
from governance.ids import Origin

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(text) if kind == language]


@pytest.mark.timeout(180)
def test_the_first_five_minutes(tmp_path):
    text = section("The first five minutes")
    for body in (*blocks(text, "python"), *blocks(text, "yaml")):
        name = re.match(r"# (\S+)\n", body)
        assert name, body
        (tmp_path / name[1]).write_text(body)
    script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    script += "\n".join(blocks(text, "sh"))
    # Any free port will do; the page names one for people to read.
    with __import__("socket").socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = script.replace("8099", port)
    desk = tmp_path / "desk.py"
    desk.write_text(desk.read_text().replace("8099", port))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GOVERNANCE_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "suspended",
        "dana approves",
        "finished",
        "✓ integrity",
        "✓ lawfulness",
        "verified",
    ):
        assert line in done.stdout, line


def test_a_changed_byte_of_the_bundle_is_named_with_exit_5(tmp_path):
    home = Home(tmp_path / "home", tmp_path / "kept")
    key = assemble.init(home, Origin("test/readme"))
    bundle = tmp_path / "bundle"
    govern = [sys.executable, "-m", "governance.cli"]
    environment = {**os.environ, "GOVERNANCE_CHECKPOINT": str(home.checkpoint)}
    export = [*govern, "export", str(bundle), "--home", str(home.folder)]
    subprocess.run(export, check=True, env=environment, capture_output=True)
    entries = next((bundle / "entries").iterdir())
    raw = bytearray(entries.read_bytes())
    raw[len(raw) // 2] ^= 1
    entries.write_bytes(raw)
    command = [*govern, "verify", str(bundle), "--key", key]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert entries.name in done.stdout


def test_the_python_blocks_run_in_order():
    names: dict = {}
    for title in ("Tools", "Agents"):
        for body in blocks(section(title), "python"):
            ast.parse(body)
            exec(compile(body, title, "exec"), names)
    assert names["scale"].name == "scale"


def test_the_tables_name_every_verb_and_every_command():
    from governance.policy.model import VERB_TIERS

    for verb in VERB_TIERS:
        assert f"`{verb}`" in section("Tools"), verb
    out = subprocess.run(
        [sys.executable, "-m", "governance.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    commands = re.findall(r"^│ ([a-z][a-z-]+) {2,}\S", out.stdout, re.MULTILINE)
    assert len(commands) > 8
    for command in commands:
        assert f"`{command}" in section("Commands"), command
