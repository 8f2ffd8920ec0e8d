"""Leaders report who is in sync: AlterPartition (KIP-497).

A leader changes the ISR only through the controller. Its view may be old, so both epochs are compared: a leader that
lags behind is told to read the metadata first, and one that is ahead is talking to a controller that has been
replaced.
"""

from headrace.cluster.decision import (
    ControllerSettings,
    Decision,
    RefusedError,
    TopicRules,
    check_broker_epoch,
)
from headrace.cluster.delta import LEADER_AS_IT_WAS, merge
from headrace.cluster.image import Image, Partition, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.partition_change import Election, Surroundings, Wish, change_partition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

ANY_EPOCH = -1


def alter_partition(
    image: Image, settings: ControllerSettings, request: AlterPartitionRequest
) -> Decision[AlterPartitionResponse]:
    """Answer AlterPartition."""
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except RefusedError as refused:
        return Decision((), AlterPartitionResponse(error_code=refused.code), refused.reason)
    rules = TopicRules(image, settings)
    records: list[MetadataRecord] = []
    topics = []
    for row in request.topics:
        topic = image.topics.get(row.topic_id)
        partitions = []
        for wanted in row.partitions:
            try:
                if topic is None:
                    raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
                partitions.append(_alter(image, rules, topic, request.broker_id, wanted, records))
            except RefusedError as refused:
                partitions.append(ResponsePartitionData(wanted.partition_index, refused.code))
        topics.append(ResponseTopicData(row.topic_id, partitions))
    return Decision(tuple(records), AlterPartitionResponse(topics=topics))


def _alter(
    image: Image,
    rules: TopicRules,
    topic: Topic,
    broker_id: int,
    wanted: PartitionData,
    records: list[MetadataRecord],
) -> ResponsePartitionData:
    index = wanted.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    members = [*wanted.new_isr_with_epochs, *map(BrokerState, wanted.new_isr)]  # version 2 tells no epochs
    _check_epochs(partition, broker_id, wanted)
    _check_isr(partition, wanted, [member.broker_id for member in members])
    _check_members(image, members)
    wish = Wish(
        isr=[member.broker_id for member in members],
        recovering=bool(wanted.leader_recovery_state),
        election=Election.UNCLEAN if rules.allows_unclean_election(topic) else Election.ONLINE,
    )
    around = Surroundings(image, rules.min_insync_replicas(topic), image.is_active)
    record = change_partition(topic.topic_id, index, partition, wish, around)
    if record is not None:
        records.append(record)
        if record.leader not in (broker_id, LEADER_AS_IT_WAS):
            # The change completed a reassignment away from this leader: it is granted, and the leader told to go.
            return ResponsePartitionData(index, ErrorCode.NEW_LEADER_ELECTED)
        partition = merge(partition, record)
    return ResponsePartitionData(
        index,
        ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=int(partition.recovering),
        partition_epoch=partition.partition_epoch,
    )


def _check_epochs(partition: Partition, broker_id: int, wanted: PartitionData) -> None:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        raise RefusedError(ErrorCode.NOT_CONTROLLER, "the leader knows more than this controller")
    if wanted.leader_epoch < partition.leader_epoch:
        raise RefusedError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {partition.leader_epoch} by now")
    if broker_id != partition.leader:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"broker {partition.leader} leads, not {broker_id}")
    if wanted.partition_epoch < partition.partition_epoch:
        raise RefusedError(
            ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {partition.partition_epoch} by now"
        )


def _check_isr(partition: Partition, wanted: PartitionData, isr: list[int]) -> None:
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"an ISR of {isr} with replicas {list(partition.replicas)}")
    recovering = bool(wanted.leader_recovery_state)
    if recovering and (len(isr) > 1 or not partition.recovering):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "a recovering leader is alone in sync, and does not become one by itself"
        )


def _check_members(image: Image, members: list[BrokerState]) -> None:
    for member in members:
        broker = image.brokers.get(member.broker_id)
        if broker is None or not broker.is_active or member.broker_epoch not in (ANY_EPOCH, broker.epoch):
            raise RefusedError(
                ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} is not alive with epoch {member.broker_epoch}"
            )
