"""DescribeTransactions (key 65, version 0): what transactional ids are doing.

Behaviour   an id that is named several times is told once: a few bytes must not become gigabytes
"""

from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather


def handle(request: DescribeTransactionsRequest, ctx: RequestContext) -> Later[DescribeTransactionsResponse]:
    named = dict.fromkeys(request.transactional_ids)
    described = gather([_describe(transactional_id, ctx) for transactional_id in named])
    return described.map(lambda rows: DescribeTransactionsResponse(transaction_states=rows))


def _describe(transactional_id: str, ctx: RequestContext) -> Later[TransactionState]:
    return ctx.broker.coordinators.transactions.look(
        transactional_id,
        lambda shard: shard.describe(transactional_id),
        lambda code: TransactionState(code, transactional_id),
    )
