"""DeleteGroups: a group without members goes, and with it all its offsets."""

from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import offset_commit as offset_record
from headrace.coordinator.result import Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode


def delete_group(state: ShardState, group_id: str, *, ticket: Ticket) -> Step:
    """The answer is an ErrorCode."""
    group = state.groups.get(group_id)
    if group is None:
        return answer(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
    code = group.check_delete()
    if code:
        return answer(ticket, code)
    offsets = [offset_record(group_id, topic, partition, None) for topic, partition in state.offsets.places(group_id)]
    draft = Draft()
    draft.write(*offsets, *group.tombstones())
    draft.answer(ticket, ErrorCode.NONE)
    draft.notice(f"[group {group_id}] is deleted; offsets that go with it: {len(offsets)}")
    return draft.step()
