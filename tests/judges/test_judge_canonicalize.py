"""npm's `canonicalize` (RFC 8785) writes what we export once more: the same bytes, and other ones when changed."""

import json
import os
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import npm
import pytest
from judges.conftest import BIG_ID, absent

from governance.canonical import CanonicalError, parse_json, payload_bytes

pytestmark = pytest.mark.judge

PACKAGE = "canonicalize@4.0.0"
PACKAGE_SHA256 = "ae9a1851b4d3489fba0d6a45a6b779296c5fe7f9dd626eb2c6d12045d47cba87"
EXACT_MAX = 2**53
"""Up to here JavaScript keeps the digits of an integer; we keep those of all 64-bit ones."""
AGAIN = """
const { default: canonicalize } = await import(process.argv[1]);
const fs = await import('fs');
const given = fs.readFileSync(0, 'latin1').split('\\n').filter(Boolean);
const written = given.map((line) => {
  try {
    const text = canonicalize(JSON.parse(Buffer.from(line, 'hex').toString()));
    return Buffer.from(text).toString('hex');
  } catch { return ''; }
});
process.stdout.write(written.join('\\n'));
"""
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "vectors"
VECTORS = Path(os.environ.get("GOVERNANCE_VECTORS") or BESIDE) / "jcs"

BIG = b'"id":%d,' % BIG_ID
"""In the results of the judged run: the only place where we add to RFC 8785."""

Judge = Callable[[Sequence[bytes]], list[bytes]]


@pytest.fixture(scope="session")
def again(tmp_path_factory) -> Judge:
    """Read documents and write them once more; empty for what is no JSON."""
    try:
        package = npm.fetch(PACKAGE, PACKAGE_SHA256, tmp_path_factory.mktemp("npm"))
    except npm.AbsentError as exc:
        absent(str(exc))

    def write(documents: Sequence[bytes]) -> list[bytes]:
        arguments = ("--input-type=module", "-e", AGAIN, str(package / "lib/canonicalize.js"))
        out = npm.node(*arguments, stdin="\n".join(d.hex() for d in documents).encode())
        written = [bytes.fromhex(line) for line in out.decode().split("\n")]
        assert len(written) == len(documents)
        return written

    return write


@pytest.fixture(scope="session")
def documents(evidence) -> list[bytes]:
    """Every line of the bundle, the content of every payload, manifest and receipt."""
    entries, payloads = (
        [line for path in sorted((evidence.bundle / folder).iterdir()) for line in lines_of(path)]
        for folder in ("entries", "payloads")
    )
    contents = [json.loads(line)["content"].encode() for line in payloads]
    whole = [(evidence.bundle / "manifest.json").read_bytes(), *lines_of(evidence.receipt)]
    return [*entries, *payloads, *contents, *whole]


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def as_javascript(value):
    """The same with integers rounded as JavaScript reads them."""
    match value:
        case dict():
            return {key: as_javascript(item) for key, item in value.items()}
        case list():
            return [as_javascript(item) for item in value]
        case bool():
            return value
        case int() if abs(value) > EXACT_MAX:
            return float(value)
    return value


def test_it_writes_every_line_of_an_export_with_the_same_bytes(again, documents):
    assert len(documents) > 900
    written = again(documents)
    apart = []
    for ours, theirs in zip(documents, written, strict=True):
        if theirs != ours:
            apart.append(ours)
            assert theirs == payload_bytes(as_javascript(parse_json(ours)))
    assert apart == [one for one in documents if BIG in one]


HARD = [
    {"\ue000": 1, "\U00010000": 2, "\uffff": 3, "\ud7ff": 4, "a": 5, "": 6, "A": 7, "\x7f": 8},
    ['\x00\x08\t\n\x0b\x0c\r\x1f\x7f\x80\u2028\u2029"\\/\ufeff', "e\u0301", "\u00e9", "💶"],
    [
        0.0,
        -0.0,
        1.0,
        1e20,
        1e21,
        1e-6,
        1e-7,
        123456789012345680000.0,
        5e-324,
        1.7976931348623157e308,
    ],
    [0.1 + 0.2, 333333333.33333329, 1e23, 4.5, 2e-3, -1e-27, 0.000001, 9.999999999999997e22],
    [EXACT_MAX - 1, EXACT_MAX, -EXACT_MAX, 0, -1, True, False, None, [], {}, [[]], {"": {}}],
    {str(n): n for n in range(30)},
    {"toJSON": 1, "__proto__": 2, "constructor": 3, "length": 4},
]


@pytest.mark.parametrize("value", HARD, ids=range(len(HARD)))
def test_it_writes_hard_values_as_we_do(again, value):
    assert again([payload_bytes(value)]) == [payload_bytes(value)]


def test_it_writes_the_published_numbers_as_we_do(again):
    if not VECTORS.is_dir():
        absent("public test vectors are absent")
    given = (VECTORS / "es6numbers-10000.txt").read_text().splitlines()
    ours = []
    for line in given:
        (number,) = struct.unpack(">d", bytes.fromhex(line.split(",")[0].rjust(16, "0")))
        ours.append(payload_bytes(number))
    assert again(ours) == ours
    assert len(ours) == 10_000


@pytest.mark.parametrize("number", [EXACT_MAX + 1, 2**63 - 1, -(2**63), 10**18 + 1])
def test_where_it_rounds_integers_we_keep_their_digits(again, number):
    """What we add to RFC 8785, and nothing else is different."""
    value = {"id": number, "near": [EXACT_MAX - 1, 0.5]}
    ours = payload_bytes(value)
    assert str(number).encode() in ours
    (theirs,) = again([ours])
    assert theirs != ours
    assert theirs == payload_bytes(as_javascript(value))


@pytest.mark.parametrize(
    ("good", "changed"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":1}', b'{"a": 1}'),
        (b'{"a":1}', b'{"a":1} '),
        (b'["A"]', b'["\\u0041"]'),
        (b'["/"]', b'["\\/"]'),
        (b'["\\n"]', b'["\\u000a"]'),
        (b'["\\u001f"]', b'["\\u001F"]'),
        (b"[1]", b"[1.0]"),
        (b"[0]", b"[-0]"),
        (b"[1e+21]", b"[1E21]"),
        (b'{"a":2}', b'{"a":1,"a":2}'),
    ],
)
def test_another_spelling_comes_out_as_ours_and_so_differs(again, good, changed):
    assert again([good, changed]) == [good, good]
    with_ours = [payload_bytes(parse_json(good))]
    assert with_ours == [good]


def test_both_call_the_same_damaged_documents_canonical(again, documents):
    chance, damaged = random.Random(8785), []
    for raw in chance.sample([one for one in documents if len(one) < 4_000], 300):
        at, bit = chance.randrange(len(raw)), 1 << chance.randrange(8)
        damaged.append(raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :])
    verdicts = set()
    for raw, theirs in zip(damaged, again(damaged), strict=True):
        assert is_canonical(raw) is (theirs == raw), raw
        verdicts.add(theirs == raw)
    assert verdicts == {True, False}


def is_canonical(raw: bytes) -> bool:
    try:
        value = parse_json(raw)
        return payload_bytes(value) == raw == payload_bytes(as_javascript(value))
    except CanonicalError:
        return False
