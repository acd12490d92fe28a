"""What does somebody sign who vouches for a policy set? Each policy with its version and its text.

    governance/policy-signature/v1                          an origin of its own: no log is named so
    desk 3 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b…    policy, version, SHA-256 of its text
    shop 1 2c26b46b68ffc68ff99b453c1d30413413422d706483…    in the order of names

This is the text of a C2SP note (`ledger.checkpoint`). It cannot be taken for a checkpoint, whose second line
is a decimal number, nor for a manifest, whose first line is another. Neither file names nor the engine
are in it: the same signature holds wherever the texts are put, and whatever evaluates them.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from governance.errors import InvalidInputError, RefusedError
from governance.policy.rules import PolicySet

__all__ = ["ORIGIN", "Signed"]

ORIGIN: Final = "governance/policy-signature/v1"

_LINE: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63}) ([1-9][0-9]{0,9}) ([0-9a-f]{64})", re.ASCII
)
_SIGN: Final = "sign the policies again with `governance policy sign`"


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signature is over: policy -> its version, and the SHA-256 of its text in hex."""

    policies: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, policies: PolicySet) -> "Signed":
        """Say what is signed for a set."""
        texts = policies.texts
        return cls(
            {name: (version, _hash(texts[name])) for name, version in policies.versions.items()}
        )

    @classmethod
    def parse(cls, text: str) -> "Signed":
        """Read what `to_text` wrote. Raises InvalidInputError for any other spelling."""
        origin, *lines = text.split("\n")
        found = [_LINE.fullmatch(line) for line in lines[:-1]]
        if origin != ORIGIN or None in found:
            raise InvalidInputError("what is signed is no policy set")
        signed = cls({line[1]: (int(line[2]), line[3]) for line in found if line is not None})
        if signed.to_text() != text:
            raise InvalidInputError("what is signed is a policy set in another spelling")
        return signed

    def to_text(self) -> str:
        """Write the text that is signed: whole lines."""
        lines = (f"{name} {version} {text}" for name, (version, text) in self.policies.items())
        return "".join(f"{line}\n" for line in (ORIGIN, *sorted(lines)))

    @property
    def versions(self) -> Mapping[str, int]:
        return {name: version for name, (version, _) in self.policies.items()}

    def refuse_other_texts(self, texts: Mapping[str, str]) -> None:
        """Raise RefusedError unless `texts` (by any name) are exactly those that were signed.

        Asked before a text is parsed: what nobody signed is not even read.
        """
        here = {name: _hash(text) for name, text in texts.items()}
        signed = {text: name for name, (_, text) in self.policies.items()}
        for name in sorted(here):
            if here[name] not in signed:
                raise RefusedError(f"`{name}` is not what was signed", hint=_SIGN)
        gone = signed.keys() - here.values()
        if gone:
            name = min(signed[text] for text in gone)
            raise RefusedError(f"policy `{name}` was signed and is not here", hint=_SIGN)
        if len(here) != len(self.policies):
            raise RefusedError("a text that was signed once is here twice", hint=_SIGN)

    def refuse_other_versions(self, versions: Mapping[str, int]) -> None:
        """Raise RefusedError unless the set has these policies, in these versions."""
        for name in sorted({*versions, *self.versions}):
            here, signed = versions.get(name), self.versions.get(name)
            if here != signed:
                message = (
                    f"policy `{name}` is here in {_said(here)}, and was signed in {_said(signed)}"
                )
                raise RefusedError(message, hint=_SIGN)


def _said(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
