"""DeleteTopics (key 20, versions 1-6): topics are gone, each by itself.

Behaviour   the answer waits until the deletion is committed; files go in the background; a full disk does not refuse it
            too much for a quota of the client: refused, and before version 5 granted, and the client muted
Versions    3 has a code for a broker that deletes nothing; 5 knows quotas; 6 names topics by name or by id
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from typing import Final

from headrace.cluster.topics import delete_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later

_DISABLED_SINCE: Final = 3
_STRICT_SINCE: Final = 5


def handle(request: DeleteTopicsRequest, ctx: RequestContext) -> Later[DeleteTopicsResponse]:
    controller = ctx.broker.controller
    quota = ctx.mutation_quota(is_strict=ctx.version >= _STRICT_SINCE)
    deleted = controller.submit(
        lambda image: delete_topics(image, controller.settings, request, quota=quota), makes_room=True
    )
    return deleted if ctx.version >= _DISABLED_SINCE else deleted.map(_in_old_words)


def _in_old_words(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """The code for a broker that deletes nothing is younger than these versions."""
    rows = [
        row._replace(error_code=ErrorCode.INVALID_REQUEST)
        if row.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        else row
        for row in response.responses
    ]
    return response._replace(responses=rows)
