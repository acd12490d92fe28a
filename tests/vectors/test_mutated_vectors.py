"""Every published proof and note, changed in one place: nothing that is not what it says may pass."""

import base64
from collections.abc import Iterator, Sequence

import pytest

from governance.errors import GovernanceError
from governance.ledger.checkpoint import VerifierKey, note_text, open_note, parse_verifier_key
from governance.ledger.entry import leaf_hash
from governance.ledger.merkle import proves_consistency, proves_inclusion

pytestmark = pytest.mark.conformance

TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
STRANGER = b"\x5a" * 32


def decode(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def flipped(hash: bytes) -> Iterator[bytes]:
    for bit in (0, 7, 100, 255):
        yield (int.from_bytes(hash, "big") ^ (1 << bit)).to_bytes(32, "big")
    yield hash[:-1]
    yield hash + b"\0"
    yield b""


def mutations(proof: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Each element changed, dropped, doubled or swapped with the next; one more at either end."""
    yield [STRANGER, *proof]
    yield [*proof, STRANGER]
    for at, element in enumerate(proof):
        before, after = list(proof[:at]), list(proof[at + 1 :])
        yield before + after
        yield [*before, element, element, *after]
        for other in flipped(element):
            yield [*before, other, *after]
        if after and after[0] != element:
            yield [*before, after[0], element, *after[1:]]


def split(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1


def way_up(index: int, size: int) -> tuple[str, ...]:
    """On which side of the path each element stands: all that a proof knows of index and size."""
    if size == 1:
        return ()
    half = split(size)
    if index < half:
        return (*way_up(index, half), "right")
    return (*way_up(index - half, size - half), "left")


def way_between(old: int, new: int, *, known: bool = True) -> tuple[str, ...]:
    if old == new:
        return ("known",) if known else ("given",)
    half = split(new)
    if old <= half:
        return (*way_between(old, half, known=known), "right")
    return (*way_between(old - half, new - half, known=False), "left")


def test_inclusion_proofs(json_lines):
    good = changed = 0
    for case in json_lines("merkle/transparency-dev-inclusion.jsonl"):
        leaf, root = decode(case["leafHash"]), decode(case["root"])
        index, size = case["leafIdx"], case["treeSize"]
        proof = [decode(item) for item in case["proof"] or []]
        if case["wantErr"]:
            continue
        good += 1
        assert proves_inclusion(leaf, index, size, proof, root)
        for other in mutations(proof):
            changed += 1
            assert not proves_inclusion(leaf, index, size, other, root), case["file"]
        for other in flipped(root):
            assert not proves_inclusion(leaf, index, size, proof, other)
            assert not proves_inclusion(other, index, size, proof, root)
        # The signature binds the size; a proof only the way up. So it may pass for a size by which
        # nothing on the way changes, and for no other place.
        for at, of in ((index - 1, size), (index + 1, size), (index, size - 1), (index, size + 1)):
            same = 0 <= at < of and way_up(at, of) == way_up(index, size)
            assert proves_inclusion(leaf, at, of, proof, root) is same, case["file"]
            assert not (same and at != index)
    assert (good, changed) == (6, 108)


def test_consistency_proofs(json_lines):
    good = changed = 0
    for case in json_lines("merkle/transparency-dev-consistency.jsonl"):
        old_root, new_root = decode(case["root1"]), decode(case["root2"])
        old, new = case["size1"], case["size2"]
        proof = [decode(item) for item in case["proof"] or []]
        if case["wantErr"] or len(new_root) != 32:
            continue
        good += 1
        assert proves_consistency(old, new, proof, old_root, new_root)
        for other in mutations(proof):
            changed += 1
            assert not proves_consistency(old, new, other, old_root, new_root), case["file"]
        for other in flipped(old_root):
            assert not proves_consistency(old, new, proof, other, new_root)
        if old:  # every tree begins with the empty one
            for other in flipped(new_root):
                assert not proves_consistency(old, new, proof, old_root, other)
        if not 0 < old < new:
            continue
        for a, b in ((old - 1, new), (old + 1, new), (old, new - 1), (old, new + 1)):
            same = 0 < a < b and way_between(a, b) == way_between(old, new)
            assert proves_consistency(a, b, proof, old_root, new_root) is same, case["file"]
    assert (good, changed) == (5, 116)


def test_notes(json_vectors):
    """A note with one byte changed is refused, unless the byte is in a line of somebody unknown."""
    opened = 0
    for case in json_vectors("tlog/notes/notes.json"):
        if case["ok"]:
            keys = [parse_verifier_key(text) for text in case["vkeys"]]
            opened += all_bytes_count(case["note"], keys)
    assert opened > 500


def test_tessera_checkpoints(vectors):
    key = parse_verifier_key(TESSERA_KEY)
    folder = vectors / "tlog" / "tessera-log"
    for path in sorted(folder.glob("checkpoint.*")):
        assert all_bytes_count(path.read_text(), [key]) == len(path.read_bytes())


def all_bytes_count(note: str, keys: Sequence[VerifierKey]) -> int:
    """Change each byte in turn; return how many of them condemned the note."""
    raw, text, signers = note.encode(), note_text(note), open_note(note, keys)
    refused = 0
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        try:
            other = changed.decode()
            still = open_note(other, keys)
        except (GovernanceError, UnicodeDecodeError):
            refused += 1
            continue
        assert note_text(other) == text, at
        assert set(still) <= set(signers), at
    return refused


def test_tessera_tiles(vectors):
    """A tile with one byte changed has another root than the log signed."""
    from governance.ledger.checkpoint import parse_checkpoint
    from governance.ledger.merkle import root_of

    folder = vectors / "tlog" / "tessera-log"
    for size in range(2, 16):
        head = parse_checkpoint(note_text((folder / f"checkpoint.{size}").read_text()))
        tile = (folder / f"tile/0/000.p/{size}").read_bytes()
        assert (head.size, len(tile)) == (size, 32 * size)
        for at in (None, *range(0, len(tile), 5)):
            changed = bytearray(tile)
            if at is not None:
                changed[at] ^= 1
            leaves = [bytes(changed[start : start + 32]) for start in range(0, len(tile), 32)]
            assert (root_of(leaves) == head.root) is (at is None)


@pytest.mark.parametrize("name", ["valid-eddsa", "valid-es256"])
def test_inclusion_paths_of_scitt(json_vectors, name):
    """Their envelope is COSE, which is not ours; the tree below it is."""
    case = json_vectors(f"scitt/v1/{name}/expected.json")
    leaf = leaf_hash(bytes.fromhex(case["leaf_entry"]))
    path = [bytes.fromhex(hash) for hash in case["inclusion_path"]]
    root = bytes.fromhex(case["reconstructed_root"])
    assert proves_inclusion(leaf, case["leaf_index"], case["tree_size"], path, root)
    for other in mutations(path):
        assert not proves_inclusion(leaf, case["leaf_index"], case["tree_size"], other, root)


def test_wycheproof_signatures_with_a_byte_changed(json_vectors):
    data = json_vectors("ed25519/wycheproof_ed25519_test.json")
    seen = 0
    for group in data["testGroups"]:
        key = VerifierKey("wycheproof", bytes.fromhex(group["publicKey"]["pk"]))
        for case in group["tests"]:
            if case["result"] != "valid":
                continue
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            for at in (0, 31, 32, 63):
                changed = bytearray(signature)
                changed[at] ^= 1
                assert not key.verifies_bytes(message, bytes(changed)), case["tcId"]
            assert not key.verifies_bytes(message + b"\0", signature)
            assert not key.verifies_bytes(message, signature + b"\0")
            seen += 1
    assert seen > 50
