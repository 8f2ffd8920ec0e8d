"""DescribeGroups and ListGroups: what there is, for people and tools."""

from collections.abc import Iterable
from typing import Final

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_member import ClassicMember
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from headrace.protocol.messages.list_groups import ListedGroup

_MISSING_GROUPS_NAMED_SINCE: Final = 6


def describe_group(state: ShardState, group_id: str, *, version: int) -> DescribedGroup:
    """A classic group; consumer groups are described by their own request, and are not found here."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        missing = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if version < _MISSING_GROUPS_NAMED_SINCE:
            return missing
        message = f"There is no group {group_id}." if group is None else f"{group_id} is not a classic group."
        return missing._replace(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    # Between two generations nobody can say which of its protocols a member's metadata is for.
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_describe_member(member, protocol) for member in group.members.values()],
    )


def _describe_member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.metadata(protocol),
        member.assignment,
    )


def list_groups(state: ShardState, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
    """Groups in one of the states and of one of the types; an empty filter lets everything pass, and case is free."""
    wanted_states = {each.strip().lower() for each in states}
    wanted_kinds = {each.lower() for each in types}
    return [
        ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.kind)
        for group in state.groups.values()
        if (not wanted_states or group.state_name.lower() in wanted_states)
        and (not wanted_kinds or group.kind in wanted_kinds)
    ]
