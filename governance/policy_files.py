"""What lies in the policy files at this moment? Texts, the tests beside them, a signature over them.

A signature over a set lies beside its files, as `policies.sig`. Of texts by name both go by the same
names: `desk.yaml`, `desk.test.yaml`, `policies.sig`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from governance.config import (
    POLICY_SUFFIX,
    SIGNATURE,
    TEST_SUFFIX,
    read_beside,
    read_policy_files,
    shipped_policy,
    shipped_signature,
)
from governance.errors import RefusedError

__all__ = ["Policies", "PolicyFiles", "Source", "signature_places", "source", "tests_of"]

BASELINE: Final = "baseline"

Policies: TypeAlias = Path | str | Sequence[Path | str] | Mapping[str, str] | None
"""Policy files or folders, or texts by file name; None means the shipped baseline."""


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """Policy texts and their tests by file name, and the signature over the texts, if there is one.

    `signed_at` says where the signature is, or would be.
    """

    texts: Mapping[str, str]
    tests: Mapping[str, str]
    signature: str | None
    signed_at: str


Source: TypeAlias = Callable[[], PolicyFiles]
"""Reads the same places again each time it is called. Raises what is wrong with them."""


def source(policies: Policies) -> Source:
    """Tell where `policies` are read from. Nothing is read yet."""
    if isinstance(policies, Mapping):
        texts = policies
        return lambda: _of_texts(texts)
    if policies is None:
        return _of_package
    if isinstance(policies, str | Path):
        policies = (policies,)
    paths = tuple(Path(path) for path in policies)
    return lambda: _of_paths(paths)


def tests_of(file: str) -> str:
    """Name the tests of a policy file."""
    return file.removesuffix(POLICY_SUFFIX) + TEST_SUFFIX


def signature_places(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Tell where the signature over the policies in `paths` may lie: beside each of them."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    return tuple(dict.fromkeys(folder / SIGNATURE for folder in folders))


def _of_package() -> PolicyFiles:
    """Read the shipped baseline. Its cases are run before it is shipped."""
    return PolicyFiles(dict([shipped_policy(BASELINE)]), {}, shipped_signature(), SIGNATURE)


def _of_paths(paths: tuple[Path, ...]) -> PolicyFiles:
    texts = read_policy_files(paths)
    tests = {name: read_beside(Path(name)) for name in map(tests_of, texts)}
    places = signature_places(paths)
    found = {str(place): text for place in places if (text := read_beside(place)) is not None}
    if len(found) > 1:
        one, other, *_ = found
        raise RefusedError(
            f"signatures at `{one}` and at `{other}`, and one set has one signature",
            hint="keep the one that is over all the policies that are named",
        )
    place, signature = next(iter(found.items()), (str(places[0]) if places else SIGNATURE, None))
    return PolicyFiles(texts, _present(tests), signature, place)


def _of_texts(given: Mapping[str, str]) -> PolicyFiles:
    tests = {name: text for name, text in given.items() if name.endswith(TEST_SUFFIX)}
    texts = {name: text for name, text in given.items() if name != SIGNATURE and name not in tests}
    return PolicyFiles(texts, tests, given.get(SIGNATURE), SIGNATURE)


def _present(tests: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in tests.items() if text is not None}
