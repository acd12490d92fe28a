"""What a tool answers, and what of it a model may read.

Any JSON value is an answer. Models and dataclasses are written as JSON on the way; what JSON cannot
say (NaN, bytes, an arbitrary object) becomes an error that says so, never Python's `repr`.
"""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from governance.canonical import JSON, JSON_DEPTH_MAX, CanonicalError, payload_bytes

__all__ = ["ToolError", "ToolResult", "as_result", "failure"]

ERROR_CHARS_MAX: Final = 2_000
"""How much of a `ToolError` a model reads."""
_CLASS_CHARS_MAX: Final = 80
_NOT_JSON: Final = "the tool returned what JSON cannot say"


class ToolError(Exception):
    """Raised by a tool to tell the model something. Of any other exception it learns the class alone,
    since the text may hold secrets."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One answer: `content` for the model, `metadata` (count, source, confidence, …) for the record.

    Raises ToolError when either is no JSON.
    """

    content: JSON
    metadata: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    is_error: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", _checked(self.content))
        metadata: object = _checked(self.metadata)
        if not isinstance(metadata, dict):
            raise ToolError("the metadata of a tool result is not an object")
        object.__setattr__(self, "metadata", metadata)

    @classmethod
    def ok(cls, value: object) -> "ToolResult":
        """Take what a tool returned; an error result when it is no JSON."""
        try:
            return cls(_checked(value))
        except ToolError as exc:
            return cls(str(exc), {"error": "result"}, is_error=True)

    @classmethod
    def error(cls, text: str) -> "ToolResult":
        return cls(text, is_error=True)

    @property
    def text(self) -> str:
        """What the model reads: a text as it is, anything else as compact canonical JSON."""
        if isinstance(self.content, str):
            return self.content
        return payload_bytes(self.content).decode()


def as_result(value: object) -> ToolResult:
    """Normalise what a tool gave back, structured or not."""
    return value if isinstance(value, ToolResult) else ToolResult.ok(value)


def failure(exc: BaseException, veil: Callable[[str], str] = str) -> ToolResult:
    """Tell the model that a tool raised, without what an arbitrary exception may quote.

    `veil` hides what must not be told, before a cut could leave half of it.
    """
    text = f"tool failed: {veil(type(exc).__name__)[:_CLASS_CHARS_MAX]}"
    if isinstance(exc, ToolError):
        said = veil(str(exc).encode("utf-8", "replace").decode())
        text = f"{text}: {said[:ERROR_CHARS_MAX]}"
    return ToolResult(text, {"error": "exception"}, is_error=True)


def _checked(value: object) -> Any:
    try:
        plain = _plain(value, 0)
        payload_bytes(plain)
    except CanonicalError as exc:
        raise ToolError(f"{_NOT_JSON}: {exc.message}") from exc
    except PydanticSerializationError as exc:
        raise ToolError(f"{_NOT_JSON}: a {type(value).__name__} cannot be written") from exc
    return plain


def _plain(value: object, depth: int) -> object:
    """Copy `value` with plain JSON types wherever they are known; the rest is left to be refused."""
    if depth > JSON_DEPTH_MAX:
        raise CanonicalError(f"value nests deeper than {JSON_DEPTH_MAX}")
    match value:
        case Enum():
            return _plain(value.value, depth)
        case None | bool() | str() | int() | float():
            return _scalar(value)
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True)
        case Mapping():
            return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, depth + 1) for item in value]
        case dt.date() | dt.time() | dt.timedelta() | Decimal() | UUID():
            return to_jsonable_python(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [item.name for item in dataclasses.fields(value)]
            return {name: _plain(getattr(value, name), depth + 1) for name in names}
        case _:
            return value


def _scalar(value: str | float | None) -> object:
    """Strip subclasses of the JSON scalars, such as numpy's float, down to the scalar itself."""
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)  # a subclass may have a `__str__` of its own
        case int():
            return int(value)
        case _:
            return float(value)


def _key(key: object) -> object:
    return str.__str__(key) if isinstance(key, str) else key
