"""How a model's arguments become the one frozen value, and what it reads when they do not fit.

Text is parsed strictly, defaults are filled in, and everything that is wrong is said at once, in words
a model can act on. No more than 80 characters of a value are ever quoted back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

from jsonschema.exceptions import ValidationError as SchemaViolation
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from governance.canonical import JSON, CanonicalError, freeze, parse_json, payload_bytes
from governance.errors import InvalidInputError

__all__ = ["Arguments", "Intake", "ToolArgumentsError", "schema_problems", "type_problems"]

MESSAGE_CHARS_MAX: Final = 2_000
QUOTED_CHARS_MAX: Final = 80
EXPECTATION_CHARS_MAX: Final = 200

Arguments: TypeAlias = str | bytes | Mapping[str, Any]
"""What a model or a person hands to a tool: JSON text, or an object."""


class ToolArgumentsError(InvalidInputError, ValueError):
    """Arguments that do not fit a tool. `problems` are whole; the message is bounded."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(_joined(self.problems))


@dataclass(frozen=True, slots=True)
class Intake:
    """What a tool's schema says about its arguments before their types are looked at.

    `null_means_default` names the optional arguments whose strict form is nullable though their type
    is not. An open intake lets names pass that it does not know.
    """

    names: tuple[str, ...]
    defaults: Mapping[str, JSON]
    null_means_default: frozenset[str] = frozenset()
    closed: bool = True

    def fill(self, arguments: Arguments) -> tuple[bytes, list[str]]:
        """Parse, add the defaults, set unknown names apart: the canonical bytes and what was wrong.

        Raises ToolArgumentsError when `arguments` are no JSON object at all.
        """
        try:
            members = _members(arguments)
            freeze(members)  # what JSON cannot say is refused whole, also under an unknown name
            problems: list[str] = []
            if self.closed:
                unknown = [name for name in members if name not in self.names]
                problems = [_unknown(name, self.names) for name in unknown]
                members = {name: members[name] for name in members if name in self.names}
            for name in self.null_means_default:
                if name in members and members[name] is None:
                    del members[name]
            return freeze({**self.defaults, **members}), problems
        except CanonicalError as exc:
            raise ToolArgumentsError([f"arguments cannot be read: {_cut(exc.message)}"]) from exc


def type_problems(errors: Iterable[ErrorDetails], value: object) -> list[str]:
    """Word what pydantic found wrong in `value`, one line for each place."""
    places: dict[str, tuple[list[str], str]] = {}
    problems: list[str] = []
    for error in errors:
        path, last = _place(error["loc"], value)
        match error["type"]:
            case "missing" | "missing_argument":
                problems.append(f"{_dotted(path, last)}: is missing")
            case "extra_forbidden" | "unexpected_keyword_argument":
                problems.append(f"unknown argument `{_dotted(path)}`")
            case _:
                said, _ = places.setdefault(_dotted(path), ([], _shown(error["input"])))
                said.append(_expectation(error))
    for place, (said, got) in places.items():
        wanted = " or ".join(dict.fromkeys(said)).replace(" or should be ", " or ")
        problems.append(f"{place}: {wanted}, got {got}")
    return list(dict.fromkeys(problems))


def schema_problems(errors: Iterable[SchemaViolation]) -> list[str]:
    """Word what jsonschema found wrong, in the same terms."""
    problems: list[str] = []
    for error in sorted(errors, key=lambda error: [str(part) for part in error.absolute_path]):
        path: list[str | int] = list(error.absolute_path)
        wanted: Any = error.validator_value
        given: Any = error.instance
        match error.validator:
            case "required":
                gone = [name for name in wanted if name not in given]
                problems += [f"{_dotted(path, name)}: is missing" for name in gone]
            case "additionalProperties" if wanted is False:
                schema: Any = error.schema
                known = tuple(schema.get("properties", ()))
                extra = [name for name in given if name not in known]
                problems += [_unknown(_dotted(path, name), known) for name in extra]
            case "type":
                kinds = [wanted] if isinstance(wanted, str) else wanted
                names = " or ".join(_KINDS.get(kind, str(kind)) for kind in kinds)
                problems.append(f"{_dotted(path)}: should be {names}, got {_shown(given)}")
            case rule:
                asked = _cut(payload_bytes(wanted).decode(), EXPECTATION_CHARS_MAX)
                problems.append(
                    f"{_dotted(path)}: does not meet `{rule}: {asked}`, got {_shown(given)}"
                )
    return list(dict.fromkeys(problems))


_KINDS: Final = {
    "integer": "an integer",
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_WORDS: Final = {
    "a valid integer": "an integer",
    "a valid string": "a text",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "a valid array": "a list",
    "a valid tuple": "a list",
    "a valid dictionary": "an object",
}
_OWN_WORDS: Final = frozenset(get_args(ErrorType)) - {
    "value_error",
    "assertion_error",
    "union_tag_invalid",
}
"""Errors whose message pydantic wrote from the type alone. The others may quote the value."""


def _members(arguments: Arguments) -> dict[str, Any]:
    value: object = arguments
    if isinstance(arguments, str | bytes):
        value = parse_json(arguments)
    if not isinstance(value, Mapping):
        raise ToolArgumentsError([f"arguments should be a JSON object, got {_shown(value)}"])
    return dict(value)


def _expectation(error: ErrorDetails) -> str:
    """Turn pydantic's sentence into `should be …`, with JSON's words for JSON's types."""
    said = error["msg"].removeprefix("Input ")
    said = said[:1].lower() + said[1:]
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    quotes = error["type"] not in _OWN_WORDS
    return _cut(said, QUOTED_CHARS_MAX if quotes else EXPECTATION_CHARS_MAX)


def _place(loc: Sequence[str | int], value: object) -> tuple[list[str | int], str | int]:
    """Follow `loc` into `value`, leaving out the arms of unions that pydantic names in it."""
    path: list[str | int] = []
    here: Any = value
    part: Any
    for part in loc:
        indexes = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if indexes or (isinstance(here, dict) and part in here):
            here = here[part]
            path.append(part)
    return path, loc[-1] if loc else ""


def _dotted(path: Sequence[str | int], *more: str | int) -> str:
    """Spell a place as `items[2].price`. Names in it may be the model's own, so they are cut."""
    text = ""
    for part in (*path, *more):
        step = f"[{part}]" if isinstance(part, int) else f".{_escaped(part)}"
        text += step
    return _cut(text.removeprefix(".")) or "arguments"


def _unknown(name: str, known: Sequence[str]) -> str:
    listed = _cut(", ".join(known), EXPECTATION_CHARS_MAX) or "none"
    return f"unknown argument `{_cut(_escaped(name))}`; known: {listed}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {_cut(str(value))}"
        case str():
            return f'the text "{_cut(_escaped(value))}"'
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _escaped(text: str) -> str:
    """Spell `text` as JSON does between its quotes, so that no line break of a value starts a line."""
    return payload_bytes(text.encode("utf-8", "replace").decode()).decode()[1:-1]


def _cut(text: str, limit: int = QUOTED_CHARS_MAX) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _joined(problems: Sequence[str]) -> str:
    """List as many problems as fit, then say how many more there are."""
    text = "; ".join(problems)
    if len(text) <= MESSAGE_CHARS_MAX:
        return text
    room = MESSAGE_CHARS_MAX - len(f"; and {len(problems)} more")
    kept = list(problems)
    while len(kept) > 1 and len("; ".join(kept)) > room:
        kept.pop()
    rest = len(problems) - len(kept)
    return _cut("; ".join(kept), room) + (f"; and {rest} more" if rest else "")
