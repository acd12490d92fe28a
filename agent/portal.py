"""The synchronous way into the one asynchronous driver.

Outside any event loop it runs one. Inside a running loop (a notebook) it runs the driver in a loop of its
own on another thread, and waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

__all__ = ["run_sync"]

T = TypeVar("T")


def run_sync(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `call` to its end and return what it returns."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call())
    with start_blocking_portal() as portal:
        result: T = portal.call(call)
        return result
