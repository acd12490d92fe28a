"""Models: the port an agent asks through, the OpenAI adapter, and a scripted model to test against."""

from agent.models.openai import OpenAIChat
from agent.models.port import FailureCode, Model, ModelError, ModelRefusedError, RefusalCode
from agent.models.script import Script, load_script
from agent.models.scripted import ScriptedModelServer, serve_script

__all__ = [
    "FailureCode",
    "Model",
    "ModelError",
    "ModelRefusedError",
    "OpenAIChat",
    "RefusalCode",
    "Script",
    "ScriptedModelServer",
    "load_script",
    "serve_script",
]
