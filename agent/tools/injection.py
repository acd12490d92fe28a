"""Which parameters of a tool are none of the model's business.

A parameter annotated `Injected[X]` never reaches schema, model, policy or approver. The runtime fills
in `Injected[CallContext]`; every other one is given once, by `tool.bind(name=value)`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from governance.errors import InvalidInputError
from governance.ids import CallUid, RunId, SubjectId

__all__ = ["CallContext", "Injected", "injected_type"]

T = TypeVar("T")


class _Marker:
    """Sits in the annotation's metadata. Pydantic meets it only where it hides inside another type."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        raise InvalidInputError(
            "`Injected` stands inside another type",
            hint="make it the outermost one: `Injected[X | None]`",
        )


Injected = Annotated[T, _Marker()]
"""`Injected[X]` is `X` to a type checker, and invisible to a model."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the runtime knows about the call it makes. All unknown where a tool is called by hand.

    `idempotency_key` stays the same when an idempotent call is repeated after a crash; `attempt`
    counts from 1.
    """

    run: RunId | None = None
    uid: CallUid | None = None
    attempt: int = 1
    idempotency_key: str | None = None
    principal: SubjectId | None = None
    agent: SubjectId | None = None


def injected_type(annotation: object) -> object | None:
    """The `X` of `Injected[X]`; None for any other annotation."""
    metadata = getattr(annotation, "__metadata__", ())
    if not any(isinstance(item, _Marker) for item in metadata):
        return None
    inner: object = get_args(annotation)[0]
    return inner
