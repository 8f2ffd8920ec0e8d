"""What a handler may ask: the broker's nouns, and who is asking.

`Context` is made once, by the composition root; `RequestContext` is one request's view of it.
"""

from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from headrace.cluster.decision import MutationQuota, no_quota
from headrace.cluster.image import Image
from headrace.coordinator.result import Client
from headrace.protocol.messages.headers import RequestHeader
from headrace.server.clock import Clock
from headrace.server.connection import Connection
from headrace.server.telemetry import Telemetry

if TYPE_CHECKING:
    from headrace.server.controller import Controller
    from headrace.server.coordinators import Coordinators
    from headrace.server.fetch_sessions import FetchSessions
    from headrace.server.partitions import Partitions
    from headrace.server.producer_ids import ProducerIds
    from headrace.server.quotas import Meter, Quotas


@dataclass(slots=True)
class Context:
    """The broker's nouns. Handlers reach everything through it, and only what they need."""

    node_id: int
    cluster_id: str
    clock: Clock
    controller: "Controller"  # the metadata road: decide, append, replay, reply; holds the image
    partitions: "Partitions"  # the partitions that this broker has a replica of
    fetch_sessions: "FetchSessions"  # what consumers read, and how much of it at once
    producer_ids: "ProducerIds"  # for idempotent producers
    coordinators: "Coordinators"  # groups, offsets and transactions
    quotas: "Quotas"  # who is too fast
    telemetry: Telemetry = field(default_factory=Telemetry)  # what clients are asked to tell of themselves
    random: Random = field(default_factory=SystemRandom)  # placement, and the ids of new topics


class RequestContext:
    """One request: who asks, in which version, and the image that holds for all of its answer."""

    __slots__ = ("broker", "connection", "header", "image", "meter", "version")

    def __init__(
        self, broker: Context, connection: Connection, header: RequestHeader, meter: "Meter | None" = None
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.header = header
        self.version: int = header[1]
        self.image: Image = broker.controller.image
        self.meter = meter  # None: no quota holds for this client

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def client(self) -> Client:
        """Who asks, as groups show it."""
        return Client(self.client_id, f"/{self.connection.peer[0]}")

    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def mutation_quota(self, *, is_strict: bool) -> MutationQuota:
        """Whether partitions may be created and deleted for this client; it waits afterwards unless `is_strict`."""
        quota = None if self.meter is None else self.meter.mutation_quota(is_strict=is_strict)
        return quota or no_quota
