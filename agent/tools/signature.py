"""What a Python function takes, said as JSON Schema and checked by pydantic.

Annotations are resolved (postponed ones too), the receiver (`self`, `cls`) and injected parameters are
set apart, and the rest becomes one strict reader: JSON in, canonical JSON or Python values out.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import typing_extensions
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from agent.tools.arguments import Arguments, Intake, ToolArgumentsError, type_problems
from agent.tools.injection import CallContext, injected_type
from agent.tools.schema import SchemaObject, mapped
from agent.tools.secrets import secret_name
from governance.canonical import JSON, CanonicalError, freeze, payload_bytes, thaw
from governance.errors import InvalidInputError

__all__ = ["Signature", "read_signature"]

PARAMETERS_MAX: Final = 128
_REASON_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters. `contexts` take the runtime's CallContext; `injected` maps every other
    injected parameter to whether it must be bound; `secrets` maps secret ones to the secret's name."""

    receiver: bool
    parameters: Mapping[str, JSON]
    intake: Intake
    contexts: frozenset[str]
    injected: Mapping[str, bool]
    secrets: Mapping[str, str]
    adapter: TypeAdapter[dict[str, Any]]

    def freeze(self, arguments: Arguments) -> bytes:
        """Validate `arguments`: the canonical bytes that everybody reads. Raises ToolArgumentsError."""
        raw, problems = self.intake.fill(arguments)
        values = self._read(raw, problems)
        if problems:
            raise ToolArgumentsError(problems)
        frozen = self._write(values)
        # A type whose JSON reads back as something else would run what nobody approved.
        if frozen != raw and self._write(self.values(frozen)) != frozen:
            raise ToolArgumentsError(["an argument's type does not read back what it writes"])
        return frozen

    def values(self, frozen: bytes) -> dict[str, Any]:
        """Read frozen arguments as the Python values the function takes. Raises ToolArgumentsError."""
        problems: list[str] = []
        values = self._read(frozen, problems)
        if problems:
            raise ToolArgumentsError(problems)
        return values

    def _read(self, raw: bytes, problems: list[str]) -> dict[str, Any]:
        try:
            return self.adapter.validate_json(raw, strict=True, extra="forbid")
        except ValidationError as exc:
            problems += type_problems(exc.errors(include_url=False), thaw(raw))
        except Exception as exc:  # noqa: BLE001  # a type's own validator may raise anything: that is a no
            problems.append(f"arguments cannot be checked: {type(exc).__name__}")
        return {}

    def _write(self, values: dict[str, Any]) -> bytes:
        try:
            return freeze(_dump(self.adapter, values))
        except (CanonicalError, PydanticSerializationError) as exc:
            raise ToolArgumentsError([f"arguments cannot be frozen: {type(exc).__name__}"]) from exc


def read_signature(
    function: Callable[..., object],
    tool: str,
    namespace: Mapping[str, Any],
    *,
    strict: bool = False,
) -> Signature:
    """Read the parameters of `function`; `namespace` resolves names local to where it was defined.

    Raises InvalidInputError naming the parameter that no schema can describe.
    """
    parameters = _parameters(function, tool)
    receiver = bool(parameters) and parameters[0].name in {"self", "cls"}
    declared = {parameter.name: parameter for parameter in parameters[receiver:]}
    resolved = {
        name: _resolve(function, parameter, namespace, _where(name, tool))
        for name, parameter in declared.items()
    }
    secrets = _secrets(resolved, tool)
    inner = {
        name: str if name in secrets else injected_type(annotation)
        for name, annotation in resolved.items()
    }
    contexts = frozenset(
        name for name, kind in inner.items() if CallContext in (kind, *typing.get_args(kind))
    )
    annotations = {name: resolved[name] for name, kind in inner.items() if kind is None}
    adapters = {name: _adapter(item, _where(name, tool)) for name, item in annotations.items()}
    defaults = {
        name: _default(adapter, declared[name].default, _where(name, tool))
        for name, adapter in adapters.items()
        if declared[name].default is not inspect.Parameter.empty
    }
    whole = _adapter(cast("Any", typing_extensions.TypedDict)(tool, annotations), f"tool `{tool}`")
    never_null = frozenset(name for name in defaults if not _takes_null(adapters[name]))
    return Signature(
        receiver=receiver,
        parameters=_schema(whole, annotations, defaults),
        intake=Intake(tuple(annotations), defaults, never_null if strict else frozenset()),
        contexts=contexts,
        injected={
            name: declared[name].default is inspect.Parameter.empty
            for name, kind in inner.items()
            if kind is not None and name not in contexts and name not in secrets
        },
        secrets=secrets,
        adapter=whole,
    )


def _secrets(resolved: Mapping[str, Any], tool: str) -> dict[str, str]:
    names = {
        name: secret_name(annotation, _where(name, tool)) for name, annotation in resolved.items()
    }
    return {name: said or name for name, said in names.items() if said is not None}


def _where(name: str, tool: str) -> str:
    return f"parameter `{name}` of tool `{tool}`"


def _parameters(function: Callable[..., object], tool: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (NameError, TypeError, ValueError) as exc:
        raise InvalidInputError(f"signature of tool `{tool}` cannot be read") from exc
    if len(parameters) > PARAMETERS_MAX:
        raise InvalidInputError(f"tool `{tool}` takes more than {PARAMETERS_MAX} parameters")
    return parameters


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    match parameter.kind:
        case parameter.VAR_POSITIONAL | parameter.VAR_KEYWORD:
            raise InvalidInputError(
                f"{where} takes anything",
                hint="name each argument; take a list or dict for the rest",
            )
        case parameter.POSITIONAL_ONLY:
            raise InvalidInputError(f"{where} is positional only", hint="remove the `/`")
        case _:
            pass


def _resolve(
    function: Callable[..., object],
    parameter: inspect.Parameter,
    namespace: Mapping[str, Any],
    where: str,
) -> Any:
    """Evaluate one annotation. The return annotation is none of ours, so it may name anything."""
    _check_kind(parameter, where)
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return Any
    inner = inspect.unwrap(function)
    scope = getattr(getattr(inner, "__func__", inner), "__globals__", {})
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        hints = typing.get_type_hints(
            cast("Any", holder), dict(scope), dict(namespace), include_extras=True
        )
    except (NameError, AttributeError, SyntaxError, TypeError) as exc:
        raise InvalidInputError(
            f"annotation of {where} cannot be resolved: `{str(annotation)[:80]}`",
            hint="import the type at module level, outside `if TYPE_CHECKING`",
        ) from exc
    _check_field(hints["it"], where)
    return hints["it"]


def _check_field(annotation: object, where: str) -> None:
    """`Field` may describe and limit; the name and the default are the signature's."""
    for item in getattr(annotation, "__metadata__", ()):
        if isinstance(item, FieldInfo) and not (item.is_required() and item.alias is None):
            raise InvalidInputError(
                f"{where} hides an alias or a default in `Field`",
                hint="name it as the model should, and give its default in the signature",
            )


def _adapter(annotation: Any, where: str) -> TypeAdapter[Any]:
    """Have pydantic read a type, and refuse what no JSON Schema can say."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        mapped(adapter.json_schema(), _clean)
    except (PydanticUserError, NameError, TypeError) as exc:
        reason = str(exc).partition("\n")[0][:_REASON_CHARS_MAX]
        raise InvalidInputError(f"annotation of {where} has no schema: {reason}") from exc
    except InvalidInputError as exc:
        raise InvalidInputError(f"{where}: {exc.message}", hint=exc.hint) from exc
    return adapter


def _schema(
    adapter: TypeAdapter[Any], annotations: Mapping[str, Any], defaults: Mapping[str, JSON]
) -> SchemaObject:
    schema: SchemaObject = mapped(adapter.json_schema(), _clean)
    properties: SchemaObject = schema["properties"]
    for name, value in defaults.items():
        properties[name] = {**properties[name], "default": value}
    required = [name for name in annotations if name not in defaults]
    plain: SchemaObject = {**schema, "type": "object", "required": required}
    payload_bytes(plain)
    return plain


def _clean(schema: SchemaObject) -> SchemaObject:
    """Drop pydantic's titles, close every object that names its fields, refuse what has no fixed form."""
    if schema.get("uniqueItems"):
        raise InvalidInputError("a set has no order to freeze", hint="take a list")
    kept = {key: value for key, value in schema.items() if key != "title"}
    if "properties" in kept:
        if kept.get("additionalProperties", False) is not False:
            raise InvalidInputError(
                "a model lets fields pass that it does not name", hint="take a dict"
            )
        kept["additionalProperties"] = False
    return kept


def _default(adapter: TypeAdapter[Any], default: object, where: str) -> JSON:
    """Say a default in JSON, as the tool will get it: read back strictly, like any argument."""
    try:
        raw = freeze(_dump(adapter, default))
        frozen = freeze(_dump(adapter, adapter.validate_json(raw, strict=True, extra="forbid")))
    except (CanonicalError, PydanticSerializationError, ValidationError) as exc:
        raise InvalidInputError(
            f"default of {where} does not fit its annotation: `{str(default)[:80]}`",
            hint="give a JSON value of that type; write `X | None` for a default of None",
        ) from exc
    value: JSON = thaw(frozen)
    return value


def _dump(adapter: TypeAdapter[Any], value: object) -> object:
    return adapter.dump_python(value, mode="json", by_alias=True, warnings="none")


def _takes_null(adapter: TypeAdapter[Any]) -> bool:
    try:
        adapter.validate_json(b"null", strict=True)
    except ValidationError:
        return False
    return True
