"""Joins the ports to real things: a file, a key, a clock, randomness. The only wiring there is.

`Governance` is what a program holds: rules, ledger and identity of one installation.
"""

import base64
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.base64_text import from_base64, to_base64
from governance.config import Home, environment_name, policy_key
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.gate import Environment
from governance.ids import Micros, Origin, parse_origin
from governance.lawful.vouching import PolicyKey, parse_policy_key
from governance.ledger.checkpoint import (
    KeyType,
    note_text,
    parse_checkpoint,
    parse_verifier_key,
    verifier_key,
)
from governance.livecheck import LiveCheck, Outcome, check
from governance.policy.document import load_policies
from governance.policy.envelope import is_p256
from governance.policy.rules import PolicySet
from governance.policy_files import Policies, source
from governance.ports import Clock, NewId, Signer, Store
from governance.rulebook import Rulebook
from governance.rulebook import load as load_set
from governance.store.checkpoints import KeptCheckpoint, sync_directory
from governance.store.inspection import Subject
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore
from governance.store.stands import KeptStand

__all__ = [
    "Governance",
    "KeySigner",
    "adopt_key",
    "check_log",
    "init",
    "live_check",
    "load",
    "make_policy_key",
    "new_id",
    "now",
    "opens_with",
    "prepare_key",
    "read_policy_key",
    "read_verifier_key",
    "write_private",
]

ID_BYTES: Final = 10
LEASE_S: Final = 5.0
"""How long a driver that stopped answering is still thought alive."""
KEY_MODE: Final = 0o600
OTHERS: Final = 0o077
KEY_PREFIX: Final = "PRIVATE+KEY+"


def now() -> Micros:
    """Read the wall clock."""
    return Micros(time.time_ns() // 1000)


def new_id(prefix: str) -> str:
    """Draw `prefix-` and 80 random bits in lower-case base32; `user:` and its kind take no dash."""
    text = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode().lower()
    return f"{prefix}{text}" if prefix.endswith(":") else f"{prefix}-{text}"


@dataclass(frozen=True, slots=True)
class KeySigner:
    """An Ed25519 key of a log, or of a witness, held in memory."""

    origin: Origin
    verifier_key: str
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def from_seed(cls, origin: Origin, seed: bytes, kind: KeyType = KeyType.ED25519) -> "KeySigner":
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = private.public_key().public_bytes_raw()
        return cls(origin, verifier_key(origin, public, kind), private)

    @classmethod
    def load(cls, path: Path, kind: KeyType = KeyType.ED25519) -> "KeySigner":
        """Read a key file as `init` writes it. A key of another kind is refused as malformed.

        Raises InvalidInputError when it is absent or malformed, RefusedError when others may read it.
        """
        try:
            mode = path.stat().st_mode
            if mode & OTHERS:
                raise RefusedError(
                    f"key file `{path}` can be read by others (mode {mode & 0o777:o})",
                    hint=f"run `chmod 600 {path}`, and rotate the key if anyone may have read it",
                )
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError as exc:
            raise InvalidInputError(
                f"no key file `{path}`",
                hint="run `governance init` (for policies: `governance policy keygen`),"
                " or bring the key back",
            ) from exc
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInputError(f"key file `{path}` cannot be read") from exc
        return cls.from_seed(*_parse_key(text, path, kind), kind)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def to_text(self) -> str:
        """Write the key as C2SP notes tools do: `PRIVATE+KEY+<name>+<hash>+<base64>`."""
        key_id = self.verifier_key.split("+")[1]
        kind = parse_verifier_key(self.verifier_key).kind
        seed = to_base64(bytes([kind]) + self._private.private_bytes_raw())
        return f"{KEY_PREFIX}{self.origin}+{key_id}+{seed}"


def _parse_key(text: str, path: Path, kind: KeyType) -> tuple[Origin, bytes]:
    malformed = InvalidInputError(f"key file `{path}` is malformed", hint="bring the key back")
    parts = text.removeprefix(KEY_PREFIX).split("+", 2)
    if not text.startswith(KEY_PREFIX) or len(parts) != 3:  # noqa: PLR2004  # name, hash, key
        raise malformed
    raw = from_base64(parts[2])
    if raw is None or len(raw) != 33 or raw[0] != kind:  # noqa: PLR2004  # type byte and seed
        raise malformed
    signer = KeySigner.from_seed(parse_origin(parts[0]), raw[1:], kind)
    if signer.to_text() != text:
        raise malformed
    return signer.origin, raw[1:]


def init(home: Home, origin: Origin, succeeds: str | None = None) -> str:
    """Make the folder, the key and the ledger of a new installation; returns the verifier key to pin.

    `succeeds` is the last signed checkpoint of a log that cannot go on, which the new one names in its
    first entry. Raises ConflictError when any of the files is there already: nothing is overwritten;
    InvalidInputError when `succeeds` is no checkpoint, or one of a log of the same name.
    """
    if succeeds is not None and parse_checkpoint(note_text(succeeds)).origin == origin:
        raise InvalidInputError(
            f"a log called `{origin}` has begun before", hint="give the new log a name of its own"
        )
    for path in (home.key, home.ledger, home.keyring, home.checkpoint):
        if path.exists():
            raise ConflictError(
                f"`{path}` exists already", hint="choose another folder, or go on with this one"
            )
    home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signer = KeySigner.from_seed(origin, secrets.token_bytes(32))
    write_private(home.key, signer.to_text())
    write_private(home.verifier_key, signer.verifier_key)
    store = SqliteStore.create(
        home.ledger,
        origin=origin,
        signer=signer,
        clock=now,
        salts=secrets.token_bytes,
        kept_checkpoint=home.checkpoint,
        keyring=home.keyring,
        succeeds=succeeds,
    )
    store.close()
    return signer.verifier_key


def make_policy_key(name: Origin, path: Path) -> str:
    """Make a key to sign policies with at `path`, and its verifier key beside it; returns the latter.

    Raises ConflictError when either is there already.
    """
    public = path.with_name(f"{path.name}.vkey")
    for one in (path, public):
        if one.exists() or one.is_symlink():
            raise ConflictError(f"`{one}` exists already", hint="name another file")
    signer = KeySigner.from_seed(name, secrets.token_bytes(32))
    write_private(path, signer.to_text())
    write_private(public, signer.verifier_key)
    return signer.verifier_key


def prepare_key(home: Home, origin: Origin) -> KeySigner:
    """Make the next key of a log, beside the present one; what an interrupted rotation made is taken up."""
    if not home.next_key.exists():
        fresh = KeySigner.from_seed(origin, secrets.token_bytes(32))
        write_private(home.next_key, fresh.to_text())
        sync_directory(home.folder)
    return KeySigner.load(home.next_key)


def opens_with(home: Home, signer: KeySigner) -> bool:
    """Tell whether the log in `home` names the key of `signer` as one that signs it."""
    try:
        _open_store(home, signer).close()
    except RefusedError:
        return False
    return True


def adopt_key(home: Home) -> str:
    """Put the next key in the place of the present one, which is gone then; returns its verifier key."""
    signer = KeySigner.load(home.next_key)
    home.verifier_key.unlink(missing_ok=True)
    write_private(home.verifier_key, signer.verifier_key)
    home.next_key.replace(home.key)
    sync_directory(home.folder)
    return signer.verifier_key


def _open_store(home: Home, signer: KeySigner) -> SqliteStore:
    return SqliteStore.open(
        home.ledger,
        origin=signer.origin,
        signer=signer,
        salts=secrets.token_bytes,
        kept_checkpoint=home.checkpoint,
        keyring=home.keyring,
    )


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read. Raises FileExistsError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, KEY_MODE), "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_verifier_key(given: str) -> str:
    """Take a verifier key, or the name of a file that holds one. Raises InvalidInputError."""
    text = given if "+" in given else _key_file(given)
    parse_verifier_key(text)
    return text


def read_policy_key(given: str | None = None) -> PolicyKey | None:
    """Take the key that policies must be signed with: the one given, else the configured one, else none.

    It is a key, or the name of a file that holds one. Raises InvalidInputError for what is given, or
    configured, and is no such key: an empty text too.
    """
    text = policy_key() if given is None else given
    if text is None:
        return None
    return parse_policy_key(text if "+" in text or is_p256(text) else _key_file(text))


def _key_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="ascii", errors="replace").strip()
    except (OSError, ValueError) as exc:
        raise InvalidInputError(
            f"`{name[:80]}` is neither a verifier key nor a file that can be read",
            hint="give the key as it was printed when it was made",
        ) from exc


@dataclass(frozen=True, slots=True)
class Governance:
    """One installation: what it decides by, where it records, in whose name it signs."""

    store: Store
    signer: Signer
    rulebook: Rulebook
    environment: Environment
    clock: Clock = now
    new_id: NewId = new_id
    lease_us: int = int(LEASE_S * 1_000_000)

    @classmethod
    def open(
        cls,
        home: Path | str | None = None,
        *,
        policies: Policies = None,
        policy_key: str | None = None,
        environment: Environment | None = None,
    ) -> "Governance":
        """Open the installation in `home` (see `Home.find`).

        `policies` are files or folders, or texts by name; without them the shipped baseline rules.
        `policy_key` is the public key that they must be signed with, or a file that holds it; without
        it GOVERNANCE_POLICY_KEY is. Raises what is wrong with home, key, ledger, policies or their
        signature; nothing is opened half.
        """
        rules = Rulebook.open(source(policies), read_policy_key(policy_key))
        return cls._open(home, rules, environment)

    @classmethod
    def without_rules(cls, home: Path | str | None = None) -> "Governance":
        """Open it for what decides nothing: answers, lists, exports. Every call would be denied."""
        return cls._open(home, Rulebook.of(load_policies({})), None)

    @classmethod
    def _open(
        cls, home: Path | str | None, rules: Rulebook, environment: Environment | None
    ) -> "Governance":
        found = Home.find(home)
        signer = KeySigner.load(found.key)
        store = _open_store(found, signer)
        return cls(store, signer, rules, environment or Environment(environment_name()))

    @classmethod
    def in_memory(
        cls,
        *,
        policies: Policies = None,
        policy_key: str | None = None,
        environment: Environment | None = None,
    ) -> "Governance":
        """Make an installation that is gone when the process ends: for trying out and for tests."""
        rules = Rulebook.open(source(policies), read_policy_key(policy_key))
        signer = KeySigner.from_seed(Origin("memory"), secrets.token_bytes(32))
        store = MemoryStore(signer.origin, signer, now, secrets.token_bytes)
        return cls(store, signer, rules, environment or Environment(environment_name()))

    @property
    def policies(self) -> PolicySet:
        """The set in force. It may be another one the next time."""
        return self.rulebook.current

    def reload(self) -> PolicySet:
        """Read the policies again, and decide by them from now on; returns what is in force.

        Verified, parsed, run through the cases beside them, checked against the tools of the agents and
        recorded: only then they take the place of the old ones. Raises what is wrong with them,
        after logging it; the old ones then stay in force.
        """
        return self.rulebook.reload(self.store, self.clock)

    def close(self) -> None:
        """Finish what is queued, sign the head, let go of the files."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(policies: Policies, policy_key: str | None = None) -> PolicySet:
    """Load policies from files, folders or texts; the baseline when nothing is named.

    Where a key is given or configured, it must have signed them. The engine is the configured one; where
    it is absent nothing loads.
    """
    return load_set(source(policies)(), read_policy_key(policy_key))


def check_log(home: Home, *, whole: bool) -> Outcome:
    """Check the log in `home` once. Opens it for reading only, whoever else writes it."""
    signer = KeySigner.load(home.key)
    kept = KeptCheckpoint(home.checkpoint)
    subject = Subject(home.ledger, home.keyring, signer.origin, signer.verifier_key, kept)
    return check(subject, KeptStand(home.verified, signer), now, whole=whole)


def live_check(governance: Governance, every_s: float) -> LiveCheck | None:
    """Check the log of `governance` for as long as it is served; None where it lies in no file."""
    store, signer = governance.store, governance.signer
    if not isinstance(store, SqliteStore):
        return None
    subject = Subject(store.path, store.keyring, store.origin, signer.verifier_key, store.kept)
    kept = KeptStand(Home(store.path.parent, store.path).verified, signer)
    return LiveCheck(subject, kept, governance.clock, every_s)
