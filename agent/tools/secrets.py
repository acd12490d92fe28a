"""How does a tool get a secret that nobody else may see? And what hides it where the tool repeats it.

A parameter annotated `Annotated[str, Secret()]` is injected: it is in no schema, no frozen argument, no
card and no entry of the ledger. Its value is asked of the agent's `secrets` when the call starts, and
forgotten when it ends. What the tool answers, or raises, is read for the value before anybody else sees
it, and the value is replaced, as it is and in the spellings in which programs pass it on. A tool that
cuts, encrypts or spells it otherwise is not seen through.
"""

import base64
import html
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from agent.tools.results import ToolResult
from governance.canonical import JSON, payload_bytes
from governance.errors import InvalidInputError

__all__ = ["SECRET_CHARS_MIN", "Secret", "Secrets", "Veil", "ask", "secret_name"]

SECRET_CHARS_MIN: Final = 8
"""A shorter text could not be told from ordinary words where a tool repeats it."""
_GROUP: Final = 3
"""Base64 codes so many bytes at once."""

Secrets: TypeAlias = Mapping[str, str] | Callable[[str], str]
"""Where secrets come from, by name: a mapping, or a function that is asked at each call."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Marks a parameter as secret. Its value goes by `name`, without one by the parameter's own."""

    name: str = ""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        raise InvalidInputError(
            "`Secret` stands inside another type", hint="write `Annotated[str, Secret()]`"
        )


def secret_name(annotation: object, parameter: str) -> str | None:
    """The name of the secret that `parameter` takes, empty for its own; None when it takes none.

    Raises InvalidInputError for a secret that is no text.
    """
    marks = [m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, Secret)]
    if not marks:
        return None
    if getattr(annotation, "__origin__", None) is not str:
        raise InvalidInputError(
            f"{parameter} is secret and no `str`", hint="write `Annotated[str, Secret()]`"
        )
    return marks[-1].name


def ask(secrets: Secrets | None, name: str) -> str:
    """Get a secret. Raises InvalidInputError, which never quotes what was got."""
    try:
        value: object = secrets(name) if callable(secrets) else (secrets or {})[name]
    except KeyError:
        value = None
    except Exception as exc:  # noqa: BLE001  # a provider may raise anything, and its text may tell too much
        raise InvalidInputError(
            f"secret `{name}` could not be had: {type(exc).__name__}", hint="look at its provider"
        ) from None
    if value is None:
        raise InvalidInputError(f"there is no secret `{name}`", hint="give it with `secrets=`")
    if not isinstance(value, str) or len(value) < SECRET_CHARS_MIN:
        raise InvalidInputError(
            f"secret `{name}` is no text of {SECRET_CHARS_MIN} characters or more",
            hint="a shorter one could not be told from ordinary words",
        )
    return value


class Veil:
    """Replaces secrets in what a tool gives back. Made for one call, with the values it was given."""

    def __init__(self, values: Mapping[str, str]) -> None:
        # The longest first: a form may hold another.
        self._forms = [
            (re.compile("|".join(sorted(_forms(value), key=len, reverse=True))), _shown(name))
            for name, value in values.items()
        ]

    def text(self, text: str) -> str:
        for forms, shown in self._forms:
            text = forms.sub(shown, text)
        return text

    def result(self, result: ToolResult) -> ToolResult:
        if not self._forms:
            return result
        metadata = cast("Mapping[str, JSON]", self._json(dict(result.metadata)))
        return ToolResult(self._json(result.content), metadata, result.is_error)

    def _json(self, value: Any) -> JSON:
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                hidden = self.text(str(value))
                return value if hidden == str(value) else hidden
            case dict():
                return {self.text(str(key)): self._json(item) for key, item in value.items()}
            case _:
                return [self._json(item) for item in value]


def _shown(name: str) -> str:
    return f"[secret {name}]".replace(
        "\\", "\\\\"
    )  # a replacement text, where `\\1` would mean something


def _forms(value: str) -> set[str]:
    """The spellings in which programs pass a text on, as regular expressions."""
    text = value.encode("utf-8", "replace").decode()
    raw = text.encode()
    quoted = payload_bytes(text).decode()[1:-1]
    plain = {
        value,
        quoted,
        re.sub(r"[^\x00-\x7f]", _utf16, quoted),
        repr(text)[1:-1],
        html.escape(text),
        urllib.parse.quote(text, safe=""),
        urllib.parse.quote(text),
        urllib.parse.quote_plus(text),
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    }
    return {re.escape(form) for form in plain} | {_coded(raw, shift) for shift in range(_GROUP)}


def _utf16(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _coded(raw: bytes, shift: int) -> str:
    """Base64 of `raw` behind `shift` bytes of something else, as `Authorization: Basic` has it.

    What stands at an edge in one group with a neighbour goes along.
    """
    whole = base64.b64encode(bytes(shift) + raw).decode()
    inner = whole[4 if shift else 0 : -4]
    either = re.escape(inner).replace(r"\+", "[+-]").replace("/", "[/_]")
    before = "[A-Za-z0-9+/_-]{0,4}" if shift else ""
    return f"{before}{either}[A-Za-z0-9+/_=-]{{0,4}}"
