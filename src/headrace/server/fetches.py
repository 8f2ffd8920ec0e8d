"""One fetch on its way: look at the partitions, and answer, or park and look again when there is news.

The records of an answer are slices of log files: a look costs an index look-up for each partition, and no record is
read before the connection sends it. A fetch never takes more than the client and the broker allow (`max_bytes`), but
for the first batch, which is sent whatever its size, or a consumer could get stuck before it.

A fetch that is too much for a quota is answered with nothing but how long to wait; whatever was found stays to be told.

An answer tells about all partitions, or, within a session, only about those with news. Of the latter, those that got
records go to the end of the row: where the limit leaves some out, they are the first the next time.
"""

from typing import Final

from headrace.cluster.image import Image
from headrace.log.epochs import UNKNOWN_OFFSET
from headrace.log.errors import OffsetOutOfRangeError
from headrace.protocol.apis import load
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import DEFAULT_EPOCH_END_OFFSET as NO_DIVERGENCE
from headrace.protocol.messages.fetch import DEFAULT_LEADER_ID_AND_EPOCH as NO_LEADER
from headrace.protocol.messages.fetch import DEFAULT_SNAPSHOT_ID as NO_SNAPSHOT
from headrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from headrace.protocol.primitives import new
from headrace.protocol.types import ZERO_UUID
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import NO_SESSION, FetchSession
from headrace.server.later import Later
from headrace.server.leader_hints import leader_of, nodes
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition
from headrace.server.waiters import Parked, Watch, Watched

TOPIC_IDS_SINCE: Final = 13
_READ_COMMITTED: Final = 1
_REDIRECTS_SINCE: Final = 16
_ZSTD_SINCE: Final = 10  # older clients cannot read it
_REDIRECTED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NO_OFFSET: Final = -1
_NO_REPLICA: Final = -1
_FETCH_KEY: Final = 1
_CORRELATION_ID_BYTES: Final = 4
_NO_LIMIT_BYTES: Final = 1 << 62


class Fetch:
    __slots__ = (
        "_committed",
        "_ctx",
        "_has_errors",
        "_is_follower",
        "_is_unusual",
        "_later",
        "_max_bytes",
        "_parked",
        "_request",
        "_rows",
        "_session",
        "_wants_session",
        "_watch",
    )

    def __init__(
        self,
        request: FetchRequest,
        ctx: RequestContext,
        watch: Watch,
        session: FetchSession | None,
        *,
        wants_session: bool,
    ) -> None:
        self._request = request
        self._ctx = ctx
        self._watch = watch
        self._session = session  # None: tell about all partitions
        self._wants_session = wants_session
        self._committed = request.isolation_level == _READ_COMMITTED
        self._max_bytes = min(request.max_bytes, ctx.broker.fetch_sessions.max_response_bytes)
        if ctx.meter is not None:
            self._max_bytes = min(self._max_bytes, ctx.meter.max_fetch_bytes)
        self._is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
        self._is_unusual = self._is_follower or ctx.version < _ZSTD_SINCE
        self._rows: list[tuple[Watched, PartitionData]] = []
        self._has_errors = False
        self._later: Later[FetchResponse] | None = None  # while it waits
        self._parked: Parked | None = None

    def answer(self) -> FetchResponse | Later[FetchResponse]:
        request, watch = self._request, self._watch
        missing_bytes = self._look()
        if missing_bytes <= 0 or request.max_wait_ms <= 0 or not watch.partitions:
            return self._finish()
        return self._park(missing_bytes)

    # Waiting

    def _park(self, missing_bytes: int) -> Later[FetchResponse]:
        later = self._later = Later()
        later.on_abandon(self._leave)
        for watched, _ in self._rows:
            partition = self._ctx.broker.partitions.leader(watched.topic, watched.index)
            if isinstance(partition, Partition):
                watched.attach(partition)
        self._parked = Parked(
            self._watch,
            missing_bytes=missing_bytes,
            clock=self._ctx.broker.clock,
            max_wait_ms=self._request.max_wait_ms,
            look=self._look_again,
            refuse=lambda code: later.resolve(FetchResponse(error_code=code)),
        )
        return later

    def _look_again(self, time_is_up: bool) -> bool:
        assert self._parked is not None
        assert self._later is not None
        missing_bytes = self._look()
        if missing_bytes > 0 and not time_is_up:
            self._parked.missing_bytes = missing_bytes
            return False
        later, self._later, self._parked = self._later, None, None
        later.resolve(self._finish())
        return True

    def _leave(self) -> None:
        assert self._parked is not None
        parked, self._later, self._parked = self._parked, None, None
        parked.leave()
        if self._session is None:
            self._watch.close()

    # Looking

    def _look(self) -> int:
        """Look at what may have news. How many bytes are missing before an answer is due; 0 or less: none."""
        request, watch = self._request, self._watch
        room = self._max_bytes
        size = 0
        has_errors = is_cut_short = False
        rows = self._rows = []
        is_incremental = self._session is not None
        for watched in list(watch.ready) if is_incremental else watch.partitions.values():
            row = self._read(watched, max(0, room - size), is_first=size == 0)
            records = row[10]
            size += len(records)
            if row[1] or row[5] is not NO_DIVERGENCE:
                has_errors = True
            elif is_incremental and not records and not _has_news(watched, row):
                # What only did not fit into this answer stays ready for the next.
                if watched.fetch_offset >= (row.last_stable_offset if self._committed else row.high_watermark):
                    self._settle(watched)
                else:
                    is_cut_short = True
                continue
            rows.append((watched, row))
            if size >= room and is_incremental:
                break
        self._has_errors = has_errors
        if has_errors:
            return 0
        # More than there is room for can never come: then whatever is there is enough.
        missing_bytes = (request.min_bytes if request.min_bytes <= room else 1) - size
        if missing_bytes > 0 and size and (is_cut_short or any(self._is_cut_short(*row) for row in rows)):
            return 0
        # Any append may end a transaction and so uncover much more than its own size.
        return min(missing_bytes, 1) if self._committed else missing_bytes

    def _is_cut_short(self, watched: Watched, row: PartitionData) -> bool:
        """Do more records follow those of the row? Kafka sends a part of a batch then, and answers at once, too."""
        end_offset = row.last_stable_offset if self._committed else row.high_watermark
        partition = self._ctx.broker.partitions.leader(watched.topic, watched.index)
        if watched.fetch_offset >= end_offset or type(partition) is not Partition:
            return False
        log = partition.log
        if log.segments.index_of(watched.fetch_offset) < len(log.segments) - 1:
            return True  # a slice lies in one segment; the next fetch gets what is in the others
        try:
            all_records = log.read(watched.fetch_offset, max_bytes=_NO_LIMIT_BYTES, end_offset=end_offset)
        except LOG_ERRORS:
            return False  # the next look will tell
        return len(all_records) > len(row.records)

    def _settle(self, watched: Watched) -> None:
        """There is nothing to tell about it until the partition says so."""
        partition = self._ctx.broker.partitions.leader(watched.topic, watched.index)
        assert isinstance(partition, Partition), partition
        watched.attach(partition)
        del self._watch.ready[watched]

    def _read(self, watched: Watched, max_bytes: int, *, is_first: bool) -> PartitionData:
        partition = self._ctx.broker.partitions.leader(watched.topic, watched.index)
        if type(partition) is not Partition:
            return self._error(watched, partition)  # type: ignore[arg-type]
        code = partition.check_epoch(watched.current_leader_epoch)
        if self._is_unusual and not code:
            code = self._check(partition)
        if code:
            return self._error(watched, code)
        log = partition.log
        fetch_offset = watched.fetch_offset
        divergence = NO_DIVERGENCE
        aborted = None
        try:
            if watched.last_fetched_epoch >= 0:
                divergence = _divergence(partition, watched)
            stable_offset = log.last_stable_offset
            end_offset = stable_offset if self._committed else log.high_watermark
            records = log.read(
                fetch_offset,
                max_bytes=min(watched.max_bytes, max_bytes),
                # Nothing behind the point where the logs part ways is of use.
                end_offset=end_offset if divergence is NO_DIVERGENCE else fetch_offset,
                at_least_one_batch=is_first,
            )
            if self._committed:
                aborted = [
                    AbortedTransaction(each.producer_id, each.first_offset)
                    for each in partition.aborted_within(records, fetch_offset, end_offset)
                ]
        except LOG_ERRORS as error:
            return self._error(watched, code_of(error))
        return new(
            PartitionData,
            (
                watched.index,
                0,
                log.high_watermark,
                stable_offset,
                log.log_start_offset,
                divergence,
                NO_LEADER,
                NO_SNAPSHOT,
                aborted,
                _NO_REPLICA,
                records,
                (),
            ),
        )

    def _check(self, partition: Partition) -> ErrorCode:
        """May whoever asks read this partition?"""
        if self._is_follower:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # no other node has a replica of it
        is_zstd = partition.compression is not None and partition.compression.codec is Codec.ZSTD
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if is_zstd else ErrorCode.NONE

    @property
    def _image(self) -> Image:
        """The newest: another leader is what ends many a wait."""
        return self._ctx.broker.controller.image

    def _error(self, watched: Watched, code: ErrorCode) -> PartitionData:
        leader = None
        if code in _REDIRECTED and self._ctx.version >= _REDIRECTS_SINCE:
            leader = leader_of(self._image, watched.topic, watched.index)
        return PartitionData(
            partition_index=watched.index,
            error_code=code,
            high_watermark=_NO_OFFSET,
            current_leader=NO_LEADER if leader is None else LeaderIdAndEpoch(*leader),
            aborted_transactions=None,
            records=b"",
        )

    # Answering

    def _finish(self) -> FetchResponse:
        ctx, watch, rows = self._ctx, self._watch, self._rows
        session = self._session
        if ctx.meter is not None and not self._is_follower and ctx.meter.withholds(self._size_bytes):
            return self._withheld()
        if session is None and self._wants_session:
            session = ctx.broker.fetch_sessions.begin(
                watch, has_ids=ctx.version >= TOPIC_IDS_SINCE, is_follower=self._is_follower, now_ms=ctx.now_ms()
            )
        if session is None:
            watch.close()
        else:
            self._remember(rows)
        session_id = NO_SESSION if session is None else session.session_id
        endpoints = self._endpoints() if self._has_errors else ()
        return new(FetchResponse, (0, 0, session_id, _by_topic(rows), endpoints, ()))

    def _withheld(self) -> FetchResponse:
        """Nothing, and no new session: the client asks again for the same."""
        if self._session is None:
            self._watch.close()
            return FetchResponse()
        return FetchResponse(session_id=self._session.session_id)

    def _size_bytes(self) -> int:
        """Of the answer, as Kafka counts it: body and correlation id."""
        endpoints = self._endpoints() if self._has_errors else ()
        response = FetchResponse(0, 0, NO_SESSION, _by_topic(self._rows), endpoints)
        return _CORRELATION_ID_BYTES + sum(map(len, load(_FETCH_KEY).encode_response[self._ctx.version](response)))

    def _endpoints(self) -> list[NodeEndpoint]:
        """Where the leaders are that the rows name."""
        leaders = {row.current_leader.leader_id for _, row in self._rows} - {_NO_REPLICA}
        return [NodeEndpoint(*each) for each in nodes(self._image, leaders, self._ctx.connection.listener)]

    def _remember(self, rows: list[tuple[Watched, PartitionData]]) -> None:
        """What the client knows when it has got this answer, and who is first next time."""
        ready = self._watch.ready
        for watched, row in rows:
            # An error is told every time; when it is over, the partition has news.
            watched.sent_high_watermark = row.high_watermark
            watched.sent_log_start_offset = row.log_start_offset
            if row.records:
                ready.pop(watched, None)
                ready[watched] = None


def _has_news(watched: Watched, row: PartitionData) -> bool:
    return row.high_watermark != watched.sent_high_watermark or row.log_start_offset != watched.sent_log_start_offset


def _divergence(partition: Partition, watched: Watched) -> EpochEndOffset:
    """KIP-595: does the reader's last epoch go on in this log as far as it has read? Raises one of LOG_ERRORS."""
    log = partition.log
    epoch, end_offset = log.epochs.end_offset_for(watched.last_fetched_epoch, log.log_end_offset)
    if end_offset == UNKNOWN_OFFSET:
        # The reader knows an epoch that this log does not.
        raise OffsetOutOfRangeError(
            watched.fetch_offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
        )
    if epoch < watched.last_fetched_epoch or end_offset < watched.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return NO_DIVERGENCE


def _by_topic(rows: list[tuple[Watched, PartitionData]]) -> list[FetchableTopicResponse]:
    topics: dict[str | bytes, list[PartitionData]] = {}
    for watched, row in rows:
        topics.setdefault(watched.topic, []).append(row)
    return [
        new(FetchableTopicResponse, (topic, ZERO_UUID, found, ()))
        if isinstance(topic, str)
        else new(FetchableTopicResponse, ("", topic, found, ()))
        for topic, found in topics.items()
    ]
