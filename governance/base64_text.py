"""How are bytes written as text, so that each value has one spelling? RFC 4648 section 4, strictly.

Decoders take spare bits, missing padding or line ends in their stride; where text is signed, compared or
pinned, two spellings of one value are two doors.
"""

import base64
import binascii

__all__ = ["from_base64", "to_base64"]


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def from_base64(text: str) -> bytes | None:
    """Read what `to_base64` wrote; None for any other text."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return raw if to_base64(raw) == text else None
