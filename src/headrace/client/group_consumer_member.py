"""A member of a group of the protocol `consumer` (KIP-848): what it says, and what the answers mean. It only computes.

There is one request, the heartbeat. It says what has changed on our side: the subscription, and which partitions are
ours. The answer brings what has changed on the coordinator's side: the member's epoch, and which partitions should be
ours. Epoch 0 joins, -1 leaves, -2 leaves for a while, which only static members can.

What was said is not repeated; after a request without an answer, or with an error, everything is said again.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from headrace.client.config import Settings
from headrace.client.errors import KafkaError, code_of, error_for
from headrace.client.group_member import GroupMember
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2


class PartitionOfId(NamedTuple):
    """A partition as the coordinator names it."""

    topic_id: bytes
    number: int


class Subscription(NamedTuple):
    topics: frozenset[str]
    pattern: str | None = None  # that the broker matches


class Verdict(Enum):
    """What follows from an answer."""

    DONE = "it worked"
    AGAIN = "say it again after a pause"
    ELSEWHERE = "say it again, to another coordinator"
    BEGIN_ANEW = "we are not a member any more, and have lost what we had: join again"
    FAILED = "the user must hear of it"


_VERDICTS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.NOT_COORDINATOR: Verdict.ELSEWHERE,
    ErrorCode.FENCED_MEMBER_EPOCH: Verdict.BEGIN_ANEW,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.BEGIN_ANEW,
}

_Said: TypeAlias = tuple[Subscription | None, frozenset[PartitionOfId] | None]


class ConsumerMember:
    def __init__(self, settings: Settings, member_id: str) -> None:
        """The id is one's own choice, and stays as long as the consumer lives."""
        self._group_id = settings.text("group.id")
        self._instance_id = settings.optional_text("group.instance.id")
        self._rack = settings.text("client.rack") or None
        self._rebalance_timeout_ms = settings.number("max.poll.interval.ms")
        self._assignor = settings.optional_text("group.remote.assignor")
        self._member_id = member_id
        self._epoch = JOINING
        self._said: _Said = (None, None)
        self._saying: _Said = (None, None)  # by the request that has no answer yet
        self.interval_ms = 0  # between heartbeats, as the coordinator wants it

    @property
    def is_member(self) -> bool:
        return self._epoch > JOINING

    @property
    def identity(self) -> GroupMember:
        if not self.is_member:
            return GroupMember(self._group_id, -1, "", self._instance_id)
        return GroupMember(self._group_id, self._epoch, self._member_id, self._instance_id)

    def has_news(self, subscription: Subscription, owned: Collection[PartitionOfId]) -> bool:
        """Whether a heartbeat would say something new."""
        return self._said != (subscription, frozenset(owned))

    def heartbeat(self, subscription: Subscription, owned: Iterable[PartitionOfId]) -> ConsumerGroupHeartbeatRequest:
        mine = frozenset() if self._epoch == JOINING else frozenset(owned)
        said_subscription, said_owned = (None, None) if self._epoch == JOINING else self._said
        self._saying = (subscription, mine)
        is_all_said = said_subscription is not None
        tells_topics = said_subscription is None or said_subscription.topics != subscription.topics
        tells_pattern = said_subscription is None or said_subscription.pattern != subscription.pattern
        return ConsumerGroupHeartbeatRequest(
            self._group_id,
            self._member_id,
            self._epoch,
            self._instance_id,
            None if is_all_said else self._rack,
            -1 if is_all_said else self._rebalance_timeout_ms,
            sorted(subscription.topics) if tells_topics else None,
            (subscription.pattern or "") if tells_pattern and (is_all_said or subscription.pattern) else None,
            None if is_all_said else self._assignor,
            None if mine == said_owned else _by_id(mine),
        )

    def heard(
        self, response: ConsumerGroupHeartbeatResponse
    ) -> tuple[Verdict, KafkaError | frozenset[PartitionOfId] | None]:
        """The partitions that should be ours, if that has changed."""
        code = code_of(response.error_code)
        if code is not ErrorCode.NONE:
            return self._judge(code, response.error_message)
        self._epoch = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        self._said = self._saying
        if response.assignment is None:
            return Verdict.DONE, None
        rows = response.assignment.topic_partitions
        return Verdict.DONE, frozenset(PartitionOfId(row.topic_id, number) for row in rows for number in row.partitions)

    def unheard(self) -> None:
        """No answer came, or one with an error."""
        self._said = (None, None)

    def leave(self, *, is_final: bool) -> ConsumerGroupHeartbeatRequest:
        epoch = LEAVING if is_final or self._instance_id is None else LEAVING_FOR_A_WHILE
        return ConsumerGroupHeartbeatRequest(self._group_id, self._member_id, epoch, self._instance_id)

    def forget(self) -> None:
        """Not a member any more."""
        self._epoch = JOINING
        self.unheard()

    def _judge(self, code: ErrorCode, message: str | None) -> tuple[Verdict, KafkaError]:
        verdict = _VERDICTS.get(code) or (Verdict.AGAIN if code.retriable else Verdict.FAILED)
        self.unheard()
        if verdict is Verdict.BEGIN_ANEW:
            self.forget()
        if code is ErrorCode.FENCED_INSTANCE_ID or code is ErrorCode.UNRELEASED_INSTANCE_ID:
            text = (
                f"Another member of the group {self._group_id!r} has the name {self._instance_id!r} "
                "(group.instance.id)."
            )
        else:
            text = f"The group {self._group_id!r} does not want us: {message or code.meaning}"
        return verdict, error_for(code, text)


def _by_id(partitions: Iterable[PartitionOfId]) -> list[TopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(*item) for item in topics.items()]
