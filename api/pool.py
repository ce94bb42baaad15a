"""Child processes that solve. Each lane has one child of its own, so a solve that dies takes no other with it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess

from gangfit.api import worker

Job = Callable[[], bytes]
"""Runs in the child; has to be picklable."""


class WorkerDiedError(Exception):
    """The child ended before it answered; `reason` says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BusyError(Exception):
    """Every worker is busy and the queue is full."""


class ClosedError(Exception):
    """The pool is shutting down."""


class Lane:
    """A ProcessPoolExecutor of one spawned process, its watchdog, and its rebuilding."""

    def __init__(self, margin_s: float) -> None:
        """`margin_s`: seconds that a job may take beyond twice the time limit it announced."""
        self.rebuilt = 0
        self._margin_s = margin_s
        self._context = multiprocessing.get_context("spawn")
        self._limit = self._context.Value("d", 0.0, lock=False)  # a lock could die with the child
        self._executor: ProcessPoolExecutor | None = None
        self._child: BaseProcess | None = None
        self._closed = False

    async def start(self) -> None:
        """Spawn the child and wait until it is warm. Raises WorkerDiedError if it doesn't come up."""
        self._executor = ProcessPoolExecutor(
            1, mp_context=self._context, initializer=worker.start, initargs=(self._limit,)
        )
        try:
            pid = await asyncio.wrap_future(self._executor.submit(os.getpid))
        except BrokenProcessPool:
            await self._bury()
            raise WorkerDiedError("it did not start") from None
        self._child = next((p for p in multiprocessing.active_children() if p.pid == pid), None)

    async def run(self, job: Job) -> bytes:
        """Result of the job, or what it raised. Raises WorkerDiedError, after which the lane can be used again."""
        executor = await self._ready()
        self._limit.value = 0.0
        began = time.monotonic()
        try:
            future = asyncio.wrap_future(executor.submit(job))
            late = False
            while not future.done():
                left = began + 2 * self._limit.value + self._margin_s - time.monotonic()
                if left <= 0 and not late:
                    late = True
                    self._kill()
                await asyncio.wait({future}, timeout=None if late else max(left, 0.0))
            return future.result()
        except BrokenProcessPool:
            ending = await self._bury()
            seconds = 2 * self._limit.value + self._margin_s
            raise WorkerDiedError(f"no answer within {seconds:g} s" if late else ending) from None
        except asyncio.CancelledError:
            self._kill()
            await asyncio.shield(self._bury())
            raise

    async def close(self) -> None:
        """End the child; a job that runs is lost."""
        self._closed = True
        self._kill()
        await self._bury()

    async def _ready(self) -> ProcessPoolExecutor:
        """The executor with a living child; an idle child may have been killed from outside."""
        if self._closed:
            raise ClosedError
        if self._child is not None and not self._child.is_alive():
            await self._bury()
        if self._executor is None:
            await self.start()
            self.rebuilt += 1
        assert self._executor is not None
        return self._executor

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    async def _bury(self) -> str:
        """Clear a dead child away; how it ended."""
        executor, child = self._executor, self._child
        self._executor = self._child = None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)
        return _ending(child.exitcode if child is not None else None)


class Pool:
    """Lanes behind one bounded queue, first come first served."""

    def __init__(self, workers: int, max_pending: int, margin_s: float) -> None:
        """`max_pending`: most requests that wait while every worker is busy."""
        self.workers = workers
        self.waiting = 0
        self._max_pending = max_pending
        self._lanes = [Lane(margin_s) for _ in range(workers)]
        self._idle: asyncio.Queue[Lane] = asyncio.Queue()

    @property
    def rebuilt(self) -> int:
        """Children replaced since the start."""
        return sum(lane.rebuilt for lane in self._lanes)

    @property
    def full(self) -> bool:
        """Whether a further request would be refused."""
        return self._idle.empty() and self.waiting >= self._max_pending

    @property
    def busy(self) -> int:
        """Workers that are at work."""
        return self.workers - self._idle.qsize()

    async def start(self) -> None:
        """Spawn and warm every child."""
        await asyncio.gather(*(lane.start() for lane in self._lanes))
        for lane in self._lanes:
            self._idle.put_nowait(lane)

    async def run(self, job: Job, rescue: Callable[[str], Job]) -> bytes:
        """Run a job; if its child dies, run `rescue(reason)` in a fresh one. A second death raises WorkerDiedError."""
        if self.full:
            raise BusyError
        self.waiting += 1
        try:
            lane = await self._idle.get()
        finally:
            self.waiting -= 1
        try:
            try:
                return await lane.run(job)
            except WorkerDiedError as death:
                return await lane.run(rescue(death.reason))
        finally:
            self._idle.put_nowait(lane)

    async def close(self) -> None:
        """End every child."""
        await asyncio.gather(*(lane.close() for lane in self._lanes))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return "no exit code" if code is None else f"exit code {code}"
