"""Who vouches for policies? `policy keygen` makes a key, `policy sign` signs a set with it."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from governance.cli.console import plain, say, show_json, talk
from governance.cli.options import AsJson
from governance.cli.policy_sources import Paths
from governance.errors import InvalidInputError

__all__ = ["add_to", "signer_of"]

KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose key it is: `acme.example/policies`.")
]
NewKey = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The new key; its verifier key is beside it.")
]
SigningKey = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="The key, as `policy keygen` made it.")
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


def sign(paths: Paths, *, key: SigningKey, out: Place = None, json: AsJson = False) -> None:
    """Sign policy files as the one set that they are when they are loaded together."""
    from governance.assemble import KeySigner
    from governance.ledger.checkpoint import sign_note
    from governance.policy.document import load_policies
    from governance.policy.signature import Signed
    from governance.policy_files import source

    place = out or _beside(paths)
    signer = KeySigner.load(key)
    policies = load_policies(source(paths)().texts)
    _replace(place, sign_note(Signed.of(policies).to_text(), signer))
    versions = dict(policies.versions)
    if json:
        return show_json(
            {"signature": str(place), "versions": versions, "key": signer.verifier_key}
        )
    named = ", ".join(f"{plain(name)} {version}" for name, version in versions.items())
    say(f"{named} signed in {plain(place)} with the key {plain(signer.origin)}")
    return None


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


def _replace(place: Path, text: str) -> None:
    """Put the whole signature in place at once: a program that reloads reads the old one or the new."""
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
