"""A consumer commits offsets of the same partitions again and again: what was found out once and still holds.

Topics are looked up in the metadata of the cluster, which is immutable: as long as it is the same, so is what was found
there. Whether the group takes commits of this member is asked each time.
"""

from collections.abc import Iterable
from itertools import cycle
from typing import Final

from headrace.cluster.image import Topic
from headrace.coordinator.group_records import OFFSET_COMMIT, OFFSET_COMMIT_VERSION
from headrace.coordinator.offset_commit import NO_EXPIRY, check_commit, find_topics
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.offset_commit import OffsetCommitRequest
from headrace.protocol.primitives import new

EPOCHS_SINCE: Final = 6  # versions before it say how long an offset is kept, or nothing of leader epochs


class RepeatedCommit:
    """A request of version EPOCHS_SINCE or later that was taken as a whole, but for its offsets and leader epochs."""

    __slots__ = ("_found", "_image", "_request", "_rows", "_version")

    def __init__(self, state: ShardState, request: OffsetCommitRequest, version: int) -> None:
        self._image = state.image
        self._request = request
        self._version = version
        self._found = find_topics(state.image, request.topics, version)
        self._rows = [
            (new(OffsetCommitKey, (request.group_id, its.name, row.partition_index)), row.committed_metadata or "", its)
            for topic, its in zip(request.topics, self._found, strict=True)
            if isinstance(its, Topic)
            for row in topic.partitions
        ]

    def __len__(self) -> int:
        """How many offsets it has."""
        return len(self._rows)

    def holds(self, state: ShardState, now_ms: int) -> bool:
        """Would the group take it now?"""
        return state.image is self._image and not check_commit(
            state, self._request, self._found, version=self._version, now_ms=now_ms
        )

    def records(self, offsets: Iterable[int], leader_epochs: Iterable[int], now_ms: int) -> list[CoordinatorRecord]:
        """What `offset_commit` would write for these numbers of one request, or of several one after the other."""
        return [
            new(
                CoordinatorRecord,
                (
                    OFFSET_COMMIT,
                    key,
                    OFFSET_COMMIT_VERSION,
                    new(OffsetCommitValue, (offset, leader_epoch, metadata, now_ms, NO_EXPIRY, topic.topic_id, ())),
                ),
            )
            for (key, metadata, topic), offset, leader_epoch in zip(
                cycle(self._rows), offsets, leader_epochs, strict=False
            )
        ]
