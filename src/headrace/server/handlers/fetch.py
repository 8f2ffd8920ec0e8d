"""Fetch (key 1, versions 4-18): read batches from partitions, or wait for some.

Behaviour   answers when `min_bytes` are there, a partition has an error, or `max_wait_ms` is over; at most `max_bytes`
            in all and `partition_max_bytes` of each partition, but for the first batch, which is always sent
            consumers read up to the high watermark, or, of committed data, up to the last stable offset
            sessions as in KIP-227: see `fetch_sessions`; how a fetch waits: see `fetches` and `waiters`
Versions    7 has sessions; 12 tells where logs part ways; 13 names topics by id; 16 says where the leader is
Left out    fetches of followers: NOT_LEADER_OR_FOLLOWER; a preferred replica is never named, since there is no other
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchRequest, FetchResponse
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import FIRST_EPOCH, update
from headrace.server.fetches import TOPIC_IDS_SINCE, Fetch
from headrace.server.later import Later
from headrace.server.waiters import Watch


def handle(request: FetchRequest, ctx: RequestContext) -> FetchResponse | Later[FetchResponse]:
    has_ids = ctx.version >= TOPIC_IDS_SINCE
    session = ctx.broker.fetch_sessions.find(request, has_ids=has_ids, now_ms=ctx.now_ms())
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    if session is not None:
        return Fetch(request, ctx, session.watch, session, wants_session=False).answer()
    watch = Watch()
    if request.session_epoch <= FIRST_EPOCH:
        update(watch, request, has_ids=has_ids)
    return Fetch(request, ctx, watch, None, wants_session=request.session_epoch == FIRST_EPOCH).answer()
