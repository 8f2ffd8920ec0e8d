"""InitProducerId (key 22, versions 0-5): an identity for an idempotent producer.

Behaviour   without a transactional id: a new id with epoch 0, every time
Versions    3 lets a producer name the id that it has
Left out    transactional ids: COORDINATOR_NOT_AVAILABLE
"""

from typing import Final

from headrace.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later

_FIRST_EPOCH: Final = 0


def handle(
    request: InitProducerIdRequest, ctx: RequestContext
) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
    if request.transactional_id == "":
        return _refuse(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return ctx.broker.producer_ids.take().map(_answer)


def _answer(producer_id: int | None) -> InitProducerIdResponse:
    if producer_id is None:
        return _refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # what makes every client try again
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=_FIRST_EPOCH)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
