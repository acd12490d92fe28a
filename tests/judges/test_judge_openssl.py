"""openssl checks the signatures under our checkpoints and manifests, and refuses one flipped bit."""

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from judges.conftest import found

pytestmark = [pytest.mark.judge, pytest.mark.attack]

SPKI = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of an Ed25519 key in a certificate's form of it (RFC 8410)."""
KEY_ID_BYTES = 4
KEY_TYPE_BYTES = 1
FILES = ("checkpoint", "manifest.sig")


@pytest.fixture(scope="module")
def openssl() -> str:
    return found("openssl")


@pytest.fixture(scope="module")
def public(evidence, tmp_path_factory) -> Path:
    """The key that people pin, as openssl reads it."""
    encoded = base64.b64decode(evidence.key.split("+", 2)[2])
    key = SPKI + encoded[KEY_TYPE_BYTES:]
    text = base64.encodebytes(key).decode()
    path = tmp_path_factory.mktemp("openssl") / "public.pem"
    path.write_text(f"-----BEGIN PUBLIC KEY-----\n{text}-----END PUBLIC KEY-----\n")
    raw = Ed25519PublicKey.from_public_bytes(encoded[KEY_TYPE_BYTES:])
    assert raw.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == key
    return path


def parts(path: Path) -> tuple[bytes, bytes]:
    """The text that is signed, and the signature."""
    text, _, line = path.read_bytes().partition(b"\n\n")
    signature = base64.b64decode(line.split()[-1])[KEY_ID_BYTES:]
    return text + b"\n", signature


def verdict(openssl: str, public: Path, folder: Path, text: bytes, signature: bytes) -> bool:
    (folder / "text").write_bytes(text)
    (folder / "signature").write_bytes(signature)
    command = [openssl, "pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin"]
    command += ["-in", str(folder / "text"), "-sigfile", str(folder / "signature")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    accepted = "Signature Verified Successfully" in done.stdout
    assert accepted is (done.returncode == 0), done
    assert accepted or "Signature Verification Failure" in done.stdout, done
    return accepted


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_it_accepts_what_we_signed(openssl, public, evidence, tmp_path, name):
    assert verdict(openssl, public, tmp_path, *parts(evidence.bundle / name))


@pytest.mark.parametrize("name", FILES)
def test_it_refuses_one_flipped_bit(openssl, public, evidence, tmp_path, name):
    text, signature = parts(evidence.bundle / name)
    for at in range(0, len(text), 9):
        assert not verdict(openssl, public, tmp_path, flipped(text, at), signature)
    for at in range(0, len(signature), 9):
        assert not verdict(openssl, public, tmp_path, text, flipped(signature, at))


def test_it_refuses_another_size_and_the_signature_of_another_note(
    openssl, public, evidence, tmp_path
):
    text, signature = parts(evidence.bundle / "checkpoint")
    origin, size, root = text.splitlines()
    grown = b"%s\n%d\n%s\n" % (origin, int(size) + 1, root)
    assert not verdict(openssl, public, tmp_path, grown, signature)
    other = parts(evidence.bundle / "manifest.sig")[1]
    assert not verdict(openssl, public, tmp_path, text, other)
