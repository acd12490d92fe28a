"""What a model reads about a tool.

`ToolSchema` is name, description and the JSON Schema (Draft 2020-12) of the arguments. Its strict form
follows what providers enforce while they decode: every property required, optional ones nullable, no
object open, and only the keywords they know.
"""

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from governance.canonical import JSON, payload_bytes
from governance.errors import InvalidInputError

__all__ = [
    "SchemaObject",
    "ToolSchema",
    "mapped",
    "own_copy",
    "parse_tool_name",
    "strict_parameters",
]

SchemaObject: TypeAlias = dict[str, Any]

NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_ONE: Final = frozenset({
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_LIST: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_MAP: Final = frozenset({
    "properties", "$defs", "definitions", "patternProperties", "dependentSchemas",
})  # fmt: skip

_STRICT_KEYWORDS: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "$ref", "$defs", "description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
})  # fmt: skip
_STRICT_FORMATS: Final = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_SAYS_WHAT: Final = ("type", "anyOf", "$ref", "enum", "const")


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as it is described to a model. `parameters` is kept in its natural form, defaults and all."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    strict: bool = False

    def __post_init__(self) -> None:
        parse_tool_name(self.name)
        own = own_copy(self.parameters)
        if own.get("type") != "object":
            raise InvalidInputError(
                f"schema of tool `{self.name}` does not describe an object",
                hint='give `{"type": "object", "properties": …}`',
            )
        object.__setattr__(self, "parameters", own)
        if self.strict:
            strict_parameters(self.name, own)

    def to_openai(self) -> dict[str, Any]:
        """The tool as OpenAI-compatible providers take it. The caller owns what it gets."""
        own = own_copy(self.parameters)
        function: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "parameters": strict_parameters(self.name, own) if self.strict else own,
        }
        if self.strict:
            function["strict"] = True
        return {"type": "function", "function": function}


def own_copy(parameters: Mapping[str, JSON]) -> SchemaObject:
    """Copy a schema that is JSON, its properties in their order: models fill them in that order.

    Raises CanonicalError.
    """
    plain = dict(parameters)
    payload_bytes(plain)
    return copy.deepcopy(plain)


def parse_tool_name(name: object) -> str:
    """Accept what every provider accepts as a function's name. Raises InvalidInputError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"malformed tool name: `{str(name)[:80]}`",
            hint=f"use 1 to {NAME_CHARS_MAX} letters, digits, `_` or `-`",
        )
    return name


def mapped(schema: Any, change: Callable[[SchemaObject], SchemaObject]) -> Any:
    """Rebuild a schema from its leaves up, each subschema passed through `change`.

    Only keywords that hold schemas are entered: a property may well be called `title`.
    """
    if not isinstance(schema, dict):
        return schema  # true and false are schemas too
    rebuilt: SchemaObject = {}
    for keyword, value in schema.items():
        if keyword in _ONE:
            rebuilt[keyword] = mapped(value, change)
        elif keyword in _LIST:
            rebuilt[keyword] = [mapped(item, change) for item in value]
        elif keyword in _MAP:
            rebuilt[keyword] = {name: mapped(item, change) for name, item in value.items()}
        else:
            rebuilt[keyword] = value
    return change(rebuilt)


def strict_parameters(name: str, parameters: SchemaObject) -> SchemaObject:
    """Give the strict form of a tool's parameters. Raises InvalidInputError where there is none.

    An optional argument becomes a nullable one, null standing for its default.
    """
    properties: SchemaObject = parameters.get("properties", {})
    required = set(parameters.get("required", ()))
    every = {key: sub if key in required else _nullable(sub) for key, sub in properties.items()}
    whole = {**parameters, "properties": every, "required": list(every)}

    def change(schema: SchemaObject) -> SchemaObject:
        try:
            return _strict(schema)
        except InvalidInputError as exc:
            raise InvalidInputError(f"tool `{name}` has no strict schema: {exc.message}") from exc

    strict: SchemaObject = mapped(whole, change)
    return strict


def _strict(schema: SchemaObject) -> SchemaObject:
    kept = {key: value for key, value in schema.items() if key not in {"default", "title"}}
    odd = sorted(set(kept) - _STRICT_KEYWORDS)
    if odd:
        raise InvalidInputError(f"keyword `{odd[0]}` is not supported")
    if not any(key in kept for key in _SAYS_WHAT):
        raise InvalidInputError("a value without a type is not supported")
    if kept.get("format", "date") not in _STRICT_FORMATS:
        raise InvalidInputError(f"format `{kept['format']}` is not supported")
    if "$ref" in kept and len(kept) > 1:  # providers take no keyword beside a reference
        reference = {"$ref": kept.pop("$ref")}
        return {"anyOf": [reference], **kept}
    return _closed(kept) if kept.get("type") == "object" else kept


def _closed(schema: SchemaObject) -> SchemaObject:
    if "properties" not in schema or schema.get("additionalProperties", False) is not False:
        raise InvalidInputError("an object with free keys is not supported")
    for key, sub in schema["properties"].items():
        if key not in schema.get("required", ()) and not _accepts_null(sub):
            raise InvalidInputError(f"nested field `{key}` is optional but not nullable")
    return {**schema, "required": list(schema["properties"]), "additionalProperties": False}


def _nullable(schema: SchemaObject) -> SchemaObject:
    """Let null stand for the default, and say so."""
    inner = {key: value for key, value in schema.items() if key not in {"default", "description"}}
    outer = inner if _accepts_null(schema) else {"anyOf": [inner, {"type": "null"}]}
    said = schema.get("description", "")
    if schema.get("default") is not None and not _accepts_null(schema):
        said = f"{said} (null: {payload_bytes(schema['default']).decode()})".strip()
    return {**outer, "description": said} if said else outer


def _accepts_null(schema: SchemaObject) -> bool:
    kind = schema.get("type")
    return (
        kind == "null"
        or (isinstance(kind, list) and "null" in kind)
        or None in schema.get("enum", ())
        or any(_accepts_null(arm) for arm in schema.get("anyOf", ()))
    )
