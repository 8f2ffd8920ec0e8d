"""The answer to a request for those who cannot wait for a turn of the loop.

A future tells its callbacks in the next turn, and between two turns lies a system call that lets other threads of the
program run. Whoever sends and fetches all day would lose that time for every request.
"""

import asyncio
from collections.abc import Callable
from typing import Any


class PromptAnswer:
    """What a connection needs of a future. `callback` is called with it: at once, or soon if there was an error.

    Errors may come while the request is still being sent, by whoever is not prepared for a callback then.
    """

    __slots__ = ("_callback", "_error", "_is_done", "_loop", "_response")

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: "Callable[[PromptAnswer], object]") -> None:
        self._loop = loop
        self._callback = callback
        self._is_done = False
        self._response: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, response: Any) -> None:
        """Raises nothing: what the callback does wrong must not stop the connection, which reads on after it."""
        self._is_done = True
        self._response = response
        try:
            self._callback(self)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "the answer to a request was not dealt with", "exception": error}
            )

    def set_exception(self, error: BaseException) -> None:
        self._is_done = True
        self._error = error
        self._loop.call_soon(self._callback, self)

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        """Raises the error, if there was one."""
        if self._error is not None:
            raise self._error
        return self._response
