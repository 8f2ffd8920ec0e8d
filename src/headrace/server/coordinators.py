"""The coordinators of this node, wired: groups with their offsets, and transactions with their markers.

A transaction may contain offsets of groups. Its coordinator writes the marker into the partition of the group, and the
shard of the group hears of it here: that is all that the two know of one another.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.cluster.config_resolution import broker_values_above
from headrace.cluster.config_types import Value
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image
from headrace.coordinator.group_settings import GroupSettings
from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import Marking, Overdue, Producer
from headrace.coordinator.transactions import TransactionSettings, TransactionShard
from headrace.protocol.apis import GROUP_RECORDS, TRANSACTION_RECORDS
from headrace.server.clock import Clock
from headrace.server.coordinator_runtime import CoordinatorRuntime
from headrace.server.partitions import Partitions
from headrace.server.producer_ids import ProducerIds
from headrace.server.transaction_admission import TransactionAdmission
from headrace.server.transaction_markers import TransactionMarkers

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
_VERIFICATION: Final = "transaction.partition.verification.enable"


class Coordinators:
    def __init__(
        self,
        values: Mapping[str, Value],
        partitions: Partitions,
        clock: Clock,
        new_id: Callable[[], str],
        producer_ids: ProducerIds,
    ) -> None:
        """`values`: of all broker configs, by the file; `new_id`: a random text for the name of a member."""
        self._values_by_file = values
        self._group_settings = GroupSettings.from_configs(values)
        transaction_settings = _transaction_settings(values)
        self._clock = clock
        self._node = ConfigResource(ConfigKind.BROKER, str(partitions.node_id))
        self.groups: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            OFFSETS_TOPIC,
            GROUP_RECORDS,
            lambda image: GroupShard(self._group_settings, image, new_id),
            partitions,
            clock,
        )
        self.transactions: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTIONS_TOPIC,
            TRANSACTION_RECORDS,
            lambda _: TransactionShard(transaction_settings),
            partitions,
            clock,
            self._mark,
            self._take_id_for,
        )
        self._producer_ids = producer_ids
        self.markers = TransactionMarkers(partitions, clock, self._offsets_ended)
        self.admission = TransactionAdmission(self.transactions, partitions, clock)

    def start(self, image: Image) -> None:
        self._configure(image)
        self.groups.start(image)
        self.transactions.start(image)

    def image_changed(self, old: Image, new: Image) -> None:
        if new.configs is not old.configs:
            self._configure(new)
        self.groups.image_changed(old, new)
        self.transactions.image_changed(old, new)

    def stop(self) -> None:
        self.groups.stop()
        self.transactions.stop()

    def _configure(self, image: Image) -> None:
        """What may be set while the broker runs."""
        values = broker_values_above(self._values_by_file, image.config(CLUSTER_DEFAULT), image.config(self._node))
        self.admission.verifies = bool(values[_VERIFICATION])
        self._group_settings = GroupSettings.from_configs(values)
        for shard in self.groups.shards:
            shard.settings = self._group_settings

    def _mark(self, marking: Marking, coordinator_epoch: int, is_wanted: Callable[[], bool]) -> None:
        def finish(_: None) -> None:
            self.transactions.advance(
                marking.transactional_id,
                lambda shard: shard.marked(marking.transactional_id, marking.producer, self._clock.now_ms()),
            )

        self.markers.write_all(marking, coordinator_epoch, is_wanted).then(finish)

    def _take_id_for(self, overdue: Overdue) -> None:
        def go_on(fresh_id: int | None) -> None:
            if fresh_id is not None:  # else the shard asks again
                self.transactions.advance(
                    overdue.transactional_id,
                    lambda shard: shard.end_overdue(overdue, fresh_id=fresh_id, now_ms=self._clock.now_ms()),
                )

        self._producer_ids.take().then(go_on)

    def _offsets_ended(self, index: int, producer: Producer, committed: bool) -> None:
        self.groups.end_transaction(index, producer, committed=committed)


def _transaction_settings(values: Mapping[str, Any]) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=values["transaction.max.timeout.ms"],
        id_expiration_ms=values["transactional.id.expiration.ms"],
        expiry_interval_ms=values["transaction.remove.expired.transaction.cleanup.interval.ms"],
    )
