"""Joins the ports to real things: a file, a key, a clock, randomness. The only wiring there is.

`Governance` is what a program holds: rules, ledger and identity of one installation.
"""

import base64
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.config import Home, engine_name, environment_name, read_policy_files, shipped_policy
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.gate import Environment
from governance.ids import Micros, Origin, parse_origin
from governance.ledger.checkpoint import parse_verifier_key, verifier_key
from governance.policy.cel import engine_by_name
from governance.policy.document import load_policies
from governance.policy.rules import PolicySet
from governance.ports import Clock, NewId, Signer, Store
from governance.store.memory import MemoryStore
from governance.store.sqlite import SqliteStore

__all__ = ["Governance", "KeySigner", "init", "new_id", "now", "read_verifier_key"]

ID_BYTES: Final = 10
LEASE_S: Final = 5.0
"""How long a driver that stopped answering is still thought alive."""
KEY_MODE: Final = 0o600
OTHERS: Final = 0o077
KEY_PREFIX: Final = "PRIVATE+KEY+"
ED25519: Final = b"\x01"


def now() -> Micros:
    """Read the wall clock."""
    return Micros(time.time_ns() // 1000)


def new_id(prefix: str) -> str:
    """Draw `prefix-` and 80 random bits in lower-case base32; `user:` and its kind take no dash."""
    text = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode().lower()
    return f"{prefix}{text}" if prefix.endswith(":") else f"{prefix}-{text}"


@dataclass(frozen=True, slots=True)
class KeySigner:
    """A log's Ed25519 key, held in memory."""

    origin: Origin
    verifier_key: str
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def from_seed(cls, origin: Origin, seed: bytes) -> "KeySigner":
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = private.public_key().public_bytes_raw()
        return cls(origin, verifier_key(origin, public), private)

    @classmethod
    def load(cls, path: Path) -> "KeySigner":
        """Read a key file as `init` writes it.

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
                f"no key file `{path}`", hint="run `governance init`, or bring the key back"
            ) from exc
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInputError(f"key file `{path}` cannot be read") from exc
        return cls.from_seed(*_parse_key(text, path))

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def to_text(self) -> str:
        """Write the key as C2SP notes tools do: `PRIVATE+KEY+<name>+<hash>+<base64>`."""
        key_id = self.verifier_key.split("+")[1]
        seed = base64.b64encode(ED25519 + self._private.private_bytes_raw()).decode()
        return f"{KEY_PREFIX}{self.origin}+{key_id}+{seed}"


def _parse_key(text: str, path: Path) -> tuple[Origin, bytes]:
    malformed = InvalidInputError(f"key file `{path}` is malformed", hint="bring the key back")
    parts = text.removeprefix(KEY_PREFIX).split("+", 2)
    if not text.startswith(KEY_PREFIX) or len(parts) != 3:  # noqa: PLR2004  # name, hash, key
        raise malformed
    try:
        raw = base64.b64decode(parts[2], validate=True)
    except ValueError as exc:
        raise malformed from exc
    if len(raw) != 33 or raw[:1] != ED25519:  # noqa: PLR2004  # type byte and seed
        raise malformed
    signer = KeySigner.from_seed(parse_origin(parts[0]), raw[1:])
    if signer.to_text() != text:
        raise malformed
    return signer.origin, raw[1:]


def init(home: Home, origin: Origin) -> str:
    """Make the folder, the key and the ledger of a new installation; returns the verifier key to pin.

    Raises ConflictError when any of them is there already: nothing is overwritten.
    """
    for path in (home.key, home.ledger, home.checkpoint):
        if path.exists():
            raise ConflictError(
                f"`{path}` exists already", hint="choose another folder, or go on with this one"
            )
    home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signer = KeySigner.from_seed(origin, secrets.token_bytes(32))
    _write_private(home.key, signer.to_text())
    _write_private(home.verifier_key, signer.verifier_key)
    store = SqliteStore.create(
        home.ledger,
        origin=origin,
        signer=signer,
        clock=now,
        salts=secrets.token_bytes,
        kept_checkpoint=home.checkpoint,
    )
    store.close()
    return signer.verifier_key


def _write_private(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, KEY_MODE), "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_verifier_key(given: str) -> str:
    """Take a verifier key, or the name of a file that holds one. Raises InvalidInputError."""
    if "+" not in given:
        try:
            given = Path(given).read_text(encoding="ascii", errors="replace").strip()
        except (OSError, ValueError) as exc:
            raise InvalidInputError(
                f"`{given[:80]}` is neither a verifier key nor a file that can be read",
                hint="give the key `init` printed",
            ) from exc
    parse_verifier_key(given)
    return given


Policies: TypeAlias = Path | str | Sequence[Path | str] | Mapping[str, str] | None
"""Policy files or folders, or texts by file name; None means the shipped baseline."""


@dataclass(frozen=True, slots=True)
class Governance:
    """One installation: what it decides by, where it records, in whose name it signs."""

    store: Store
    signer: Signer
    policies: PolicySet
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
        environment: Environment | None = None,
    ) -> "Governance":
        """Open the installation in `home` (see `Home.find`).

        `policies` are files or folders, or texts by name; without them the shipped baseline rules.
        Raises what is wrong with home, key, ledger or policies; nothing is opened half.
        """
        rules = load(policies)
        found = Home.find(home)
        signer = KeySigner.load(found.key)
        store = SqliteStore.open(
            found.ledger,
            origin=signer.origin,
            signer=signer,
            salts=secrets.token_bytes,
            kept_checkpoint=found.checkpoint,
        )
        return cls(store, signer, rules, environment or Environment(environment_name()))

    @classmethod
    def in_memory(
        cls,
        *,
        policies: Policies = None,
        environment: Environment | None = None,
    ) -> "Governance":
        """Make an installation that is gone when the process ends: for trying out and for tests."""
        rules = load(policies)
        signer = KeySigner.from_seed(Origin("memory"), secrets.token_bytes(32))
        store = MemoryStore(signer.origin, signer, now, secrets.token_bytes)
        return cls(store, signer, rules, environment or Environment(environment_name()))

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


def load(policies: Policies) -> PolicySet:
    """Load policies from files, folders or texts; the baseline when nothing is named.

    The engine is the configured one; where it is absent nothing loads.
    """
    engine = engine_by_name(engine_name())
    if policies is None:
        return load_policies(dict([shipped_policy("baseline")]), engine)
    if isinstance(policies, Mapping):
        return load_policies(policies, engine)
    if isinstance(policies, str | Path):
        policies = (policies,)
    return load_policies(read_policy_files(tuple(Path(path) for path in policies)), engine)
