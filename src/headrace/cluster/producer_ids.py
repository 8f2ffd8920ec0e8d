"""Producer ids are handed out to brokers in blocks."""

from typing import Final

from headrace.cluster.decision import Decision, RefusedError, check_broker_epoch
from headrace.cluster.image import Image
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.protocol.messages.metadata_records import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_LAST_ID: Final = (1 << 63) - 1


def allocate_producer_ids(image: Image, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
    """Answer AllocateProducerIds: a block that nobody else gets, even if the broker dies with it."""
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except RefusedError as refused:
        return Decision((), AllocateProducerIdsResponse(error_code=refused.code), refused.reason)
    start = image.next_producer_id
    if start > _LAST_ID - BLOCK_SIZE:
        reply = AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return Decision((), reply, "all producer ids are used up")
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, start + BLOCK_SIZE)
    return Decision((record,), AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE))
