"""Whose word does a verifier ask for? Logs, witnesses, and the quorum that has to have cosigned.

The file format is C2SP's tlog-policy, one item a line, fields parted by spaces or tabs:

    # whom we trust
    log <vkey> [<url>]
    witness bank <vkey> [<url>]
    witness auditor <vkey>
    group outside 2 bank auditor              needs 2 of them; `any` is 1, `all` is every one
    quorum outside                            a witness, a group, or `none`

Names are defined before they are used, and each is in one group at most, so that nobody counts twice.
Two keys are one if they are the same point, whatever their names.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from governance.errors import InvalidInputError
from governance.ledger.checkpoint import KeyType, VerifierKey, parse_verifier_key
from governance.ledger.cosignature import cosigner

__all__ = [
    "Group",
    "Quorum",
    "Trust",
    "Witness",
    "is_met",
    "met_since",
    "parse_trust",
    "threshold",
    "witness_keys",
]

TRUST_BYTES_MAX: Final = 64 * 1024
ITEMS_MAX: Final = 256
"""So many lines define something."""

_ODD: Final = re.compile("[^\t\n\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,3}")
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Witness:
    """One witness by the name the policy gives it."""

    name: str
    key: VerifierKey


@dataclass(frozen=True, slots=True)
class Group:
    """Met when `needs` of its members are."""

    name: str
    needs: int
    members: tuple["Quorum", ...]


Quorum: TypeAlias = Witness | Group


@dataclass(frozen=True, slots=True)
class Trust:
    """What a policy says. `quorum` None: it says `none`, in so many words."""

    logs: tuple[VerifierKey, ...]
    quorum: Quorum | None


def is_met(quorum: Quorum, signers: Collection[VerifierKey]) -> bool:
    """Tell whether `signers`, whose signatures were verified, are enough."""
    match quorum:
        case Witness(key=key):
            return key in signers
        case Group(needs=needs, members=members):
            return sum(is_met(member, signers) for member in members) >= needs


def met_since(quorum: Quorum, times: Mapping[VerifierKey, int]) -> int | None:
    """The latest time at which enough witnesses had signed at that time or after it; None: never."""
    for moment in sorted(set(times.values()), reverse=True):
        if is_met(quorum, [key for key, time in times.items() if time >= moment]):
            return moment
    return None


def witness_keys(quorum: Quorum) -> tuple[VerifierKey, ...]:
    """The keys of every witness that may count."""
    match quorum:
        case Witness(key=key):
            return (key,)
        case Group(members=members):
            return tuple(key for member in members for key in witness_keys(member))


def threshold(keys: Sequence[VerifierKey], needs: int | None = None) -> Group:
    """Ask for `needs` of the witnesses `keys`, all of them if None. Keys of one name are one witness.

    Raises InvalidInputError when that can never be met, or asks for nothing.
    """
    by_name = dict[str, list[Witness]]()
    for key in keys:
        by_name.setdefault(key.name, []).append(Witness(key.name, key))
    _refuse_twins(keys)
    members = tuple(
        Group(name, 1, tuple(same)) if len(same) > 1 else same[0] for name, same in by_name.items()
    )
    asked = len(members) if needs is None else needs
    if not 1 <= asked <= len(members):
        raise InvalidInputError(
            f"a quorum of `{asked}` of {len(members)} witnesses",
            hint="ask for one at least, and for no more than there are",
        )
    return Group("quorum", asked, members)


def parse_trust(text: str) -> Trust:
    """Read a trust policy. Raises InvalidInputError naming the line."""
    odd = _ODD.search(text)
    if len(text.encode()) > TRUST_BYTES_MAX or odd:
        raise InvalidInputError("trust policy is too long, or holds control characters")
    reading = _Reading()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip(" \t").replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if not words or words[0].startswith("#"):
            continue
        try:
            reading.take(words)
        except InvalidInputError as exc:
            raise InvalidInputError(f"line {number}: {exc.message}", hint=exc.hint) from exc
    return reading.finish()


@dataclass(slots=True)
class _Reading:
    logs: list[VerifierKey] = field(default_factory=list[VerifierKey])
    named: dict[str, Quorum] = field(default_factory=dict[str, "Quorum"])
    grouped: set[str] = field(default_factory=set[str])
    quorum: Quorum | None = None
    decided: bool = False

    def take(self, words: list[str]) -> None:
        if len(self.logs) + len(self.named) >= ITEMS_MAX:
            raise InvalidInputError(f"trust policy defines more than {ITEMS_MAX} things")
        match words:
            case ["log", vkey] | ["log", vkey, _]:
                self.logs.append(_log_key(vkey))
                _refuse_twins(self.logs)
            case ["witness", name, vkey] | ["witness", name, vkey, _]:
                self._define(Witness(name, cosigner(vkey)))
                witnesses = [item for item in self.named.values() if isinstance(item, Witness)]
                _refuse_twins([item.key for item in witnesses])
            case ["group", name, needs, first, *rest]:
                self._define(self._group(name, needs, [first, *rest]))
            case ["quorum", name] if not self.decided:
                self.decided = True
                self.quorum = None if name == _NONE else self._find(name)
            case ["quorum", *_] if self.decided:
                raise InvalidInputError("a second quorum", hint="keep one `quorum` line")
            case _:
                raise InvalidInputError(
                    f"`{' '.join(words)[:80]}` is no item of a trust policy",
                    hint="write `log`, `witness`, `group` or `quorum` with its fields",
                )

    def finish(self) -> Trust:
        if not self.decided:
            raise InvalidInputError(
                "trust policy has no quorum", hint="add `quorum NAME`, or `quorum none`"
            )
        return Trust(tuple(self.logs), self.quorum)

    def _group(self, name: str, needs: str, members: list[str]) -> Group:
        found = tuple(self._find(member) for member in members)
        twice = [m for m in members if members.count(m) > 1 or m in self.grouped]
        if twice:
            raise InvalidInputError(f"`{twice[0][:80]}` is a member twice")
        self.grouped.update(members)
        if needs not in ("any", "all") and not _COUNT.fullmatch(needs):
            raise InvalidInputError(f"malformed threshold `{needs[:80]}`", hint="use 1, 2, …")
        count = {"any": 1, "all": len(found)}.get(needs) or int(needs)
        if count > len(found):
            raise InvalidInputError(f"group `{name[:80]}` needs {count} of {len(found)} members")
        return Group(name, count, found)

    def _define(self, item: Quorum) -> None:
        if item.name in self.named or item.name == _NONE:
            raise InvalidInputError(f"name `{item.name[:80]}` is taken")
        self.named[item.name] = item

    def _find(self, name: str) -> Quorum:
        if name not in self.named:
            raise InvalidInputError(
                f"nothing is named `{name[:80]}`", hint="define it on a line before"
            )
        return self.named[name]


def _log_key(text: str) -> VerifierKey:
    key = parse_verifier_key(text)
    if key.kind is not KeyType.ED25519:
        raise InvalidInputError(f"verifier key of `{key.name[:80]}` is not a log's")
    return key


def _refuse_twins(keys: Sequence[VerifierKey]) -> None:
    if len({key.public for key in keys}) != len(keys):
        raise InvalidInputError("one key is given twice", hint="name each witness and log once")
