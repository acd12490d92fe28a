"""Did somebody with the right key vouch for a policy set? Asked at each load, and again by auditors.

A key of the kind that signs logs signs policies in a note (`ledger.checkpoint`); a P-256 key, which is what
a KMS or a smart card holds, signs them in an envelope (`policy.envelope`). What is signed is the same text.
"""

from collections.abc import Mapping
from typing import TypeAlias

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ledger.checkpoint import (
    KeyType,
    VerifierKey,
    format_verifier_key,
    note_text,
    open_note,
    parse_verifier_key,
)
from governance.policy.envelope import POLICY_SET, P256Key, is_p256, parse_envelope, parse_p256
from governance.policy.signature import Signed

__all__ = ["PolicyKey", "format_policy_key", "parse_policy_key", "read_signature"]

PolicyKey: TypeAlias = VerifierKey | P256Key


def parse_policy_key(text: str) -> PolicyKey:
    """Read a key that signs policies. Raises InvalidInputError, also for the key of a witness."""
    if is_p256(text):
        return parse_p256(text)
    key = parse_verifier_key(text)
    if key.kind is not KeyType.ED25519:
        raise InvalidInputError(
            f"`{key.name}` is the key of a witness, which signs no policies",
            hint="make a key with `governance policy keygen`",
        )
    return key


def format_policy_key(key: PolicyKey) -> str:
    """Write it in one line, as `policy.activated` names it."""
    return key.text if isinstance(key, P256Key) else format_verifier_key(key)


def read_signature(signature: str, key: PolicyKey, texts: Mapping[str, str]) -> Signed:
    """Tell what `key` signed, which is exactly `texts`. Raises RefusedError.

    The caller compares the versions once the texts are parsed: `Signed.refuse_other_versions`.
    """
    try:
        signed = Signed.parse(_signed_text(signature, key))
    except InvalidInputError as exc:
        raise RefusedError(
            f"the signature of the policies is malformed: {exc.message}",
            hint="sign the policies again with `governance policy sign`",
        ) from exc
    except TamperedError as exc:
        raise RefusedError(
            f"the signature of `{key.name}` on the policies is wrong",
            hint="put back the policies and the signature as they were signed",
        ) from exc
    except RefusedError as exc:
        raise RefusedError(
            f"the policies are not signed with the key `{key.name}` that is configured",
            hint="have them signed with that key, or configure the key that signs",
        ) from exc
    signed.refuse_other_texts(texts)
    return signed


def _signed_text(signature: str, key: PolicyKey) -> str:
    """Take the text out of what `key` signed.

    Raises InvalidInputError, TamperedError when a signature said to be its own is wrong, RefusedError.
    """
    if isinstance(key, VerifierKey):
        open_note(signature, [key])
        return note_text(signature)
    envelope = parse_envelope(signature)
    if not envelope.is_signed_by(key):
        raise RefusedError(f"no signature in the envelope is of `{key.name}`")
    if envelope.kind != POLICY_SET:
        raise InvalidInputError(f"what is signed is of type `{envelope.kind[:80]}`")
    try:
        return envelope.payload.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInputError("what is signed is no text") from exc
