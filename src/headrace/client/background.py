"""The one event loop that serves all blocking clients of a process, on a thread of its own.

`call(coroutine)` runs it there and waits. The thread starts at the first call and ends with the process. A forked child
gets a loop of its own: threads do not survive a fork, and a client that was made before it must be made again.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

Result = TypeVar("Result")

STOP_SECONDS: Final = 2.0  # what the end of a process waits for the thread, at most
NAME: Final = "headrace-client"
# An interrupt that comes right before a thread begins to wait is noticed when it ends to: it never waits for longer.
INTERRUPT_SECONDS: Final = 1.0
FORKED: Final = "This client was made before the process forked, and works in the parent only: make another one here."


class _Client(Protocol):
    def forked(self) -> None:
        """In a forked child: refuse everything from now on."""


class _Background:
    """A loop and its thread; made anew in a forked child."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self.thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(STOP_SECONDS)


_lock = threading.Lock()
_current: _Background | None = None
_clients: "WeakSet[_Client]" = WeakSet()


def loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, running."""
    return _running().loop


def call(coroutine: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
    """Run it on the loop, and wait for what it returns or raises.

    An interrupt (Ctrl-C) or the end of `timeout` seconds cancels it. Raises RuntimeError on the loop's own thread,
    where waiting would wait for itself.
    """
    background = _running()
    if threading.current_thread() is background.thread:
        coroutine.close()
        raise RuntimeError("a blocking call inside a callback of the client would wait for itself: use headrace.aio")
    # It is there before the coroutine runs, so that an interrupt at any moment finds what to cancel.
    errand = _Errand(background.loop, coroutine)
    try:
        background.loop.call_soon_threadsafe(errand.start)
        return errand.wait(timeout)
    except BaseException:
        background.loop.call_soon_threadsafe(errand.cancel)
        raise


class Signal:
    """What one thread waits for and another sends, once.

    An interrupt may raise KeyboardInterrupt at any instruction, also between two of the lock inside of a
    `threading.Event` or a `Future`, which are written in Python: then it stays locked, and the client's thread waits
    for it for ever. A plain lock has no such place, and costs a fraction of them.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def send(self) -> None:
        self._lock.release()

    def wait(self, timeout: float | None) -> bool:
        """Whether it came within `timeout` seconds."""
        if timeout is not None:
            return self._lock.acquire(timeout=max(timeout, 0.0))
        while not self._lock.acquire(timeout=INTERRUPT_SECONDS):
            pass
        return True


class _Errand(Generic[Result]):
    """A coroutine on the loop, and a thread that waits for it.

    The coroutine itself sends the signal when it is through: what is told of a task is told a turn of the loop later.
    """

    __slots__ = ("_coroutine", "_error", "_is_over", "_loop", "_result", "_task")

    _result: Result

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._is_over = Signal()

    # For the thread that waits

    def wait(self, timeout: float | None) -> Result:
        if not self._is_over.wait(timeout):
            raise TimeoutError(f"not done after {timeout} s")
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # whose traceback leads here: a circle, which only the garbage collector would break
        return self._result

    # On the loop

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            self._result = await self._coroutine
        except asyncio.CancelledError:
            self._error = CancelledError()  # the one for threads, which is an Exception
            raise
        except Exception as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._is_over.send()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(lambda _: self._coroutine.close())
        else:
            self._coroutine.close()


def submit(coroutine: Coroutine[Any, Any, Result]) -> "Future[Result]":
    """Run it on the loop, without waiting."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def until_fork(client: _Client) -> None:
    """Tell the client if this process becomes a child, where nobody would answer it."""
    _clients.add(client)


def run_soon(function: Callable[..., object], *arguments: Any) -> None:
    """Call a plain function on the loop's thread."""
    loop().call_soon_threadsafe(function, *arguments)


def is_on_loop() -> bool:
    """Whether this is the loop's own thread."""
    return _current is not None and threading.current_thread() is _current.thread


def _running() -> _Background:
    global _current  # noqa: PLW0603 - one per process is what this module is about
    if _current is None:
        with _lock:
            if _current is None:
                _current = _Background()
    return _current


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made


def _forget() -> None:
    """In a forked child: the thread is gone, the loop's descriptors belong to the parent, a lock may be held."""
    global _current, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _current = None
    for client in list(_clients):
        client.forked()


def _stop_at_exit() -> None:
    if _current is not None:
        _current.stop()


os.register_at_fork(after_in_child=_forget)
atexit.register(_stop_at_exit)
