"""A producer says the same again and again: what was understood once need not be decoded a second time.

Theory. Two Produce requests of one connection to the same partition differ in three things only: the correlation id,
the length of the records, and the records. Their answers differ in the correlation id and in offsets and times. So a
connection remembers, of requests with one batch that were answered well, what stood before the records, and what stood
around the numbers of the answer. A request that begins in the same way is checked for its length and its end, its batch
is appended, and the numbers are put into the answer.

Nothing that was decided is remembered: who leads the partition, what the topic takes and what the producer has sent
before is asked each time. Whatever is not quite the same, or may be refused, goes the long way, as if nobody had looked
at it: an append that is refused has written nothing, and is tried there once more, for the sake of its answer. Only a
disk that fails is not asked twice.

Requests of one read that go to one partition are written together (`produce_runs`, `log.run_append`), as far as nothing
is said against any of them; those that have one size, too, as a table (`even_requests`, `log.even_append`). All others,
and those of a write that has failed, are served one by one.

Bounds: a connection remembers MAX_REMEMBERED beginnings, none of them longer than MAX_BEGINNING_BYTES.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from headrace.log.append import NO_APPEND_TIME
from headrace.log.errors import StorageError
from headrace.protocol.apis import load
from headrace.protocol.batch import CONTROL_FLAG, LOG_OVERHEAD, TRANSACTIONAL_FLAG
from headrace.protocol.frame import Range
from headrace.protocol.header import response_header_version, write_response_header
from headrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.protocol.primitives import uvarint
from headrace.protocol.types import ZERO_UUID
from headrace.server.connection import Reply
from headrace.server.context import Context
from headrace.server.even_requests import ExpectedRequests
from headrace.server.known_produce import SIZE, KnownProduce, has_known_form
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition
from headrace.server.produce_runs import BEGINNING_AT, NO_TAGS, find_run

MAX_REMEMBERED: Final = 32
MAX_BEGINNING_BYTES: Final = 512
PRODUCE_KEY: Final = 0
_FLEXIBLE_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 13
_BATCH: Final = Struct(">8xi9xh")  # length, attributes
_NOT_HERE: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_NO_OFFSET: Final = -1
_NO_RUN: Final = (0, b"")
_MORE: Final = 0x80  # of a byte of a varint: another one follows


class RepeatedProduce:
    """What a connection remembers. All beginnings have one length, as those of one topic have: a new one forgets."""

    __slots__ = ("_by_beginning", "_expected", "_length_at", "_may_serve", "_now_ms", "_partition", "_read")

    def __init__(self, context: Context, may_serve: Callable[[], bool]) -> None:
        """`may_serve`: nobody wants to see each request now."""
        self._may_serve = may_serve
        self._partition = context.partitions.leader
        self._now_ms = context.clock.now_ms
        self._by_beginning: dict[bytes, KnownProduce] = {}
        self._expected = ExpectedRequests()
        self._length_at = BEGINNING_AT
        self._read = _reader_of(BEGINNING_AT)

    def serve(self, buffer: bytearray, view: memoryview, start: int, end: int) -> Reply | None:
        """The answer to the request in buffer[start:end]; None if it is not one of those, and must be decoded."""
        at = start + self._length_at
        if at + _BATCH.size >= end:
            return None
        api, correlation_id, beginning, length = self._read(buffer, start)
        known = self._by_beginning.get(beginning)
        if known is None or api != known.api:
            return None
        at += 1
        if length & _MORE:
            length, at = _rest_of_length(buffer, at, length)
        records_end = at + length - 1
        if records_end + len(NO_TAGS) != end or buffer[records_end:end] != NO_TAGS or at + _BATCH.size > records_end:
            return None
        size, attributes = _BATCH.unpack_from(buffer, at)
        if attributes & _NOT_HERE or at + LOG_OVERHEAD + size != records_end:
            return None
        partition = self._partition(known.topic, known.index)
        if type(partition) is not Partition or partition.flushes_every_append:
            return None
        try:
            result = partition.append(view[at:records_end], acks=known.acks, now_ms=self._now_ms())
        except StorageError as error:
            return _refusal(known, correlation_id, error)
        except LOG_ERRORS:
            return None
        behind = known.behind_offset(result[3], partition.log.log_start_offset)
        return [known.answer(correlation_id, result[0], behind)]

    def serve_run(self, buffer: bytearray, view: memoryview, frames: Sequence[Range]) -> tuple[int, bytes]:
        """How many of the first of these requests go to one partition, and were written together, and their answers.

        There may be none. A run of one is none: `serve` has less to do for it.
        """
        start, end = frames[0]
        next_start, next_end = frames[1]
        least = self._length_at + _BATCH.size
        if end - start <= least or next_end - next_start <= least:
            return _NO_RUN
        api, _, beginning, _ = self._read(buffer, start)
        if not buffer.startswith(beginning, next_start + BEGINNING_AT):  # requests to many partitions take turns
            return _NO_RUN
        known = self._by_beginning.get(beginning)
        if known is None or api != known.api or not self._may_serve():
            return _NO_RUN
        partition = self._partition(known.topic, known.index)
        if type(partition) is not Partition or not partition.takes_runs(known.acks):
            return _NO_RUN
        numbers, batches = find_run(buffer, view, frames, length_at=self._length_at, api=api, beginning=beginning)
        try:
            placed = partition.append_run(batches) if len(batches) > 1 else ()
        except StorageError:  # there may be room for some of them
            return _NO_RUN
        behind = known.behind_offset(NO_APPEND_TIME, partition.log.log_start_offset)
        answers = [
            known.answer(number, base_offset, behind)
            for number, (_, _, base_offset, _, _) in zip(numbers, placed, strict=False)  # those that were taken
        ]
        if len(answers) == len(frames):
            self._expected.learn(known, frames)
        return len(answers), b"".join(answers)

    def serve_even(self, buffer: bytearray, end: int) -> bytes:
        """The answers to all that is in buffer[:end], if it is like requests that came together before.

        None of them was served if there are no answers.
        """
        requests = self._expected.find(buffer, end)
        if requests is None or not self._may_serve():
            return b""
        known = requests.known
        partition = self._partition(known.topic, known.index)
        if type(partition) is not Partition or not partition.takes_runs(known.acks):
            return b""
        numbers = requests.numbers(buffer)
        try:
            offsets = partition.append_even(buffer, requests.batches) if numbers else None
        except StorageError:  # there may be room for some of them
            return b""
        return b"" if offsets is None else requests.answers(numbers, offsets, partition.log.log_start_offset)

    def learn(self, version: int, frame: memoryview, request: ProduceRequest, response: Any, answer: bytes) -> None:
        """`frame` was decoded to this, and answered with that. Remember it if the next one may be served from it."""
        if not _may_be_repeated(version, request, response):
            return
        ((name, topic_id, ((index, records, _),), _),) = request.topic_data
        ((_, _, (row,), _),) = response.responses
        size = 0 if records is None else len(records)
        length = uvarint(size + 1)
        length_at = len(frame) - len(NO_TAGS) - size - len(length)
        if (
            length_at > MAX_BEGINNING_BYTES
            or frame[length_at : length_at + len(length)] != length
            or not has_known_form(answer, row)
        ):
            return
        if length_at != self._length_at:
            self._by_beginning.clear()
            self._length_at = length_at
            self._read = _reader_of(length_at)
        if len(self._by_beginning) >= MAX_REMEMBERED:
            return
        api, _, beginning, _ = self._read(frame, 0)
        topic = topic_id if version >= _TOPIC_IDS_SINCE else name
        self._by_beginning[beginning] = KnownProduce(api, beginning, topic, index, request.acks, answer)


def _refusal(known: KnownProduce, correlation_id: int, error: StorageError) -> Reply:
    name, topic_id = (known.topic, ZERO_UUID) if isinstance(known.topic, str) else ("", known.topic)
    row = PartitionProduceResponse(known.index, code_of(error), _NO_OFFSET, error_message=str(error))
    response = ProduceResponse([TopicProduceResponse(name, topic_id, [row])])
    version = known.api & 0xFFFF
    header = write_response_header(correlation_id, response_header_version(PRODUCE_KEY, version))
    body = b"".join([header, *load(PRODUCE_KEY).encode_response[version](response)])
    return [SIZE.pack(len(body)) + body]


def _reader_of(length_at: int) -> Callable[[bytearray | memoryview, int], tuple[int, int, bytes, int]]:
    """What reads the API with its version, the correlation id, a beginning, and the first byte of the length."""
    return Struct(f">Ii{length_at - BEGINNING_AT}sB").unpack_from


def _may_be_repeated(version: int, request: ProduceRequest, response: Any) -> bool:
    """One batch outside of any transaction, written well, and nothing in the request that this broker does not know."""
    transactional_id, acks, _, topics, tags = request
    if version < _FLEXIBLE_SINCE or transactional_id is not None or not acks or tags or len(topics) != 1:
        return False
    if type(response) is not ProduceResponse or len(topics[0].partition_data) != 1 or topics[0].unknown_tags:
        return False
    answered = response.responses[0].partition_responses[0]
    return not answered.error_code and not topics[0].partition_data[0].unknown_tags


def _rest_of_length(buffer: bytearray, at: int, first: int) -> tuple[int, int]:
    """A varint that is longer than its first byte, and where it ends. What is no varint is no length either."""
    second = buffer[at]
    if second < _MORE:
        return first & 0x7F | second << 7, at + 1
    third = buffer[at + 1]
    if third < _MORE:
        return first & 0x7F | (second & 0x7F) << 7 | third << 14, at + 2
    return 0, at  # more than 2 MB: whoever sends that has time for the long way
