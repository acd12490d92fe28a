"""Which rules, tools and keys had the log named? As they stood at the entry that is being read.

A policy set is loaded again from the text its activation recorded, and counts only if that text has the
digest it was activated under, with the same engine in the same version. Where its activation names a key,
that key's signature over the texts stands beside it; with a key of the auditor's own, it has to be that one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from governance.errors import (
    GovernanceError,
    InvalidInputError,
    RefusedError,
    UnavailableError,
)
from governance.ids import Digest, parse_digest
from governance.lawful.absences import Absences
from governance.lawful.report import Collector, Fault
from governance.lawful.vouching import PolicyKey, parse_policy_key, read_signature
from governance.ledger.checkpoint import VerifierKey, parse_verifier_key
from governance.ledger.entry import Entry, Record
from governance.ledger.report import Status
from governance.policy.cel import Engine, engine_by_name
from governance.policy.document import read_policies
from governance.policy.model import RiskProfile, Tier
from governance.policy.rules import PolicySet

__all__ = ["Activation", "Books"]


@dataclass(frozen=True, slots=True)
class Activation:
    """A policy set as it was last put in force. `policies` is None when it could not be loaded again;
    `absent` then names the engine that would be needed, if that is why."""

    record: Record
    policies: PolicySet | None = None
    absent: str | None = None

    @property
    def seq(self) -> int:
        return self.record.entry.seq


@dataclass(slots=True)
class Books:
    """Everything the log has put in force so far. `newest` is the seq of the last activation.

    `policy_key` is the key that the auditor pins for policies, if any.
    """

    found: Collector
    absences: Absences
    policy_key: PolicyKey | None = None
    newest: int = -1
    keys: Mapping[str, VerifierKey] = field(default_factory=dict[str, VerifierKey])
    _activations: dict[str, Activation] = field(default_factory=dict[str, Activation])
    _versions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _tools: dict[tuple[str, str], RiskProfile] = field(
        default_factory=dict[tuple[str, str], RiskProfile]
    )

    def create(self, entry: Entry) -> None:
        """Take the keys that `log.created` names. Whether to trust them is for pins to say, elsewhere."""
        self.keys = {key: parse_verifier_key(key) for key in entry.body["keys"]}

    def activate(self, record: Record) -> None:
        entry = record.entry
        digest, versions = entry.body["policy"], entry.body["versions"]
        for name, old in self._versions.items():
            if versions.get(name, old) < old:
                message = f"policy `{name[:80]}` goes back from version {old} to {versions[name]}"
                self.found.add(Fault.POLICY_ROLLED_BACK, entry, message)
        known = self._activations.get(digest)
        if known is not None and known.policies is not None:
            activation = Activation(record, known.policies)
        else:
            activation = self._load(record)
        self._activations[digest] = activation
        # What is left out for a while comes back in no lower version.
        self._versions = {**self._versions, **versions}
        self.newest = entry.seq
        self._judge_signature(record)

    def activation(self, digest: str) -> Activation | None:
        return self._activations.get(digest)

    def register(self, entry: Entry) -> None:
        """Take a tool as `tool.registered` or `tool.changed` describes it."""
        body = entry.body
        definition = parse_digest(body["definition"])
        self._tools[body["tool"], definition.hex()] = _profile(body["profile"])

    def profile(self, tool: str, definition: Digest) -> RiskProfile | None:
        return self._tools.get((tool, definition.hex()))

    def _judge_signature(self, record: Record) -> None:
        entry = record.entry
        named = entry.body.get("key")
        pin = self.policy_key
        if pin is not None and (named is None or parse_policy_key(named) != pin):
            message = f"policies are in force without a signature of `{pin.name}`"
            self.found.add(Fault.POLICY_UNSIGNED, entry, message)
        if named is None or self.absences.lack(entry, (record, "signature"), (record, "text")):
            return
        try:
            note, texts = record.content("signature"), record.content("text")
            signed = read_signature(note, parse_policy_key(named), texts)
            signed.refuse_other_versions(entry.body["versions"])
        except RefusedError as exc:
            self.found.add(Fault.POLICY_SIGNATURE_WRONG, entry, exc.message)

    def _load(self, record: Record) -> Activation:
        entry = record.entry
        recorded = str(entry.body["engine"])
        engine = _engine(recorded)
        if engine is None:
            message = f"policy set needs engine `{recorded[:80]}`, which is not here"
            self.found.add(Fault.ENGINE_ABSENT, entry, message, Status.NOT_CHECKED)
            return Activation(record, absent=recorded[:80])
        if self.absences.lack(entry, (record, "text")):
            return Activation(record)
        try:
            policies = read_policies(record.content("text"), engine)
        except (GovernanceError, AttributeError, TypeError) as exc:
            why = exc.message if isinstance(exc, GovernanceError) else "it is no policy text"
            self.found.add(Fault.POLICY_DIFFERS, entry, f"policy text cannot be loaded: {why}")
            return Activation(record)
        if policies.digest.hex() != entry.body["policy"]:
            message = f"policy text has digest `{policies.digest.hex()}`, not the one activated"
            self.found.add(Fault.POLICY_DIFFERS, entry, message)
            return Activation(record)
        if dict(policies.versions) != entry.body["versions"]:
            message = "policy text has other versions than its activation says"
            self.found.add(Fault.POLICY_DIFFERS, entry, message)
        return Activation(record, policies)


def _engine(recorded: str) -> Engine | None:
    """Find the very engine that decided, in the very version; no other one speaks for it."""
    try:
        engine = engine_by_name(recorded.partition(" ")[0])
    except (InvalidInputError, UnavailableError):
        return None
    return engine if f"{engine.name} {engine.version}" == recorded else None


def _profile(declared: Mapping[str, Any]) -> RiskProfile:
    """Read what `RiskProfile.to_json` wrote. Raises when it is something else."""
    fields: dict[str, Any] = dict(declared)
    if "risk_tier" in fields:
        fields["risk_tier"] = Tier(fields["risk_tier"])
    if "scopes" in fields:
        fields["scopes"] = tuple(fields["scopes"])
    return RiskProfile(**fields)
