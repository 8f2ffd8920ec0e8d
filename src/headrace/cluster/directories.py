"""Brokers with several disks say in which directory each of their replicas lies (KIP-858)."""

from headrace.cluster.decision import ControllerSettings, Decision, RefusedError, TopicRules, check_broker_epoch
from headrace.cluster.features import DIRECTORIES_SINCE
from headrace.cluster.image import Image, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.partition_change import Election, Surroundings, Wish, change_partition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


def assign_replicas(
    image: Image, settings: ControllerSettings, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Answer AssignReplicasToDirs. A replica in a directory that has failed is not in sync any more."""
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
        if image.metadata_version < DIRECTORIES_SINCE:
            reason = f"replicas have no directories at metadata.version {image.metadata_version}"
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, reason)
    except RefusedError as refused:
        return Decision((), AssignReplicasToDirsResponse(error_code=refused.code), refused.reason)
    rules = TopicRules(image, settings)
    records: list[MetadataRecord] = []
    directories = []
    for given in request.directories:
        topics = []
        for row in given.topics:
            partitions = []
            for index in (each.partition_index for each in row.partitions):
                code = ErrorCode.NONE
                try:
                    record = _assign(image, rules, row.topic_id, index, request.broker_id, given.id)
                    records += [] if record is None else [record]
                except RefusedError as refused:
                    code = refused.code
                partitions.append(ResponsePartitionData(index, code))
            topics.append(ResponseTopicData(row.topic_id, partitions))
        directories.append(ResponseDirectoryData(given.id, topics))
    return Decision(tuple(records), AssignReplicasToDirsResponse(directories=directories))


def _assign(
    image: Image, rules: TopicRules, topic_id: bytes, index: int, broker_id: int, directory: bytes
) -> MetadataRecord | None:
    topic: Topic | None = image.topics.get(topic_id)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
    partition = topic.partitions.get(index)
    if partition is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    if broker_id not in partition.replicas:
        raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} holds no replica")
    wish = Wish(directories={broker_id: directory})
    around = Surroundings(image, rules.min_insync_replicas(topic), image.is_active)
    if not image.brokers[broker_id].has_online_directory(directory):
        unclean = rules.allows_unclean_election(topic)
        wish = wish._replace(
            isr=[each for each in partition.isr if each != broker_id],
            election=Election.UNCLEAN if unclean else Election.ONLINE,
        )
        around = around._replace(is_alive=lambda each: each != broker_id and image.is_active(each))
    return change_partition(topic_id, index, partition, wish, around)
