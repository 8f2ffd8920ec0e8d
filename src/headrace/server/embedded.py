"""`headrace.Broker`: a whole broker inside a Python process, on a thread of its own.

The same broker as `headrace start`, on an event loop that belongs to it. The caller's thread only starts it, waits, and
stops it; everything else goes over sockets, as for any other client. Without a path the data lives in a temporary
directory and is gone at the end.
"""

import asyncio
import tempfile
import threading
from types import TracebackType
from typing import Any, Final, Self

from headrace.server.broker import Broker, StartError
from headrace.server.later import Later
from headrace.server.settings import load_settings

START_SECONDS: Final = 60.0  # recovery of a large directory takes its time
STOP_SECONDS: Final = 30.0
_ANY_FREE_PORT: Final = "PLAINTEXT://127.0.0.1:0"


class EmbeddedBroker:
    """`with Broker() as broker: ... broker.address ...`; `Broker("data/")` keeps its data.

    Configs are Kafka's, by keyword with underscores for dots: `Broker(num_partitions=3, log_retention_ms=60_000)`.
    """

    def __init__(self, path: str | None = None, **configs: object) -> None:
        """Start the broker; clients can connect when this returns. Raises StartError, LogError, SettingsError."""
        given = {name.replace("_", "."): _text(value) for name, value in configs.items()}
        self._settings = load_settings({"listeners": _ANY_FREE_PORT} | given)
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-") if path is None else None
        self._path = self._temporary.name if self._temporary is not None else str(path)
        self._loop = asyncio.new_event_loop()
        self._failure: asyncio.Future[Exception] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        self._thread.start()
        try:
            self._broker: Broker = self._call(self._start(), START_SECONDS)
        except BaseException:
            self._end()
            raise

    @property
    def address(self) -> str:
        """host:port, for `bootstrap.servers`."""
        listener = self._broker.listeners[0]
        return f"[{listener.host}]:{listener.port}" if ":" in listener.host else f"{listener.host}:{listener.port}"

    @property
    def cluster_id(self) -> str:
        return self._broker.cluster_id

    def close(self) -> None:
        """Stop cleanly. Nothing happens if it is stopped already."""
        if not self._thread.is_alive():
            return
        try:
            self._call(self._stop(), STOP_SECONDS)
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Broker({self.address!r})" if self._thread.is_alive() else "Broker(stopped)"

    # On the loop's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> Broker:
        broker = Broker(self._settings, self._path, loop=self._loop, on_failure=self._failed)
        await self._settled(broker.start())
        return broker

    async def _stop(self) -> None:
        if not self._failure.done():
            await self._settled(self._broker.stop())
        self._broker.close()

    def _failed(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _settled(self, later: Later[None]) -> None:
        """Wait for it, or for a failure, after which it never comes."""
        answer: asyncio.Future[None] = self._loop.create_future()
        later.then(answer.set_result)
        either: list[asyncio.Future[Any]] = [answer, self._failure]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            error = self._failure.result()
            raise StartError(f"the broker stops: {error}") from error

    # On the caller's thread

    def _call(self, work: Any, seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._temporary is not None:
            self._temporary.cleanup()


def _text(value: object) -> str:
    """A config as it would stand in a file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
