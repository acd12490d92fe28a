"""How does a witness begin, and how is it opened again? A folder with a key and a book."""

import secrets

from governance.assemble import KeySigner, now, write_private
from governance.config import WitnessHome
from governance.errors import ConflictError
from governance.ids import Origin
from governance.ledger.checkpoint import KeyType
from governance.witness.app import Witness
from governance.witness.book import Book

__all__ = ["init", "open_witness"]


def init(home: WitnessHome, name: Origin) -> str:
    """Make the folder, the key and the book of a new witness; returns its verifier key.

    Raises ConflictError when any of them is there already.
    """
    for path in (home.key, home.book):
        if path.exists():
            raise ConflictError(
                f"`{path}` exists already", hint="choose another folder, or go on with this one"
            )
    home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signer = KeySigner.from_seed(name, secrets.token_bytes(32), KeyType.COSIGNATURE)
    write_private(home.key, signer.to_text())
    write_private(home.verifier_key, signer.verifier_key)
    Book.create(home.book)
    return signer.verifier_key


def open_witness(home: WitnessHome) -> Witness:
    """Open a witness. Raises what is wrong with its key or its book."""
    return Witness(Book.open(home.book), KeySigner.load(home.key, KeyType.COSIGNATURE), now)
