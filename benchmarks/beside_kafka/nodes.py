"""The two that compete: Headrace as `headrace start` runs it, and Apache Kafka as its own start script runs it.

Both are processes of their own with their data on the same disk, watched through /proc. Apache Kafka has the JVM flags
of its start script (1 GB of heap, G1) and the settings of the server.properties that it comes with.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.kafka import CLUSTER_ID, free_ports
from tests.support.kafka_tools import PROGRAMS, KafkaTools

READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.001
_PROBE: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")  # ApiVersions 0 without a client id
_ALL_THREADS_SCHEDULED: Final = 2  # the lowest bits of the number of a process's CPU clock: see clock_getcpuclockid(3)

_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}",
    "-Dheadrace.log.level=INFO",
)
_KAFKA_SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.delete.delay.ms": "1000",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


class NodeError(Exception):
    """A broker did not do what it must; the message has the end of what it logged."""


class Node(ABC):
    """A broker on a directory of its own, on a free loopback port that changes with every start."""

    name: str
    needs_warm_up: bool  # it compiles while it runs

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are server configs that differ from what it comes with."""
        self._directory = directory
        self._settings = dict(settings or {})
        self._log_file = directory / "broker.log"
        self.data = directory / "data"
        self.port = 0
        self.traffic_bytes = 0  # that it has taken or given
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """How to start it on `self.port`."""

    def start(self) -> float:
        """Start; the seconds until it has answered a client."""
        self._choose_ports()
        command = self._command()
        # Without byte code on disk every start would compile all modules, which no installed program does.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        with self._log_file.open("ab") as log:
            start = time.perf_counter()
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        while not self._answers():
            if self._process.poll() is not None or time.perf_counter() - start > READY_SECONDS:
                self.kill()
                raise NodeError(f"{self.name} did not start:\n{self._log_tail()}")
            time.sleep(_POLL_SECONDS)
        return time.perf_counter() - start

    def _choose_ports(self) -> None:
        (self.port,) = free_ports(1)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=READY_SECONDS) as connection:
                connection.sendall(_PROBE)
                return len(connection.recv(4)) == 4
        except OSError:
            return False

    def stop(self) -> None:
        """As an operator does: what follows is a start after a clean stop."""
        assert self._process is not None, "not running"
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError(f"{self.name} did not stop within {STOP_SECONDS} s:\n{self._log_tail()}") from None
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # its data are thrown away

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """If a client fails, show what the broker said."""
        try:
            yield
        except subprocess.CalledProcessError as error:
            raise NodeError(f"a client of {self.name} failed, which logged:\n{self._log_tail()}") from error

    def _log_tail(self) -> str:
        return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-40:])

    # Seen from outside

    @property
    def pid(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Of all its threads, since its start. In /proc it stands in steps of 10 ms, which is much of a short round."""
        return time.clock_gettime(~self.pid << 3 | _ALL_THREADS_SCHEDULED)

    def memory_bytes(self) -> int:
        """Resident now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Headrace(Node):
    name = "Headrace"
    needs_warm_up = False

    def _command(self) -> Sequence[str]:
        script = Path(sys.executable).with_name("headrace")
        configs = [argument for name, value in self._settings.items() for argument in ("--set", f"{name}={value}")]
        return [str(script), "start", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *configs]


class Kafka(Node):
    name = "Apache Kafka"
    needs_warm_up = True

    def __init__(self, directory: Path, tools: KafkaTools, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self._tools = tools
        self._controller_port = 0

    def _choose_ports(self) -> None:
        self.port, self._controller_port = free_ports(2)
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():  # formatting is no part of a start
            arguments = ["format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties)]
            self._tools.run("kafka.tools.StorageTool", *arguments)

    def _command(self) -> Sequence[str]:
        return ["java", *_JVM, "-cp", f"{self._tools.jars}/*", "kafka.Kafka", str(self._properties)]

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def _write_properties(self) -> Path:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}"
        settings = {
            **_KAFKA_SETTINGS,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.data),
            **self._settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return self._properties
