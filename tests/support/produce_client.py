"""A producer whose requests come as a test says: in one read, or one by one. Both must come to the same."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, cast

from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.frame import ReceiveBuffer
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.server.connection import Connection
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.sending import Outbox
from tests.support.log_batches import a_batch
from tests.support.one_node import OneNode

PARTITIONS = 3
VERSION = 12
PRODUCER = 7


class ReadySocket:
    """Gives what was put there in one read, and takes everything, or nothing."""

    def __init__(self) -> None:
        self.incoming = b""
        self.is_full = False
        self.sent: list[bytes] = []

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 50_000

    def fileno(self) -> int:
        return 99

    def recv_into(self, space: memoryview) -> int:
        size = len(self.incoming)
        space[:size] = self.incoming
        return size

    def send(self, data: bytes, _: int = 0) -> int:
        if self.is_full:
            raise BlockingIOError
        self.sent.append(bytes(data))
        return len(data)

    def getsockopt(self, *_: int) -> int:
        return 0

    def shutdown(self, _: int) -> None:
        pass

    def close(self) -> None:
        pass


class QuietLoop:
    """Calls back who wants to read, and what is asked for meanwhile."""

    def __init__(self) -> None:
        self.readable: Callable[[], None] | None = None
        self._soon: list[Callable[[], None]] = []

    def add_reader(self, _: int, callback: Callable[[], None]) -> None:
        self.readable = callback

    def remove_reader(self, _: int) -> None:
        self.readable = None

    def add_writer(self, *_: object) -> None:
        pass

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def turn(self) -> None:
        """Something can be read."""
        if self.readable is not None:
            self.readable()
        while self._soon:
            self._soon.pop(0)()


class Client:
    """A broker, and one connection to it over which requests come as a test says: together, or one by one."""

    def __init__(self, *, replicas: Sequence[int] = (1,), **configs: Any) -> None:
        self.node = OneNode(other_brokers=replicas[1:])
        self.topic_id = self.node.create_topic("t", PARTITIONS, replicas=replicas, **configs)
        self.sock, self.loop = ReadySocket(), QuietLoop()
        self.connection = Connection(
            cast("asyncio.AbstractEventLoop", self.loop),
            cast("socket.socket", self.sock),
            ReceiveBuffer(),
            Outbox(cast("asyncio.AbstractEventLoop", self.loop)),
            self.node.dispatcher.serve,
            read_ahead=ReadAhead(DiskReaders(cast("asyncio.AbstractEventLoop", self.loop))),
            listener="PLAINTEXT",
            max_frame_bytes=100_000,
            max_in_flight=1000,
            on_close=lambda _: None,
        )

    @property
    def fs(self) -> MemoryFileSystem:
        return cast("MemoryFileSystem", self.node.fs)

    def say(self, frames: Sequence[bytes]) -> bytes:
        """In one read; what is answered, as far as the connection stays open."""
        self.sock.sent.clear()
        self.sock.incoming = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        if frames:
            self.loop.turn()
        return b"".join(self.sock.sent)

    def say_one_by_one(self, frames: Sequence[bytes]) -> bytes:
        return b"".join([self.say([frame]) for frame in frames])

    def writes_for(self, frames: Sequence[bytes]) -> int:
        """How often something was written to a file, if they come together."""
        before = self.fs.steps
        self.say(frames)
        return self.fs.steps - before

    def known(self) -> object:
        """What each partition holds, what the log knows, and what it leaves on the disk."""
        found = []
        for index in range(PARTITIONS):
            log = self.node.partition("t", index).log
            high_watermark, end, failure = log.high_watermark, log.log_end_offset, log.failure
            producers = log.producers.to_snapshot(), [list(state.batches) for state in log.producers]
            if failure is None:
                log.close()
            names = self.fs.list_dir(log.directory)
            files = {name: self.fs.read_bytes(f"{log.directory}/{name}") for name in names}
            found.append((high_watermark, end, str(failure), producers, files))
        return found, self.connection.is_closed


def request(api: str, version: int, message: Any, number: int = 1) -> bytes:
    key = API_BY_NAME[api].key
    header = write_request_header(RequestHeader(key, version, number, "client"))
    return b"".join([header, *load(key).encode_request[version](message)])


def produce(
    batch: bytes | bytearray | None, *, partition: int = 0, acks: int = -1, number: int = 1, version: int = VERSION
) -> bytes:
    row = PartitionProduceData(partition, batch and bytes(batch))
    topic_id = OneNode().create_topic("t") if version >= 13 else bytes(16)
    topic = TopicProduceData("t", topic_id, [row])
    return request("Produce", version, ProduceRequest(None, acks, 1000, [topic]), number)


def of_producer(sequence: int, **how: Any) -> bytes:
    return produce(a_batch(b"p", producer=PRODUCER, sequence=sequence), **how)


def fetch(partition: int, number: int, *, offset: int = 0, max_wait_ms: int = 0) -> bytes:
    rows = [FetchPartition(partition, fetch_offset=offset, partition_max_bytes=500)]
    message = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic("t", partitions=rows)])
    return request("Fetch", 11, message, number)


def five(**how: Any) -> list[bytes]:
    return [produce(a_batch(b"value %d" % number), number=number, **how) for number in range(5)]


def both(**configs: Any) -> tuple[Client, Client]:
    """Each has seen requests to each partition: the next ones like them are known, and the logs take them quickly."""
    clients = Client(**configs), Client(**configs)
    for client in clients:
        for partition in range(PARTITIONS):
            for _ in range(2):
                client.say([produce(a_batch(b"first"), partition=partition)])
    return clients


def compare(frames: Sequence[bytes], *, together: Client, alone: Client) -> bytes:
    answers, expected = together.say(frames), alone.say_one_by_one(frames)
    assert answers == expected
    return answers


def spoil(frame: bytes, place: int, change: int) -> bytes:
    altered = bytearray(frame)
    altered[place % len(frame)] ^= change
    return bytes(altered)
