"""A broker over real sockets on a disk in memory, which fills up and fails at the very operation that is meant."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.broker_thread import BrokerThread
from headrace.server.faults import Faults
from headrace.server.settings import load_settings
from tests.support.histories import Entry
from tests.support.retrying_producer import read_back
from tests.support.wire_client import WireClient

DATA: Final = "/data"
NOW_MS: Final = 1_700_000_000_000


class DiskBroker:
    """One run of a broker on a file system in memory. `client` is a connection to it."""

    def __init__(self, fs: MemoryFileSystem, **configs: str) -> None:
        given = {name.replace("_", "."): value for name, value in configs.items()}
        settings = load_settings({"listeners": "PLAINTEXT://127.0.0.1:0", **given})
        self.fs = fs
        self.thread = BrokerThread(settings, DATA, fs=fs, shared_clock=None, faults=Faults())
        try:
            listener = self.thread.ready().listeners[0]
        except BaseException:
            self.thread.stop()
            raise
        self.client = WireClient((listener.host, listener.port))
        self._is_over = False

    def stop(self) -> None:
        self._end(self.thread.stop)

    def kill(self) -> None:
        """Nothing happens if it is stopped already."""
        if not self._is_over:
            self._end(self.thread.kill)

    def _end(self, end: Callable[[], None]) -> None:
        self._is_over = True
        self.client.close()
        end()

    # What a client does

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> ErrorCode:
        request = self.creation_of(name, partitions, **configs)
        return ErrorCode(self.client.ask("CreateTopics", 5, request).topics[0].error_code)

    def creation_of(self, name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
        rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        return CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], rows)])

    def produce(
        self, topic: str, value: bytes, *, index: int = 0, timestamp: int = NOW_MS, **details: Any
    ) -> PartitionProduceResponse:
        batch = bytes(build_batch([NewRecord(timestamp, b"key", value)], **details))
        rows = [TopicProduceData(topic, bytes(16), [PartitionProduceData(index, batch)])]
        answer = self.client.ask("Produce", 9, ProduceRequest(None, -1, 30_000, rows))
        row: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return row

    def code(self, topic: str, value: bytes = b"value", **details: Any) -> ErrorCode:
        return ErrorCode(self.produce(topic, value, **details).error_code)

    def read(self, topic: str, index: int = 0) -> list[Entry]:
        return read_back(self.client, topic, index)[1]

    def values(self, topic: str, index: int = 0) -> list[bytes]:
        return [entry.value for entry in self.read(topic, index)]

    # The disk

    def fill(self, *, leave_bytes: int = 0) -> None:
        """There is no more room than that."""
        self.fs.capacity_bytes = self.fs.used_bytes() + leave_bytes

    def make_room(self) -> None:
        self.fs.capacity_bytes = None


@contextmanager
def running(fs: MemoryFileSystem, **configs: str) -> Iterator[DiskBroker]:
    broker = DiskBroker(fs, **configs)
    try:
        yield broker
    finally:
        broker.kill()


def errors(records: Sequence[Any]) -> list[str]:
    """What was logged as an error."""
    return [record.getMessage() for record in records if record.levelname == "ERROR"]
