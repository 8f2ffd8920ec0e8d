"""ConsumerGroupDescribe (KIP-848)."""

from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.consumer_group_describe import DescribedGroup


def describe_consumer_group(state: ShardState, group_id: str) -> DescribedGroup:
    raise NotImplementedError
