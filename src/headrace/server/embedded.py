"""`headrace.Broker`: a whole broker inside a Python process, on a thread of its own.

The same broker as `headrace start`, on an event loop that belongs to it. The caller's threads start it, stop it and ask
it for a few things; everything else goes over sockets, as for any other client. Without a path the data lives in a
temporary directory and is gone at the end.

The port stays the same over restarts and crashes, as clients expect: a socket that never listens holds it meanwhile, so
that nobody else gets it.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from random import SystemRandom
from types import TracebackType
from typing import Final, Self

from headrace.cluster.listeners import Endpoint
from headrace.cluster.topics import create_topics
from headrace.log.fs import FileSystem, RealFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.server.broker import Broker
from headrace.server.broker_thread import BrokerThread
from headrace.server.chance import chance
from headrace.server.faults import Faults
from headrace.server.later import Later
from headrace.server.listener import bound_socket
from headrace.server.settings import Settings, load_settings
from headrace.server.shared_clock import SharedClock
from headrace.server.unsynced import UnsyncedFileSystem

_ANY_FREE_PORT: Final = "PLAINTEXT://127.0.0.1:0"


class TopicRefusedError(ValueError):
    """Why a topic was not created, and what to do."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class EmbeddedBroker:
    """`with Broker() as broker: ... broker.address ...`; `Broker("data/")` keeps its data.

    Configs are Kafka's, by keyword with underscores for dots: `Broker(num_partitions=3, log_retention_ms=60_000)`.
    `faults` make requests fail; `clock=headrace.testing.MovableClock()` gives it a clock that tests move. All methods
    may be called from any thread.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, clock: SharedClock | None = None, **configs: object
    ) -> None:
        """Start the broker; clients can connect when this returns. Raises StartError, LogError, SettingsError.

        Inside an event loop it does not block: `async with` waits for the start, and whoever asks for something does.
        """
        self.faults = Faults()
        self._clock = clock
        self._settings, self._reserved = _reserve(load_settings({"listeners": _ANY_FREE_PORT} | _by_dots(configs)))
        self._process_id = os.getpid()
        self._path = tempfile.mkdtemp(prefix="headrace-") if path is None else os.fspath(path)
        self._remove_temporary = None if path is not None else weakref.finalize(self, _remove, self._path, os.getpid())
        # Nobody looks for temporary data after a power cut, so it does not wait for the disk.
        self._fs: FileSystem = UnsyncedFileSystem() if path is None else RealFileSystem()
        self._lock = threading.RLock()
        self._is_closed = False
        self._address = ""  # until it has started
        self._run: BrokerThread | None = self._start()
        if not _is_in_event_loop():
            self._wait_for_start(self._run)

    @property
    def address(self) -> str:
        """host:port, for `bootstrap.servers`. It stays the same over restarts."""
        return self._address or self._remember_address(self._running().ready())

    @property
    def cluster_id(self) -> str:
        return self._running().ready().cluster_id

    @property
    def clock(self) -> SharedClock:
        """The movable clock that it was made with."""
        if self._clock is None:
            raise RuntimeError(
                "this broker goes by the machine's clock; make it with clock=headrace.testing.MovableClock() to move it"
            )
        return self._clock

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 1, **configs: object) -> None:
        """Create a topic; clients see it when this returns. Configs as for the broker. Raises TopicRefusedError."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(key, value) for key, value in _by_dots(configs).items()],
        )
        row = self._running().call(lambda broker: _create(broker, wanted)).topics[0]
        if row.error_code:
            code = ErrorCode(row.error_code)
            hint = " Use another name, or delete it first." if code is ErrorCode.TOPIC_ALREADY_EXISTS else ""
            raise TopicRefusedError(code, f"cannot create topic {name!r}: {row.error_message or code.meaning}{hint}")

    # Starting and stopping

    def restart(self) -> None:
        """Stop cleanly, if it runs, and start again with the same data and port. Faults and clock stay."""
        self._check_process()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("this broker is closed, and its port is given back; make another")
            run, self._run = self._run, None
            if run is not None:
                run.stop()
            self._run = self._start()
            self._wait_for_start(self._run)

    def kill(self) -> None:
        """Crash: connections break, and nothing is brought to an end. `restart` recovers as after `kill -9`."""
        with self._lock:
            run = self._running()
            self._remember_address(run.ready())
            self._run = None
            run.kill()

    def close(self) -> None:
        """Stop cleanly, and remove temporary data. Nothing happens if it is closed already, or in a forked process."""
        if os.getpid() != self._process_id:
            return  # its thread is in the other process, and so are those who use it
        with self._lock:
            self._is_closed = True
            run, self._run = self._run, None
            try:
                if run is not None and self._remove_temporary is not None:
                    run.kill()  # nobody will miss what a clean stop writes
                elif run is not None:
                    run.stop()
            finally:
                self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.wrap_future(self._running().started)
        except BaseException:
            await asyncio.to_thread(self.close)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "killed" if self._run is None else self._address or "starting"
        return f"<headrace.Broker: {state}>"

    def _start(self) -> BrokerThread:
        return BrokerThread(self._settings, self._path, fs=self._fs, shared_clock=self._clock, faults=self.faults)

    def _wait_for_start(self, run: BrokerThread) -> None:
        try:
            self._remember_address(run.ready())
        except BaseException:
            self.close()
            raise

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError(
                f"this broker is in process {self._process_id}, from which this one was forked; connect to its address"
            )

    def _running(self) -> BrokerThread:
        self._check_process()
        run = self._run
        if run is None:
            what = "is closed; make another" if self._is_closed else "was killed; restart() starts it again"
            raise RuntimeError(f"this broker {what}")
        return run

    def _remember_address(self, broker: Broker) -> str:
        _, host, port = broker.listeners[0]
        self._address = str(Endpoint(host, port))
        return self._address

    def _give_back(self) -> None:
        for sock in self._reserved:
            sock.close()
        if self._remove_temporary is not None:
            self._remove_temporary()


def _remove(path: str, process_id: int) -> None:
    """At the latest when the process ends; one that was forked meanwhile leaves it to its parent."""
    if os.getpid() == process_id:
        shutil.rmtree(path)


def _create(broker: Broker, wanted: CreatableTopic) -> Later[CreateTopicsResponse]:
    controller = broker.controller
    request = CreateTopicsRequest(topics=[wanted])
    return controller.submit(lambda image: create_topics(image, controller.settings, request, chance(SystemRandom())))


def _reserve(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """Free ports for the listeners that want any, and the sockets that hold them."""
    if sys.platform != "linux":  # elsewhere a second socket cannot have the port, even if only one of them listens
        return settings, []
    held: list[socket.socket] = []
    listeners = []
    for listener in settings.listeners:
        if listener.port == 0:
            held.append(bound_socket(listener))
            listener = listener._replace(port=held[-1].getsockname()[1])
        listeners.append(listener)
    return settings._replace(listeners=listeners), held


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _by_dots(configs: Mapping[str, object]) -> dict[str, str]:
    """Configs by Kafka's names, as they would stand in a file."""
    return {name.replace("_", "."): _text(value) for name, value in configs.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
