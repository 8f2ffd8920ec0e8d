"""A real Apache Kafka for tests: one process, broker and controller in one, in a directory of the test's own."""

import atexit
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.kafka_tools import KafkaToolError, KafkaTools

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
READY_SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
STOP_SECONDS: Final = 120.0
START_ATTEMPTS: Final = 3
_API_VERSIONS_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # key 18, version 0, no client id

# Few internal partitions and small indexes keep a data directory small enough to copy; a short cleaner back-off and a
# tiny snapshot interval make compaction and metadata snapshots happen within seconds.
SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.backoff.ms": "200",
    "log.retention.ms": "-1",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}


class PortTakenError(KafkaToolError):
    """Between choosing a port and listening on it, somebody else was faster."""


class ApacheKafka:
    """A broker on `directory`: formatted at the first start, on free loopback ports that change with every start."""

    def __init__(self, directory: Path, tools: KafkaTools, *, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.address = ""
        self._tools = tools
        self._settings = {**SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            if kind is None:
                self.stop()
            else:
                self.kill()

    def start(self) -> None:
        """Start and wait until the broker answers requests."""
        assert self._process is None, "already running"
        self.directory.mkdir(parents=True, exist_ok=True)
        for _ in range(START_ATTEMPTS - 1):
            try:
                return self._start()
            except PortTakenError:
                continue  # by somebody else on this machine, since the ports were chosen
        return self._start()

    def _start(self) -> None:
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            arguments = ["format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties)]
            self._tools.run("kafka.tools.StorageTool", *arguments)
        command = [*self._tools.java(heap="384m", log_level="INFO"), "kafka.Kafka", str(properties)]
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        atexit.register(self.kill)  # whatever a test forgot: no broker outlives the tests
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop as an operator would: SIGTERM, and the data directory is marked clean."""
        process = self._process
        assert process is not None, "not running"
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise KafkaToolError(f"Apache Kafka did not stop within {STOP_SECONDS} s:\n{self.log_tail()}") from None
        self._process = None

    def kill(self) -> None:
        """Stop as a crash would: SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """The end of what the broker logged."""
        return "\n".join(self.log_text().splitlines()[-40:])

    def log_text(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    @property
    def _log_file(self) -> Path:
        return self.directory / "broker.log"

    def _write_properties(self) -> Path:
        broker, controller = free_ports(2)
        self.address = f"127.0.0.1:{broker}"
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}"
        settings = {
            **self._settings,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.data),
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        host, _, port = self.address.partition(":")
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                kind = PortTakenError if "Address already in use" in self.log_tail() else KafkaToolError
                raise kind(f"Apache Kafka ended with {process.returncode}:\n{self.log_tail()}")
            try:
                with socket.create_connection((host, int(port)), timeout=1) as connection:
                    connection.sendall(_API_VERSIONS_REQUEST)
                    if len(connection.recv(4)) == 4:
                        return
            except OSError:
                time.sleep(0.05)  # the condition is polled, with a deadline
        raise KafkaToolError(f"Apache Kafka did not answer within {READY_SECONDS} s:\n{self.log_tail()}")


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now; held together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def copy_data(source: Path, target: Path) -> Path:
    """A copy of a data directory of a broker that does not run, without its lock."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
    return target
