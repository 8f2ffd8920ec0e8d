"""The cluster as the clients of one listener see it: which nodes they can reach, and who leads what.

Listeners exist so that different networks reach the same brokers by different addresses. A client is told the addresses
of the listener it came by, and a broker that does not have that listener is out of its reach, as if it were offline.
"""

from collections.abc import Sequence
from typing import Final

from headrace.cluster.image import NO_LEADER, Broker, Endpoint, Image, Partition
from headrace.protocol.error_codes import ErrorCode
from headrace.server.leader_hints import NodeHint

# What a client may do, as bits by the numbers of Kafka's operations. Without an authorizer everybody may do everything.
ALL_TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
ALL_CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


class ClientView:
    """One image through one listener; made for one answer.

    An answer may be about ten thousand partitions on a few brokers, so what was found for one is kept for the next.
    """

    __slots__ = ("_brokers", "_endpoints", "_leaders", "_offline")

    def __init__(self, image: Image, listener: str) -> None:
        self._brokers = image.brokers
        self._endpoints: dict[int, Endpoint] = {
            broker.broker_id: endpoint
            for broker in image.brokers.values()
            for endpoint in broker.listeners
            if endpoint.name == listener
        }
        self._leaders: dict[int, tuple[ErrorCode, int]] = {}
        self._offline: dict[tuple[tuple[int, ...], tuple[bytes, ...]], list[int]] = {}

    def nodes(self, *, with_fenced: bool = False) -> list[tuple[NodeHint, Broker]]:
        """The nodes that the client can reach, in order of their ids."""
        return [
            (NodeHint(broker_id, endpoint.host, endpoint.port, broker.rack), broker)
            for broker_id, endpoint in sorted(self._endpoints.items())
            if not (broker := self._brokers[broker_id]).fenced or with_fenced
        ]

    def known_nodes(self) -> list[tuple[NodeHint, Broker]]:
        """The nodes that a client should go on with. Fenced ones, if there are no others.

        That happens while the last broker stops: a client that is told of no node at all forgets the one it has, and
        some find nobody to ask any more when it is back.
        """
        return self.nodes() or self.nodes(with_fenced=True)

    def controller_id(self, node_id: int) -> int:
        """Where the client sends what is for the controller: any broker does (KIP-590), so the one that it asked."""
        alive = [node.node_id for node, _ in self.nodes()]
        return node_id if node_id in alive else min(alive, default=NO_LEADER)

    def leader_of(self, partition: Partition) -> tuple[ErrorCode, int]:
        """Who leads, or why the client cannot reach it."""
        leader = partition.leader
        return self._leaders.get(leader) or self._leaders.setdefault(leader, self._find_leader(leader))

    def _find_leader(self, leader: int) -> tuple[ErrorCode, int]:
        if leader in self._endpoints:
            return ErrorCode.NONE, leader
        if leader in self._brokers:
            return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER

    def is_reachable(self, broker_id: int) -> bool:
        return broker_id in self._endpoints and not self._brokers[broker_id].fenced

    def offline_replicas(self, partition: Partition) -> Sequence[int]:
        place = (partition.replicas, partition.directories)
        found = self._offline.get(place)
        if found is None:
            found = self._offline[place] = [
                replica
                for replica, directory in zip(*place, strict=True)
                if not (self.is_reachable(replica) and self._brokers[replica].has_online_directory(directory))
            ]
        return found
