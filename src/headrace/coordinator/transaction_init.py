"""InitProducerId with a transactional id: who has it last, has it.

A producer that starts is given the id's producer id with the next epoch, which fences whoever had it before. One that
recovers from an error says which epoch it has, and is given the next one only if it is still the last: then a retry of
a request whose answer was lost is told by the epoch before, and gets the same answer again.
"""

from typing import TYPE_CHECKING, Final

from headrace.coordinator.result import Answer, Step, Ticket, answer
from headrace.coordinator.transaction_ending import abort
from headrace.coordinator.transaction_state import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    Transaction,
    TransactionState,
    is_exhausted,
    record_of,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard

_FIRST_EPOCH: Final = 0


def refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def init_producer_id(
    shard: "TransactionShard", request: InitProducerIdRequest, *, ticket: Ticket, fresh_id: int, now_ms: int
) -> Step:
    transactional_id = request.transactional_id
    assert transactional_id, "checked by whoever routed it here"
    if not 0 < request.transaction_timeout_ms <= shard.settings.max_timeout_ms:
        return answer(ticket, refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    current = shard.transactions.get(transactional_id)
    if current is None:
        current = Transaction(fresh_id, NO_EPOCH, request.transaction_timeout_ms)
    if not _may_ask(current, request):
        return answer(ticket, refusal(ErrorCode.PRODUCER_FENCED))
    if current.state in PREPARED:
        return answer(ticket, refusal(ErrorCode.CONCURRENT_TRANSACTIONS))
    if current.state is TransactionState.ONGOING:
        # The old producer's transaction goes first; the new one comes back, and finds it gone.
        aborted = abort(shard, transactional_id, current, now_ms, fresh_id)
        return aborted._replace(answers=(Answer(ticket, refusal(ErrorCode.CONCURRENT_TRANSACTIONS)),))
    begun = _rotated(shard, transactional_id, current, request, fresh_id)
    if isinstance(begun, ErrorCode):
        return answer(ticket, refusal(begun))
    begun = begun._replace(
        timeout_ms=request.transaction_timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        started_ms=NO_TIME,
        updated_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
    )
    response = InitProducerIdResponse(producer_id=begun.producer_id, producer_epoch=begun.epoch)
    return Step((record_of(transactional_id, begun),), (Answer(ticket, response),))


def _may_ask(current: Transaction, request: InitProducerIdRequest) -> bool:
    """A producer that says who it is must be the last one, or one that retries what made it the last but one."""
    return (
        request.producer_id == NO_PRODUCER_ID
        or current.epoch == NO_EPOCH
        or request.producer_id == current.producer_id
        or (request.producer_id == current.previous_producer_id and is_exhausted(request.producer_epoch))
    )


def _rotated(
    shard: "TransactionShard",
    transactional_id: str,
    current: Transaction,
    request: InitProducerIdRequest,
    fresh_id: int,
) -> Transaction | ErrorCode:
    """With the next epoch, or with a new producer id if the epochs of the old one are used up."""
    said = None if request.producer_epoch == NO_EPOCH else request.producer_epoch
    if current.is_epoch_exhausted and said in (None, current.epoch):
        shard.last_epochs[transactional_id] = NO_EPOCH if said is None else current.epoch
        return current.changed(producer_id=fresh_id, epoch=_FIRST_EPOCH)
    if said is None or current.epoch == NO_EPOCH or said == current.epoch:
        shard.last_epochs[transactional_id] = NO_EPOCH if said is None else current.epoch
        return current.changed(epoch=current.epoch + 1)
    if said == shard.last_epochs.get(transactional_id, NO_EPOCH):
        return current.changed()  # the answer to the first try was lost
    return ErrorCode.PRODUCER_FENCED
