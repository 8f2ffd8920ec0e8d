"""What is due in consumer groups, and when; consumer_timers.py says what happens then."""

from typing import Final

from headrace.coordinator.shard_state import DeadlineKey, ShardState

SESSION: Final = "consumer-session"  # a member has not been heard of for its session time-out
REBALANCE: Final = "consumer-rebalance"  # it has not given up partitions for its rebalance time-out
JOIN: Final = "consumer-join"  # one that speaks the classic protocol was told to join again, and has not for as long
SYNC: Final = "consumer-sync"  # such a member has joined, and not sent SyncGroup for as long
REGEX: Final = "consumer-regex"  # the look-up of a group's patterns has more to do


def member_key(kind: str, group_id: str, member_id: str) -> DeadlineKey:
    return (kind, group_id, member_id)


def cancel_all(state: ShardState, group_id: str, member_id: str) -> None:
    """Nothing is expected of the member any more."""
    for kind in (SESSION, REBALANCE, JOIN, SYNC):
        state.deadlines.cancel((kind, group_id, member_id))
