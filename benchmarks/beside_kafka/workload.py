"""What one connection of a load says and must hear, built before anything is measured.

All requests of a connection have one size, and all right answers have one size and, but for an offset, the same bytes;
that of a commit has no offset.
So an answer is checked by two comparisons, and its offset must be the one that is due: every error code, every length,
and every acknowledgement counts. Of a batch that is fetched the header is checked; the records behind it are thrown
away by the kernel, since copying them would cost as much as sending them. The load generator uses the requests and the
checks; the sink, which answers without doing anything, uses the answers.
"""

import json
import time
from dataclasses import KW_ONLY, asdict, dataclass, field
from itertools import cycle, islice
from struct import Struct
from typing import Any, Final, Self

from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.batch import HEADER_SIZE
from headrace.protocol.header import response_header_version, write_request_header, write_response_header
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.protocol.records import NewRecord, build_batch

PRODUCE_VERSION: Final = 10  # librdkafka's
FETCH_VERSION: Final = 16
COMMIT_VERSION: Final = 9
ACKS_ALL: Final = -1
_CORRELATION_ID: Final = 7
_TIMEOUT_MS: Final = 60_000
_OFFSET: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_FIRST_EPOCH: Final = bytes(4)
_MARK: Final = 0x4142434445464748  # an offset that is easily found in a template


class WrongAnswerError(Exception):
    """The broker did not say what it had to say: nothing that was measured counts."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`connections` connections, each with a partition of its own and `in_flight` requests on their way.

    It ends after `seconds`, or, if that is 0, when each has made its `requests`. A fetch asks for the `batches` of its
    partition one after the other, again and again.
    """

    kind: str  # produce, fetch or commit
    _: KW_ONLY
    batch_bytes: int
    connections: int
    in_flight: int
    port: int = 0
    topic: str = ""
    topic_id: str = ""  # in hex
    seconds: float = 0.0
    requests: int = 0
    batches: int = 0
    timestamp_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)  # old records would be deleted

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def talk(self, partition: int) -> "ProduceTalk | FetchTalk | CommitTalk":
        match self.kind:
            case "produce":
                return ProduceTalk(self, partition)
            case "fetch":
                return FetchTalk(self, partition)
        return CommitTalk(self, partition)


def batch_of(size_bytes: int, timestamp_ms: int) -> bytes:
    """One record in a batch of exactly so many bytes."""
    for value_bytes in range(size_bytes - HEADER_SIZE, 0, -1):
        batch = build_batch([NewRecord(timestamp_ms, None, bytes(value_bytes))])
        if len(batch) == size_bytes:
            return bytes(batch)
    raise ValueError(f"no batch has {size_bytes} bytes")


def request_frame(api: str, version: int, message: Any) -> bytes:
    key = API_BY_NAME[api].key
    header = write_request_header(RequestHeader(key, version, _CORRELATION_ID, "rdkafka"))
    return _framed(b"".join([header, *load(key).encode_request[version](message)]))


def response_frame(api: str, version: int, message: Any) -> bytes:
    key = API_BY_NAME[api].key
    header = write_response_header(_CORRELATION_ID, response_header_version(key, version))
    return _framed(b"".join([header, *load(key).encode_response[version](message)]))


def _framed(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content


class _Talk:
    """What both kinds share: the template of an answer, where its offset stands, and how much of it is checked."""

    def __init__(self, template: bytes, head_bytes: int) -> None:
        mark = _OFFSET.pack(_MARK)
        assert template.count(mark) == 1, "an answer has one offset"
        self._offset_at = template.index(mark)
        self._before = template[: self._offset_at]
        self._after = template[self._offset_at + len(mark) : head_bytes]
        self._answer = bytearray(template)
        self.head_bytes = head_bytes
        self.rest_bytes = len(template) - head_bytes

    def _offset_of(self, buffer: bytearray, at: int) -> int:
        """The offset in the answer at `at`, all the rest of which is as it must be. Raises WrongAnswerError."""
        offset_at = at + self._offset_at
        if not (buffer.startswith(self._before, at) and buffer.startswith(self._after, offset_at + _OFFSET.size)):
            seen = bytes(buffer[at : at + self.head_bytes])
            raise WrongAnswerError(
                f"{seen.hex(' ')}, and due was {self._before.hex(' ')} OFFSET {self._after.hex(' ')}"
            )
        (offset,) = _OFFSET.unpack_from(buffer, offset_at)
        return int(offset)

    def answer(self, offset: int) -> bytearray:
        """Valid until the next one."""
        _OFFSET.pack_into(self._answer, self._offset_at, offset)
        return self._answer


class ProduceTalk(_Talk):
    """One batch per request, acks=all; each is acknowledged with the offset that follows the one before."""

    def __init__(self, workload: Workload, partition: int) -> None:
        topic = workload.topic
        row = PartitionProduceData(partition, batch_of(workload.batch_bytes, workload.timestamp_ms))
        message = ProduceRequest(None, ACKS_ALL, _TIMEOUT_MS, [TopicProduceData(topic, partition_data=[row])])
        frame = request_frame("Produce", PRODUCE_VERSION, message)
        self.request_bytes = len(frame)
        self._bursts = [memoryview(frame * count) for count in range(workload.in_flight + 1)]
        answer = PartitionProduceResponse(partition, base_offset=_MARK, log_append_time_ms=-1, log_start_offset=0)
        response = ProduceResponse([TopicProduceResponse(topic, partition_responses=[answer])])
        template = response_frame("Produce", PRODUCE_VERSION, response)
        super().__init__(template, head_bytes=len(template))
        self._next_offset = -1  # unknown before the first answer: the partition may hold something already
        self._answered = 0

    def requests(self, count: int) -> memoryview:
        return self._bursts[count]

    def check(self, buffer: bytearray, at: int) -> None:
        """Raises WrongAnswerError."""
        offset = self._offset_of(buffer, at)
        if offset != self._next_offset and self._next_offset >= 0:
            raise WrongAnswerError(f"offset {offset}, and {self._next_offset} was due")
        self._next_offset = offset + 1

    def answers(self, count: int) -> bytes | bytearray:
        first = self._answered
        self._answered += count
        return b"".join([bytes(self.answer(offset)) for offset in range(first, first + count)])


class FetchTalk(_Talk):
    """One batch per request, the next one each time."""

    def __init__(self, workload: Workload, partition: int) -> None:
        topic_id, size = bytes.fromhex(workload.topic_id), workload.batch_bytes
        frames = [
            request_frame("Fetch", FETCH_VERSION, _fetch(topic_id, partition, offset, size))
            for offset in range(workload.batches)
        ]
        self.request_bytes = len(frames[0])
        self._frames = cycle(frames)
        batch = batch_of(size, workload.timestamp_ms)
        records = _OFFSET.pack(_MARK) + batch[8:12] + _FIRST_EPOCH + batch[16:]  # as a broker stamps it
        row = PartitionData(
            partition, 0, workload.batches, workload.batches, 0, aborted_transactions=None, records=records
        )
        topics = [FetchableTopicResponse(topic_id=topic_id, partitions=[row])]
        template = response_frame("Fetch", FETCH_VERSION, FetchResponse(responses=topics))
        super().__init__(template, head_bytes=template.index(records) + HEADER_SIZE)
        self._due = cycle(range(workload.batches))
        self._answered = cycle(range(workload.batches))

    def requests(self, count: int) -> memoryview:
        return memoryview(b"".join(islice(self._frames, count)))

    def check(self, buffer: bytearray, at: int) -> None:
        """Raises WrongAnswerError."""
        offset, due = self._offset_of(buffer, at), next(self._due)
        if offset != due:
            raise WrongAnswerError(f"a batch with offset {offset}, and {due} was asked for")

    def answers(self, count: int) -> bytes | bytearray:
        if count == 1:
            return self.answer(next(self._answered))
        return b"".join([bytes(self.answer(offset)) for offset in islice(self._answered, count)])


class CommitTalk:
    """One offset of one partition per request, by a group of its own that has no members."""

    rest_bytes: Final = 0

    def __init__(self, workload: Workload, partition: int) -> None:
        topic = workload.topic
        committed = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(partition, 1_000_000)])]
        frame = request_frame(
            "OffsetCommit", COMMIT_VERSION, OffsetCommitRequest(f"group-{partition}", topics=committed)
        )
        self.request_bytes = len(frame)
        self._bursts = [memoryview(frame * count) for count in range(workload.in_flight + 1)]
        taken = [OffsetCommitResponseTopic(topic, partitions=[OffsetCommitResponsePartition(partition)])]
        self._answer = response_frame("OffsetCommit", COMMIT_VERSION, OffsetCommitResponse(topics=taken))
        self.head_bytes = len(self._answer)

    def requests(self, count: int) -> memoryview:
        return self._bursts[count]

    def check(self, buffer: bytearray, at: int) -> None:
        """Raises WrongAnswerError."""
        if not buffer.startswith(self._answer, at):
            seen = bytes(buffer[at : at + self.head_bytes])
            raise WrongAnswerError(f"{seen.hex(' ')}, and due was {self._answer.hex(' ')}")

    def answer(self, _: int) -> bytearray:
        return bytearray(self._answer)

    def answers(self, count: int) -> bytes | bytearray:
        return self._answer * count


def _fetch(topic_id: bytes, partition: int, offset: int, max_bytes: int) -> FetchRequest:
    rows = [FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)]
    topics = [FetchTopic(topic_id=topic_id, partitions=rows)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=topics)
