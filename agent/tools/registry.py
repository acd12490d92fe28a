"""Which tools there are, and how each of them is run.

A registry normalises every tool once: one way to validate, one awaitable way to run, one result. It is
fixed when built; an agent with other tools has another registry.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, MethodType
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from agent.tools.arguments import Arguments
from agent.tools.definition import Definition
from agent.tools.function import FunctionTool, function_tool
from agent.tools.injection import CallContext
from agent.tools.objects import ObjectArguments, read_definition, read_execution
from agent.tools.protocol import Tool
from agent.tools.results import ToolResult, as_result, failure
from agent.tools.schema import ToolSchema
from agent.tools.secrets import Secrets, Veil
from governance.canonical import thaw
from governance.errors import ConflictError, InvalidInputError

__all__ = ["AnyTool", "DuplicateToolError", "RegisteredTool", "ToolRegistry"]

TOOL_THREADS_MAX: Final = 64
"""How many synchronous tools run at once in one event loop. Their own, so that tools which hang
starve no other user of threads."""
_threads: RunVar[anyio.CapacityLimiter] = RunVar("agent.tools.threads")


class DuplicateToolError(ConflictError):
    """Two tools of one name: a policy for the one would cover the other."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call ready to run, and what hides the secrets it was given."""

    call: Callable[[], object] = field(repr=False)
    veil: Veil = field(default_factory=lambda: Veil({}), repr=False)


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool, normalised. Whatever it was made from, it validates, renders and runs in one way."""

    definition: Definition
    schema: ToolSchema
    _freeze: Callable[[Arguments], bytes] = field(repr=False)
    _prepare: Callable[[bytes, CallContext], "Prepared"] = field(repr=False)
    _awaits: bool = field(repr=False)

    @property
    def name(self) -> str:
        return self.definition.name

    def validate(self, arguments: Arguments) -> bytes:
        """Freeze `arguments`: the one value policy, approver, ledger and tool read.

        Raises ToolArgumentsError.
        """
        return self._freeze(arguments)

    def render(self, frozen: bytes) -> str:
        """Say the call in words, for people."""
        return self.definition.render(frozen)

    async def run(self, frozen: bytes, context: CallContext) -> ToolResult:
        """Run the tool on frozen arguments. Never raises but for cancellation, which passes through.

        The result's metadata names what went wrong in `error`: `arguments` (nothing was called),
        `exception`, `result` (it answered what is no JSON) or `timeout`. After a timeout a synchronous
        tool's thread is left to itself, so its effect may still come.
        """
        try:
            prepared = self._prepare(frozen, context)
        except InvalidInputError as exc:
            return ToolResult(exc.message, {"error": "arguments"}, is_error=True)
        limit, veil = self.definition.timeout, prepared.veil
        try:
            with anyio.move_on_after(limit):
                return veil.result(as_result(await self._answer(prepared.call)))
        except (Exception, SystemExit) as exc:  # noqa: BLE001  # a tool may raise anything; every call has a result
            return veil.result(failure(exc, veil.text))
        text = f"tool failed: no answer within {limit:g} s; it may still take effect"
        return ToolResult(text, {"error": "timeout"}, is_error=True)

    async def _answer(self, call: Callable[[], object]) -> object:
        value = call() if self._awaits else await _in_thread(call)
        return await value if inspect.isawaitable(value) else value


AnyTool: TypeAlias = FunctionTool[..., Any] | Tool | RegisteredTool | Callable[..., Any]
"""What a registry takes. A plain function becomes an unprofiled tool."""


@dataclass(frozen=True, slots=True, init=False)
class ToolRegistry:
    """Tools by name, in the order they were given.

    `secrets` is asked for the secrets of a tool each time it is called. Raises DuplicateToolError, and
    InvalidInputError for what is no tool or lacks something.
    """

    _tools: Mapping[str, RegisteredTool]

    def __init__(
        self, tools: Iterable[AnyTool | object] = (), *, secrets: Secrets | None = None
    ) -> None:
        named: dict[str, RegisteredTool] = {}
        for given in tools:
            registered = _register(given, secrets)
            if registered.name in named:
                raise DuplicateToolError(
                    f"two tools are named `{registered.name}`",
                    hint="give one of them another `name`",
                )
            named[registered.name] = registered
        object.__setattr__(self, "_tools", MappingProxyType(named))

    def get(self, name: str) -> RegisteredTool | None:
        return self._tools.get(name)

    def filter(self, names: Iterable[str]) -> "ToolRegistry":
        """Narrow to `names`, in this registry's order. Raises InvalidInputError for an unknown one."""
        wanted = set(names)
        for name in sorted(wanted - set(self._tools)):
            near = difflib.get_close_matches(name, self._tools, 1)
            raise InvalidInputError(
                f"unknown tool `{name[:80]}`", hint=f"did you mean `{near[0]}`" if near else ""
            )
        return ToolRegistry(tool for tool in self if tool.name in wanted)

    def schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema for tool in self)

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _register(given: object, secrets: Secrets | None) -> RegisteredTool:
    if isinstance(given, MethodType) and isinstance(given.__func__, FunctionTool):
        given = given.__func__.__get__(given.__self__)  # `@classmethod` put over `@tool`
    match given:
        case RegisteredTool():
            return given
        case FunctionTool():
            return _of_function(given, secrets)
        case _ if inspect.isfunction(given) or inspect.ismethod(given):
            return _of_function(function_tool(given, {}, {}), secrets)
        case _:
            return _of_object(given)


def _of_function(tool: FunctionTool[..., Any], secrets: Secrets | None) -> RegisteredTool:
    tool.check_bound()
    if isinstance(secrets, Mapping):
        tool.keyed(secrets)  # a secret that is missing is better found now than in mid run

    def prepare(frozen: bytes, context: CallContext) -> Prepared:
        keyed = tool.keyed(secrets)
        return Prepared(keyed.prepare(frozen, context), keyed.veil())

    awaits = inspect.iscoroutinefunction(tool.function)
    return RegisteredTool(tool.definition, tool.schema(), tool.validate, prepare, awaits)


def _of_object(brought: object) -> RegisteredTool:
    definition = read_definition(brought)
    reader = ObjectArguments.of(definition)
    execution = read_execution(brought, definition.name)

    def prepare(frozen: bytes, _: CallContext) -> Prepared:
        return Prepared(functools.partial(execution.call, thaw(reader.freeze(frozen))))

    return RegisteredTool(definition, definition.schema(), reader.freeze, prepare, execution.awaits)


async def _in_thread(call: Callable[[], object]) -> object:
    try:
        limiter = _threads.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(TOOL_THREADS_MAX)
        _threads.set(limiter)
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
