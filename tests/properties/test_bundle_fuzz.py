"""Whatever somebody makes of a bundle of any kind: verification ends in a report, and is not fooled.

Both ways of reading JSON see the same damage, and must say the same of it.
"""

import contextlib
import hashlib
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from bundles import KEY, PINS, busy_log, write
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import canonical, spelling
from governance.bundle import read_bundle, records, verify_bundle
from governance.errors import TamperedError
from governance.lawful.check import check
from governance.ledger import payloads, screen
from governance.ledger.checkpoint import sign_note
from governance.ledger.manifest import Manifest, Stored, manifest_text

KINDS = ["log", "range", "run"]
LOG = busy_log()
PLAIN = {"read": spelling._read, "spell": spelling._spell, "spell_strict": spelling._spell_strict}
GARBAGE = [
    b"",
    b"\n",
    b"\n\n\n",
    b"\0" * 40,
    b"\xff\xfe\xfd",
    b"{}\n",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"1" * 10_000,
    b'{"seq":1e400}\n',
    b'{"seq":123456789012345678901234567890}\n',
    b'"\\ud800"\n',
    b"x" * 200_000 + b"\n",
    "— acme.example/agents AAAA\n".encode(),
]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    place = tmp_path_factory.mktemp("bundles")
    return {kind: write(LOG, kind, place / kind) for kind in KINDS}


@contextlib.contextmanager
def plain_json():
    """As where orjson is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (canonical, payloads, screen):
            for name, function in PLAIN.items():
                if hasattr(room, name):
                    patch.setattr(room, name, function)
        yield


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in files(folder)}


def judged(folder):
    """Verify with both, read and judge; give the report."""
    report = verify_bundle(folder, PINS)
    with plain_json():
        again = verify_bundle(folder, PINS)
    assert (again.integrity, again.trust, again.completeness) == (
        report.integrity,
        report.trust,
        report.completeness,
    )
    assert again.counts == report.counts
    manifest = read_bundle(folder).manifest
    told = (manifest.part, manifest.withheld) if manifest else (None, {})
    try:
        check(records(folder), None, *told)
    except TamperedError:
        assert not report.ok
    return report


def damage(rng, folder):
    """Do one thing to a bundle, of those that somebody could do with an editor or a shell."""
    chosen = rng.choice(files(folder))
    raw = chosen.read_bytes()
    at = rng.randrange(len(raw) + 1)
    match rng.randrange(12):
        case 0:
            chosen.write_bytes(raw[:at])
        case 1 if raw:
            at = rng.randrange(len(raw))
            chosen.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :])
        case 2:
            chosen.write_bytes(raw[:at] + rng.choice(GARBAGE) + raw[at:])
        case 3:
            chosen.write_bytes(rng.choice(GARBAGE))
        case 4:
            chosen.unlink()
        case 5:
            chosen.unlink()
            chosen.symlink_to(rng.choice(files(folder.parent)))
        case 6:
            chosen.unlink()
            chosen.mkdir()
        case 7:
            chosen.unlink()
            os.mkfifo(chosen)
        case 8:
            other = rng.choice(files(folder))
            chosen.write_bytes(other.read_bytes())
            other.write_bytes(raw)
        case 9:
            lines = raw.splitlines(keepends=True)
            rng.shuffle(lines)
            chosen.write_bytes(b"".join(lines))
        case 10:
            (
                chosen.parent / rng.choice(["extra", "0000000000000099.jsonl", "\udcff", "a\nb"])
            ).touch()
        case _:
            size = rng.randrange(60)
            chosen.write_bytes(raw[:at] + rng.randbytes(size) + raw[at + size :])


def resign(folder):
    """Sign whatever lies there, as the operator could, if there is a manifest to go by."""
    try:
        manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    except (OSError, ValueError, canonical.InvalidInputError):
        return
    listed = {
        name: Stored(len(raw), hashlib.sha256(raw).hexdigest())
        for name, raw in content(folder).items()
        if not name.startswith(("manifest", "tile/")) and name.isascii()
    }
    raw = replace(manifest, files=listed).to_bytes()
    for name, text in (
        ("manifest.json", raw),
        ("manifest.sig", sign_note(manifest_text(manifest.log, raw), KEY).encode()),
    ):
        if not (folder / name).exists() or (folder / name).is_file():  # a pipe would wait for ever
            (folder / name).write_bytes(text)


@pytest.mark.attack
@pytest.mark.parametrize("kind", KINDS)
def test_damage_of_any_sort_ends_in_a_report(pristine, kind, tmp_path):
    good = content(pristine[kind])
    for seed in range(60):
        rng = random.Random(f"{kind}{seed}")
        folder = Path(shutil.copytree(pristine[kind], tmp_path / f"{seed}"))
        for _ in range(rng.choice([1, 1, 2, 5])):
            damage(rng, folder)
        report = judged(folder)
        assert report.ok is (content(folder) == good and not odd(folder)), seed
        shutil.rmtree(folder)


def odd(folder):
    return any(p.is_symlink() or not (p.is_file() or p.is_dir()) for p in folder.rglob("*"))


@pytest.mark.attack
@pytest.mark.parametrize("kind", KINDS)
def test_damage_signed_again_changes_no_entry_and_no_content(pristine, kind, tmp_path):
    """The manifest vouches for nothing that the entries and checkpoints do not show by themselves."""
    good = content(pristine[kind])
    for seed in range(40):
        rng = random.Random(f"again{kind}{seed}")
        folder = Path(shutil.copytree(pristine[kind], tmp_path / f"{seed}"))
        damage(rng, folder)
        resign(folder)
        report = judged(folder)
        if report.ok:
            now = content(folder)
            assert {n: now[n] for n in good if n.startswith(("entr", "payl", "tile"))} == {
                n: good[n] for n in good if n.startswith(("entr", "payl", "tile"))
            }
        shutil.rmtree(folder)


scalars = st.sampled_from([None, True, -1, 0, 1, 3, 2**53, 2**64, 1.5, "", "log", "run", "x", "é"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
)


@pytest.mark.attack
@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    field=st.sampled_from(["files", "format", "log", "part", "size", "withheld", "more"]),
    inner=st.none()
    | st.sampled_from(["kind", "first", "end", "run", "keys", "checkpoint", "args"]),
    value=values,
)
def test_a_manifest_that_says_anything_ends_in_a_report(pristine, kind, field, inner, value):
    base = pristine[kind]
    said = orjson.loads((base / "manifest.json").read_bytes())
    if inner is not None and isinstance(said.get(field), dict):
        said[field][inner] = value
    else:
        said[field] = value
    raw = spelling._ENCODER.encode(said).encode(errors="replace")
    before = {name: (base / name).read_bytes() for name in ("manifest.json", "manifest.sig")}
    try:
        (base / "manifest.json").write_bytes(raw)
        note = sign_note(manifest_text(KEY.origin, raw), KEY)
        (base / "manifest.sig").write_text(note)
        report = judged(base)
        assert not report.ok or raw == before["manifest.json"] or field == "withheld"
        if report.ok:
            assert orjson.loads(raw)["withheld"] == {}
    finally:
        for name, text in before.items():
            (base / name).write_bytes(text)


@pytest.mark.parametrize("kind", KINDS)
def test_both_say_the_same_of_what_is_whole(pristine, kind):
    report = judged(pristine[kind])
    assert report.ok
    with plain_json():
        assert verify_bundle(pristine[kind], PINS) == report
