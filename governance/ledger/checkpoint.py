"""What a signed tree head looks like, and who signed it.

A **note** (C2SP signed-note) is text and signature lines, with an empty line between:

    acme.example/agents                                  the log's origin
    1024                                                 its size, decimal
    rKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=         RFC 6962 root over that many entries, base64
    <extension lines>                                    none of ours; others' are kept
                                                         (empty line)
    — acme.example/agents M9e0luh4…=                     signer's name, base64(key id || signature)

Text of the first kind is a **checkpoint** (C2SP tlog-checkpoint). A **verifier key** is
`<name>+<key id, 8 hex>+<base64(type || public key)>`; its key id is the first four bytes of
SHA-256(name || 0x0A || type || public key). Types: 1, Ed25519 over the text, which is what logs use;
4, a witness's timestamped cosignature (C2SP tlog-cosignature).

Everything parses from one spelling only. Unknown keys are passed over, since notes collect signatures
of others; a *known* key whose signature is wrong condemns the note.
"""

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from governance.base64_text import from_base64, to_base64
from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest, Origin
from governance.ledger.curve import is_sound_key

__all__ = [
    "NOTE_BYTES_MAX",
    "Checkpoint",
    "KeyType",
    "NoteSigner",
    "Signature",
    "VerifierKey",
    "format_checkpoint",
    "format_verifier_key",
    "note_text",
    "open_note",
    "parse_checkpoint",
    "parse_signature",
    "parse_verifier_key",
    "read_note",
    "sign_checkpoint",
    "sign_note",
    "signing_keys",
    "verifier_key",
]

NOTE_BYTES_MAX: Final = 256 * 1024
SIGNATURES_MAX: Final = 100

_KEY_ID_BYTES: Final = 4
_ROOT_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_TIMESTAMP_BYTES: Final = 8
_TEXT_LINES_MIN: Final = 3
_SIZE_MAX: Final = 2**63 - 1
_SECONDS_MAX: Final = 2**63 - 1
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_CONTROLS: Final = re.compile("[\x00-\x09\x0b-\x1f\ud800-\udfff]")
"""Control characters but for line ends, and halves of characters: no note holds them."""
_SIGNATURE_MARK: Final = "\N{EM DASH} "


class KeyType(IntEnum):
    """The first byte of a key. Values are C2SP's."""

    ED25519 = 1
    COSIGNATURE = 4


class NoteSigner(Protocol):
    """Whatever holds a log's Ed25519 key."""

    @property
    def origin(self) -> Origin: ...

    @property
    def verifier_key(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key that somebody pinned. Raises InvalidInputError for one that libraries differ on."""

    name: str
    public: bytes
    kind: KeyType = KeyType.ED25519

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise InvalidInputError(f"malformed key name: `{self.name[:80]}`")
        if not is_sound_key(self.public):
            raise InvalidInputError(
                f"public key of `{self.name[:80]}` is not a sound Ed25519 point",
                hint="ask the log's owner for the verifier key again",
            )

    @property
    def id(self) -> bytes:
        """Four bytes that find the key; they identify nothing by themselves."""
        hashed = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(hashed).digest()[:_KEY_ID_BYTES]

    def verifies(self, text: str, signature: bytes) -> bool:
        """Tell whether `signature`, without its key id, is this key's over the note's `text`."""
        message = text.encode()
        if self.kind is KeyType.COSIGNATURE:
            stamp, signature = signature[:_TIMESTAMP_BYTES], signature[_TIMESTAMP_BYTES:]
            moment = int.from_bytes(stamp, "big")
            if moment > _SECONDS_MAX:
                return False
            message = f"cosignature/v1\ntime {moment}\n".encode() + message
        return self.verifies_bytes(message, signature)

    def verifies_bytes(self, message: bytes, signature: bytes) -> bool:
        """Tell whether `signature` is this key's over `message`, as RFC 8032 has it."""
        if len(signature) != _SIGNATURE_BYTES:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: `root` over its first `size` entries."""

    origin: str
    size: int
    root: Digest
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line of a note. It says whose it is; only a key can tell whether that is so."""

    name: str
    key_id: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The one spelling of it, with its line end."""
        return f"{_SIGNATURE_MARK}{self.name} {to_base64(self.key_id + self.signature)}\n"


def verifier_key(origin: Origin, public: bytes, kind: KeyType = KeyType.ED25519) -> str:
    """Spell the key of a log, or of a witness, as people pin it."""
    return format_verifier_key(VerifierKey(origin, public, kind))


def format_verifier_key(key: VerifierKey) -> str:
    return f"{key.name}+{key.id.hex()}+{to_base64(bytes([key.kind]) + key.public)}"


@functools.lru_cache(maxsize=256)
def parse_verifier_key(text: str) -> VerifierKey:
    """Read a key to pin. Raises InvalidInputError, also for keys that nobody should pin.

    Remembered, since telling a sound key costs milliseconds and signing asks each time.
    """
    hint = "give it as `name+hash+base64`, exactly as `governance init` printed it"
    name, _, rest = text.partition("+")  # base64 may hold a plus, a name may not
    key_id, _, encoded = rest.partition("+")
    material = from_base64(encoded)
    if not material or material[0] not in set(KeyType):
        raise InvalidInputError(f"verifier key `{text[:160]}` is of no known type", hint=hint)
    key = VerifierKey(name, material[1:], KeyType(material[0]))
    if key_id != key.id.hex():
        raise InvalidInputError(f"verifier key `{text[:160]}` has another key id", hint=hint)
    return key


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """Write the text that is signed. Raises InvalidInputError for what could not be read back."""
    head = f"{checkpoint.origin}\n{checkpoint.size}\n{to_base64(checkpoint.root)}\n"
    text = head + "".join(f"{line}\n" for line in checkpoint.extensions)
    if parse_checkpoint(text) != checkpoint:
        raise InvalidInputError(f"checkpoint of `{checkpoint.origin[:80]}` cannot be written")
    return text


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a note as a checkpoint. Raises InvalidInputError."""
    *lines, rest = text.split("\n")
    if len(lines) < _TEXT_LINES_MIN or rest or not all(lines) or _has_controls(text):
        raise InvalidInputError("checkpoint is malformed")
    origin, size, root = lines[:_TEXT_LINES_MIN]
    if not _SIZE.fullmatch(size) or int(size) > _SIZE_MAX:
        raise InvalidInputError(f"checkpoint has malformed size `{size[:40]}`")
    decoded = from_base64(root)
    if decoded is None or len(decoded) != _ROOT_BYTES:
        raise InvalidInputError(f"checkpoint has malformed root `{root[:60]}`")
    return Checkpoint(origin, int(size), Digest(decoded), tuple(lines[_TEXT_LINES_MIN:]))


def sign_checkpoint(checkpoint: Checkpoint, *signers: NoteSigner) -> str:
    """Sign a tree head. Raises InvalidInputError when it is not the signers' own log."""
    for signer in signers:
        if checkpoint.origin != signer.origin:
            raise InvalidInputError(
                f"key of `{signer.origin}` does not sign for `{checkpoint.origin[:80]}`"
            )
    return sign_note(format_checkpoint(checkpoint), *signers)


def sign_note(text: str, *signers: NoteSigner) -> str:
    """Sign any text that ends a line, a signature line each. What is returned has been verified once."""
    if not text.endswith("\n") or _has_controls(text):
        raise InvalidInputError("text to sign must be whole lines without control characters")
    note = f"{text}\n"
    for signer in signers:
        key = parse_verifier_key(signer.verifier_key)
        note += Signature(key.name, key.id, signer.sign(text.encode())).line
        open_note(note, [key])  # a signer that holds another key must not get as far as a reader
    return note


def note_text(note: str) -> str:
    """The text of a note, its signatures unchecked. Raises InvalidInputError when malformed."""
    return read_note(note)[0]


def open_note(note: str, keys: Sequence[VerifierKey]) -> tuple[str, ...]:
    """Name the signers of `note` among `keys`, in the note's order. Raises as `signing_keys` does."""
    return tuple(key.name for key in signing_keys(note, keys))


def signing_keys(note: str, keys: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
    """Tell which of `keys` signed `note`, in the note's order.

    Raises InvalidInputError when the note is malformed or `keys` is empty or ambiguous,
    TamperedError when a known key's signature is wrong, RefusedError when no known key signed.
    """
    known = {(key.name, key.id): key for key in keys}
    if not keys:
        raise InvalidInputError("no key to verify with", hint="pin at least one verifier key")
    if len(known) != len(keys):
        raise InvalidInputError("two keys share one name and key id", hint="pin each key once")
    text, signatures = read_note(note)
    verified = dict[tuple[str, bytes], VerifierKey]()
    for line in signatures:
        found = (line.name, line.key_id)
        key = known.get(found)
        if key is None or found in verified:
            continue
        if not key.verifies(text, line.signature):
            raise TamperedError(f"signature of `{key.name}` on a note is wrong")
        verified[found] = key
    if not verified:
        raise RefusedError("no pinned key signed the note", hint="pin the key of this log")
    return tuple(verified.values())


def read_note(note: str) -> tuple[str, list[Signature]]:
    """The text of a note and its signatures, unchecked. Raises InvalidInputError when malformed."""
    if len(note) > NOTE_BYTES_MAX or _has_controls(note):
        raise InvalidInputError("note is too long, or holds control characters")
    cut = note.rfind("\n\n")
    *lines, rest = note[cut + 2 :].split("\n")
    if cut <= 0 or not lines or rest or len(lines) > SIGNATURES_MAX:
        raise InvalidInputError("note is malformed", hint="it ends with 1 to 100 signature lines")
    return note[: cut + 1], [parse_signature(line) for line in lines]


def parse_signature(line: str) -> Signature:
    """Read one signature line without its end. Raises InvalidInputError."""
    name, space, encoded = line.removeprefix(_SIGNATURE_MARK).partition(" ")
    decoded = from_base64(encoded)
    if (
        not line.startswith(_SIGNATURE_MARK)
        or not space
        or not _is_name(name)
        or decoded is None
        or len(decoded) <= _KEY_ID_BYTES
    ):
        raise InvalidInputError(f"note has a malformed signature line: `{line[:80]}`")
    return Signature(name, decoded[:_KEY_ID_BYTES], decoded[_KEY_ID_BYTES:])


def _is_name(name: str) -> bool:
    odd = "+" in name or any(map(str.isspace, name)) or _has_controls(name)
    return bool(name) and not odd


def _has_controls(text: str) -> bool:
    return _CONTROLS.search(text) is not None
