"""ListTransactions (key 66, versions 0-1): the transactional ids that this broker looks after.

Behaviour   filtered by state, by producer id, and (from version 1 on) by how long a transaction has been open
Left out    version 2, which filters by a regular expression
"""

from headrace.coordinator.transaction_listing import unknown_states
from headrace.coordinator.transactions import TransactionShard
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather

_Part = list[TransactionState] | ErrorCode


def handle(request: ListTransactionsRequest, ctx: RequestContext) -> Later[ListTransactionsResponse]:
    def read(shard: TransactionShard) -> _Part:
        return shard.list_transactions(request, ctx.now_ms())

    unknown = unknown_states(request)
    return gather(ctx.broker.coordinators.transactions.look_everywhere(read, _same)).map(
        lambda parts: _finish(parts, unknown)
    )


def _same(code: ErrorCode) -> _Part:
    return code


def _finish(parts: list[_Part], unknown: list[str]) -> ListTransactionsResponse:
    """All or nothing: a list with gaps would look complete."""
    rows: list[TransactionState] = []
    for part in parts:
        if isinstance(part, ErrorCode):
            return ListTransactionsResponse(error_code=part, unknown_state_filters=unknown)
        rows += part
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)
