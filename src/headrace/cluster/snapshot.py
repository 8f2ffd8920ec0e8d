"""An image written out as records: replayed on the empty image they give it back.

A snapshot of the metadata log is such a list. The order is Kafka's, so that whoever replays it meets nothing before
what it refers to: features (metadata.version first), brokers, controllers, topics each followed by its partitions,
configs, quotas, producer ids, access rules, SCRAM credentials, delegation tokens. What the image's metadata.version
cannot carry is left out; it cannot have come about at that version.
"""

from collections.abc import Iterator

from headrace.cluster.features import (
    CORDONED_DIRECTORIES_SINCE,
    DIRECTORIES_SINCE,
    ELR_SINCE,
    METADATA_VERSION,
)
from headrace.cluster.image import Broker, ControllerNode, Image, Partition, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)


def image_records(image: Image) -> list[MetadataRecord]:
    """The records of a snapshot of `image`."""
    return list(_records(image))


def _records(image: Image) -> Iterator[MetadataRecord]:
    if not image.features:
        return  # before its first record a cluster has no metadata.version, and so nothing else either
    version = image.metadata_version
    yield FeatureLevelRecord(METADATA_VERSION, version)
    yield from (FeatureLevelRecord(name, level) for name, level in image.features.items() if name != METADATA_VERSION)
    yield from (_broker_record(broker, version) for broker in image.brokers.values())
    yield from map(_controller_record, image.controllers.values())
    for topic in image.topics.values():
        yield TopicRecord(topic.name, topic.topic_id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic, index, partition, version)
    for resource, configs in image.configs.items():
        yield from (ConfigRecord(resource.kind, resource.name, name, value) for name, value in configs.items())
    for entity, quotas in image.client_quotas.items():
        rows = [EntityData(kind, name) for kind, name in entity]
        yield from (ClientQuotaRecord(rows, key, value) for key, value in quotas.items())
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security_records(image)


def _security_records(image: Image) -> Iterator[MetadataRecord]:
    yield from (AccessControlEntryRecord(acl_id, *acl) for acl_id, acl in image.acls.items())
    for (user, mechanism), credential in image.scram_credentials.items():
        yield UserScramCredentialRecord(user, mechanism, *credential)
    yield from (DelegationTokenRecord(*token, token_id) for token_id, token in image.delegation_tokens.items())


def partition_record(topic: Topic, index: int, partition: Partition, metadata_version: int) -> PartitionRecord:
    """The whole state of a partition as a record."""
    with_elr = metadata_version >= ELR_SINCE
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if metadata_version >= DIRECTORIES_SINCE else (),
        eligible_leader_replicas=(partition.elr or None) if with_elr else None,
        last_known_elr=(partition.last_known_elr or None) if with_elr else None,
    )


def _broker_record(broker: Broker, metadata_version: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(*listener) for listener in broker.listeners],
        features=[BrokerFeature(*feature) for feature in broker.features],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs if metadata_version >= DIRECTORIES_SINCE else (),
        cordoned_log_dirs=broker.cordoned_log_dirs if metadata_version >= CORDONED_DIRECTORIES_SINCE else None,
    )


def _controller_record(controller: ControllerNode) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[ControllerEndpoint(*listener) for listener in controller.listeners],
        features=[ControllerFeature(*feature) for feature in controller.features],
    )
