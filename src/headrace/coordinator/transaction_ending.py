"""How a transaction ends: by its producer, by a new one with the same id, or because it took too long.

The PREPARE record decides; the markers follow, and when all are there, the COMPLETE record. The answer to the producer
goes out with PREPARE: what it may do next waits until the end is complete, and is told CONCURRENT_TRANSACTIONS.

From version 2 on an end raises the epoch, and the answer tells it. So a retry comes with the epoch before: it is told
by that, and gets the same answer. Nothing else may come with that epoch, except InitProducerId: of a producer whose
transaction was aborted by the coordinator, and which asks for the epoch to go on with.
"""

from typing import TYPE_CHECKING, Final

from headrace.coordinator.result import Answer, Marking, Overdue, Producer, Step, Ticket, answer
from headrace.coordinator.transaction_state import (
    COMPLETE,
    EPOCH_BUMPED_SINCE,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Transaction,
    TransactionState,
    is_exhausted,
    record_of,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard

BUMPS_SINCE: Final = 5  # the version of EndTxn that speaks transaction version 2
_ASK_AGAIN_MS: Final = 1_000  # for a producer id, if none has come: the controller may be busy


def end(
    shard: "TransactionShard", request: EndTxnRequest, *, ticket: Ticket, version: int, fresh_id: int, now_ms: int
) -> Step:
    current = shard.transactions.get(request.transactional_id)
    if current is None:
        return answer(ticket, _refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    client_version = EPOCH_BUMPED_SINCE if version >= BUMPS_SINCE else 0
    verdict = _judge(current, request, bumps=client_version >= EPOCH_BUMPED_SINCE)
    if verdict is ErrorCode.NONE:
        return answer(ticket, _identity(current) if client_version else EndTxnResponse())
    if isinstance(verdict, ErrorCode):
        return answer(ticket, _refusal(verdict))
    prepared = _prepared(current, verdict, client_version, fresh_id, now_ms)
    shard.last_epochs[request.transactional_id] = current.epoch
    response = _identity(prepared) if client_version else EndTxnResponse()
    return _step(request.transactional_id, prepared, (Answer(ticket, response),))


def _judge(current: Transaction, request: EndTxnRequest, *, bumps: bool) -> TransactionState | ErrorCode:
    """The state to go to; NONE if it ended this way before; or why it cannot end this way."""
    wanted = TransactionState.PREPARE_COMMIT if request.committed else TransactionState.PREPARE_ABORT
    is_retry = bumps and _is_retry(current, request)
    if not is_retry:
        if current.producer_id != request.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if current.epoch != request.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
    elif current.client_version < EPOCH_BUMPED_SINCE:
        return ErrorCode.PRODUCER_FENCED  # no end raised the epoch: an older client has come since, and ended its own
    state = current.state
    if state is TransactionState.ONGOING:
        return ErrorCode.PRODUCER_FENCED if is_retry else wanted
    if state in PREPARED:  # it may be the end of the next one already, of which nothing can be said yet
        return ErrorCode.CONCURRENT_TRANSACTIONS
    ended_so = state in COMPLETE and (state is TransactionState.COMPLETE_COMMIT) == request.committed
    if is_retry:
        if state is TransactionState.EMPTY or current.epoch == MAX_EPOCH:  # which nobody may go on with
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE
    if bumps:  # to abort nothing is allowed, and raises the epoch; to commit nothing is a mistake of the client
        return ErrorCode.INVALID_TXN_STATE if request.committed else wanted
    return ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE


def _is_retry(current: Transaction, request: EndTxnRequest) -> bool:
    """Does it come with the identity that the producer had before the end raised the epoch?"""
    if current.producer_id == request.producer_id:
        return current.epoch == request.producer_epoch + 1
    return (
        current.previous_producer_id == request.producer_id
        and is_exhausted(request.producer_epoch)
        and current.epoch == 0
    )


def _prepared(
    current: Transaction, state: TransactionState, client_version: int, fresh_id: int, now_ms: int
) -> Transaction:
    bumps = client_version >= EPOCH_BUMPED_SINCE
    is_ongoing = current.state is TransactionState.ONGOING
    return current.changed(
        state=state,
        epoch=current.epoch + 1 if bumps else current.epoch,
        next_producer_id=fresh_id if bumps and current.is_epoch_exhausted else NO_PRODUCER_ID,
        partitions=current.partitions if is_ongoing else frozenset(),
        started_ms=current.started_ms if is_ongoing else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def abort(shard: "TransactionShard", transactional_id: str, current: Transaction, now_ms: int, fresh_id: int) -> Step:
    """By the coordinator itself: the epoch goes up in any case, so that the producer is fenced.

    As in Kafka it ends as one of version 2, whatever its producer speaks: so a producer whose transaction took too long
    may recover with the epoch it had, as long as no other one has the id. The last epoch is only there to fence with:
    who recovers then goes on with the new producer id.
    """
    prepared = current.changed(
        state=TransactionState.PREPARE_ABORT,
        epoch=min(current.epoch + 1, MAX_EPOCH),
        next_producer_id=fresh_id if current.is_epoch_exhausted else NO_PRODUCER_ID,
        updated_ms=now_ms,
        client_version=EPOCH_BUMPED_SINCE,
    )
    shard.last_epochs[transactional_id] = current.epoch
    return _step(transactional_id, prepared)


def due(shard: "TransactionShard", transactional_id: str, now_ms: int) -> Step:
    """Its time is over, or its markers are still to be written after a start."""
    current = shard.transactions[transactional_id]
    if current.state in PREPARED:
        return Step(markings=(_marking(transactional_id, current),))
    assert current.state is TransactionState.ONGOING, f"{transactional_id} is {current.state.label}, and due"
    if current.is_epoch_exhausted:
        shard.deadlines.set(transactional_id, now_ms + _ASK_AGAIN_MS)
        return Step(overdue=(Overdue(transactional_id, current.started_ms),))
    return _time_out(shard, transactional_id, current, now_ms, NO_PRODUCER_ID)


def end_overdue(shard: "TransactionShard", overdue: Overdue, *, fresh_id: int, now_ms: int) -> Step:
    """The producer id that its end needs has come."""
    current = shard.transactions.get(overdue.transactional_id)
    if current is None or current.state is not TransactionState.ONGOING or current.started_ms != overdue.started_ms:
        return Step()  # its producer has ended it meanwhile
    return _time_out(shard, overdue.transactional_id, current, now_ms, fresh_id)


def _time_out(
    shard: "TransactionShard", transactional_id: str, current: Transaction, now_ms: int, fresh_id: int
) -> Step:
    waited_s = (now_ms - current.started_ms) / 1000
    return abort(shard, transactional_id, current, now_ms, fresh_id)._replace(
        notices=(f"the transaction of {transactional_id!r} is aborted: it was open for {waited_s:.1f} s",)
    )


def marked(shard: "TransactionShard", transactional_id: str, producer: Producer, now_ms: int) -> Step:
    current = shard.transactions.get(transactional_id)
    if current is None or current.state not in PREPARED or (current.producer_id, current.epoch) != producer:
        return Step()  # of an end that is complete already
    is_commit = current.state is TransactionState.PREPARE_COMMIT
    complete = current.changed(
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
    )
    if current.next_producer_id != NO_PRODUCER_ID:
        complete = complete._replace(producer_id=current.next_producer_id, epoch=0)
    return Step((record_of(transactional_id, complete),))


def _step(transactional_id: str, prepared: Transaction, answers: tuple[Answer, ...] = ()) -> Step:
    return Step((record_of(transactional_id, prepared),), answers, None, (_marking(transactional_id, prepared),))


def _marking(transactional_id: str, prepared: Transaction) -> Marking:
    return Marking(
        transactional_id,
        Producer(prepared.producer_id, prepared.epoch),
        committed=prepared.state is TransactionState.PREPARE_COMMIT,
        partitions=prepared.partitions,
        transaction_version=prepared.client_version,
    )


def _identity(current: Transaction) -> EndTxnResponse:
    """What the producer goes on with."""
    if current.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=current.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=current.producer_id, producer_epoch=current.epoch)


def _refusal(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
