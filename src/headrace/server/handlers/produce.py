"""Produce (key 0, versions 3-13): append batches to partitions.

Behaviour   each partition on its own, in the order of the request; exactly one batch for each
            acks=0: no answer, and an error closes the connection, since there is no other way to tell; acks=1: when it
            is written; acks=all: when the high watermark has passed it, or `timeout_ms` is over
            a retry of an idempotent producer is answered with the offsets that it got the first time
Versions    5 tells the log start offset; 7 allows zstd; 8 says why a batch was refused; 10 says where the leader is;
            13 names topics by id
Left out    transactional batches are answered INVALID_PRODUCER_ID_MAPPING, as for a transactional id nobody has begun
"""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headrace.log.errors import InvalidRecordError, InvalidTimestampError
from headrace.protocol.batch import CODEC_MASK, LOG_OVERHEAD, MAGIC, TRANSACTIONAL_FLAG
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.produce import DEFAULT_LEADER_ID_AND_EPOCH as NO_LEADER
from headrace.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.protocol.primitives import new
from headrace.server.context import RequestContext
from headrace.server.later import Later
from headrace.server.leader_hints import leader_of, nodes
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition
from headrace.server.waiters import Acknowledgements

_HEAD: Final = Struct(">8xi4xb4xh").unpack_from  # batch length, magic, attributes
_NO_OFFSET: Final = -1
_TOPIC_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_REDIRECTS_SINCE: Final = 10
_ADMIN_CLIENT: Final = "__admin_client"  # Kafka lets its own tools write to internal topics under this client id


def handle(request: ProduceRequest, ctx: RequestContext) -> ProduceResponse | Later[ProduceResponse] | None:
    acks = request.acks
    version = ctx.version
    broker = ctx.broker
    find = broker.partitions.leader
    now_ms = broker.clock.now_ms()
    topics: list[TopicProduceResponse] = []
    waiting: list[_Waiting] = []
    is_refused = False
    for name, topic_id, partition_data, _ in request.topic_data:
        topic = topic_id if version >= _TOPIC_IDS_SINCE else name
        rows: list[PartitionProduceResponse] = []
        for index, records, _ in partition_data:
            try:
                partition = find(topic, index)
                if type(partition) is not Partition:
                    raise _RefusedError(partition)  # type: ignore[arg-type]
                _check(partition, records, acks, version, ctx)
                result = partition.append(records, acks=acks, now_ms=now_ms)
            except (_RefusedError, *LOG_ERRORS) as error:
                rows.append(_refusal(error, topic, index, ctx))
                is_refused = True
                continue
            log = partition.log
            if log.high_watermark <= result[1] and partition.must_wait(acks):
                waiting.append(_Waiting(partition, result[1], rows, len(rows)))
            rows.append(
                new(
                    PartitionProduceResponse,
                    (index, 0, result[0], result[3], log.log_start_offset, (), None, NO_LEADER, ()),
                )
            )
        topics.append(new(TopicProduceResponse, (name, topic_id, rows, ())))
    if acks == 0:
        if is_refused:
            raise ProtocolError("a batch with acks=0 was refused; closing is the only way to say so")
        return None
    response = ProduceResponse(topics, 0, _endpoints(topics, ctx) if is_refused else ())
    return _when_acknowledged(response, waiting, request.timeout_ms, ctx) if waiting else response


class _Waiting(NamedTuple):
    """A row that may go out when the high watermark has passed `last_offset`."""

    partition: Partition
    last_offset: int
    rows: list[PartitionProduceResponse]
    place: int


def _when_acknowledged(
    response: ProduceResponse, waiting: list[_Waiting], timeout_ms: int, ctx: RequestContext
) -> Later[ProduceResponse]:
    def finish(codes: list[ErrorCode]) -> ProduceResponse:
        for (_, _, rows, place), code in zip(waiting, codes, strict=True):
            if code is not ErrorCode.NONE:
                rows[place] = PartitionProduceResponse(rows[place].index, code, _NO_OFFSET)
        return response

    places = [(partition, last_offset) for partition, last_offset, _, _ in waiting]
    return Acknowledgements(places, clock=ctx.broker.clock, timeout_ms=timeout_ms).codes.map(finish)


class _RefusedError(Exception):
    def __init__(self, code: ErrorCode, reason: str | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def _check(partition: Partition, records: memoryview | None, acks: int, version: int, ctx: RequestContext) -> None:
    """What is checked of a batch before the log sees it. Raises _RefusedError."""
    if not -1 <= acks <= 1:
        raise _RefusedError(ErrorCode.INVALID_REQUIRED_ACKS)
    try:
        length, magic, attributes = _HEAD(records or b"")
    except struct_error:
        raise _RefusedError(ErrorCode.INVALID_RECORD, "no record batch; there must be exactly one") from None
    if magic != MAGIC:
        raise _RefusedError(ErrorCode.INVALID_RECORD, f"a batch of format {magic}; only {MAGIC} is taken")
    if 0 <= length + LOG_OVERHEAD < len(records or b""):
        raise _RefusedError(ErrorCode.INVALID_RECORD, "more than one record batch; there must be exactly one")
    if attributes & CODEC_MASK == Codec.ZSTD and version < _ZSTD_SINCE:
        raise _RefusedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {_ZSTD_SINCE} of Produce")
    if attributes & TRANSACTIONAL_FLAG:
        raise _RefusedError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id has no transaction")
    if partition.is_internal and ctx.client_id != _ADMIN_CLIENT:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker writes to this topic")


def _refusal(error: Exception, topic: str | bytes, index: int, ctx: RequestContext) -> PartitionProduceResponse:
    log_start_offset = _NO_OFFSET
    if isinstance(error, _RefusedError):
        code, reason = error.code, error.reason
    else:
        code, reason = code_of(error), str(error)
        if isinstance(error, InvalidRecordError | InvalidTimestampError):
            partition = ctx.broker.partitions.leader(topic, index)
            log_start_offset = partition.log.log_start_offset if isinstance(partition, Partition) else _NO_OFFSET
    leader = None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and ctx.version >= _REDIRECTS_SINCE:
        leader = leader_of(ctx.image, topic, index)
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=_NO_OFFSET,
        log_start_offset=log_start_offset,
        error_message=reason,
        current_leader=NO_LEADER if leader is None else LeaderIdAndEpoch(*leader),
    )


def _endpoints(topics: list[TopicProduceResponse], ctx: RequestContext) -> list[NodeEndpoint]:
    leaders = {row.current_leader.leader_id for topic in topics for row in topic.partition_responses} - {-1}
    return [NodeEndpoint(*node) for node in nodes(ctx.image, leaders, ctx.connection.listener)] if leaders else []
