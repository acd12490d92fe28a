"""How an object that somebody brought is checked, and how its arguments are.

Its JSON Schema is all we know about its arguments, so jsonschema validates them (Draft 2020-12). No
reference leaves the schema: nothing is fetched.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agent.tools.arguments import Arguments, Intake, ToolArgumentsError, schema_problems
from agent.tools.definition import Definition, check_display
from agent.tools.options import parse_timeout
from agent.tools.protocol import BaseTool
from agent.tools.schema import SchemaObject, ToolSchema, mapped
from governance.canonical import JSON, thaw
from governance.errors import InvalidInputError
from governance.policy.model import RiskProfile

__all__ = ["Execution", "ObjectArguments", "read_definition", "read_execution"]

_NOWHERE: Final[Registry[Any]] = Registry()
"""A registry without retrieval: a reference to elsewhere resolves to nothing."""


@dataclass(frozen=True, slots=True)
class ObjectArguments:
    """The reader of arguments that JSON Schema alone describes."""

    intake: Intake
    validator: Draft202012Validator

    @classmethod
    def of(cls, definition: Definition) -> "ObjectArguments":
        schema: SchemaObject = dict(definition.parameters)
        properties: SchemaObject = schema.get("properties", {})
        optional = [name for name in properties if name not in schema.get("required", ())]
        never_null = [
            name
            for name in optional
            if definition.strict and not _takes_null(schema, properties[name])
        ]
        defaults: dict[str, JSON] = {
            name: sub["default"]
            for name, sub in properties.items()
            if isinstance(sub, Mapping) and "default" in sub
        }
        intake = Intake(
            tuple(properties),
            defaults,
            frozenset(never_null),
            closed=schema["additionalProperties"] is False and "patternProperties" not in schema,
        )
        return cls(intake, Draft202012Validator(schema, registry=_NOWHERE))

    def freeze(self, arguments: Arguments) -> bytes:
        """Validate `arguments`, top-level defaults filled in. Raises ToolArgumentsError."""
        raw, problems = self.intake.fill(arguments)
        try:
            problems += schema_problems(self.validator.iter_errors(thaw(raw)))
        except (Unresolvable, RecursionError) as exc:
            problems.append(f"arguments cannot be checked: {type(exc).__name__}")
        if problems:
            raise ToolArgumentsError(problems)
        return raw


@dataclass(frozen=True, slots=True)
class Execution:
    """How to run an object: `call` on its arguments, in the event loop when it `awaits`, else in a thread."""

    call: Callable[[dict[str, Any]], object]
    awaits: bool


def read_execution(brought: object, name: str) -> Execution:
    """Prefer `execute_structured`; an object may have `execute` alone. Raises InvalidInputError."""
    plain = getattr(brought, "execute", None)
    call = getattr(brought, "execute_structured", None) or plain
    if not callable(call):
        raise InvalidInputError(
            f"tool `{name}` cannot be executed", hint="give it a method `execute(args)`"
        )
    wraps = getattr(call, "__func__", None) is BaseTool.execute_structured
    return Execution(call, awaits=inspect.iscoroutinefunction(plain if wraps else call))


def read_definition(brought: object) -> Definition:
    """Read what an object says about itself, and check it. Raises InvalidInputError."""
    kind = type(brought).__name__
    describe = getattr(brought, "schema", None)
    schema = describe() if callable(describe) else None
    if not isinstance(schema, ToolSchema):
        raise InvalidInputError(
            f"a {kind} is not a tool",
            hint="give it `name`, `description`, `schema()` and `execute(args)`",
        )
    name, description = getattr(brought, "name", None), getattr(brought, "description", None)
    if name != schema.name or description != schema.description:
        raise InvalidInputError(
            f"tool `{schema.name}` and its schema differ in name or description",
            hint="build the schema from the tool's own `name` and `description`",
        )
    profile, display = getattr(brought, "profile", RiskProfile()), getattr(brought, "display", None)
    if not isinstance(profile, RiskProfile):
        raise InvalidInputError(f"profile of tool `{name}` is not a risk profile")
    check_display(display)
    definition = Definition(
        name=schema.name,
        description=schema.description,
        parameters={"additionalProperties": False, **schema.parameters},
        profile=profile,
        timeout=parse_timeout(getattr(brought, "timeout", None)),
        display=display,
        strict=schema.strict,
    )
    _check_schema(definition)
    return definition


def _check_schema(definition: Definition) -> None:
    try:
        Draft202012Validator.check_schema(definition.parameters)
    except SchemaError as exc:
        raise InvalidInputError(
            f"schema of tool `{definition.name}` is no JSON Schema: {exc.message[:200]}"
        ) from exc
    whole = DRAFT202012.create_resource(definition.parameters)
    resolver = _NOWHERE.resolver_with_root(whole)

    def look_up(schema: SchemaObject) -> SchemaObject:
        for keyword in ("$ref", "$dynamicRef"):
            try:
                resolver.lookup(schema.get(keyword, "#"))
            except Unresolvable as exc:
                raise InvalidInputError(
                    f"schema of tool `{definition.name}` refers to what it does not hold: "
                    f"`{schema[keyword][:80]}`",
                    hint="copy what it means into `$defs`",
                ) from exc
        return schema

    mapped(definition.parameters, look_up)


def _takes_null(schema: SchemaObject, sub: Any) -> bool:
    if not isinstance(sub, Mapping):
        return sub is not False
    alone = {"$defs": schema.get("$defs", {}), **sub}
    return Draft202012Validator(alone, registry=_NOWHERE).is_valid(None)
