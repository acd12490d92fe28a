"""The control plane as a library: may it happen, who said yes, what happened.

`Governance` and the error families are here; the verifier and the pure rooms are imported by their own
names and load nothing else.
"""

from typing import TYPE_CHECKING, Any

from governance.errors import (
    ConflictError,
    GovernanceError,
    InvalidInputError,
    RefusedError,
    TamperedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from governance.assemble import Governance
    from governance.gate import Environment
    from governance.policy.model import Principal

__all__ = [
    "ConflictError",
    "Environment",
    "Governance",
    "GovernanceError",
    "InvalidInputError",
    "Principal",
    "RefusedError",
    "TamperedError",
    "UnavailableError",
]

_HOMES = {
    "Governance": "governance.assemble",
    "Environment": "governance.gate",
    "Principal": "governance.policy.model",
}


def __getattr__(name: str) -> Any:
    # The database and the policy engine load when first asked for, so that `governance.errors` or the
    # verifier can be imported without them.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module `governance` has no attribute `{name}`")
