"""Go's own checksum database (sumdb note and tlog) judges what we export, and refuses what was changed."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from judges.conftest import Evidence, absent, found

from governance.assemble import KeySigner
from governance.bundle import verify_bundle
from governance.canonical import payload_bytes
from governance.ids import Digest
from governance.ledger.checkpoint import (
    Checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    sign_note,
)
from governance.ledger.manifest import manifest_text

pytestmark = [pytest.mark.judge, pytest.mark.attack]

SOURCE = Path(__file__).parent / "outside" / "verify.go"
LIBRARY = Path("/usr/share/gocode")
"""Where Debian puts the sources of Go packages."""
ENTRIES = "entries/0000000000000000.jsonl"
PAYLOADS = "payloads/0000000000000000.jsonl"
FLIPS = 80

Judge = Callable[..., str]
Damage = Callable[[Path, KeySigner], None]


@pytest.fixture(scope="session")
def judge(tmp_path_factory) -> Judge:
    """The judge, built once: it answers `ok`, or the reason why not."""
    go = found("go")
    if not (LIBRARY / "src/golang.org/x/mod/sumdb/tlog").is_dir():
        absent("`golang-golang-x-mod-dev` is not installed")
    folder = tmp_path_factory.mktemp("go")
    settings = {"GO111MODULE": "off", "GOPATH": str(LIBRARY), "GOFLAGS": ""}
    environment = {**os.environ, **settings, "GOCACHE": str(folder / "cache")}
    command = [go, "build", "-o", str(folder / "verify"), str(SOURCE)]
    subprocess.run(command, env=environment, check=True, timeout=110)

    def ask(what: str, path: Path, key: str) -> str:
        command = [str(folder / "verify"), what, str(path), key]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode == 0) is (done.stdout == "ok\n"), done
        assert done.returncode in (0, 1), done.stderr
        return done.stdout.strip()

    return ask


def test_it_accepts_what_was_exported(judge, evidence):
    assert judge("bundle", evidence.bundle, evidence.key) == "ok"
    assert judge("receipt", evidence.receipt, evidence.key) == "ok"
    assert b'"type":"payload.erased"' in (evidence.bundle / ENTRIES).read_bytes()
    levels = {path.name for path in (evidence.bundle / "tile").iterdir()}
    assert levels == {"0", "1"}


def test_it_trusts_no_other_key(judge, evidence):
    other = KeySigner.from_seed(evidence.signer.origin, b"\7" * 32).verifier_key
    assert judge("bundle", evidence.bundle, other).startswith("manifest.sig: ")
    assert judge("receipt", evidence.receipt, other).startswith("checkpoint: ")


# What is done to a bundle. The manifest notices all of it but for the tiles; then it is made anew, and signed, by
# whoever has the log's key, and the judge has to find out by itself.


def edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def flip_in_line(name: str, at: int, after: bytes) -> Damage:
    """Change the digit or letter that follows `after`."""

    def damage(bundle: Path, _: KeySigner) -> None:
        def change(old: list[bytes]) -> list[bytes]:
            before, mark, rest = old[at].partition(after)
            assert mark, old[at]
            swapped = b"1" if rest[:1] != b"1" else b"2"
            old[at] = before + mark + swapped + rest[1:]
            return old

        edit(bundle / name, change)

    return damage


def drop_line(name: str, at: int) -> Damage:
    def damage(bundle: Path, _: KeySigner) -> None:
        edit(bundle / name, lambda old: [line for n, line in enumerate(old) if n != at])

    return damage


def other_size(bundle: Path, _: KeySigner) -> None:
    newest = max((bundle / "checkpoints").iterdir())
    for path in (newest, bundle / "checkpoint"):
        origin, size, rest = path.read_bytes().split(b"\n", 2)
        path.write_bytes(b"\n".join([origin, b"%d" % (int(size) + 1), rest]))


def flip_signature(bundle: Path, _: KeySigner) -> None:
    for path in (max((bundle / "checkpoints").iterdir()), bundle / "checkpoint"):
        raw = path.read_bytes()
        path.write_bytes(raw[:-20] + (b"A" if raw[-20:-19] != b"A" else b"B") + raw[-19:])


def lie_about_the_past(bundle: Path, signer: KeySigner) -> None:
    """A second story under the log's own key: another root for a size that was."""
    note = sign_checkpoint(Checkpoint(signer.origin, 100, Digest(bytes(32))), signer)
    (bundle / f"checkpoints/{100:016}").write_text(note)


def claim_less(bundle: Path, signer: KeySigner) -> None:
    """An older head of the log in the place of the newest."""
    old = min((bundle / "checkpoints").iterdir())
    assert int(old.name) < int(max((bundle / "checkpoints").iterdir()).name)
    shutil.copy(old, bundle / "checkpoint")


@dataclass(frozen=True)
class Case:
    name: str
    damage: Damage
    reason: str


CASES = [
    Case("entry", flip_in_line(ENTRIES, 40, b'"ts":'), "entry 41 does not follow"),
    Case("last-entry", flip_in_line(ENTRIES, -1, b'"ts":'), "root over "),
    Case("missing-entry", drop_line(ENTRIES, 40), "entries, and the checkpoint covers "),
    Case("payload", flip_in_line(PAYLOADS, 9, b'"content":"'), "is not what was committed to"),
    Case("salt", flip_in_line(PAYLOADS, 9, b'"salt":"'), "is not what was committed to"),
    Case("missing-payload", drop_line(PAYLOADS, 9), "is missing"),
    Case("size", other_size, "checkpoint: "),
    Case("signature", flip_signature, "checkpoint: "),
    Case("older-head", claim_less, "manifest says "),
    Case("two-stories", lie_about_the_past, "root over 100 entries differs"),
]


@pytest.fixture
def bundle(evidence, tmp_path) -> Path:
    return Path(shutil.copytree(evidence.bundle, tmp_path / "bundle"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_refuses_what_was_changed_and_says_why(judge, evidence, bundle, case):
    case.damage(bundle, evidence.signer)
    if case.damage is not lie_about_the_past:  # which adds a file, and changes none
        assert judge("bundle", bundle, evidence.key).endswith(
            "is not the file that the manifest lists"
        )
    make_manifest_anew(bundle, evidence.signer)
    assert case.reason in judge("bundle", bundle, evidence.key)


def make_manifest_anew(bundle: Path, signer: KeySigner) -> None:
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    names = {*manifest["files"], *(f"checkpoints/{p.name}" for p in bundle.glob("checkpoints/*"))}
    content = {name: (bundle / name).read_bytes() for name in names}
    manifest["files"] = {
        name: {"bytes": len(raw), "sha256": sha256(raw).hexdigest()}
        for name, raw in content.items()
    }
    raw = payload_bytes(manifest)
    (bundle / "manifest.json").write_bytes(raw)
    (bundle / "manifest.sig").write_text(sign_note(manifest_text(signer.origin, raw), signer))


def test_making_the_manifest_anew_is_no_damage_by_itself(judge, evidence, bundle):
    make_manifest_anew(bundle, evidence.signer)
    assert judge("bundle", bundle, evidence.key) == "ok"


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sig"])
def test_it_refuses_another_manifest(judge, evidence, bundle, name):
    raw = (bundle / name).read_bytes()
    (bundle / name).write_bytes(raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:])
    assert judge("bundle", bundle, evidence.key).startswith("manifest.sig")


@pytest.mark.parametrize("level", ["0", "1"])
@pytest.mark.parametrize("change", ["byte", "hash", "gone"])
def test_it_refuses_another_tile(judge, evidence, bundle, level, change):
    path = max(p for p in (bundle / "tile" / level).rglob("*") if p.is_file())
    raw = path.read_bytes()
    match change:
        case "byte":
            path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        case "hash":
            path.write_bytes(raw[:-32])
        case _:
            path.unlink()
    assert judge("bundle", bundle, evidence.key).startswith("tiles for entry ")


def test_it_and_our_verifier_find_every_flipped_byte(judge, evidence, bundle):
    pins = [parse_verifier_key(evidence.key)]
    files = [path for path in sorted(bundle.rglob("*")) if path.is_file()]
    chance = random.Random(4)
    for _ in range(FLIPS):
        path = chance.choice(files)
        raw = path.read_bytes()
        at, bit = chance.randrange(len(raw)), 1 << chance.randrange(8)
        path.write_bytes(raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :])
        assert judge("bundle", bundle, evidence.key) != "ok", (path, at, bit)
        assert not verify_bundle(bundle, pins).ok, (path, at, bit)
        path.write_bytes(raw)
    assert judge("bundle", bundle, evidence.key) == "ok"


# Receipts.


def changed(evidence: Evidence, folder: Path, change: Callable[[dict], None]) -> Path:
    told = json.loads(evidence.receipt.read_bytes())
    change(told)
    path = folder / "receipt"
    path.write_bytes(payload_bytes(told) + b"\n")
    return path


def other_hash(told: dict) -> None:
    first = told["hashes"][0]
    told["hashes"][0] = ("0" if first[0] != "0" else "1") + first[1:]


def other_entry(told: dict) -> None:
    entry = told["entries"][0]["entry"]
    told["entries"][0]["entry"] = entry.replace("agent:desk", "agent:dusk").replace(
        "run-j", "run-k"
    )
    assert told["entries"][0]["entry"] != entry


def other_place(told: dict) -> None:
    told["entries"][0]["entry"] = told["entries"][0]["entry"].replace('"seq":', '"seq":1')


def other_payload(told: dict) -> None:
    told["payloads"][0]["content"] = told["payloads"][0]["content"] + " "


def grow(told: dict) -> None:
    origin, size, rest = told["checkpoint"].split("\n", 2)
    told["checkpoint"] = "\n".join([origin, str(int(size) + 1), rest])


def drop_paid_entry(told: dict) -> None:
    seq = told["payloads"][0]["seq"]
    told["entries"] = [e for e in told["entries"] if json.loads(e["entry"])["seq"] != seq]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_entry, "inclusion: "),
        (other_place, "inclusion: "),
        (other_hash, "inclusion: "),
        (lambda told: told["entries"][0]["path"].pop(), "inclusion: "),
        (lambda told: told["entries"][0]["path"].reverse(), "inclusion: "),
        (lambda told: told["hashes"].clear(), "no hash "),
        (other_payload, "is not what was committed to"),
        (grow, "checkpoint: "),
        (drop_paid_entry, "is not what was committed to"),
        (lambda told: told["entries"].clear(), "receipt of nothing"),
    ],
    ids=["entry", "place", "hash", "step", "order", "hashes", "payload", "size", "line", "nothing"],
)
def test_it_refuses_a_receipt_that_was_changed(judge, evidence, tmp_path, change, reason):
    assert judge("receipt", changed(evidence, tmp_path, lambda _: None), evidence.key) == "ok"
    assert reason in judge("receipt", changed(evidence, tmp_path, change), evidence.key)
