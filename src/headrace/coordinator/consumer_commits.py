"""May a member of a consumer group commit or fetch offsets at the epoch that it says?

Commits travel beside heartbeats, so a member may commit at an epoch that the coordinator has moved it on from. That is
fine for partitions that it has had since then, and wrong for one that it gave up and got back: in between another
member may have got further (KIP-1251).
"""

from collections.abc import Iterable
from typing import Final

from headrace.coordinator.consumer_member import ConsumerMember
from headrace.protocol.error_codes import ErrorCode

_EPOCHS_SINCE: Final = 9  # of OffsetCommit: before, a member could not say its epoch


def check_commit(
    member: ConsumerMember,
    member_epoch: int,
    partitions: Iterable[tuple[bytes, int]],
    *,
    is_transactional: bool,
    version: int,
) -> ErrorCode:
    if not is_transactional and member.classic is None and version < _EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if member_epoch == member.member_epoch:
        return ErrorCode.NONE
    if member_epoch > member.member_epoch:
        return _stale(member)
    for topic_id, partition in partitions:
        since_epoch = member.assigned.get(topic_id, {}).get(partition)
        if since_epoch is None:
            since_epoch = member.revoking.get(topic_id, {}).get(partition)
        if since_epoch is None or member_epoch < since_epoch:
            return _stale(member)
    return ErrorCode.NONE


def check_fetch(member: ConsumerMember, member_epoch: int) -> ErrorCode:
    return ErrorCode.NONE if member_epoch == member.member_epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    """A member that speaks the classic protocol knows its epoch as a generation."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
