"""A consumer asks the same again and again: what was understood once need not be decoded a second time.

Theory. Two Fetch requests of one connection for the same partition, outside of sessions, differ in two things only: the
correlation id and the offset. Their answers differ in the correlation id, in three offsets, and in the records. So a
connection remembers what stood around the offset of the last request for one partition, and what stands around the
numbers of an answer. A request that is like it finds its records by one look into the log. At the end of the log, where
a consumer that keeps up always is, it waits as a `_Tail`: an append that is news for it is answered on the spot.

Nothing that was decided is remembered: who leads the partition, and how far may be read, is asked each time. Whatever
is not quite the same, or has anything else than records for an answer, goes the long way, as if nobody had looked at
it: so does a tail whose partition has moved, then without waiting any longer.

A request whose bytes are not those that we would write is not remembered; where its offset stands is found by writing
it a second time with another one.

Bounds: MAX_REQUEST_BYTES. After MAX_TRIES requests that were remembered in vain, a connection does without.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from headrace.log.slices import EMPTY, LogSlice
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import response_header_version, write_response_header
from headrace.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.protocol.primitives import uvarint
from headrace.server.clock import Timer
from headrace.server.commit_batch import differences
from headrace.server.connection import Connection, Reply
from headrace.server.context import Context
from headrace.server.fetch_sessions import NO_EPOCH, NO_SESSION
from headrace.server.later import Later, as_later
from headrace.server.log_errors import LOG_ERRORS
from headrace.server.partition import ANY_EPOCH, Partition

MAX_REQUEST_BYTES: Final = 512
MAX_TRIES: Final = 8
FETCH_KEY: Final = API_BY_NAME["Fetch"].key
_FLEXIBLE_SINCE: Final = 12
_TOPIC_IDS_SINCE: Final = 13
_HEAD_BYTES: Final = 8  # of a request: the API's key, its version, and the correlation id
_OFFSET: Final = Struct(">q")
_NUMBER_BYTES: Final = 4  # of a correlation id
_ZEROS: Final = 0  # an offset, and another one that differs from it in each byte
_ONES: Final = -1
_OFFSETS: Final = Struct(">qqq")  # of an answer: high watermark, last stable offset, log start offset
_BEHIND_OFFSETS_BYTES: Final = 5  # no aborted transactions, no other replica to read from
_NO_RECORDS: Final = b"\x01"  # their length, plus one
_READ_COMMITTED: Final = 1
_NO_REPLICA: Final = -1
_NO_LEADER_EPOCH: Final = -1
_NOT_HERE: Final = (None, EMPTY)

# Serve a request of this connection as any other one.
LongWay: TypeAlias = Callable[[Connection, bytes], "Reply | Later[Reply] | None"]


class _Remembered:
    """One request: how to read the next one like it, what it asks for, and what is said then."""

    __slots__ = (
        "_around_offsets",
        "_behind_records",
        "_fixed_bytes",
        "_hurried",
        "_pack",
        "after",
        "api",
        "before",
        "index",
        "is_committed",
        "leader_epoch",
        "max_bytes",
        "max_wait_ms",
        "read",
        "size",
        "topic",
    )

    def __init__(self, version: int, frame: bytes, hurried: bytes, offset_at: int, request: FetchRequest) -> None:
        """`hurried` is the same request without any time to wait."""
        ((name, topic_id, (row,), _),) = request.topics
        self.size = len(frame)
        layout = Struct(f">Ii{offset_at - _HEAD_BYTES}sq{len(frame) - offset_at - _OFFSET.size}s")
        self.read = layout.unpack_from
        self.api, _, self.before, _, self.after = self.read(frame)
        self._hurried = layout.pack, hurried[_HEAD_BYTES:offset_at]
        self.topic = topic_id if version >= _TOPIC_IDS_SINCE else name
        self.index = row.partition
        self.leader_epoch = row.current_leader_epoch
        self.is_committed = request.isolation_level == _READ_COMMITTED
        self.max_bytes = min(request.max_bytes, max(row.partition_max_bytes, 0))
        self.max_wait_ms = request.max_wait_ms
        answer = _empty_answer(version, request, _ZEROS)
        offsets_at = next(differences(answer, _empty_answer(version, request, _ONES)))
        length_at = offsets_at + _OFFSETS.size + _BEHIND_OFFSETS_BYTES
        assert answer[length_at : length_at + 1] == _NO_RECORDS, f"no length of records at {length_at} of {answer!r}"
        self._around_offsets = answer[_NUMBER_BYTES:offsets_at], answer[offsets_at + _OFFSETS.size : length_at]
        self._behind_records = answer[length_at + 1 :]
        self._fixed_bytes = len(answer) - 1
        self._pack = Struct(f">ii{offsets_at - _NUMBER_BYTES}sqqq{_BEHIND_OFFSETS_BYTES}s").pack

    def answer(self, correlation_id: int, partition: Partition, records: LogSlice) -> Reply:
        log = partition.log
        size = len(records)
        length = uvarint(size + 1)
        before, behind = self._around_offsets
        head = self._pack(
            self._fixed_bytes + len(length) + size,
            correlation_id,
            before,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            behind,
        )
        return [head + length, records, self._behind_records]

    def hurried(self, correlation_id: int, offset: int) -> bytes:
        """The same request, which wants an answer at once."""
        pack, before = self._hurried
        return pack(self.api, correlation_id, before, offset, self.after)


class RepeatedFetch:
    """What a connection remembers of its fetches."""

    __slots__ = ("_known", "_partition", "_sessions", "_tries", "clock", "long_way")

    def __init__(self, context: Context, long_way: LongWay) -> None:
        self._partition = context.partitions.leader
        self._sessions = context.fetch_sessions
        self.clock = context.clock
        self.long_way = long_way
        self._known: _Remembered | None = None
        self._tries = 0  # since the last request that was served from what is remembered

    def serve(self, connection: Connection, buffer: bytearray, start: int, end: int) -> Reply | Later[Reply] | None:
        """The answer to the request in buffer[start:end]; None if it is not one of those, and must be decoded."""
        known = self._known
        if known is None or end - start != known.size:
            return None
        api, correlation_id, before, offset, after = known.read(buffer, start)
        if before != known.before or after != known.after or api != known.api:
            return None
        partition, records = self.find(known, offset)
        if partition is None:
            return None
        self._tries = 0
        if records.size_bytes:
            return known.answer(correlation_id, partition, records)
        return _Tail(self, connection, known, partition, offset, correlation_id).later

    def find(self, known: _Remembered, offset: int) -> tuple[Partition | None, LogSlice]:
        """The records from `offset` on, if there are any yet; no partition if there is something else to tell."""
        partition = self._partition(known.topic, known.index)
        if type(partition) is not Partition:
            return _NOT_HERE
        if known.leader_epoch != ANY_EPOCH and known.leader_epoch != partition.leader_epoch:
            return _NOT_HERE
        log = partition.log
        end_offset = log.last_stable_offset if known.is_committed else log.high_watermark
        max_bytes = min(known.max_bytes, self._sessions.max_response_bytes)
        try:
            records = log.read(offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one_batch=True)
            if known.is_committed and partition.aborted_within(records, offset, end_offset):
                return _NOT_HERE
        except LOG_ERRORS:
            return _NOT_HERE
        return partition, records

    def learn(self, version: int, frame: memoryview, body_at: int, request: FetchRequest) -> None:
        """`frame` was decoded to this. Remember it if the next one may be served from it."""
        if (
            version < _FLEXIBLE_SINCE
            or self._tries >= MAX_TRIES
            or len(frame) > MAX_REQUEST_BYTES
            or not _may_be_repeated(request)
        ):
            return
        self._tries += 1
        self._known = None
        encode = load(FETCH_KEY).encode_request[version]
        if frame[body_at:] != b"".join(encode(request)):
            return
        zeros, ones = (b"".join(encode(_with_offset(request, offset))) for offset in (_ZEROS, _ONES))
        offset_at = body_at + next(differences(zeros, ones))
        hurried = b"".join([frame[:body_at], *encode(request._replace(max_wait_ms=0))])
        self._known = _Remembered(version, bytes(frame), hurried, offset_at, request)


class _Tail:
    """A fetch that waits at the end of a log."""

    __slots__ = (
        "_connection",
        "_correlation_id",
        "_fetches",
        "_known",
        "_offset",
        "_partition",
        "_timer",
        "later",
    )

    def __init__(
        self,
        fetches: RepeatedFetch,
        connection: Connection,
        known: _Remembered,
        partition: Partition,
        offset: int,
        correlation_id: int,
    ) -> None:
        self._fetches = fetches
        self._connection = connection
        self._known = known
        self._partition = partition
        self._offset = offset
        self._correlation_id = correlation_id
        self.later: Later[Reply] = Later()
        self.later.on_abandon(self._leave)
        partition.watchers[self] = None
        self._timer: Timer = fetches.clock.call_later(known.max_wait_ms, self._time_is_up)

    def tell(self, _: int) -> None:
        """There is news, of whatever size: this fetch waits for a single byte."""
        partition, records = self._fetches.find(self._known, self._offset)
        if records.size_bytes or partition is not self._partition:
            self._answer(partition, records)

    def _time_is_up(self) -> None:
        self._answer(*self._fetches.find(self._known, self._offset))

    def _answer(self, partition: Partition | None, records: LogSlice) -> None:
        # The consumer waits for it: whatever else is to be done comes afterwards.
        if partition is self._partition:
            self.later.resolve(self._known.answer(self._correlation_id, self._partition, records))
        else:
            request = self._known.hurried(self._correlation_id, self._offset)
            reply = self._fetches.long_way(self._connection, request)
            as_later(reply or []).then(self.later.resolve)
        self._leave()

    def _leave(self) -> None:
        self._partition.watchers.pop(self, None)
        self._timer.cancel()


def _may_be_repeated(request: FetchRequest) -> bool:
    """One partition, outside of any session, for a consumer that wants whatever is there, or waits for it."""
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or request.forgotten_topics_data:
        return False
    return (
        request.replica_id == request.replica_state.replica_id == _NO_REPLICA
        and (request.session_id, request.session_epoch) == (NO_SESSION, NO_EPOCH)
        and request.min_bytes == 1
        and request.max_wait_ms > 0
        and topics[0].partitions[0].last_fetched_epoch == _NO_LEADER_EPOCH
    )


def _with_offset(request: FetchRequest, offset: int) -> FetchRequest:
    (topic,) = request.topics
    rows = [row._replace(fetch_offset=offset) for row in topic.partitions]
    return request._replace(topics=[topic._replace(partitions=rows)])


def _empty_answer(version: int, request: FetchRequest, offset: int) -> bytes:
    """Without records, and with this for each of its offsets."""
    ((name, topic_id, (row,), _),) = request.topics
    aborted: list[AbortedTransaction] | None = [] if request.isolation_level == _READ_COMMITTED else None
    found = PartitionData(row.partition, 0, offset, offset, offset, aborted_transactions=aborted, records=b"")
    response = FetchResponse(responses=[FetchableTopicResponse(name, topic_id, [found])])
    header = write_response_header(0, response_header_version(FETCH_KEY, version))
    return b"".join([header, *load(FETCH_KEY).encode_response[version](response)])
