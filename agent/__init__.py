"""Agents whose every tool call is decided, recorded and, where needed, approved.

from agent import create_agent, tool
from agent.models import OpenAIChat
"""

from agent.approver import Approve, Approver, Asked, Reject
from agent.durable import DurableAgent
from agent.loop import create_agent, create_async_agent
from agent.messages import AIMessage, Message, SystemMessage, ToolMessage, UserMessage
from agent.result import AgentResult, PendingApproval
from agent.tools import (
    CallContext,
    Injected,
    Secret,
    Tool,
    ToolError,
    ToolRegistry,
    ToolResult,
    tool,
)

__all__ = [
    "AIMessage",
    "AgentResult",
    "Approve",
    "Approver",
    "Asked",
    "CallContext",
    "DurableAgent",
    "Injected",
    "Message",
    "PendingApproval",
    "Reject",
    "Secret",
    "SystemMessage",
    "Tool",
    "ToolError",
    "ToolMessage",
    "ToolRegistry",
    "ToolResult",
    "UserMessage",
    "create_agent",
    "create_async_agent",
    "tool",
]
