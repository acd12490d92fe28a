"""Which keys sign the log from now on? Each change is one commit: its entries, and the head over them.

The head that covers a change is signed by the key at hand and by the new one, so that whoever trusts
the one finds the other.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from governance.errors import TamperedError
from governance.ids import SubjectId
from governance.ledger.entry import ABOUT_KEYS, Draft
from governance.ledger.keys import (
    add_key,
    compromise_key,
    retire_key,
    signing_after,
)
from governance.ports import Clock, Reader, Signer, Store, Transaction

__all__ = ["add", "change", "declare_compromised", "retire", "rotate", "signing"]

Change: TypeAlias = Callable[[Sequence[str]], Draft]
"""An entry about keys, from those that may sign before it."""


def signing(reader: Reader) -> list[str]:
    """The keys that may sign the log's next head. Raises TamperedError when the log names none."""
    latest = reader.latest(ABOUT_KEYS)
    if latest is None:
        raise TamperedError("log does not say which keys sign it", hint="restore the database")
    return signing_after(latest.entry)


def add(store: Store, clock: Clock, by: SubjectId, new: Signer) -> int:
    """Let the key of `new` sign too. Returns the size of the head that covers it.

    Raises InvalidInputError when it signs already, and as `Store.rekey` does.
    """
    return _change(store, clock, [new], _adds(by, new))


def rotate(store: Store, clock: Clock, by: SubjectId, new: Signer, retired: Change) -> int:
    """Let the key of `new` sign, and then make the change `retired`, in one commit."""
    return _change(store, clock, [new], _adds(by, new), retired)


def retire(by: SubjectId, key: str, reason: str) -> Change:
    """Let `key` sign no more."""
    return lambda now: retire_key(by, now, key, reason)


def declare_compromised(by: SubjectId, key: str, *, since: int, reason: str) -> Change:
    """Declare void what `key` signed beyond the size `since`."""
    return lambda now: compromise_key(by, now, key, since=since, reason=reason)


def change(store: Store, clock: Clock, wanted: Change) -> int:
    """Make one change that needs no new key. Raises RefusedError when no key would be left."""
    return _change(store, clock, [], wanted)


def _adds(by: SubjectId, new: Signer) -> Change:
    return lambda now: add_key(by, now, new.verifier_key)


def _change(store: Store, clock: Clock, new: Sequence[Signer], *changes: Change) -> int:
    def work(tx: Transaction) -> None:
        for wanted in changes:
            tx.append(wanted(signing(tx)), clock())

    size, _ = store.rekey(work, new)
    return size
