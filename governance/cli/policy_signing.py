"""Who vouches for policies? `policy keygen` makes a key, `policy sign` signs a set with it.

Where the key lies in a KMS or on a card, `sign --to-sign` writes what that has to sign, and `sign
--signature` puts what it answered beside the policies.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from governance.cli.console import plain, say, show_json, talk
from governance.cli.options import AsJson
from governance.cli.policy_sources import Paths
from governance.errors import InvalidInputError, RefusedError

if TYPE_CHECKING:
    from governance.policy.signature import Signed

__all__ = ["add_to", "signer_of"]

KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose key it is: `acme.example/policies`.")
]
NewKey = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The new key; its verifier key is beside it.")
]
SigningKey = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The key, as `policy keygen` made it.",
        show_default=False,
    ),
]
ToSign = Annotated[
    Path | None,
    typer.Option(
        "--to-sign",
        metavar="FILE",
        help="Write here what a KMS or a card has to sign, and sign nothing.",
        show_default=False,
    ),
]
Answer = Annotated[
    Path | None,
    typer.Option(
        "--signature",
        metavar="FILE",
        help="What it answered: ECDSA over P-256 and SHA-256, in DER or as r and s.",
        show_default=False,
    ),
]
PublicKey = Annotated[
    Path | None,
    typer.Option(
        "--public-key",
        metavar="FILE",
        help="The P-256 key that `--signature` is of, in PEM.",
        show_default=False,
    ),
]
Place = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Where the signature goes; else `policies.sig` beside the policies.",
        show_default=False,
    ),
]


def add_to(policy: typer.Typer) -> None:
    policy.command()(keygen)
    policy.command()(sign)


def keygen(name: KeyName, *, out: NewKey = Path("policy.key"), json: AsJson = False) -> None:
    """Make a key to sign policies with. Keep it where no program that loads policies can read it."""
    from governance.assemble import make_policy_key
    from governance.ids import parse_origin

    key = make_policy_key(parse_origin(name), out)
    if json:
        return show_json({"key": str(out), "verifier_key": key})
    talk(f"key in {plain(out)}, to be read by its owner alone; the verifier key:")
    say(key)
    talk("next: set GOVERNANCE_POLICY_KEY to it wherever policies are loaded")
    return None


def sign(  # noqa: PLR0913 - one parameter an option
    paths: Paths,
    *,
    key: SigningKey = None,
    to_sign: ToSign = None,
    signature: Answer = None,
    public_key: PublicKey = None,
    out: Place = None,
    json: AsJson = False,
) -> None:
    """Sign policy files as the one set that they are when they are loaded together.

    With `--key`; or with a key that no file holds: what it has to sign goes to the file `--to-sign`, and
    `--signature` with `--public-key` takes what it answered.
    """
    from governance.policy.document import load_policies
    from governance.policy.signature import Signed
    from governance.policy_files import source

    signed = Signed.of(load_policies(source(paths)().texts))
    match key, to_sign, signature, public_key:
        case Path(), None, None, None:
            text, name, pinned = _sign_note(signed, key)
        case None, Path(), None, None:
            return _write_to_sign(signed, to_sign, json=json)
        case None, None, Path(), Path():
            text, name, pinned = _envelop(signed, signature, public_key)
        case _:
            raise InvalidInputError(
                "it is not clear who signs",
                hint="give `--key`, or `--to-sign`, or `--signature` and `--public-key`",
            )
    place, versions = out or _beside(paths), dict(signed.versions)
    _replace(place, text.encode())
    if json:
        return show_json({"signature": str(place), "versions": versions, "key": pinned})
    named = ", ".join(f"{plain(policy)} {version}" for policy, version in versions.items())
    say(f"{named} signed in {plain(place)} with the key {plain(name)}")
    return None


def _sign_note(signed: "Signed", key: Path) -> tuple[str, str, str]:
    """The signature, and who made it: by name, and as it is pinned."""
    from governance.assemble import KeySigner
    from governance.ledger.checkpoint import sign_note

    signer = KeySigner.load(key)
    return sign_note(signed.to_text(), signer), signer.origin, signer.verifier_key


def _write_to_sign(signed: "Signed", file: Path, *, json: bool) -> None:
    from governance.policy.envelope import POLICY_SET, pae

    message = pae(POLICY_SET, signed.to_text().encode())
    _replace(file, message)
    if json:
        return show_json({"to_sign": str(file), "versions": dict(signed.versions)})
    say(f"{len(message)} bytes to sign in {plain(file)}")
    talk(
        "next: sign them with ECDSA over P-256 and SHA-256, and give the answer with `--signature`"
    )
    return None


def _envelop(signed: "Signed", signature: Path, public_key: Path) -> tuple[str, str, str]:
    """Put what an outside key answered into an envelope, if it is over these policies."""
    from governance.config import read_bytes, read_text
    from governance.policy.envelope import POLICY_SET, Envelope, parse_p256

    key = parse_p256(read_text(public_key).strip())
    envelope = Envelope(POLICY_SET, signed.to_text().encode(), (read_bytes(signature),))
    if not envelope.is_signed_by(key):
        raise RefusedError(
            f"what `{signature}` holds is no signature of `{key.name}` over these policies",
            hint="sign what `--to-sign` writes for them, whole and not its hash",
        )
    return envelope.to_text(), key.name, key.text


def signer_of(paths: Sequence[Path]) -> str | None:
    """Name the configured key if it signed the policies in `paths`; None when none is configured.

    Raises as a load does when it did not.
    """
    from governance.assemble import read_policy_key
    from governance.policy.document import read_policies
    from governance.policy_files import source
    from governance.rulebook import vouched

    key = read_policy_key()
    if key is None:
        return None
    files = source(paths)()
    signed = vouched(files, key)
    if signed is not None:
        signed.refuse_other_versions(read_policies(files.texts).versions)
    return key.name


def _beside(paths: Sequence[Path]) -> Path:
    from governance.policy_files import signature_places

    first, *others = signature_places(tuple(paths))
    if others:
        raise InvalidInputError(
            f"the policies lie in {1 + len(others)} folders, and one signature is over all of them",
            hint="say with `--out` beside which of them it goes",
        )
    return first


def _replace(place: Path, content: bytes) -> None:
    """Put the whole file in place at once: a program that reloads reads the old signature or the new."""
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
