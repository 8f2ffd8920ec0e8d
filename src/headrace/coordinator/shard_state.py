"""What a shard of groups holds: the groups and offsets of one partition of __consumer_offsets.

The modules of a family (classic_*, consumer_*, offset_*) take this state as their first argument and know nothing of
one another; `GroupShard` in groups.py is the same state with a door for each request.

Both kinds of group answer the questions that offsets, listing and deletion ask, under the same names:

    group_id, kind ("classic", "consumer"), protocol_type
    state_name                          as Kafka writes it: "Empty", "PreparingRebalance", "Assigning", ...
    is_empty                            it has no member
    is_subscribed(topic)                a member wants records of this topic, as far as the coordinator can tell
    check_offset_commit(member_id, instance_id, generation, *, is_transactional) -> ErrorCode
                                        consumer groups also take `version` and `partitions`: (topic id, index) of each
    check_offset_fetch(member_id, member_epoch) -> ErrorCode
    check_offset_delete() -> ErrorCode
    check_delete() -> ErrorCode
    offset_expires_from(committed_ms) -> int | None      when the retention of an offset began; None: it is kept
    tombstones() -> tuple[CoordinatorRecord, ...]        what makes all its records go, offsets aside
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from headrace.cluster.image import Image
from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.deadlines import Deadlines
from headrace.coordinator.group_settings import GroupSettings
from headrace.coordinator.offsets import Offsets
from headrace.coordinator.regex_job import RegexJob
from headrace.coordinator.result import Step
from headrace.coordinator.topic_hashes import TopicHashes

Group: TypeAlias = ClassicGroup | ConsumerGroup
DeadlineKey: TypeAlias = tuple[str, ...]  # what is due, then whose: ("session", group_id, member_id)


class ShardState:
    """Hard and soft state of a shard; result.py says what that means."""

    __slots__ = (
        "deadlines",
        "groups",
        "image",
        "is_loaded",
        "new_id",
        "offsets",
        "regex_jobs",
        "settings",
        "topic_hashes",
    )

    def __init__(self, settings: GroupSettings, image: Image, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.image = image  # the newest committed metadata
        self.new_id = new_id  # a random text, never the same twice
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.topic_hashes = TopicHashes(image)
        self.regex_jobs: dict[str, RegexJob] = {}  # by group, at most one
        self.is_loaded = False  # until then there are records to replay, no timers and nobody who waits


Replay: TypeAlias = Callable[[ShardState, Any, Any | None], None]  # a record's key and value; None is a tombstone
Due: TypeAlias = Callable[[ShardState, DeadlineKey, int], Iterable[Step]]  # what is due, and the time
