"""EndTxn (key 26, versions 0-5): a transaction is committed or aborted.

Behaviour   the answer comes when the end is decided and written; the markers follow by themselves
Versions    before 2 PRODUCER_FENCED is called INVALID_PRODUCER_EPOCH; 5 raises the epoch, and tells it (KIP-890)
"""

from typing import Final

from headrace.coordinator.transaction_state import NO_PRODUCER_ID
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.server.context import RequestContext
from headrace.server.fencing import fencing_code
from headrace.server.later import Later, as_later

_FENCED_SINCE: Final = 2


def handle(request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | Later[EndTxnResponse]:
    transactional_id = request.transactional_id
    if not transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    transactions = ctx.broker.coordinators.transactions
    if not transactions.glance(transactional_id, lambda shard: shard.needs_fresh_id(transactional_id)):
        return _end(request, ctx, NO_PRODUCER_ID)
    answered: Later[EndTxnResponse] = Later()

    def go_on(fresh_id: int | None) -> None:
        if fresh_id is None:
            answered.resolve(_refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            as_later(_end(request, ctx, fresh_id)).then(answered.resolve)

    ctx.broker.producer_ids.take().then(go_on)
    return answered


def _end(request: EndTxnRequest, ctx: RequestContext, fresh_id: int) -> EndTxnResponse | Later[EndTxnResponse]:
    ended = ctx.broker.coordinators.transactions.submit(
        request.transactional_id,
        lambda shard, ticket: shard.end(
            request, ticket=ticket, version=ctx.version, fresh_id=fresh_id, now_ms=ctx.now_ms()
        ),
        _refuse,
        is_light=True,
    )
    return ended if ctx.version >= _FENCED_SINCE else as_later(ended).map(_in_old_words)


def _refuse(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def _in_old_words(response: EndTxnResponse) -> EndTxnResponse:
    return response._replace(error_code=fencing_code(response.error_code, is_old_client=True))
