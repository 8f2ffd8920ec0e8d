"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848)."""

from headrace.coordinator.result import Client, Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def consumer_group_heartbeat(
    state: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    *,
    ticket: Ticket,
    client: Client,
    version: int,
    now_ms: int,
) -> Step:
    raise NotImplementedError
