"""One run of a broker on a thread of its own, from a start to a stop or a crash; other threads ask it to do things."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from headrace.log.fs import FileSystem
from headrace.server.broker import Broker
from headrace.server.clock import LoopClock, MovableClock
from headrace.server.event_loop import new_event_loop
from headrace.server.faults import Faults
from headrace.server.later import Later
from headrace.server.settings import Settings
from headrace.server.shared_clock import SharedClock
from headrace.server.start_error import StartError

_LOG: Final = logging.getLogger(__name__)

START_SECONDS: Final = 60.0  # recovery of a large directory takes its time
STOP_SECONDS: Final = 300.0  # so does syncing ten thousand logs on a busy disk
CALL_SECONDS: Final = 30.0

T = TypeVar("T")


class StoppedError(RuntimeError):
    """Another thread has stopped the broker before it could answer."""

    def __init__(self) -> None:
        super().__init__("this broker was stopped meanwhile, and does not answer any more")


class BrokerThread:
    """Begins to start at once; `ready` waits for it. `stop` or `kill` must follow.

    Other threads may ask for something until the very end: then they are told that nothing comes any more.
    """

    def __init__(
        self, settings: Settings, path: str, *, fs: FileSystem, shared_clock: SharedClock | None, faults: Faults
    ) -> None:
        self._settings = settings
        self._path = path
        self._fs = fs
        self._faults = faults
        self._shared_clock = shared_clock
        self._broker: Broker | None = None
        self._asking = threading.Lock()  # so that nobody asks a loop that has stopped
        self._is_over = False
        self._loop = new_event_loop()
        self._clock = LoopClock(self._loop) if shared_clock is None else shared_clock.join(self._loop, self._idle)
        self._failure: asyncio.Future[Exception] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        self._thread.start()
        self.started: Future[Broker] = self._submit(self._start())

    # From any thread

    def ready(self) -> Broker:
        """Wait until clients can connect. Raises StartError, LogError, OSError."""
        return self.started.result(START_SECONDS)

    @property
    def failure(self) -> Exception | None:
        """Why the broker cannot go on; None while it can."""
        return self._failure.result() if self._failure.done() else None

    def call(self, ask: Callable[[Broker], Later[T]]) -> T:
        """What the broker answers, when it does. Raises StartError, StoppedError."""

        async def asked() -> T:
            self._check()
            if self._broker is None:
                raise StoppedError
            return await self._settled(ask(self._broker))

        self.ready()
        return self._result_of(asked())

    def stop(self) -> None:
        """Cleanly, if it has started."""
        try:
            self.started.exception(START_SECONDS)
            self._submit(self._stop()).result(STOP_SECONDS)
        finally:
            self._end()

    def kill(self) -> None:
        """As a crash does."""
        try:
            self.started.exception(START_SECONDS)
            self._submit(self._kill()).result(STOP_SECONDS)
        finally:
            self._end()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        with self._asking:
            if self._is_over:
                work.close()
                raise StoppedError
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _result_of(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._submit(work).result(CALL_SECONDS)
        except CancelledError:
            raise StoppedError from None

    def _end(self) -> None:
        self._faults.detach()
        if self._shared_clock is not None:
            assert isinstance(self._clock, MovableClock)
            self._shared_clock.leave(self._clock)
        with self._asking:
            self._is_over = True
            released = asyncio.run_coroutine_threadsafe(self._release(), self._loop)
        released.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # On the loop's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> Broker:
        broker = Broker(
            self._settings, self._path, loop=self._loop, clock=self._clock, fs=self._fs, on_failure=self._failed
        )
        self._broker = broker
        self._faults.attach(broker.dispatcher, self._on_loop)
        try:
            await self._settled(broker.start())
        except BaseException:
            self._die()
            raise
        return broker

    async def _stop(self) -> None:
        if self._broker is not None and not self._failure.done():
            await self._settled(self._broker.stop())
        if self._failure.done():  # while it stopped, or just before: then there is nothing to bring to an end
            self._die()
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    async def _kill(self) -> None:
        self._die()

    async def _release(self) -> None:
        """Whoever still waits for an answer waits no more."""
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)

    def _failed(self, error: Exception) -> None:
        """It cannot go on: as Apache Kafka's process halts then, clients are let go, and a restart recovers."""
        if not self._failure.done():
            self._failure.set_result(error)
            _LOG.error("the broker stops: %s", error)
            self._loop.call_soon(self._die)  # whoever found out is still at work

    def _die(self) -> None:
        """Once."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.kill()

    async def _settled(self, later: Later[T]) -> T:
        """Wait for it, or for a failure, after which it never comes."""
        answer: asyncio.Future[T] = self._loop.create_future()
        later.then(answer.set_result)
        either: list[asyncio.Future[Any]] = [answer, self._failure]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            self._check()
        return answer.result()

    def _check(self) -> None:
        """Raises StartError if the broker cannot go on."""
        error = self.failure
        if error is not None:
            raise StartError(f"the broker stops: {error}") from error

    def _idle(self) -> Later[None]:
        if self._broker is not None:
            return self._broker.idle()
        nothing: Later[None] = Later()
        nothing.resolve(None)
        return nothing

    def _on_loop(self, work: Callable[[], None]) -> None:
        """For faults: run it on the loop, and wait for its end. Nothing happens if the broker stops meanwhile."""
        if threading.current_thread() is self._thread:
            work()
            return

        async def worked() -> None:
            work()

        with contextlib.suppress(StoppedError):
            self._result_of(worked())
