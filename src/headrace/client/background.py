"""The one event loop that serves all blocking clients of a process, on a thread of its own.

`call(coroutine)` runs it there and waits. The thread starts at the first call and ends with the process. A forked child
gets a loop of its own: threads do not survive a fork, and a client that was made before it must be made again.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

Result = TypeVar("Result")

STOP_SECONDS: Final = 2.0  # what the end of a process waits for the thread, at most
NAME: Final = "headrace-client"
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
    answer: Future[Result] = Future()
    try:
        # The future is there before the coroutine runs, so that an interrupt at any moment finds what to cancel.
        background.loop.call_soon_threadsafe(_start, background.loop, coroutine, answer)
        return answer.result(timeout)
    except BaseException:
        answer.cancel()
        raise


def _start(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result], answer: "Future[Result]") -> None:
    task = loop.create_task(coroutine)
    task.add_done_callback(lambda done: _tell(done, answer))
    answer.add_done_callback(lambda done: loop.call_soon_threadsafe(task.cancel) if done.cancelled() else None)


def _tell(task: "asyncio.Task[Result]", answer: "Future[Result]") -> None:
    """Hand on what became of the task, unless nobody waits for it any more."""
    if task.cancelled():
        answer.cancel()
    error = None if task.cancelled() else task.exception()
    if not answer.set_running_or_notify_cancel():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


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
