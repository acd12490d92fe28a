"""Where things are. The only reader of the environment.

| variable | meaning | default |
|---|---|---|
| `GOVERNANCE_HOME` | the folder of ledger, key and kept checkpoint | `.governance` |
| `GOVERNANCE_CHECKPOINT` | where the last checkpoint is kept; best on another volume | in the home |
| `GOVERNANCE_KEYRING` | where the keys of people's content are kept; best on another volume | in the home |
| `GOVERNANCE_ENVIRONMENT` | what policies read as `env.name` | `default` |
| `GOVERNANCE_CHECK_SECONDS` | how often `governance serve` checks the log, 1 to 86400 | `60` |
| `GOVERNANCE_ENGINE` | what evaluates conditions: `closure`, `celpy` or `celexpr` | `closure` |
| `GOVERNANCE_POLICY_KEY` | the key that policies must be signed with, or a file that holds it | none |
| `GOVERNANCE_RETENTION_DAYS` | how old entries must be to leave the log; more than 183 | 183 |
| `GOVERNANCE_SECRET_<NAME>` | the secret `<name>` of a tool, for agents given `environment_secret` | none |
| `GOVERNANCE_ANCHORS` | the file that says where the log is anchored | nowhere |
| `GOVERNANCE_WITNESS` | the folder of a witness: its key and its book | `.witness` |
"""

import os
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from governance.errors import InvalidInputError, UnavailableError

__all__ = [
    "POLICY_SUFFIX",
    "SIGNATURE",
    "TEST_SUFFIX",
    "Home",
    "WitnessHome",
    "anchors_file",
    "check_seconds",
    "engine_name",
    "environment_name",
    "environment_secret",
    "policy_key",
    "read_beside",
    "read_bytes",
    "read_policy_files",
    "read_text",
    "retention_days",
    "shipped_policy",
    "shipped_signature",
]

CHECK_SECONDS_MAX = 24 * 3600
POLICY_SUFFIX = ".yaml"
TEST_SUFFIX = ".test.yaml"
SIGNATURE = "policies.sig"
"""The file beside policies that holds the signature over all of them."""
_DAYS_DIGITS_MAX = 6


@dataclass(frozen=True, slots=True)
class Home:
    """The folder an installation lives in. `keys` is set where the keyring lies elsewhere."""

    folder: Path
    checkpoint: Path
    keys: Path | None = None

    @classmethod
    def find(cls, folder: Path | str | None = None) -> "Home":
        """Take `folder`, else what the environment names, else `.governance` here."""
        root = Path(folder or os.environ.get("GOVERNANCE_HOME") or ".governance")
        kept = os.environ.get("GOVERNANCE_CHECKPOINT")
        keys = os.environ.get("GOVERNANCE_KEYRING")
        return cls(root, Path(kept) if kept else root / "checkpoint", Path(keys) if keys else None)

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def keyring(self) -> Path:
        return self.keys or self.ledger.with_suffix(".keyring")

    @property
    def holds(self) -> Path:
        return self.folder / "holds"

    @property
    def key(self) -> Path:
        return self.folder / "log.key"

    @property
    def next_key(self) -> Path:
        """The key that a rotation is changing to; gone once it has."""
        return self.folder / "log.key.next"

    @property
    def verifier_key(self) -> Path:
        return self.folder / "log.vkey"

    @property
    def verified(self) -> Path:
        """How far the live check has come; see `governance.store.stands`."""
        return self.folder / "verified"


@dataclass(frozen=True, slots=True)
class WitnessHome:
    """The folder a witness lives in."""

    folder: Path

    @classmethod
    def find(cls, folder: Path | None = None) -> "WitnessHome":
        """Take `folder`, else what the environment names, else `.witness` here."""
        return cls(folder or Path(os.environ.get("GOVERNANCE_WITNESS") or ".witness"))

    @property
    def book(self) -> Path:
        return self.folder / "book.db"

    @property
    def key(self) -> Path:
        return self.folder / "witness.key"

    @property
    def verifier_key(self) -> Path:
        return self.folder / "witness.vkey"


def anchors_file() -> Path | None:
    """The file that says where the log is anchored; None when it is anchored nowhere."""
    named = os.environ.get("GOVERNANCE_ANCHORS")
    return Path(named) if named else None


def environment_name() -> str:
    return os.environ.get("GOVERNANCE_ENVIRONMENT") or "default"


def environment_secret(name: str) -> str:
    """Read a tool's secret: `api_key` from `GOVERNANCE_SECRET_API_KEY`. Raises KeyError without it."""
    return os.environ["GOVERNANCE_SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())]


def engine_name() -> str:
    return os.environ.get("GOVERNANCE_ENGINE") or "closure"


def policy_key() -> str | None:
    """Tell the key that is configured. One that is set and empty is no key, and not none either."""
    return os.environ.get("GOVERNANCE_POLICY_KEY")


def check_seconds() -> int:
    """Read how often the log is checked. Raises InvalidInputError: it cannot be switched off."""
    text = os.environ.get("GOVERNANCE_CHECK_SECONDS") or "60"
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= CHECK_SECONDS_MAX:
        raise InvalidInputError(
            f"GOVERNANCE_CHECK_SECONDS is `{text[:40]}`",
            hint=f"give whole seconds, 1 to {CHECK_SECONDS_MAX}",
        )
    return int(text)


def retention_days(floor: int) -> int:
    """Give how many days entries stay in the log: `floor`, or more. Raises InvalidInputError for less."""
    told = os.environ.get("GOVERNANCE_RETENTION_DAYS") or str(floor)
    if not (told.isascii() and told.isdigit() and len(told) <= _DAYS_DIGITS_MAX):
        raise InvalidInputError(
            f"GOVERNANCE_RETENTION_DAYS is `{told[:80]}`", hint="give whole days, or unset it"
        )
    if int(told) < floor:
        raise InvalidInputError(
            f"GOVERNANCE_RETENTION_DAYS is `{told}`, and less than {floor} days are not kept by anybody",
            hint=f"give {floor} or more, or unset it",
        )
    return int(told)


def shipped_policy(name: str) -> tuple[str, str]:
    """Read a policy that comes with the package, like `baseline` or `examples/banking`.

    Returns (file name, text). Raises InvalidInputError for a name that is not shipped.
    """
    file = _shipped().joinpath(*f"{name}{POLICY_SUFFIX}".split("/"))
    if ".." in name or not file.is_file():
        raise InvalidInputError(f"no policy `{name[:80]}` is shipped", hint="name a file instead")
    return f"{name}{POLICY_SUFFIX}", file.read_text(encoding="utf-8")


def shipped_signature() -> str | None:
    """Read the signature that somebody put beside the shipped policies, if there is one."""
    file = _shipped().joinpath(SIGNATURE)
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _shipped() -> Traversable:
    inside = resources.files("governance") / "_policies"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "policies"


def read_policy_files(paths: tuple[Path, ...]) -> dict[str, str]:
    """Read policy files, and those in policy folders, leaving out `*.test.yaml`.

    Raises InvalidInputError for a path that is not there or a folder without policies,
    UnavailableError for a file that cannot be read.
    """
    files: dict[str, str] = {}
    for path in paths:
        found = _policy_files(path) if path.is_dir() else [path]
        if not found:
            raise InvalidInputError(f"folder `{path}` holds no policies", hint="name a policy file")
        for file in found:
            files[str(file)] = read_text(file)
    return files


def read_beside(file: Path) -> str | None:
    """Read what may lie beside policies: tests, a signature. None when there is no such file.

    Raises as `read_policy_files` does.
    """
    return read_text(file) if file.exists() or file.is_symlink() else None


def _policy_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"*{POLICY_SUFFIX}"))
    return [file for file in files if not file.name.endswith(TEST_SUFFIX)]


def read_text(file: Path) -> str:
    """Read a file of text that somebody named, whatever its line ends are, as lines that end in one way.

    Raises InvalidInputError or UnavailableError.
    """
    try:
        text = read_bytes(file).decode()
    except UnicodeDecodeError as exc:
        raise InvalidInputError(f"file `{file}` is not UTF-8 text") from exc
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(file: Path) -> bytes:
    """Read a file that somebody named. Raises InvalidInputError or UnavailableError."""
    try:
        return file.read_bytes()
    except FileNotFoundError as exc:
        raise InvalidInputError(f"no file `{file}`", hint="check the path") from exc
    except OSError as exc:
        raise UnavailableError(f"file `{file}` cannot be read ({exc.strerror})") from exc
