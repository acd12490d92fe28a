"""Whom does a verifier trust? The options of `verify`: whose keys, which witnesses, how fresh."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from governance.lawful import vouching
    from governance.ledger.anchoring import Demands
    from governance.ledger.checkpoint import VerifierKey
    from governance.ledger.kept import Kept
    from governance.ledger.trust import Quorum

__all__ = [
    "Fresh",
    "KeptFiles",
    "Keys",
    "PolicyKey",
    "QuorumOf",
    "TrustFile",
    "Trusted",
    "Tsa",
    "Witnesses",
]

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VKEY",
        help="A verifier key to pin, or a file that holds one: not from the evidence. May be repeated.",
        show_default=False,
    ),
]
PolicyKey = Annotated[
    str | None,
    typer.Option(
        "--policy-key",
        metavar="KEY",
        help="The key that every policy set must be signed with, or a file that holds it.",
        show_default=False,
    ),
]
KeptFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--kept",
        metavar="FILE",
        help="A checkpoint kept from an earlier bundle, or from a witness, to compare. May be repeated.",
        show_default=False,
    ),
]
Witnesses = Annotated[
    list[str] | None,
    typer.Option(
        "--witness",
        metavar="VKEY",
        help="A witness that has to have cosigned the newest head. May be repeated.",
        show_default=False,
    ),
]
QuorumOf = Annotated[
    int | None,
    typer.Option(
        "--quorum",
        metavar="N",
        help="How many of the witnesses are enough; else all.",
        show_default=False,
    ),
]
TrustFile = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        help="A trust policy (C2SP tlog-policy): logs, witnesses and their quorum.",
        show_default=False,
    ),
]
Tsa = Annotated[
    list[Path] | None,
    typer.Option(
        "--tsa",
        metavar="PEM",
        help="Certificates of a time-stamping authority that has to have stamped a head.",
        show_default=False,
    ),
]
Fresh = Annotated[
    str | None,
    typer.Option(
        "--fresh",
        metavar="TIME",
        help="How long ago the last word from outside may be: 30m, 24h, 7d.",
        show_default=False,
    ),
]

_FRESH: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Trusted:
    """What was typed, each as it was given."""

    keys: Sequence[str] | None = None
    witnesses: Sequence[str] | None = None
    quorum: int | None = None
    policy: Path | None = None
    tsa: Sequence[Path] | None = None
    fresh: str | None = None
    policy_key: str | None = None
    kept: Sequence[Path] | None = None

    def read(self) -> "tuple[list[VerifierKey] | None, Demands | None]":
        """The keys to pin, None without any, and what is demanded of anchors, None if nothing is.

        Raises InvalidInputError for what cannot be read, or asks for nothing where it should ask.
        """
        from governance.assemble import now
        from governance.config import read_bytes
        from governance.ledger.anchoring import Demands
        from governance.ledger.authorities import read_authorities

        logs, quorum = self._quorum()
        pins = None if self.keys is None and not logs else [*map(_pin, self.keys or ()), *logs]
        authorities = tuple(
            certificate
            for path in self.tsa or ()
            for certificate in read_authorities(read_bytes(path))
        )
        age = None if self.fresh is None else _age(self.fresh)
        demands = Demands(now(), quorum, authorities, age)
        nothing = quorum is None and not authorities and age is None
        return pins, None if nothing else demands

    def policy_pin(self) -> "vouching.PolicyKey | None":
        """The key that policies must be signed with, None if that is not asked. Raises InvalidInputError."""
        from governance.assemble import read_policy_key

        return None if self.policy_key is None else read_policy_key(self.policy_key)

    def heads(self) -> "list[Kept]":
        """The checkpoints that were kept from before. Raises InvalidInputError."""
        from governance.bundle import read_kept

        return [read_kept(file) for file in self.kept or ()]

    def _quorum(self) -> "tuple[Sequence[VerifierKey], Quorum | None]":
        from governance.assemble import read_verifier_key
        from governance.config import read_text
        from governance.ledger.cosignature import cosigner
        from governance.ledger.trust import parse_trust, threshold

        if self.policy is not None and (self.witnesses or self.quorum is not None):
            raise InvalidInputError(
                "witnesses are named in a trust policy and beside it", hint="use one of the two"
            )
        if self.policy is not None:
            try:
                trust = parse_trust(read_text(self.policy))
            except InvalidInputError as exc:
                raise InvalidInputError(f"`{self.policy}`: {exc.message}", hint=exc.hint) from exc
            return trust.logs, trust.quorum
        if not self.witnesses and self.quorum is None:
            return (), None
        keys = [cosigner(read_verifier_key(given)) for given in self.witnesses or ()]
        return (), threshold(keys, self.quorum)


def _pin(given: str) -> "VerifierKey":
    from governance.assemble import read_verifier_key
    from governance.ledger.checkpoint import parse_verifier_key

    return parse_verifier_key(read_verifier_key(given))


def _age(text: str) -> int:
    found = _FRESH.fullmatch(text)
    if found is None:
        raise InvalidInputError(
            f"`{text[:80]}` is no length of time", hint="write it like 30m, 24h or 7d"
        )
    return int(found[1]) * _SECONDS[found[2]] * _MICROS
