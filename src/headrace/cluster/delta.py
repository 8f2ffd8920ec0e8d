"""Records on top of an image: the only place where metadata changes.

A delta collects the effect of a batch of records and then becomes the next image. Each dictionary is copied when the
batch first touches it, and once: creating a thousand topics in a batch costs one copy of the topics, not a thousand.

Replay is strict. A record that contradicts the image (an unknown topic id, an epoch that goes back) means that the
log or the reader is wrong, and going on would spread the damage to every later decision; so it is a ReplayError that
names the record. What Kafka writes and tolerates itself, such as deleting a config that is not set, is no
contradiction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from headrace.cluster.features import KRAFT_VERSION, SUPPORTED_FEATURES
from headrace.cluster.image import (
    MIGRATING_DIRECTORY,
    Acl,
    Broker,
    ConfigKind,
    ConfigResource,
    ControllerNode,
    DelegationToken,
    Endpoint,
    FeatureSupport,
    Image,
    Partition,
    QuotaEntity,
    ScramCredential,
    Topic,
)
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.messages import metadata_records as messages
from headrace.protocol.types import uuid_to_text

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# PartitionChangeRecord: what stands for "as it was".
LEADER_AS_IT_WAS: Final = -2
RECOVERY_AS_IT_WAS: Final = -1


class ReplayError(ValueError):
    """A metadata record that contradicts the records before it: the log is damaged, or written by a newer version."""


class Delta:
    """An image on its way to the next one."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._changed: dict[str, Any] = {}  # the fields of the image that were touched: their copies
        self._partitions: dict[bytes, dict[int, Partition]] = {}  # the topics whose partitions were touched, likewise
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}

    def replay(self, record: MetadataRecord) -> None:
        """Add one record. Raises ReplayError."""
        _REPLAY[type(record)](self, record)

    def finish(self) -> Image:
        """The next image; the old one itself if no record changed anything."""
        return self._image._replace(**self._changed) if self._changed else self._image

    # ---- fields: read as they are by now, copied when first written

    def _now(self, field: str) -> Any:
        return self._changed[field] if field in self._changed else getattr(self._image, field)

    def _writable(self, field: str) -> Any:
        if field not in self._changed:
            self._changed[field] = dict(getattr(self._image, field))
        return self._changed[field]

    def _set_inner(
        self, field: str, copies: dict[_Key, dict[str, _Value]], outer: _Key, name: str, value: _Value | None
    ) -> None:
        """Set `field[outer][name]`, or delete it; an outer entry exists as long as it has an inner one."""
        whole = self._writable(field)
        if outer not in copies:
            copies[outer] = dict(whole.get(outer, {}))
        inner = copies[outer]
        if value is None:
            inner.pop(name, None)
        else:
            inner[name] = value
        if inner:
            whole[outer] = inner
        else:
            whole.pop(outer, None)
            del copies[outer]

    # ---- features

    def _feature_level(self, record: messages.FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return  # KAFKA-18979: some Kafka 4.0 wrote it by mistake; the quorum's control records have the truth
        known = SUPPORTED_FEATURES.get(record.name)
        if record.feature_level and (known is None or not known.lowest <= record.feature_level <= known.highest):
            can = "does not know it" if known is None else f"can do {known.lowest} to {known.highest}"
            raise ReplayError(
                f"the cluster works at {record.name} {record.feature_level}, and this build {can}: use a newer one"
            )
        levels = self._writable("features")
        if record.feature_level:
            levels[record.name] = record.feature_level
        else:
            levels.pop(record.name, None)

    # ---- brokers and controllers

    def _register_broker(self, record: messages.RegisterBrokerRecord) -> None:
        known: Broker | None = self._now("brokers").get(record.broker_id)
        if known is not None and record.broker_epoch < known.epoch:
            raise ReplayError(
                f"broker {record.broker_id} registers with epoch {record.broker_epoch} after it had {known.epoch}"
            )
        cordoned = record.cordoned_log_dirs
        self._writable("brokers")[record.broker_id] = Broker(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if cordoned is None else tuple(cordoned),
            record.is_migrating_zk_broker,
        )

    def _unregister_broker(self, record: messages.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, "is unregistered")
        del self._writable("brokers")[record.broker_id]

    def _fence_broker(self, record: messages.FenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch, "is fenced")
        self._writable("brokers")[record.id] = broker._replace(fenced=True)

    def _unfence_broker(self, record: messages.UnfenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch, "is unfenced")
        self._writable("brokers")[record.id] = broker._replace(fenced=False)

    def _change_registration(self, record: messages.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, "changes")
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise ReplayError(
                f"broker {record.broker_id} changes to fenced={record.fenced}, "
                f"in_controlled_shutdown={record.in_controlled_shutdown}, which mean nothing"
            )
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(log_dirs=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_log_dirs=tuple(record.cordoned_log_dirs))
        self._writable("brokers")[record.broker_id] = broker

    def _broker(self, broker_id: int, epoch: int, what: str) -> Broker:
        broker: Broker | None = self._now("brokers").get(broker_id)
        if broker is None:
            raise ReplayError(f"broker {broker_id} {what}, but is not registered")
        if broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} {what} at epoch {epoch}, but is registered with {broker.epoch}")
        return broker

    def _register_controller(self, record: messages.RegisterControllerRecord) -> None:
        self._writable("controllers")[record.controller_id] = ControllerNode(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
            record.zk_migration_ready,
        )

    # ---- topics and partitions

    def _topic(self, record: messages.TopicRecord) -> None:
        if record.topic_id in self._now("topics") or record.name in self._now("topic_ids"):
            raise ReplayError(f"topic {record.name!r} ({uuid_to_text(record.topic_id)}) is created, but exists already")
        self._writable("topics")[record.topic_id] = Topic(record.name, record.topic_id, {})
        self._writable("topic_ids")[record.name] = record.topic_id

    def _remove_topic(self, record: messages.RemoveTopicRecord) -> None:
        topic = self._topic_of(record.topic_id, "is deleted")
        del self._writable("topics")[record.topic_id]
        del self._writable("topic_ids")[topic.name]
        self._partitions.pop(record.topic_id, None)
        resource = ConfigResource(ConfigKind.TOPIC, topic.name)
        if resource in self._now("configs"):
            del self._writable("configs")[resource]
            self._configs.pop(resource, None)

    def _partition(self, record: messages.PartitionRecord) -> None:
        topic = self._topic_of(record.topic_id, f"gets partition {record.partition_id}")
        self._set_partition(topic, record.partition_id, _created(topic, record))

    def _change_partition(self, record: messages.PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id, f"changes partition {record.partition_id}")
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"{topic.name}-{record.partition_id} changes, but has only {len(topic.partitions)}")
        self._set_partition(topic, record.partition_id, merge(partition, record))

    def _clear_elr(self, record: messages.ClearElrRecord) -> None:
        topics: Mapping[bytes, Topic] = self._now("topics")
        topic_id = self._now("topic_ids").get(record.topic_name)
        if record.topic_name and topic_id is None:
            raise ReplayError(f"topic {record.topic_name!r} loses its eligible leaders, but does not exist")
        for topic in [topics[topic_id]] if topic_id else list(topics.values()):
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    cleared = messages.PartitionChangeRecord(eligible_leader_replicas=(), last_known_elr=())
                    self._set_partition(topic, index, merge(partition, cleared))

    def _topic_of(self, topic_id: bytes, what: str) -> Topic:
        topic: Topic | None = self._now("topics").get(topic_id)
        if topic is None:
            raise ReplayError(f"the topic with id {uuid_to_text(topic_id)} {what}, but does not exist")
        return topic

    def _set_partition(self, topic: Topic, index: int, partition: Partition) -> None:
        partitions = self._partitions.get(topic.topic_id)
        if partitions is None:
            partitions = self._partitions[topic.topic_id] = dict(topic.partitions)
            self._writable("topics")[topic.topic_id] = topic._replace(partitions=partitions)
        partitions[index] = partition

    # ---- configs, quotas, producer ids

    def _config(self, record: messages.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self._set_inner("configs", self._configs, resource, record.name, record.value)

    def _client_quota(self, record: messages.ClientQuotaRecord) -> None:
        entity = quota_entity(record.entity)
        self._set_inner("client_quotas", self._quotas, entity, record.key, None if record.remove else record.value)

    def _producer_ids(self, record: messages.ProducerIdsRecord) -> None:
        next_id = self._now("next_producer_id")
        if record.next_producer_id < next_id:
            raise ReplayError(f"the next producer id goes back from {next_id} to {record.next_producer_id}")
        self._changed["next_producer_id"] = record.next_producer_id

    # ---- security

    def _scram(self, record: messages.UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self._writable("scram_credentials")[record.name, record.mechanism] = credential

    def _remove_scram(self, record: messages.RemoveUserScramCredentialRecord) -> None:
        self._remove("scram_credentials", (record.name, record.mechanism), f"the SCRAM credential of {record.name!r}")

    def _acl(self, record: messages.AccessControlEntryRecord) -> None:
        self._writable("acls")[record.id] = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def _remove_acl(self, record: messages.RemoveAccessControlEntryRecord) -> None:
        self._remove("acls", record.id, f"the access rule {uuid_to_text(record.id)}")

    def _delegation_token(self, record: messages.DelegationTokenRecord) -> None:
        self._writable("delegation_tokens")[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def _remove_delegation_token(self, record: messages.RemoveDelegationTokenRecord) -> None:
        self._remove("delegation_tokens", record.token_id, f"the delegation token {record.token_id!r}")

    def _remove(self, field: str, key: Any, what: str) -> None:
        if key not in self._now(field):
            raise ReplayError(f"{what} is removed, but does not exist")
        del self._writable(field)[key]

    def _nothing(self, record: MetadataRecord) -> None:
        """Records without an effect on the image: no-ops, and the migration from ZooKeeper, long over."""

    def _transaction(self, record: MetadataRecord) -> None:
        raise ReplayError(f"{type(record).__name__} between single records: metadata transactions are for Replay")


def merge(partition: Partition, change: messages.PartitionChangeRecord) -> Partition:
    """The partition after a change record; fields that the record leaves out stay as they are."""
    _, _, isr, leader, replicas, removing, adding, recovery, directories, elr, last_known_elr, _ = change
    now = partition
    if replicas is not None or directories is not None:
        now = _placed(now, replicas, directories)
    elects = leader != LEADER_AS_IT_WAS
    return Partition(
        now.replicas,
        now.isr if isr is None else tuple(isr),
        leader if elects else now.leader,
        now.leader_epoch + elects,
        now.partition_epoch + 1,
        now.directories,
        now.adding_replicas if adding is None else tuple(adding),
        now.removing_replicas if removing is None else tuple(removing),
        now.elr if elr is None else tuple(elr),
        now.last_known_elr if last_known_elr is None else tuple(last_known_elr),
        now.recovering if recovery == RECOVERY_AS_IT_WAS else recovery == 1,
    )


def _placed(partition: Partition, replicas: Sequence[int] | None, directories: Sequence[bytes] | None) -> Partition:
    now_replicas = partition.replicas if replicas is None else tuple(replicas)
    now_directories = partition.directories if directories is None else tuple(directories)
    if len(now_directories) != len(now_replicas):
        # Before 3.7-IV2 a change carried no directories, and none was known.
        now_directories = (MIGRATING_DIRECTORY,) * len(now_replicas)
    return partition._replace(replicas=now_replicas, directories=now_directories)


def _created(topic: Topic, record: messages.PartitionRecord) -> Partition:
    replicas = tuple(record.replicas)
    isr = tuple(record.isr)
    directories = tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(replicas)
    if len(directories) != len(replicas):
        raise ReplayError(
            f"{topic.name}-{record.partition_id} has {len(replicas)} replicas in {len(directories)} directories"
        )
    return Partition(
        replicas,
        replicas if isr == replicas else isr,  # most partitions are in sync: one tuple instead of two
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        directories,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        record.leader_recovery_state == 1,
    )


def quota_entity(rows: Iterable[messages.EntityData]) -> QuotaEntity:
    """The key of a quota, in the one order that it has in the image."""
    return tuple(sorted({row.entity_type: row.entity_name for row in rows}.items(), key=itemgetter(0)))


def _endpoints(rows: Iterable[messages.BrokerEndpoint | messages.ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(row.name, row.host, row.port, row.security_protocol) for row in rows)


def _features(rows: Iterable[messages.BrokerFeature | messages.ControllerFeature]) -> tuple[FeatureSupport, ...]:
    return tuple(FeatureSupport(row.name, row.min_supported_version, row.max_supported_version) for row in rows)


_REPLAY: Final[Mapping[type[Any], Callable[[Delta, Any], None]]] = {
    messages.RegisterBrokerRecord: Delta._register_broker,
    messages.UnregisterBrokerRecord: Delta._unregister_broker,
    messages.TopicRecord: Delta._topic,
    messages.PartitionRecord: Delta._partition,
    messages.ConfigRecord: Delta._config,
    messages.PartitionChangeRecord: Delta._change_partition,
    messages.FenceBrokerRecord: Delta._fence_broker,
    messages.UnfenceBrokerRecord: Delta._unfence_broker,
    messages.RemoveTopicRecord: Delta._remove_topic,
    messages.DelegationTokenRecord: Delta._delegation_token,
    messages.UserScramCredentialRecord: Delta._scram,
    messages.FeatureLevelRecord: Delta._feature_level,
    messages.ClientQuotaRecord: Delta._client_quota,
    messages.ProducerIdsRecord: Delta._producer_ids,
    messages.BrokerRegistrationChangeRecord: Delta._change_registration,
    messages.AccessControlEntryRecord: Delta._acl,
    messages.RemoveAccessControlEntryRecord: Delta._remove_acl,
    messages.NoOpRecord: Delta._nothing,
    messages.ZkMigrationStateRecord: Delta._nothing,
    messages.RemoveUserScramCredentialRecord: Delta._remove_scram,
    messages.BeginTransactionRecord: Delta._transaction,
    messages.EndTransactionRecord: Delta._transaction,
    messages.AbortTransactionRecord: Delta._transaction,
    messages.RemoveDelegationTokenRecord: Delta._remove_delegation_token,
    messages.RegisterControllerRecord: Delta._register_controller,
    messages.ClearElrRecord: Delta._clear_elr,
}
