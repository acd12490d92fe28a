"""How a driver waits: for a commit it may not abandon, and for a run whose result nobody spells out."""

import asyncio
from concurrent.futures import Future

import pytest

from agent.booking import Desk
from agent.logbook import LedgerLog
from agent.portal import run_sync
from agent.tools import ToolRegistry
from governance.errors import UnavailableError
from governance.ids import RunId


class Queue:
    """A store that keeps every work waiting until it is told."""

    def __init__(self) -> None:
        self.queued: list[Future] = []

    def submit(self, _work) -> Future:
        self.queued.append(Future())
        self.queued[-1].set_running_or_notify_cancel()
        return self.queued[-1]


def logbook(store) -> LedgerLog:
    return LedgerLog(store, lambda: 0, Desk(ToolRegistry()), None, None, "agent:a", "me", 1_000_000)


async def begin(log: LedgerLog) -> asyncio.Task:
    task = asyncio.create_task(log.renew(RunId("r")))
    await settle()
    return task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_cancelled_driver_waits_for_the_commit_it_has_queued():
    store = Queue()

    async def scene() -> None:
        task = await begin(logbook(store))
        task.cancel()
        await settle()
        assert not task.done()
        await asyncio.to_thread(store.queued[0].set_result, None)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    assert not store.queued[0].cancelled()


def test_a_commit_that_failed_is_raised_where_it_is_awaited():
    store = Queue()

    async def scene() -> None:
        task = await begin(logbook(store))
        await asyncio.to_thread(store.queued[0].set_exception, UnavailableError("disk is full"))
        with pytest.raises(UnavailableError, match="disk is full"):
            await task

    asyncio.run(scene())


def test_what_a_run_returns_is_not_spelled_out():
    class Long:
        spelled = 0

        def __repr__(self) -> str:
            Long.spelled += 1
            return "long"

    async def run() -> Long:
        return Long()

    assert isinstance(run_sync(run), Long)
    assert Long.spelled == 0
