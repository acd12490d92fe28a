"""What an object must have to be a tool, for people who bring objects instead of functions.

Optional attributes: `profile` (a RiskProfile; without one the tool counts as unprofiled), `timeout`
(seconds) and `display` (a template over the arguments).
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Protocol, runtime_checkable

from agent.tools.function import structured
from agent.tools.results import ToolResult, as_result
from agent.tools.schema import ToolSchema

__all__ = ["BaseTool", "Tool"]


@runtime_checkable
class Tool(Protocol):
    """A callable a model may propose. The arguments it gets are a copy, validated against its schema.

    Both methods may return their answer or an awaitable of it. What is not `async def` runs in a
    thread. Any exception becomes an error result; only a ToolError's text reaches the model.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def schema(self) -> ToolSchema: ...

    def execute(self, args: dict[str, Any], /) -> Any:
        """Answer with any JSON value."""
        ...

    def execute_structured(self, args: dict[str, Any], /) -> ToolResult | Awaitable[ToolResult]:
        """Answer with content and metadata. This is what the runtime calls."""
        ...


class BaseTool(ABC):
    """The base for tools that only have `execute`: its answer is wrapped as `ToolResult.ok` does."""

    name: str
    description: str = ""

    @abstractmethod
    def schema(self) -> ToolSchema: ...

    @abstractmethod
    def execute(self, args: dict[str, Any], /) -> Any: ...

    def execute_structured(self, args: dict[str, Any], /) -> ToolResult | Awaitable[ToolResult]:
        value = self.execute(args)
        return structured(value) if inspect.isawaitable(value) else as_result(value)
