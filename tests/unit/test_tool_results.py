"""What a model reads of a tool's answer."""

import datetime as dt
from dataclasses import FrozenInstanceError, dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr, field_serializer

from agent.tools import ToolError, ToolResult
from governance.canonical import PAYLOAD_BYTES_MAX


class Color(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Plain(Enum):
    A = ("x", 1)


class Weather(BaseModel):
    temp: float
    at: dt.datetime
    key: SecretStr = SecretStr("hush")


@dataclass
class Pair:
    left: Any
    right: list[Any] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n ", "as it is\n "),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (17, "17"),
        (1.0, "1"),
        (1e21, "1e+21"),
        ({"b": 1, "a": [None, "é"]}, '{"a":[null,"é"],"b":1}'),
        ([], "[]"),
        ((1, "x"), '[1,"x"]'),
        (Point(1, 2), "[1,2]"),
        (Color.RED, "red"),
        (Level.LOW, "1"),
        (Plain.A, '["x",1]'),
        (Loud("quiet"), "quiet"),
        (Pair(Pair(1), [Color.RED]), '{"left":{"left":1,"right":[]},"right":["red"]}'),
        (dt.date(2030, 1, 2), "2030-01-02"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (
            [Weather(temp=21, at=dt.datetime(2030, 1, 2, tzinfo=dt.UTC))],
            '[{"at":"2030-01-02T00:00:00Z","key":"**********","temp":21}]',
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_reads_text_or_canonical_json(value: Any, text: str) -> None:
    result = ToolResult.ok(value)
    assert not result.is_error
    assert result.text == text


def cycle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "number is not finite at `$`"),
        ({"price": [1, float("inf")]}, "number is not finite at `$.price[1]`"),
        (Weather(temp=float("nan"), at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC)), "not finite"),
        (b"bytes", "a bytes is not a JSON value"),
        (Pair(b"bytes"), "a bytes is not a JSON value at `$.left`"),
        (object(), "a object is not a JSON value"),
        (Pair, "a type is not a JSON value"),
        ({1, 2}, "a set is not a JSON value"),
        ({1: "x"}, "key is not text"),
        (2**64, "integer outside 64 bits"),
        ("\ud800", "lone surrogate"),
        (cycle(), "nests deeper"),
        ("x" * PAYLOAD_BYTES_MAX, "exceeds"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:9],
)
def test_what_is_no_json_becomes_an_error_that_says_so(value: Any, problem: str) -> None:
    result = ToolResult.ok(value)
    assert result.is_error
    assert result.metadata == {"error": "result"}
    assert result.text.startswith("the tool returned what JSON cannot say: ")
    assert problem in result.text


def test_an_answer_does_not_change_after_it_was_given() -> None:
    given = {"rows": [1], "n": {"a": 1}}
    result = ToolResult(given, {"source": given["rows"]})
    given["rows"].append(2)  # type: ignore[attr-defined]
    assert result.content == {"rows": [1], "n": {"a": 1}}
    assert result.metadata == {"source": [1]}
    with pytest.raises(FrozenInstanceError):
        result.content = 1  # type: ignore[misc]


def test_a_structured_result_must_be_json_too() -> None:
    with pytest.raises(ToolError, match="number is not finite"):
        ToolResult(float("nan"))
    with pytest.raises(ToolError, match="a bytes is not a JSON value"):
        ToolResult("x", {"raw": b""})  # type: ignore[dict-item]
    with pytest.raises(ToolError, match="not an object"):
        ToolResult("x", ["a"])  # type: ignore[arg-type]


def test_an_error_is_a_text() -> None:
    result = ToolResult.error("no such order")
    assert (result.text, result.is_error, result.metadata) == ("no such order", True, {})


def test_a_model_that_cannot_be_written_is_an_error_that_quotes_nothing() -> None:
    class Broken(BaseModel):
        word: str

        @field_serializer("word")
        def _leak(self, word: str) -> str:
            raise RuntimeError(word)

    result = ToolResult.ok(Broken(word="hunter2"))
    assert result.is_error
    assert result.text == "the tool returned what JSON cannot say: a Broken cannot be written"
