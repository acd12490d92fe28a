"""The verifier where nothing is installed but Python and `cryptography`, and where orjson is missing."""

import subprocess
import sys
from pathlib import Path

import cryptography
import pytest
from bundles import KEY, PINS, busy_log, write

from governance import canonical
from governance.bundle import __main__ as alone
from governance.bundle import verify_bundle

ROOT = Path(__file__).parents[2]
LOG = busy_log()
BARE = """
import sys

KNOWN = {*sys.stdlib_module_names, "cryptography", "_cffi_backend", "cffi", "governance"}


class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in KNOWN:
            raise ModuleNotFoundError(f"not on this machine: {name}")
        return None


sys.meta_path.insert(0, Nothing())
sys.path += sys.argv[1:3]
sys.argv[1:3] = []
import runpy

runpy.run_module("governance.bundle", run_name="__main__")
"""


def bare(*arguments):
    """Run the verifier in a process that can import nothing else."""
    site = Path(cryptography.__file__).parents[1]
    command = [sys.executable, "-I", "-S", "-c", BARE, str(ROOT), str(site), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["log", "range", "run"])
def test_a_bundle_is_verified_with_nothing_but_cryptography(tmp_path, kind):
    folder = write(LOG, kind, tmp_path / "b")
    done = bare(folder, "--key", KEY.verifier_key)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(line.split(":", 1) for line in done.stdout.splitlines()[-5:])
    assert {told[name].strip() for name in ("integrity", "trust", "completeness")} == {"ok"}
    assert told["lawfulness"].strip().startswith("not-checked")


def test_it_finds_there_what_is_found_here(tmp_path):
    folder = write(LOG, "log", tmp_path / "b")
    (file,) = (folder / "entries").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"agent:desk"', b'"agent:dusk"', 1) + b"\x1b[2J\n")
    done = bare(folder, "--key", KEY.verifier_key)
    assert done.returncode == 5
    report = verify_bundle(folder, PINS)
    assert done.stdout.count("failure: ") == sum(item.is_failure for item in report.findings)
    for item in report.findings:
        assert str(item.where) in done.stdout
    assert "\x1b" not in done.stdout


def test_without_a_key_it_vouches_for_nothing(tmp_path):
    done = bare(write(LOG, "log", tmp_path / "b"))
    assert done.returncode == 5
    assert "UNPINNED" in done.stdout


def test_what_cannot_be_judged(tmp_path, capsys):
    assert alone.main([str(tmp_path / "nowhere")]) == 2
    folder = str(write(LOG, "log", tmp_path / "b"))
    for bad in ("a+b+c", "no/such/file", ""):
        assert alone.main([folder, "--key", bad]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 4


def test_the_pin_may_be_a_file(tmp_path, capsys):
    (tmp_path / "key").write_text(f"{KEY.verifier_key}\n")
    folder = str(write(LOG, "log", tmp_path / "b"))
    assert alone.main([folder, "--key", str(tmp_path / "key")]) == 0


def test_orjson_is_not_loaded_there():
    code = f"{BARE.partition('import runpy')[0]}\nimport governance.canonical as c\nprint(c.read.__name__)"
    site = Path(cryptography.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT), str(site)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "_read"
    assert canonical.read.__name__ == "loads"
