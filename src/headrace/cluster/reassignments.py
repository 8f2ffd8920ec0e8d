"""Partitions move to other brokers.

A reassignment first adds the new replicas to the old ones, and waits. When the new ones are all in sync the old ones
leave; that is part of every change of the ISR, see `partition_change`. Where nothing must be copied it is done at
once. Giving it up takes the added replicas away again.
"""

from collections.abc import Sequence
from typing import Final

from headrace.cluster.assignments import check_replicas
from headrace.cluster.decision import (
    MAX_RECORDS_PER_REQUEST,
    ControllerSettings,
    Decision,
    RefusedError,
    TopicRules,
)
from headrace.cluster.image import Image, Partition, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.partition_change import Election, Surroundings, Wish, change_partition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_TOO_MANY: Final = f"one request moves at most {MAX_RECORDS_PER_REQUEST} partitions"


def alter_reassignments(
    image: Image, settings: ControllerSettings, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Answer AlterPartitionReassignments: start, change or give up."""
    rules = TopicRules(image, settings)
    records: list[MetadataRecord] = []
    looked_at = 0  # what changes nothing takes as long
    topics = []
    for row in request.topics:
        partitions = []
        for wanted in row.partitions:
            code, message = ErrorCode.NONE, None
            looked_at += 1
            if looked_at > MAX_RECORDS_PER_REQUEST:
                code, message = ErrorCode.POLICY_VIOLATION, _TOO_MANY
            else:
                try:
                    record = _reassign(
                        image, rules, row.name, wanted, may_change_count=request.allow_replication_factor_change
                    )
                    if record is not None:
                        records.append(record)
                except RefusedError as refused:
                    code, message = refused.code, refused.reason
            partitions.append(ReassignablePartitionResponse(wanted.partition_index, code, message))
        topics.append(ReassignableTopicResponse(row.name, partitions))
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=topics
    )
    return Decision(tuple(records), reply)


def list_reassignments(image: Image, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Answer ListPartitionReassignments: what is on its way."""
    if request.topics is None:
        wanted = [(topic, list(topic.partitions)) for topic in image.topics.values()]
    else:
        named = [(image.topic(row.name), list(row.partition_indexes)) for row in request.topics]
        wanted = [(topic, indexes) for topic, indexes in named if topic is not None]
    topics = []
    for topic, indexes in wanted:
        rows = [
            OngoingPartitionReassignment(
                index, partition.replicas, partition.adding_replicas, partition.removing_replicas
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if rows:
            topics.append(OngoingTopicReassignment(topic.name, rows))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _reassign(
    image: Image, rules: TopicRules, name: str, wanted: ReassignablePartition, *, may_change_count: bool
) -> MetadataRecord | None:
    topic = image.topic(name)
    partition = None if topic is None else topic.partitions.get(wanted.partition_index)
    if topic is None or partition is None:
        reason = f"there is no partition {name}-{wanted.partition_index}"
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if wanted.replicas is None:
        wish = _give_up(rules, topic, wanted.partition_index, partition)
    else:
        check_replicas(image, wanted.replicas)
        if not may_change_count:
            _check_count(partition, wanted.replicas)
        wish = _begin(partition, wanted.replicas)
    around = Surroundings(image, rules.min_insync_replicas(topic), image.is_active)
    return change_partition(topic.topic_id, wanted.partition_index, partition, wish, around)


def _begin(partition: Partition, replicas: Sequence[int]) -> Wish:
    # A replica that an earlier reassignment was adding may not be in sync yet, so it counts as added by this one, too.
    original = set(partition.replicas) - set(partition.adding_replicas)
    removing = sorted(set(partition.replicas) - set(replicas))
    adding = sorted(set(replicas) - original)
    return Wish(replicas=[*replicas, *removing], removing_replicas=removing, adding_replicas=adding)


def _give_up(rules: TopicRules, topic: Topic, index: int, partition: Partition) -> Wish:
    if not partition.is_reassigning:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{index} is not being reassigned")
    replicas = [each for each in partition.replicas if each not in partition.adding_replicas]
    isr = [each for each in partition.isr if each not in partition.adding_replicas]
    unclean = rules.allows_unclean_election(topic)
    if not isr and not (unclean and replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only added replicas of {topic.name}-{index} are in sync: going back would lose records",
        )
    return Wish(
        isr=isr or replicas[:1],
        replicas=replicas,
        removing_replicas=(),
        adding_replicas=(),
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )


def _check_count(partition: Partition, replicas: Sequence[int]) -> None:
    """The count that a reassignment under way leads to is the one that counts."""
    count = len(set(partition.replicas) - set(partition.removing_replicas))
    if len(replicas) != count:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"{len(replicas)} replicas instead of {count} were not allowed"
        )
