"""DescribeGroups and ListGroups."""

from collections.abc import Iterable

from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.describe_groups import DescribedGroup
from headrace.protocol.messages.list_groups import ListedGroup


def describe_group(state: ShardState, group_id: str) -> DescribedGroup:
    raise NotImplementedError


def list_groups(state: ShardState, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
    raise NotImplementedError
