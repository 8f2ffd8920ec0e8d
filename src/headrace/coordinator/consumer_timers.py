"""What happens to consumer groups (KIP-848) when time passes or the cluster's metadata changes."""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator import consumer_regex
from headrace.coordinator.consumer_deadlines import JOIN, REBALANCE, REGEX, SESSION, SYNC
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_leaving import remove_members
from headrace.coordinator.consumer_member import LEAVING_FOR_NOW, MemberState
from headrace.coordinator.draft import Draft
from headrace.coordinator.result import Step
from headrace.coordinator.shard_state import DeadlineKey, Due, ShardState

_WHY: Final = {
    SESSION: "was silent for its session time-out",
    REBALANCE: "did not give up its partitions in time",
    JOIN: "did not join again in time",
    SYNC: "did not send SyncGroup in time",
}


def _member_late(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None:
        return
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != LEAVING_FOR_NOW
    if kind == REBALANCE and not is_revoking:
        return
    draft = Draft()
    reason = f"member {member_id} of {member.client_id} on {member.client_host} {_WHY[kind]}"
    remove_members(state, group, [member], reason, draft, now_ms)
    yield draft.step()


DUE: Final[Mapping[str, Due]] = {**dict.fromkeys(_WHY, _member_late), REGEX: consumer_regex.go_on}


def image_changed(state: ShardState, before: Image) -> None:
    """`state.image` is the new one already. Groups look at what changed with their next heartbeat."""
    image = state.image
    if image.topics is before.topics:
        state.topic_hashes.replace_image(image, ())
        return
    changed = {
        topic.name
        for topics, others in ((image.topics, before.topics), (before.topics, image.topics))
        for topic_id, topic in topics.items()
        if others.get(topic_id) is not topic
    }
    state.topic_hashes.replace_image(image, changed)
    has_new = any(topic_id not in before.topics for topic_id in image.topics)
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            group.is_metadata_stale |= any(map(group.is_subscribed, changed))
            group.is_regex_stale |= has_new
