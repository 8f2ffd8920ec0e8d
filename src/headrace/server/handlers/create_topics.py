"""CreateTopics (key 19, versions 2-7): new topics, each created or refused by itself.

Behaviour   the answer waits until the topics are committed; `validate_only` says what would happen
            too much for a quota of the client: refused, and before version 6 granted, and the client muted
Versions    from 4 on -1 stands for the defaults of the broker (earlier ones may say it, too, as in Kafka)
            5 tells all configs of the new topic and where they come from; 6 knows quotas; 7 tells its id
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from typing import Final

from headrace.cluster.topic_names import METADATA_TOPIC
from headrace.cluster.topics import create_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.server.chance import chance
from headrace.server.context import RequestContext
from headrace.server.later import Later

_STRICT_SINCE: Final = 6


def handle(request: CreateTopicsRequest, ctx: RequestContext) -> Later[CreateTopicsResponse]:
    controller = ctx.broker.controller
    quota = ctx.mutation_quota(is_strict=ctx.version >= _STRICT_SINCE)
    created = controller.submit(
        lambda image: create_topics(image, controller.settings, request, chance(ctx.broker.random), quota=quota)
    )
    return created.map(_in_words_of_a_broker)


def _in_words_of_a_broker(response: CreateTopicsResponse) -> CreateTopicsResponse:
    """What a controller calls forbidden, a broker of Kafka calls invalid."""
    rows = [
        row._replace(error_code=ErrorCode.INVALID_REQUEST) if row.name == METADATA_TOPIC else row
        for row in response.topics
    ]
    return response._replace(topics=rows)
