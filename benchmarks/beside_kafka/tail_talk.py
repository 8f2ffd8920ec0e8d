"""What a consumer says and hears at the end of a log, where one record after the other comes: prebuilt.

A request differs from the one before in its offset, and so does the answer, nearly always: the next record alone, whose
offset stands in it three times. Such an answer is checked by one comparison, of every byte. Whatever else comes (two
records at once, none because time is up, an error) goes to the general decoder, which tells what it is.
"""

from struct import Struct
from typing import Final

from benchmarks.beside_kafka.workload import (
    FETCH_VERSION,
    Workload,
    WrongAnswerError,
    batch_of,
    request_frame,
    response_frame,
)
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.errors import ProtocolError
from headrace.protocol.header import read_response_header, response_header_version
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headrace.protocol.records import iter_batches

MAX_BYTES: Final = 1 << 20
MAX_WAIT_MS: Final = 500
_FETCH_KEY: Final = API_BY_NAME["Fetch"].key
_OFFSET: Final = Struct(">q")
_SIZE_BYTES: Final = 4
_FIRST_EPOCH: Final = bytes(4)
_NUMBERS: Final = tuple(0x4142434445464700 + each for each in range(3))  # easily found in a template


class TailTalk:
    """One consumer of partition 0, from its first offset on."""

    def __init__(self, workload: Workload) -> None:
        topic_id = bytes.fromhex(workload.topic_id)
        first, second, third = _NUMBERS
        row = FetchPartition(0, fetch_offset=first, partition_max_bytes=MAX_BYTES)
        topics = [FetchTopic(topic_id=topic_id, partitions=[row])]
        request = FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=MAX_BYTES, topics=topics)
        self._request = bytearray(request_frame("Fetch", FETCH_VERSION, request))
        self._request_offset_at = _place_of(first, self._request)
        batch = batch_of(workload.batch_bytes, workload.timestamp_ms)
        records = _OFFSET.pack(first) + batch[8:12] + _FIRST_EPOCH + batch[16:]  # as a broker stamps it
        found = PartitionData(0, 0, second, third, 0, aborted_transactions=None, records=records)
        response = FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id, partitions=[found])])
        self._answer = bytearray(response_frame("Fetch", FETCH_VERSION, response))
        self._base_offset_at, self._high_watermark_at, self._stable_offset_at = (
            _place_of(number, self._answer) for number in _NUMBERS
        )
        self.request_bytes = len(self._request)
        self._next_offset = 0
        self._due()

    def _due(self) -> None:
        """The next request, and its answer."""
        offset = self._next_offset
        _OFFSET.pack_into(self._request, self._request_offset_at, offset)
        _OFFSET.pack_into(self._answer, self._base_offset_at, offset)
        _OFFSET.pack_into(self._answer, self._high_watermark_at, offset + 1)
        _OFFSET.pack_into(self._answer, self._stable_offset_at, offset + 1)

    @property
    def request(self) -> bytearray:
        """For the records that are due. Valid until the next answer is taken."""
        return self._request

    @property
    def answer(self) -> bytearray:
        """The one with the next record alone. Valid until it is taken."""
        return self._answer

    def take(self, answer: bytes | bytearray) -> int:
        """A whole frame: how many records it brings, which are those that are due. Raises WrongAnswerError."""
        count = 1 if answer == self._answer else self._decode(answer)
        self._next_offset += count
        self._due()
        return count

    def _decode(self, answer: bytes | bytearray) -> int:
        """How many records an answer of any shape has. Raises WrongAnswerError."""
        try:
            header_version = response_header_version(_FETCH_KEY, FETCH_VERSION)
            _, position = read_response_header(answer, _SIZE_BYTES, len(answer), header_version)
            decode = load(_FETCH_KEY).decode_response[FETCH_VERSION]
            response = decode(answer, memoryview(answer), position, len(answer))
        except ProtocolError as error:
            raise WrongAnswerError(f"{error}: {bytes(answer).hex(' ')}") from error
        rows = [row for topic in response.responses for row in topic.partitions]
        codes = [response.error_code, *(row.error_code for row in rows)]
        if any(codes) or len(rows) != 1:
            raise WrongAnswerError(f"a fetch failed: error codes {codes}")
        offsets = [header.base_offset for _, header in iter_batches(rows[0].records)]
        if offsets != list(range(self._next_offset, self._next_offset + len(offsets))):
            raise WrongAnswerError(f"offsets {offsets}, and {self._next_offset} was due")
        return len(offsets)


def _place_of(number: int, template: bytearray) -> int:
    mark = _OFFSET.pack(number)
    assert template.count(mark) == 1, "each number stands once in a template"
    return template.index(mark)
