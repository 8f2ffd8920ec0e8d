"""The committed offsets of the groups of one shard."""

from headrace.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue


class Offsets:
    """By group, topic and partition."""

    __slots__ = ()

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        raise NotImplementedError
