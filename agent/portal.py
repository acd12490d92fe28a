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
        return _run_loop(call)
    with start_blocking_portal() as portal:
        result: T = portal.call(call)
        return result


def _run_loop(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `call` in a loop of its own, and keep what it returns out of the loop's main task.

    `asyncio.run` restores the signal handler by way of `signal.getsignal`, which spells the task out,
    twice, with its result: for a long conversation that took longer than reading its run back.
    """
    returned: list[T] = []

    async def main() -> None:
        returned.append(await call())

    asyncio.run(main())
    return returned[0]
