"""Where the public test vectors lie: `GOVERNANCE_VECTORS`, else beside the checkout."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "vectors"


@pytest.fixture(scope="session")
def vectors() -> Path:
    folder = Path(os.environ.get("GOVERNANCE_VECTORS") or BESIDE)
    if not folder.is_dir():
        reason = "public test vectors are absent; name their folder in GOVERNANCE_VECTORS"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def json_vectors(vectors: Path) -> Callable[[str], Any]:
    return lambda name: json.loads((vectors / name).read_bytes())


@pytest.fixture(scope="session")
def json_lines(vectors: Path) -> Callable[[str], list[Any]]:
    return lambda name: [json.loads(line) for line in (vectors / name).read_bytes().splitlines()]
