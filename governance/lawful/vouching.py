"""Did somebody with the right key vouch for a policy set? Asked at each load, and again by auditors."""

from collections.abc import Mapping

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ledger.checkpoint import VerifierKey, note_text, open_note
from governance.policy.signature import Signed

__all__ = ["read_signature"]


def read_signature(note: str, key: VerifierKey, texts: Mapping[str, str]) -> Signed:
    """Tell what `key` signed, which is exactly `texts`. Raises RefusedError.

    The caller compares the versions once the texts are parsed: `Signed.refuse_other_versions`.
    """
    try:
        open_note(note, [key])
        signed = Signed.parse(note_text(note))
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
