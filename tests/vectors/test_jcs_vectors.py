"""RFC 8785: the file pairs and numbers of its author, and the cases of canoncheck, on `canonical`."""

import json
import struct

import pytest
import rfc8785

from governance import canonical, spelling
from governance.canonical import CanonicalError, parse_json, payload_bytes

pytestmark = pytest.mark.conformance


@pytest.fixture(autouse=True, params=["orjson", "standard library"])
def library(request, monkeypatch):
    """Either way of writing JSON that `canonical` may find."""
    if request.param != "orjson":
        for name in ("read", "spell", "spell_strict"):
            monkeypatch.setattr(canonical, name, getattr(spelling, f"_{name}"))


PAIRS = ["arrays", "french", "structures", "unicode", "values", "weird"]
NUMBERS = {
    "es6numbers-1000.txt": 1_000,
    "es6numbers-10000.txt": 10_000,
}


@pytest.mark.parametrize("name", PAIRS)
def test_file_pairs(vectors, name):
    folder = vectors / "jcs" / "cyberphone"
    given = (folder / "input" / f"{name}.json").read_bytes()
    expected = (folder / "output" / f"{name}.json").read_bytes()
    assert payload_bytes(parse_json(given)) == expected
    assert expected == bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text())


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers(vectors, name):
    wrong, seen = [], 0
    for line in (vectors / "jcs" / name).read_text().splitlines():
        bits, expected = line.split(",")
        (number,) = struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))
        seen += 1
        if payload_bytes(number) != expected.encode():
            wrong.append(line)
    assert wrong == []
    assert seen == NUMBERS[name]


def test_canoncheck_cases(vectors):
    for path in sorted((vectors / "jcs" / "canoncheck").glob("*.json")):
        raw = path.read_bytes()
        if path.name.startswith("reject_"):
            with pytest.raises(CanonicalError):
                parse_json(raw)
        else:
            assert payload_bytes(parse_json(raw)) == rfc8785.dumps(json.loads(raw))
