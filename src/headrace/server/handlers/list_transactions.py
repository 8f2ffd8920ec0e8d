"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker looks after.

Behaviour   filtered by state, by producer id, by how long a transaction has been open, and by a pattern for the whole
            id; all or nothing, since a list with gaps would look complete
Versions    1 filters by duration, 2 by pattern (of RE2, as subscriptions of consumer groups; '' lets all pass)
"""

from typing import Final

from headrace.coordinator.re2_pattern import Pattern, PatternError
from headrace.coordinator.regex_job import RegexJob
from headrace.coordinator.transaction_listing import unknown_states
from headrace.coordinator.transactions import TransactionShard
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from headrace.server.clock import Clock
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather

_STEPS_AT_ONCE: Final = 20_000  # of comparing ids with a pattern: some milliseconds

_Part = list[TransactionState] | ErrorCode


def handle(
    request: ListTransactionsRequest, ctx: RequestContext
) -> ListTransactionsResponse | Later[ListTransactionsResponse]:
    def read(shard: TransactionShard) -> _Part:
        return shard.list_transactions(request, ctx.now_ms())

    pattern = request.transactional_id_pattern or ""
    try:
        Pattern(pattern)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = unknown_states(request)
    listed = gather(ctx.broker.coordinators.transactions.look_everywhere(read, _same)).map(
        lambda parts: _finish(parts, unknown)
    )
    return _matching(pattern, listed, ctx.broker.clock) if pattern else listed


def _same(code: ErrorCode) -> _Part:
    return code


def _finish(parts: list[_Part], unknown: list[str]) -> ListTransactionsResponse:
    rows: list[TransactionState] = []
    for part in parts:
        if isinstance(part, ErrorCode):
            return ListTransactionsResponse(error_code=part, unknown_state_filters=unknown)
        rows += part
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)


def _matching(pattern: str, listed: Later[ListTransactionsResponse], clock: Clock) -> Later[ListTransactionsResponse]:
    """Only those whose ids match; others have their turn while the ids are compared."""
    matching: Later[ListTransactionsResponse] = Later()
    matching.on_abandon(listed.abandon)

    def compare(response: ListTransactionsResponse) -> None:
        job = RegexJob([pattern], (row.transactional_id for row in response.transaction_states), clock.now_ms())

        def go_on() -> None:
            if matching.is_settled:
                return  # nobody wants to know any more
            if not job.work(_STEPS_AT_ONCE):
                clock.call_later(0, go_on)
                return
            found = job.found[pattern]
            rows = [row for row in response.transaction_states if row.transactional_id in found]
            matching.resolve(response._replace(transaction_states=rows))

        go_on()

    listed.then(compare)
    return matching
