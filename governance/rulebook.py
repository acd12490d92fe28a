"""Which policy set is in force in this program, and how is it replaced meanwhile? At once or not at all.

    read the files -> signature -> parse, names -> versions -> their own tests -> the agents' tools
                   -> `policy.activated` is durable -> one assignment

Whatever fails on the way, the set that was in force stays, and the failure is raised and logged.
"""

import logging
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, cast

from governance.config import engine_name
from governance.errors import GovernanceError, RefusedError
from governance.gate import ToolFacts, activate, fit, in_force
from governance.ids import Digest
from governance.lawful.vouching import PolicyKey, format_policy_key, read_signature
from governance.policy.cel import Engine, engine_by_name
from governance.policy.document import load_policies, read_policies
from governance.policy.rules import PolicySet, Signature, refuse_rewrite, refuse_rollback
from governance.policy.signature import Signed
from governance.policy.suite import CaseResult, Suite, read_suite, run_cases
from governance.policy.yaml_source import PolicyError
from governance.policy_files import PolicyFiles, Source, tests_of
from governance.ports import Clock, Reader, Store

__all__ = ["Rulebook", "load", "vouched"]

TOOLBOXES_MAX: Final = 256
"""Agents of different tools that a new set is checked against; the least recent is forgotten first."""
FILES_KEPT: Final = 256
SHOWN_CHARS: Final = 200

_log = logging.getLogger(__name__)


def load(files: PolicyFiles, key: PolicyKey | None) -> PolicySet:
    """Make a policy set of `files`, with the configured engine; where a `key` is given, if it signed them.

    Raises as `vouched` does, PolicyError with file and line, UnavailableError without the engine.
    """
    signed = vouched(files, key)
    policies = load_policies(files.texts, engine_by_name(engine_name()))
    if key is None or signed is None or files.signature is None:
        return policies
    signed.refuse_other_versions(policies.versions)
    return replace(policies, signature=Signature(format_policy_key(key), files.signature))


def vouched(files: PolicyFiles, key: PolicyKey | None) -> Signed | None:
    """Tell what was signed, which is these texts; None without a `key` to ask for.

    Raises RefusedError for a signature that is absent, wrong or over other texts; and for one that there
    is no key to check with: whoever signed meant it to be looked at, so a lost key must not go unnoticed.
    """
    if key is None:
        if files.signature is not None:
            raise RefusedError(
                f"`{files.signed_at}` signs these policies, and no key is configured to check it with",
                hint="set GOVERNANCE_POLICY_KEY to the key that signs, or remove the signature",
            )
        return None
    if files.signature is None:
        raise RefusedError(
            f"a policy key is configured, and there is no signature at `{files.signed_at}`",
            hint="put the policies into a folder of yours, and use `governance policy sign`",
        )
    return read_signature(files.signature, key, files.texts)


@dataclass(slots=True)
class Rulebook:
    """Holds the set in force. `current` is one immutable value, and only `reload` assigns it.

    A rulebook goes with one log: what it holds after a reload, that log has activated.
    """

    current: PolicySet
    _source: Source
    _key: PolicyKey | None = None
    _coming: PolicySet | None = field(default=None, init=False)
    _toolboxes: dict[frozenset[Digest], tuple[ToolFacts, ...]] = field(
        default_factory=dict[frozenset[Digest], tuple[ToolFacts, ...]], init=False
    )
    _shelf: threading.Lock = field(default_factory=threading.Lock, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    @classmethod
    def open(cls, source: Source, key: PolicyKey | None = None) -> "Rulebook":
        """Load what `source` reads. Raises as `load` does."""
        return cls(load(source(), key), source, key)

    @classmethod
    def of(cls, policies: PolicySet) -> "Rulebook":
        """Hold a set that is there already, and read from nowhere: a reload changes nothing."""
        files = PolicyFiles(policies.files, {}, None, "")
        return cls(policies, lambda: files)

    def serve(self, tools: tuple[ToolFacts, ...]) -> None:
        """Take note of an agent's tools: from now on a new set must fit them too.

        Waits for no reload. One that is under way may miss them; each drive looks again as it begins.
        """
        definitions = frozenset(tool.definition for tool in tools)
        with self._shelf:
            self._toolboxes.pop(definitions, None)
            self._toolboxes[definitions] = tools
            while len(self._toolboxes) > TOOLBOXES_MAX:
                del self._toolboxes[next(iter(self._toolboxes))]

    def at(self, reader: Reader) -> PolicySet:
        """The set to decide by in the transaction of `reader`: ask once, and keep to the answer.

        Between the commit that activates a new set and its assignment here, the log is right.
        """
        coming = self._coming
        if coming is not None and in_force(reader, coming):
            return coming
        return self.current

    def reload(self, store: Store, clock: Clock) -> PolicySet:
        """Read the files again, and put in force what they say now; returns what is in force.

        Raises what is wrong with it, after it was logged; then nothing has changed. One caller at a time.
        """
        with self._turn:
            try:
                return self._swap(store, clock)
            except Exception as exc:
                # No traceback: the file and the line that matter are in the message.
                _log.error("policies were not reloaded, what was in force stays: %s", _told(exc))
                raise

    def _swap(self, store: Store, clock: Clock) -> PolicySet:
        old, files = self.current, self._source()
        new = load(files, self._key)
        if (new.digest, new.signature) == (old.digest, old.signature):
            return old
        refuse_rollback(old.versions, new.versions)
        refuse_rewrite(old, new)
        _test(files, new.evaluator)
        with self._shelf:
            toolboxes = tuple(self._toolboxes.values())
        for tools in toolboxes:
            fit(new, tools)
        self._coming = new
        try:
            store.write(lambda tx: activate(tx, new, clock()))
            self.current = new
        finally:
            self._coming = None
        return new


def _test(files: PolicyFiles, engine: Engine) -> None:
    """Run the cases beside each policy, each by itself. Raises PolicyError for the first that fails."""
    for file, text in sorted(files.texts.items()):
        beside = tests_of(file)
        if beside not in files.tests:
            continue
        failed = _failed(cast("Hashable", engine), (file, text), (beside, files.tests[beside]))
        if failed is not None:
            raise PolicyError(
                f"case `{failed.name[:SHOWN_CHARS]}` fails: {_difference(failed)}",
                file=beside,
                line=failed.line,
                hint="mend the policy or the case; `governance policy test` shows every failure",
            )


@lru_cache(maxsize=FILES_KEPT)
def _failed(engine: Hashable, policy: tuple[str, str], tests: tuple[str, str]) -> CaseResult | None:
    """Find the first case that fails. A decision is pure: what passed once passes again."""
    file, text = policy
    alone = read_policies({file: text}, cast("Engine", engine))
    results = run_cases(alone, _suite(*tests)).cases
    return next((case for case in results if not case.passed), None)


@lru_cache(maxsize=FILES_KEPT)
def _suite(file: str, text: str) -> Suite:
    return read_suite(text, file=file)


def _difference(case: CaseResult) -> str:
    got: Mapping[str, object] = cast("Mapping[str, object]", case.got)
    field_, wanted = next((f, w) for f, w in case.expected.items() if got.get(f) != w)
    return f"`{field_}` is `{got.get(field_)}`, and `{wanted}` is expected"[: 2 * SHOWN_CHARS]


def _told(exc: Exception) -> str:
    """One line for a log: whoever writes policy files writes nothing but text into it."""
    text = str(exc) if isinstance(exc, GovernanceError) else f"{type(exc).__name__}: {exc}"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
