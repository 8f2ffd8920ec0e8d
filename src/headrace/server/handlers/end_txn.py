"""EndTxn (key 26, versions 0-5): a transaction is committed or aborted.

Behaviour   the answer comes when the end is decided and written; the markers follow by themselves
Versions    before 2 PRODUCER_FENCED is called INVALID_PRODUCER_EPOCH; 5 raises the epoch, and tells it (KIP-890)
"""

from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.server.context import RequestContext
from headrace.server.fencing import fencing_code
from headrace.server.later import Later, as_later

_FENCED_SINCE: Final = 2


def handle(request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | Later[EndTxnResponse]:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    answered: Later[EndTxnResponse] = Later()
    ctx.broker.producer_ids.take().then(lambda fresh_id: _go_on(request, ctx, fresh_id, answered))
    return answered


def _go_on(request: EndTxnRequest, ctx: RequestContext, fresh_id: int | None, answered: Later[EndTxnResponse]) -> None:
    if fresh_id is None:
        answered.resolve(_refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    ended = ctx.broker.coordinators.transactions.submit(
        request.transactional_id,
        lambda shard, ticket: shard.end(
            request, ticket=ticket, version=ctx.version, fresh_id=fresh_id, now_ms=ctx.now_ms()
        ),
        _refuse,
        is_light=True,
    )
    as_later(ended).then(lambda response: answered.resolve(_in_words_of(ctx.version, response)))


def _refuse(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def _in_words_of(version: int, response: EndTxnResponse) -> EndTxnResponse:
    return response._replace(error_code=fencing_code(response.error_code, is_old_client=version < _FENCED_SINCE))
