"""An idempotent producer that never gives up: pipelined, and after every broken connection it sends again what is open.

It does what the producers of Kafka's clients do with `enable.idempotence`: a producer id for life, sequence numbers per
partition, up to five requests in flight, and retries in the order of the first sending. What it did and what it was
told goes into a `History`. It runs in a thread of its own until it is told to finish, and everything is acknowledged.
"""

import threading
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch, iter_batches, read_records
from tests.support.histories import Entry, History
from tests.support.wire_client import Closed, WireClient

IN_FLIGHT: Final = 5
EARLIEST: Final = -2
START_MS: Final = 1_700_000_000_000
BATCH_INTERVAL_MS: Final = 1000  # by the records' clock: `segment.ms` then says after how many batches a log rolls
_PAUSE_SECONDS: Final = 0.005  # between attempts to connect
_VERSION: Final = 9
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class _Retry(Exception):  # noqa: N818 - no error: the next connection tries again
    pass


class _Batch:
    __slots__ = ("data", "partition", "values")

    def __init__(self, partition: int, values: Sequence[bytes], data: bytes) -> None:
        self.partition = partition
        self.values = values
        self.data = data


class RetryingProducer(threading.Thread):
    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        topic: str,
        history: History,
        *,
        partitions: int,
        acks: int,
        keys: int | None = None,
    ) -> None:
        """With `keys`, records have that many different keys in turn, for a compacted topic."""
        super().__init__(name=name, daemon=True)
        self._address = address
        self._topic = topic
        self._history = history
        self._acks = acks
        self._keys = keys
        self._random = Random(name)
        self._producer_id: int | None = None
        self._sequences = [0] * partitions
        self._number = 0
        self._open: deque[_Batch] = deque()  # sent, not acknowledged; in the order of sending
        self._is_finishing = False
        self.acknowledged = 0  # batches
        self.retries = 0  # connections that broke
        self.fault: str | None = None  # an answer that no producer should get

    def finish(self) -> None:
        """Send nothing new; end when all is acknowledged."""
        self._is_finishing = True

    @property
    def is_over(self) -> bool:
        return self.fault is not None or (self._is_finishing and not self._open)

    def run(self) -> None:
        pause = threading.Event()
        while not self.is_over:
            try:
                with WireClient(self._address) as client:
                    self._work(client)
            except (Closed, OSError, _Retry):
                self.retries += 1
                pause.wait(_PAUSE_SECONDS)

    def _work(self, client: WireClient) -> None:
        if self._producer_id is None:
            answer = client.ask("InitProducerId", 4, InitProducerIdRequest(None, 60_000, -1, -1))
            if answer.error_code:
                raise _Retry
            self._producer_id = answer.producer_id
        again = deque(self._open)
        in_flight: deque[tuple[int, _Batch]] = deque()
        while not self.is_over:
            while len(in_flight) < IN_FLIGHT and (again or not self._is_finishing):
                batch = again.popleft() if again else self._next()
                in_flight.append((self._send(client, batch), batch))
            self._take(client, *in_flight.popleft())

    def _next(self) -> _Batch:
        assert self._producer_id is not None
        partition = self._random.randrange(len(self._sequences))
        values = [b"%s/%d/%d" % (self.name.encode(), partition, self._number + each) for each in range(3)]
        records = []
        for value in values:
            key = None
            if self._keys is not None:
                assert isinstance(self._history.keys, dict)
                key = self._history.keys[value] = b"%s/%d" % (self.name.encode(), self._random.randrange(self._keys))
            records.append(NewRecord(START_MS + self._number * BATCH_INTERVAL_MS, key, value))
        data = build_batch(
            records, producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequences[partition]
        )
        self._number += len(values)
        self._sequences[partition] += len(values)
        self._history.attempted[self.name, partition] += values
        batch = _Batch(partition, values, bytes(data))
        self._open.append(batch)
        return batch

    def _send(self, client: WireClient, batch: _Batch) -> int:
        data = PartitionProduceData(batch.partition, batch.data)
        topic = TopicProduceData(self._topic, bytes(16), [data])
        return client.send("Produce", _VERSION, ProduceRequest(None, self._acks, 30_000, [topic]))

    def _take(self, client: WireClient, correlation_id: int, batch: _Batch) -> None:
        (row,) = client.receive("Produce", _VERSION, correlation_id).responses[0].partition_responses
        if row.error_code in _RETRIABLE:
            raise _Retry
        if row.error_code:
            self.fault = f"{ErrorCode(row.error_code).name} for {batch.values}: {row.error_message}"
            return
        assert self._open[0] is batch, "answers come in the order of requests"
        self._open.popleft()
        told = self._history.acknowledged[batch.partition]
        told += [(row.base_offset + each, value) for each, value in enumerate(batch.values)]
        self.acknowledged += 1


def read_back(client: WireClient, topic: str, partition: int) -> tuple[int, list[Entry]]:
    """All records of a partition as a consumer gets them, and where the log starts."""
    earliest = ListOffsetsPartition(partition, timestamp=EARLIEST)
    answer = client.ask("ListOffsets", 7, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [earliest])]))
    log_start: int = answer.topics[0].partitions[0].offset
    entries: list[Entry] = []
    offset = log_start
    while True:
        answer = fetch(client, topic, partition, offset)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        data = bytes(answer.records)
        if not data:
            assert offset >= answer.high_watermark, (
                f"nothing at {offset}, the high watermark is {answer.high_watermark}"
            )
            return log_start, entries
        for position, header in iter_batches(data):
            for record in read_records(data, position):
                if record.offset >= offset:
                    assert record.value is not None
                    entries.append(Entry(record.offset, record.value, record.key))
            offset = header.next_offset


def fetch(client: WireClient, topic: str, partition: int, offset: int) -> PartitionData:
    """What is there at this offset, without waiting."""
    wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic, partitions=[wanted])])
    found: PartitionData = client.ask("Fetch", 12, request).responses[0].partitions[0]
    return found
