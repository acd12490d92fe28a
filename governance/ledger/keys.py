"""Which keys may sign this log's heads, and over which sizes? A fold over the entries that say so.

| entry at `seq` | body | the key signs sizes |
|---|---|---|
| `log.created` | `keys` | of any size |
| `key.added` | `key, signing` | above `seq` |
| `key.retired` | `key, signing, reason` | up to `seq + 1`: the head over its own end is its last |
| `key.compromised` | `key, since, signing, reason` | up to `since`: what it signed beyond is void |

`signing` are the keys that may sign above the entry; it saves a writer the walk, and a verifier compares
it. Keys named in a log are information: a verifier trusts one because a head under a key that it trusts
already covers the entry that adds it.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from governance.canonical import JSON
from governance.errors import InvalidInputError, RefusedError
from governance.ids import SubjectId
from governance.ledger.checkpoint import VerifierKey, parse_verifier_key
from governance.ledger.entry import Draft, Entry, Kind

__all__ = [
    "REASON_CHARS_MAX",
    "KeyHistory",
    "Term",
    "add_key",
    "compromise_key",
    "retire_key",
    "signing_after",
]

REASON_CHARS_MAX: Final = 500
_FOR_EVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Term:
    """A key, and the tree sizes that it may sign: above `after`, up to `until`. `named` is where it came."""

    key: VerifierKey
    named: int
    after: int = 0
    until: int = _FOR_EVER

    def covers(self, size: int) -> bool:
        return self.after < size <= self.until


@dataclass(slots=True)
class KeyHistory:
    """What the entries seen so far say of the log's keys.

    With `begun`, entries before these are not here: the first one about keys tells who signed before it.
    """

    terms: dict[str, Term] = field(default_factory=dict[str, Term])
    begun: bool = False

    def follow(self, seq: int, kind: str, body: Mapping[str, Any]) -> Iterator[str]:
        """Take an entry of `ABOUT_KEYS`; yield what is wrong with it. Total."""
        try:
            yield from self._follow(seq, kind, body)
        except (KeyError, TypeError, AttributeError, InvalidInputError):
            yield f"`{kind}` at {seq} cannot be read"

    def _follow(self, seq: int, kind: str, body: Mapping[str, Any]) -> Iterator[str]:
        if kind == Kind.LOG_CREATED:
            for key in body.get("keys", ()):
                with contextlib.suppress(
                    InvalidInputError
                ):  # then nobody can pin it, nor sign with it
                    self.terms[key] = Term(parse_verifier_key(key), seq)
            return
        added: str = body["key"]
        if self.begun:
            self._recall(seq, kind, body)
        term = self.terms.get(added)
        if kind == Kind.KEY_ADDED:
            if term is not None:
                yield f"key `{added[:80]}` is added at {seq}, and was known before"
            self.terms.setdefault(added, Term(parse_verifier_key(added), seq, after=seq))
        elif term is None:
            yield f"key `{added[:80]}` ends at {seq}, and was never added"
        else:
            last = seq + 1 if kind == Kind.KEY_RETIRED else body["since"]
            self.terms[added] = replace(term, until=min(term.until, max(0, int(last))))
        if body["signing"] != self.signing(seq + 1):
            yield f"keys that may sign after {seq} are not those that `{kind}` names"

    def _recall(self, seq: int, kind: str, body: Mapping[str, Any]) -> None:
        """Take what an entry says of keys that it does not add: it stands under whatever covers it."""
        before = [] if self.terms else list(body["signing"])
        ended = [] if kind == Kind.KEY_ADDED else [body["key"]]
        for key in {*before, *ended} - ({body["key"]} - set(ended)):
            self.terms.setdefault(key, Term(parse_verifier_key(key), seq))

    def signing(self, size: int) -> list[str]:
        """The keys that may sign above `size`, sorted."""
        return sorted(key for key, term in self.terms.items() if term.until > size)


def signing_after(entry: Entry) -> list[str]:
    """The keys that may sign above the newest entry about keys."""
    keys: list[str] = entry.body["keys" if entry.kind is Kind.LOG_CREATED else "signing"]
    return list(keys)


def add_key(by: SubjectId, signing: Sequence[str], key: str) -> Draft:
    """Let `key` sign too. Raises InvalidInputError for a key that nobody should trust."""
    parse_verifier_key(key)
    if key in signing:
        raise InvalidInputError(
            f"key `{key[:160]}` signs already", hint="list keys with `keys list`"
        )
    return Draft(Kind.KEY_ADDED, by, {"key": key, "signing": sorted([*signing, key])})


def retire_key(by: SubjectId, signing: Sequence[str], key: str, reason: str) -> Draft:
    """Let `key` sign no more. Raises RefusedError when none would be left."""
    left = _without(signing, key)
    return Draft(Kind.KEY_RETIRED, by, {"key": key, "signing": left, "reason": _reason(reason)})


def compromise_key(
    by: SubjectId, signing: Sequence[str], key: str, *, since: int, reason: str
) -> Draft:
    """Declare void what `key` signed beyond size `since`; it may be one that was retired before."""
    left = _without(signing, key) if key in signing else sorted(signing)
    if since < 0:
        raise InvalidInputError(
            f"size `{since}` is below 0", hint="name the last size it may vouch for"
        )
    body: dict[str, JSON] = {
        "key": key,
        "since": since,
        "signing": [*left],
        "reason": _reason(reason),
    }
    return Draft(Kind.KEY_COMPROMISED, by, body)


def _without(signing: Sequence[str], key: str) -> list[str]:
    if key not in signing:
        raise InvalidInputError(
            f"key `{key[:160]}` does not sign this log", hint="list keys with `keys list`"
        )
    left = sorted(one for one in signing if one != key)
    if not left:
        raise RefusedError("no key would be left to sign with", hint="add the next key first")
    return left


def _reason(text: str) -> str:
    if not 0 < len(text) <= REASON_CHARS_MAX or not text.isprintable():
        raise InvalidInputError(
            f"reason has not 1 to {REASON_CHARS_MAX} printable characters",
            hint="say why, in a line",
        )
    return text
