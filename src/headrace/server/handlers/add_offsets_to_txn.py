"""AddOffsetsToTxn (key 25, versions 0-4): a group's offsets become part of a transaction.

Behaviour   adds the partition of __consumer_offsets in which the group lives; creates the topic if it is not there yet
Versions    before 2 PRODUCER_FENCED is called INVALID_PRODUCER_EPOCH
"""

from typing import Final

from headrace.coordinator.result import Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headrace.server.auto_creation import create_internal
from headrace.server.context import RequestContext
from headrace.server.fencing import fencing_code
from headrace.server.later import Later, as_later

_FENCED_SINCE: Final = 2


def handle(
    request: AddOffsetsToTxnRequest, ctx: RequestContext
) -> AddOffsetsToTxnResponse | Later[AddOffsetsToTxnResponse]:
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    groups = ctx.broker.coordinators.groups
    if groups.index_of(request.group_id) is not None:
        return _add(request, ctx)
    # Some clients look for the group's coordinator, which would create the topic, only after this request.
    answered: Later[AddOffsetsToTxnResponse] = Later()
    create_internal(groups.topic, ctx.broker).then(lambda _: _add(request, ctx).then(answered.resolve))
    return answered


def _add(request: AddOffsetsToTxnRequest, ctx: RequestContext) -> Later[AddOffsetsToTxnResponse]:
    groups = ctx.broker.coordinators.groups
    index = groups.index_of(request.group_id)
    if index is None:
        return as_later(AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    producer = Producer(request.producer_id, request.producer_epoch)
    places = frozenset({(groups.topic, index)})
    is_old = ctx.version < _FENCED_SINCE
    added = ctx.broker.coordinators.admission.add(request.transactional_id, producer, places, client_version=0)
    return as_later(added).map(
        lambda code: AddOffsetsToTxnResponse(error_code=fencing_code(code, is_old_client=is_old))
    )
