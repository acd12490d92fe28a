"""How a witness says that it has seen a head of a log, and when (C2SP tlog-cosignature, Ed25519).

    — witness.example/w1 base64(key id || seconds since 1970, 8 bytes || Ed25519 signature)

signed over `cosignature/v1`, `time <seconds>` and the checkpoint's text, a line each. It says: at that
time this was the largest tree of this log that the witness had seen, and it contains all it saw before.
A cosignature is one more line of the checkpoint's note, which stays good under the log's own key.
"""

from collections.abc import Sequence

from governance.errors import InvalidInputError
from governance.ledger.checkpoint import (
    KeyType,
    NoteSigner,
    Signature,
    VerifierKey,
    open_note,
    parse_signature,
    parse_verifier_key,
    read_note,
)

__all__ = ["add_signatures", "cosign", "cosigned_at", "cosigner"]

_TIMESTAMP_BYTES = 8


def cosigner(text: str) -> VerifierKey:
    """Read the verifier key of a witness. Raises InvalidInputError for one of any other kind."""
    key = parse_verifier_key(text)
    if key.kind is not KeyType.COSIGNATURE:
        raise InvalidInputError(
            f"verifier key of `{key.name[:80]}` is not a witness's",
            hint="give the key that `governance witness init` printed",
        )
    return key


def cosign(text: str, signer: NoteSigner, seconds: int) -> str:
    """Make the signature line of a witness under the checkpoint `text`, verified once."""
    key = cosigner(signer.verifier_key)
    signed = signer.sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
    line = Signature(key.name, key.id, seconds.to_bytes(_TIMESTAMP_BYTES, "big") + signed).line
    open_note(f"{text}\n{line}", [key])
    return line


def cosigned_at(note: str, keys: Sequence[VerifierKey]) -> dict[VerifierKey, int]:
    """Tell which of the witnesses `keys` cosigned `note`, and when: seconds since 1970.

    A wrong signature is no signature here: one witness's fault must not take away another's word.
    Raises InvalidInputError when the note is malformed.
    """
    known = {(key.name, key.id): key for key in keys if key.kind is KeyType.COSIGNATURE}
    text, signatures = read_note(note)
    found = dict[VerifierKey, int]()
    for line in signatures:
        key = known.get((line.name, line.key_id))
        if key is not None and key.verifies(text, line.signature):
            seconds = int.from_bytes(line.signature[:_TIMESTAMP_BYTES], "big")
            found[key] = max(seconds, found.get(key, 0))
    return found


def add_signatures(note: str, lines: str) -> str:
    """Put the signature `lines` under `note`, each in place of an older one by the same key.

    Verify them first. Raises InvalidInputError when either is malformed, or they are too many.
    """
    text, signatures = read_note(note)
    *added, rest = lines.split("\n")
    if rest:
        raise InvalidInputError("signature line has no end")
    joined = {(one.name, one.key_id): one for one in signatures}
    joined |= {(one.name, one.key_id): one for one in map(parse_signature, added)}
    made = f"{text}\n" + "".join(one.line for one in joined.values())
    read_note(made)
    return made
