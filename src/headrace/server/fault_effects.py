"""What a fault does to one request: answer it with an error, hold its answer back, or drop its connection.

Each effect is given the handler, and calls it or not. What it returns takes the place of what the handler returns, or
says what to do with the request (`Verdict`).
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from headrace.protocol.apis import API_BY_NAME, Api
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import TopicRequest
from headrace.protocol.messages.metadata import MetadataRequestTopic
from headrace.server.clock import Timer
from headrace.server.context import RequestContext
from headrace.server.error_answers import Depth, carriers, error_answer
from headrace.server.later import Later

_PRODUCE: Final = API_BY_NAME["Produce"].key
_METADATA: Final = API_BY_NAME["Metadata"].key
_DESCRIBE_LOG_DIRS: Final = API_BY_NAME["DescribeLogDirs"].key
_DESCRIBE_TOPIC_PARTITIONS: Final = API_BY_NAME["DescribeTopicPartitions"].key

MESSAGE: Final = "a fault was injected"
Handle = Callable[[Any, RequestContext], Any]


class Verdict(Enum):
    PASSED = "none for this fault: the answer has no place for the error, such as that to a look at no topic"
    HANG_UP = "the connection is to be closed"


class Effect(Protocol):
    def on(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:
        """What is returned to the dispatcher, or a verdict."""


class AnswerError:
    """The request has no effect, and its answer is an error."""

    def __init__(self, api: Api, code: ErrorCode, depth: Depth) -> None:
        self._api = api
        self._code = code
        self._depth = depth

    def on(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:
        key = self._api.key
        if key == _PRODUCE and request.acks == 0:
            # As for every batch that is refused without an answer: there is no other way to tell.
            return Verdict.HANG_UP
        if key == _METADATA:
            # A client that hears of no broker has nobody to ask again: all but the topics stays as it is.
            real = handle(request._replace(allow_auto_topic_creation=False), ctx)
            return self._within(real, self._made_from(_every_topic(request, ctx), ctx))
        if key == _DESCRIBE_LOG_DIRS:  # the rows are directories, and the request names topics
            real = handle(request, ctx)
            if isinstance(real, Later):
                return real.map(lambda answer: self._within(answer, self._made_from(answer, ctx)))
            return self._within(real, self._made_from(real, ctx))
        if key == _DESCRIBE_TOPIC_PARTITIONS and not request.topics:
            request = request._replace(topics=[TopicRequest(name) for name in ctx.image.topic_ids])
        return self._made_from(request, ctx)

    def _made_from(self, source: Any, ctx: RequestContext) -> Any:
        made = error_answer(self._api, ctx.version, source, self._code, message=MESSAGE, depth=self._depth)
        return Verdict.PASSED if made is None else made

    def _within(self, real: Any, made: Any) -> Any:
        return (
            made
            if made is Verdict.PASSED
            else real._replace(**{name: getattr(made, name) for name in carriers(type(real))})
        )


def _every_topic(request: Any, ctx: RequestContext) -> Any:
    """Metadata that asks for all topics names none."""
    is_all = request.topics is None or (not request.topics and ctx.version == 0)
    return (
        request._replace(topics=[MetadataRequestTopic(name=name) for name in ctx.image.topic_ids])
        if is_all
        else request
    )


class HoldBack:
    """The request has its effect, and its answer comes later by the broker's clock.

    Later answers of the connection wait behind it. Its effect must not wait: requests take effect in their order.
    """

    def __init__(self, delay_ms: float) -> None:
        self._delay_ms = delay_ms

    def on(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:
        response = handle(request, ctx)
        if response is None:
            return None
        held: Later[Any] = Later()

        def ready(value: Any) -> None:
            timer: Timer = ctx.broker.clock.call_later(self._delay_ms, lambda: held.resolve(value))
            held.on_abandon(timer.cancel)

        if isinstance(response, Later):
            held.on_abandon(response.abandon)
            response.then(ready)
        else:
            ready(response)
        return held


class DropBefore:
    """The connection goes, and the request has no effect."""

    def on(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:  # noqa: ARG002
        return Verdict.HANG_UP


class DropAfter:
    """The request has its effect, and the connection goes instead of an answer."""

    def on(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:
        response = handle(request, ctx)
        if not isinstance(response, Later):
            return Verdict.HANG_UP
        never: Later[Any] = Later()
        never.on_abandon(response.abandon)
        response.then(lambda _: ctx.connection.hang_up(MESSAGE))
        return never
