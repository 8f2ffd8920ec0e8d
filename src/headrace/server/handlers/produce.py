"""Produce (key 0, versions 3-13): append batches to partitions.

Behaviour   each partition on its own, in the order of the request; exactly one batch for each
            acks=0: no answer, and an error closes the connection, since there is no other way to tell; acks=1: when it
            is written; acks=all: when the high watermark has passed it, or `timeout_ms` is over
            a retry of an idempotent producer is answered with the offsets that it got the first time
            in a transaction, a partition's first batch is verified with the coordinator before it is written
Versions    5 tells the log start offset; 7 allows zstd; 8 says why a batch was refused, and for the sake of which
            records (the first thousand of them); 10 says where the leader is
            12 leaves it to the broker to add partitions to a transaction; 13 names topics by id
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headrace.coordinator.result import Producer
from headrace.log.errors import InvalidRecordError, InvalidTimestampError, RecordFault, RefusedBatchError
from headrace.protocol.batch import CODEC_MASK, LOG_OVERHEAD, MAGIC, TRANSACTIONAL_FLAG
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.produce import DEFAULT_LEADER_ID_AND_EPOCH as NO_LEADER
from headrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
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
from headrace.server.transaction_admission import Asking, Verdicts
from headrace.server.waiters import Acknowledgements

_HEAD: Final = Struct(">8xi4xb4xh")  # batch length, magic, attributes
_WRITER: Final = Struct(">21xh20xqh").unpack_from  # attributes, producer id, producer epoch
_NO_OFFSET: Final = -1
_BROKER_ADDS_SINCE: Final = 12
_ABORTABLE_SINCE: Final = 11
_TOPIC_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_REASONS_SINCE: Final = 8
_REDIRECTS_SINCE: Final = 10
_ADMIN_CLIENT: Final = "__admin_client"  # Kafka lets its own tools write to internal topics under this client id


def handle(request: ProduceRequest, ctx: RequestContext) -> ProduceResponse | Later[ProduceResponse] | None:
    if request.transactional_id is not None:
        return _in_transaction(request, request.transactional_id, ctx)
    return _append(request, ctx, None)


def _in_transaction(
    request: ProduceRequest, transactional_id: str, ctx: RequestContext
) -> ProduceResponse | Later[ProduceResponse] | None:
    """Ask the coordinator about what is new to the transaction, then go on; nearly always at once."""
    producers, places = _written_by(request, ctx)
    if len(producers) != 1:
        nobody = ErrorCode.INVALID_PRODUCER_ID_MAPPING if producers else ErrorCode.NONE
        return _append(request, ctx, dict.fromkeys(places, nobody))
    (producer,) = producers
    admitted = ctx.broker.coordinators.admission.admit(transactional_id, producer, places, asking=_asking(ctx.version))
    if not isinstance(admitted, Later):
        return _append(request, ctx, admitted)
    if admitted.is_settled:
        return _append(request, ctx, admitted.value)
    kept = _copied(request)  # the frame's buffer is used again as soon as this returns
    answered: Later[ProduceResponse] = Later()

    def go_on(verdicts: Verdicts) -> None:
        try:
            response = _append(kept, ctx, verdicts)
        except ProtocolError as error:  # whoever brings the verdicts cannot do anything about it
            ctx.connection.close(str(error))
            return
        if isinstance(response, Later):
            response.then(answered.resolve)
        elif response is not None:
            answered.resolve(response)

    admitted.then(go_on)
    return answered if request.acks else None


def _asking(version: int) -> Asking:
    if version >= _BROKER_ADDS_SINCE:
        return Asking.ADD
    return Asking.VERIFY if version >= _ABORTABLE_SINCE else Asking.VERIFY_FOR_OLD


def _written_by(request: ProduceRequest, ctx: RequestContext) -> tuple[frozenset[Producer], frozenset[tuple[str, int]]]:
    """Who writes transactional batches, and where; what is no batch is left to whoever refuses it."""
    producers = set()
    places = set()
    for name, topic_id, partition_data, _ in request.topic_data:
        for index, records, _ in partition_data:
            partition = ctx.broker.partitions.leader(topic_id if ctx.version >= _TOPIC_IDS_SINCE else name, index)
            try:
                attributes, producer_id, epoch = _WRITER(records or b"")
            except struct_error:
                continue
            if isinstance(partition, Partition) and attributes & TRANSACTIONAL_FLAG:
                producers.add(Producer(producer_id, epoch))
                places.add((partition.topic, index))
    return frozenset(producers), frozenset(places)


def _copied(request: ProduceRequest) -> ProduceRequest:
    return request._replace(
        topic_data=[
            topic._replace(
                partition_data=[
                    row._replace(records=None if row.records is None else memoryview(bytearray(row.records)))
                    for row in topic.partition_data
                ]
            )
            for topic in request.topic_data
        ]
    )


def _append(
    request: ProduceRequest, ctx: RequestContext, verdicts: Verdicts | None
) -> ProduceResponse | Later[ProduceResponse] | None:
    """`verdicts`: what the coordinator says of partitions that are new to the transaction; None outside of one."""
    _, acks, timeout_ms, topic_data, _ = request
    version = ctx.version
    broker = ctx.broker
    find = broker.partitions.leader
    now_ms = broker.clock.now_ms()
    topics: list[TopicProduceResponse] = []
    waiting: list[_Waiting] = []
    is_refused = False
    for name, topic_id, partition_data, _ in topic_data:
        topic = topic_id if version >= _TOPIC_IDS_SINCE else name
        rows: list[PartitionProduceResponse] = []
        for index, records, _ in partition_data:
            try:
                partition = find(topic, index)
                if type(partition) is not Partition:
                    raise _RefusedError(partition)  # type: ignore[arg-type]
                _check(partition, records, acks, version, ctx, verdicts)
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
    response = new(ProduceResponse, (topics, 0, _endpoints(topics, ctx) if is_refused else (), ()))
    return _when_acknowledged(response, waiting, timeout_ms, ctx) if waiting else response


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


def _check(
    partition: Partition,
    records: memoryview | None,
    acks: int,
    version: int,
    ctx: RequestContext,
    verdicts: Verdicts | None,
) -> None:
    """What is checked of a batch before the log sees it. Raises _RefusedError."""
    if not -1 <= acks <= 1:
        raise _RefusedError(ErrorCode.INVALID_REQUIRED_ACKS)
    if records is None or len(records) < _HEAD.size:
        raise _RefusedError(ErrorCode.INVALID_RECORD, "no record batch; there must be exactly one")
    length, magic, attributes = _HEAD.unpack_from(records)
    if magic != MAGIC:
        raise _RefusedError(ErrorCode.INVALID_RECORD, f"a batch of format {magic}; only {MAGIC} is taken")
    if 0 <= length + LOG_OVERHEAD < len(records):
        raise _RefusedError(ErrorCode.INVALID_RECORD, "more than one record batch; there must be exactly one")
    if version < _ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
        raise _RefusedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {_ZSTD_SINCE} of Produce")
    if attributes & TRANSACTIONAL_FLAG:
        if verdicts is None:
            raise _RefusedError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch in a transaction, without a transactional id"
            )
        verdict = verdicts.get((partition.topic, partition.index), ErrorCode.NONE)
        if verdict:
            raise _RefusedError(verdict, f"the transaction's coordinator says {verdict.name}")
    if partition.is_internal and ctx.client_id != _ADMIN_CLIENT:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker writes to this topic")


def _refusal(error: Exception, topic: str | bytes, index: int, ctx: RequestContext) -> PartitionProduceResponse:
    log_start_offset = _NO_OFFSET
    faults: Sequence[RecordFault] = ()
    if isinstance(error, _RefusedError):
        code, reason = error.code, error.reason
    else:
        code, reason = code_of(error), str(error)
        if isinstance(error, RefusedBatchError) and ctx.version >= _REASONS_SINCE:
            faults = error.faults
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
        record_errors=[BatchIndexAndErrorMessage(*fault) for fault in faults],
        error_message=reason,
        current_leader=NO_LEADER if leader is None else LeaderIdAndEpoch(*leader),
    )


def _endpoints(topics: list[TopicProduceResponse], ctx: RequestContext) -> list[NodeEndpoint]:
    leaders = {row.current_leader.leader_id for topic in topics for row in topic.partition_responses} - {-1}
    return [NodeEndpoint(*node) for node in nodes(ctx.image, leaders, ctx.connection.listener)] if leaders else []
