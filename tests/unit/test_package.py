"""What is installed: the wheel carries the policies, the pages and the types, and its commands run."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_wheel_carries_all_that_is_read_at_run_time(tmp_path):
    ignore = shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "*.egg-info")
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=ignore)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    for name in (
        "governance/_policies/baseline.yaml",
        "governance/_policies/examples/refund_desk.yaml",
        "governance/web/templates/card.html",
        "agent/demo_script.yaml",
        "governance/py.typed",
    ):
        assert (unpacked / name).is_file(), name
    code = (
        "import governance.config as c; assert c.shipped_policy('baseline')[1].startswith('# ');"
        "print(c.__file__)"
    )
    out = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.startswith(str(unpacked))
