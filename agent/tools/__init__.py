"""Tools: what a model may call, how its arguments are checked and frozen, and what it reads back."""

from agent.tools.arguments import Arguments, ToolArgumentsError
from agent.tools.definition import Definition
from agent.tools.function import FunctionTool, tool
from agent.tools.injection import CallContext, Injected
from agent.tools.options import ToolOptions
from agent.tools.protocol import BaseTool, Tool
from agent.tools.registry import AnyTool, DuplicateToolError, RegisteredTool, ToolRegistry
from agent.tools.results import ToolError, ToolResult
from agent.tools.schema import ToolSchema
from agent.tools.secrets import Secret, Secrets

__all__ = [
    "AnyTool",
    "Arguments",
    "BaseTool",
    "CallContext",
    "Definition",
    "DuplicateToolError",
    "FunctionTool",
    "Injected",
    "RegisteredTool",
    "Secret",
    "Secrets",
    "Tool",
    "ToolArgumentsError",
    "ToolError",
    "ToolOptions",
    "ToolRegistry",
    "ToolResult",
    "ToolSchema",
    "tool",
]
