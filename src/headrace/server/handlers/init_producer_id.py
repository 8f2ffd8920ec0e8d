"""InitProducerId (key 22, versions 0-5): an identity for a producer.

Behaviour   without a transactional id: a new id with epoch 0, every time
            with one: its producer id with the next epoch, which fences whoever had it before; a transaction that is
            still ongoing is aborted first, and the client is told CONCURRENT_TRANSACTIONS until that is done
Versions    3 lets a producer name the id that it has; before 4 PRODUCER_FENCED is called INVALID_PRODUCER_EPOCH
Left out    two-phase commit (KIP-939), which is version 6 and not yet stable in Kafka
"""

from typing import Final

from headrace.coordinator.transaction_init import refusal
from headrace.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.server.context import RequestContext
from headrace.server.fencing import fencing_code
from headrace.server.later import Later, as_later

_FIRST_EPOCH: Final = 0
_FENCED_SINCE: Final = 4


def handle(
    request: InitProducerIdRequest, ctx: RequestContext
) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
    if request.transactional_id == "":
        return refusal(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return refusal(ErrorCode.INVALID_REQUEST)
    answered: Later[InitProducerIdResponse] = Later()
    ctx.broker.producer_ids.take().then(lambda fresh_id: _go_on(request, ctx, fresh_id, answered))
    return answered


def _go_on(
    request: InitProducerIdRequest, ctx: RequestContext, fresh_id: int | None, answered: Later[InitProducerIdResponse]
) -> None:
    if fresh_id is None:
        answered.resolve(refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))  # what makes every client try again
    elif request.transactional_id is None:
        answered.resolve(InitProducerIdResponse(producer_id=fresh_id, producer_epoch=_FIRST_EPOCH))
    else:
        given = ctx.broker.coordinators.transactions.submit(
            request.transactional_id,
            lambda shard, ticket: shard.init_producer_id(
                request, ticket=ticket, fresh_id=fresh_id, now_ms=ctx.now_ms()
            ),
            refusal,
            is_light=True,
        )
        as_later(given).then(lambda response: answered.resolve(_in_words_of(ctx.version, response)))


def _in_words_of(version: int, response: InitProducerIdResponse) -> InitProducerIdResponse:
    return response._replace(error_code=fencing_code(response.error_code, is_old_client=version < _FENCED_SINCE))
