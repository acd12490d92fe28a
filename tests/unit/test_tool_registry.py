"""One awaitable form for every tool, one result for every call."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from agent.tools import (
    AnyTool,
    CallContext,
    DuplicateToolError,
    FunctionTool,
    RegisteredTool,
    ToolArgumentsError,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)
from governance.canonical import thaw
from governance.errors import ConflictError, InvalidInputError


def registered(given: AnyTool) -> RegisteredTool:
    (made,) = ToolRegistry([given])
    return made


def run(given: AnyTool, arguments: Any = None) -> ToolResult:
    made = registered(given)
    return anyio.run(made.run, made.validate(arguments or {}), CallContext())


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def add_later(a: int, b: int = 1) -> int:
    await anyio.lowlevel.checkpoint()
    return a + b


def test_sync_async_and_plain_functions_run_alike() -> None:
    def plain(a: int) -> Awaitable[int]:
        async def later() -> int:
            return a + 1

        return later()

    for given in (add, add_later, plain):
        result = run(given, {"a": 4})
        assert (result.content, result.text, result.is_error) == (5, "5", False)


def test_an_async_tool_is_awaited_from_the_synchronous_side() -> None:
    awaitable = add_later.invoke({"a": 1})
    assert asyncio.run(awaitable) == 2  # type: ignore[arg-type]
    assert asyncio.run(add_later.execute_structured({"a": 1})) == ToolResult.ok(2)  # type: ignore[arg-type]
    assert add.execute_structured({"a": 1}) == ToolResult.ok(2)


def test_a_tool_may_answer_with_metadata() -> None:
    def search(q: str) -> ToolResult:
        return ToolResult([q], {"count": 1})

    assert run(search, {"q": "x"}) == ToolResult(["x"], {"count": 1})


def test_a_plain_function_is_an_unprofiled_tool() -> None:
    def lookup(order: str) -> str:
        """Look up."""
        return order

    made = registered(lookup)
    assert (made.name, made.schema.description) == ("lookup", "Look up.")
    assert not made.definition.profile.profiled


def test_registry_keeps_order_and_finds_by_name() -> None:
    registry = ToolRegistry([add_later, add])
    assert [made.name for made in registry] == ["add_later", "add"]
    assert [schema.name for schema in registry.schemas()] == ["add_later", "add"]
    assert len(registry) == 2
    assert "add" in registry
    assert "sub" not in registry
    found = registry.get("add")
    assert found is not None
    assert found.definition == add.definition
    assert registry.get("sub") is None
    assert len(ToolRegistry()) == 0


def test_filter_narrows_and_refuses_a_misspelt_name() -> None:
    registry = ToolRegistry([add, add_later])
    assert [made.name for made in registry.filter(["add_later"])] == ["add_later"]
    assert len(registry.filter([])) == 0
    with pytest.raises(
        InvalidInputError, match="unknown tool `add_latr`; did you mean `add_later`"
    ):
        registry.filter(["add_latr"])


@pytest.mark.attack
def test_a_second_tool_of_the_same_name_cannot_shadow_the_first() -> None:
    def shadow(a: int) -> str:
        return "shadow"

    with pytest.raises(DuplicateToolError, match="two tools are named `add`") as refused:
        ToolRegistry([add, tool(name="add")(shadow)])
    assert isinstance(refused.value, ConflictError)
    with pytest.raises(DuplicateToolError):
        ToolRegistry([add, add])


def test_a_registry_does_not_change() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(AttributeError):
        registry._tools = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        registry._tools["x"] = registry.get("add")  # type: ignore[index]


@pytest.mark.parametrize(
    "given", [3, "add", None, len, object(), int], ids=lambda v: type(v).__name__
)
def test_what_is_no_tool_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="is not a tool"):
        ToolRegistry([given])


# -- one frozen value (lessons 5 and 6)


class Note(BaseModel):
    lines: list[str]


def test_policy_approver_and_tool_see_one_value() -> None:
    seen: list[Any] = []

    @tool
    def refund(cents: int, note: Note, dry_run: bool = False) -> None:
        seen.append({"cents": cents, "note": note.model_dump(), "dry_run": dry_run})

    made = registered(refund)
    frozen = made.validate('{"note":{"lines":["a"]},"cents":500}')
    anyio.run(made.run, frozen, CallContext())
    assert seen == [thaw(frozen)]
    for wrong in ({"cents": "500"}, {"cents": 500, "dry": True}):
        with pytest.raises(ToolArgumentsError):
            made.validate({"note": {"lines": []}} | wrong)


@pytest.mark.attack
def test_a_reader_that_changes_its_copy_changes_nothing() -> None:
    @tool
    def send(to: list[str], note: Note) -> list[str]:
        to.append("by the tool")
        note.lines.append("by the tool")
        return to[:-1] + note.lines[:-1]

    made = registered(send)
    frozen = made.validate({"to": ["ada"], "note": {"lines": ["hi"]}})
    shown = thaw(frozen)
    shown["to"][0] = "mallory"
    for _ in range(2):
        assert anyio.run(made.run, frozen, CallContext()).content == ["ada", "hi"]


def test_frozen_arguments_that_no_longer_fit_are_refused_before_the_call() -> None:
    called: list[int] = []

    @tool(name="take")
    def changed(a: str) -> None:
        called.append(1)

    result = anyio.run(registered(changed).run, b'{"a":1}', CallContext())
    assert result.is_error
    assert result.metadata == {"error": "arguments"}
    assert result.text == "a: should be a text, got the number 1"
    assert not called


# -- what goes wrong in a tool

PASSWORD = "hunter2-" + "very-secret"


def raises(exc: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise exc

    return fail


def raises_later(exc: BaseException) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise exc

    return fail


@pytest.mark.attack
@pytest.mark.parametrize("make", [raises, raises_later])
@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ConnectionError(f"postgres://admin:{PASSWORD}@db"), "tool failed: ConnectionError"),
        (KeyError(PASSWORD), "tool failed: KeyError"),
        (TimeoutError(PASSWORD), "tool failed: TimeoutError"),
        (InvalidInputError(PASSWORD), "tool failed: InvalidInputError"),
        (ToolArgumentsError([PASSWORD]), "tool failed: ToolArgumentsError"),
        (SystemExit(PASSWORD), "tool failed: SystemExit"),
        (ExceptionGroup(PASSWORD, [ValueError(PASSWORD)]), "tool failed: ExceptionGroup"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_text_of_an_exception_never_reaches_the_model(
    make: Any, exc: BaseException, text: str
) -> None:
    result = run(make(exc))
    assert result.is_error
    assert result.text == text
    assert PASSWORD not in repr(result)
    assert result.metadata == {"error": "exception"}


def test_a_tool_error_speaks_to_the_model() -> None:
    class OrderError(ToolError):
        pass

    assert run(raises(ToolError("no order `A-1`"))).text == "tool failed: ToolError: no order `A-1`"
    assert run(raises(OrderError("gone"))).text == "tool failed: OrderError: gone"
    assert len(run(raises(ToolError("x" * 9_000))).text) < 2_100
    assert run(raises(ToolError("\ud800"))).is_error


@pytest.mark.parametrize(
    "value", [float("nan"), b"x", object(), {1: 2}], ids=lambda v: type(v).__name__
)
def test_an_answer_that_is_no_json_is_an_error_result(value: Any) -> None:
    result = run(lambda_tool(lambda: value))
    assert result.is_error
    assert result.metadata == {"error": "result"}
    assert result.text.startswith("the tool returned what JSON cannot say")
    assert "object at 0x" not in result.text


def lambda_tool(function: Callable[[], Any]) -> FunctionTool[..., Any]:
    return tool(function, name="answer")


def test_a_structured_answer_that_is_no_json_is_an_error_result() -> None:
    result = run(lambda_tool(lambda: ToolResult(float("nan"))))
    assert result.is_error
    assert "number is not finite" in result.text


# -- time


def test_a_blocking_tool_does_not_stop_the_loop() -> None:
    release = threading.Event()

    @tool
    def block() -> bool:
        return release.wait(5)

    async def both() -> Any:
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await registered(block).run(b"{}", CallContext()))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.sleep(0.01)
            release.set()  # never reached by a loop that the tool blocks
        return results[0].content

    assert anyio.run(both) is True


@pytest.mark.parametrize("kind", ["sync", "async", "awaitable"])
def test_a_tool_that_does_not_answer_times_out(kind: str) -> None:
    release = threading.Event()

    def sync() -> None:
        release.wait(5)

    async def later() -> None:
        await anyio.sleep(5)

    def awaitable() -> Awaitable[None]:
        return later()

    function: Any = {"sync": sync, "async": later, "awaitable": awaitable}[kind]
    began = time.monotonic()
    try:
        result = run(tool(timeout=0.05)(function))
        assert time.monotonic() - began < 4
    finally:
        release.set()
    assert result.is_error
    assert result.metadata == {"error": "timeout"}
    assert result.text == "tool failed: no answer within 0.05 s; it may still take effect"


def test_many_hanging_tools_do_not_starve_other_threads() -> None:
    release = threading.Event()

    @tool(timeout=0.2)
    def hang() -> None:
        release.wait(5)

    async def flood() -> tuple[list[str], str]:
        made = registered(hang)
        texts: list[str] = []

        async def call() -> None:
            texts.append((await made.run(b"{}", CallContext())).text)

        try:
            async with anyio.create_task_group() as group:
                for _ in range(70):
                    group.start_soon(call)
                await anyio.lowlevel.checkpoint()
                other = await anyio.to_thread.run_sync(lambda: "free")
        finally:
            release.set()
        return texts, other

    texts, other = anyio.run(flood)
    assert other == "free"
    assert len(texts) == 70
    assert all("no answer within" in text for text in texts)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_cancellation_passes_through(kind: str) -> None:
    release = threading.Event()

    @tool
    def sync() -> None:
        release.wait(5)

    @tool
    async def later() -> None:
        await anyio.sleep(5)

    async def cancelled() -> bool:
        made = registered(sync if kind == "sync" else later)
        task = asyncio.create_task(made.run(b"{}", CallContext()))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return True

    try:
        assert asyncio.run(cancelled())
    finally:
        release.set()
