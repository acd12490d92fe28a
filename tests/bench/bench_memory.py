"""How much memory do a million entries take, exported, verified and judged? Each in a process of its own.

The log is lawful: one governed run, recorded again and again under new names. Making it takes longest.
"""

import functools
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

SCRIPT = Path(__file__).parent / "long_log.py"
MANY, FEW = 1_000_000, 10_000


def stages(size: int, folder: Path) -> Mapping[str, tuple[float, float]]:
    """(seconds of CPU, largest resident size in MB) of each thing done with a log of `size` entries."""
    database, bundle = folder / f"{size}.db", folder / f"{size}"

    def child(what: str, *given: object) -> tuple[float, float]:
        command = [sys.executable, str(SCRIPT), what, *map(str, given)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, megabytes = told.split()
        return float(seconds), float(megabytes)

    child("make", database, size)
    return {
        "export": child("export", database, bundle),
        "verify": child("verify", bundle),
        "judge": child("judge", bundle),
    }


@functools.cache
def _measured(size: int) -> Mapping[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        return stages(size, Path(folder))


def verification_megabytes() -> float:
    return _measured(MANY)["verify"][1]


def verification_growth() -> float:
    return _measured(MANY)["verify"][1] - _measured(FEW)["verify"][1]


def export_megabytes() -> float:
    return _measured(MANY)["export"][1]


def lawfulness_megabytes() -> float:
    return _measured(MANY)["judge"][1]


def lawfulness_growth() -> float:
    """What judging takes an entry of many, over an entry of few."""
    return (_measured(MANY)["judge"][0] / MANY) / (_measured(FEW)["judge"][0] / FEW)
