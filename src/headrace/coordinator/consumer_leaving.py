"""How members go out of a consumer group: they leave, or they are removed because they did not do their part."""

from collections.abc import Sequence

from headrace.coordinator.consumer_deadlines import REBALANCE, cancel_all, member_key
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import LEAVING_FOR_NOW, NOTHING_OWNED, ConsumerMember
from headrace.coordinator.consumer_members import find_member
from headrace.coordinator.consumer_records import current_record, epoch_record, member_tombstones
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import consumer_group_regex
from headrace.coordinator.migration_downgrade import downgrade, plan_downgrade
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, draft: Draft, now_ms: int
) -> ConsumerGroupHeartbeatResponse:
    """Raises RefusedError."""
    group = state.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    member = find_member(group, request.member_id, request.instance_id)
    if request.member_epoch == LEAVING_FOR_NOW:
        _leave_for_now(state, group, member, draft)
    else:
        remove_members(state, group, [member], f"member {member.member_id} of {member.client_id} left", draft, now_ms)
    return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def _leave_for_now(state: ShardState, group: ConsumerGroup, member: ConsumerMember, draft: Draft) -> None:
    """A static member keeps its partitions for its session time-out: whoever comes back in its name has them."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    gone = member._replace(member_epoch=LEAVING_FOR_NOW, assigned=assigned, revoking=NOTHING_OWNED)
    draft.write(current_record(group.group_id, gone))
    draft.notice(f"[group {group.group_id} epoch {group.epoch}] static member {member.instance_id} left for now")
    state.deadlines.cancel(member_key(REBALANCE, group.group_id, member.member_id))


def remove_members(
    state: ShardState,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    reason: str,
    draft: Draft,
    now_ms: int,
) -> None:
    """Without them; if only members are left that speak the classic protocol, as a classic group."""
    if not members:
        return
    plan = plan_downgrade(state, group, members, now_ms)
    if plan is not None:
        downgrade(state, group, plan, draft, now_ms, reason=f"{reason}, and the others speak the classic protocol")
        return
    for member in members:
        draft.write(*member_tombstones(group.group_id, member.member_id))
    subscriptions = group.subscriptions.copy()
    for member in members:
        subscriptions.remove(member)
    for regex in [regex for regex in group.subscriptions.regexes if regex not in subscriptions.regexes]:
        draft.write(consumer_group_regex(group.group_id, regex, None))
    subscriptions.forget_unwanted()
    epoch = group.epoch + 1
    draft.write(epoch_record(group.group_id, epoch, state.topic_hashes.of_topics(subscriptions.topics)))
    draft.notice(f"[group {group.group_id} epoch {epoch}] is to be assigned anew: {reason}")
    for member in members:
        cancel_all(state, group.group_id, member.member_id)
