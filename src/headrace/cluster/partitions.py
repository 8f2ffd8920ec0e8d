"""Topics get more partitions."""

from collections import Counter

from headrace.cluster.assignments import given_partition, placed_partitions
from headrace.cluster.decision import (
    MAX_RECORDS_PER_REQUEST,
    Decision,
    MutationQuota,
    RefusedError,
    check_quota,
    no_quota,
)
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.placement import RandomSource
from headrace.cluster.snapshot import partition_record
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: Image, request: CreatePartitionsRequest, random: RandomSource, *, quota: MutationQuota = no_quota
) -> Decision[CreatePartitionsResponse]:
    """Answer CreatePartitions."""
    times_named = Counter(wanted.name for wanted in request.topics)
    records: list[MetadataRecord] = []
    rows = []
    for name, wanted in {each.name: each for each in request.topics}.items():
        try:
            if times_named[name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request names the topic {name!r} twice")
            added = _added(image, wanted, random, quota, room=MAX_RECORDS_PER_REQUEST - len(records))
        except RefusedError as refused:
            rows.append(CreatePartitionsTopicResult(name, refused.code, refused.reason))
            continue
        records += added
        rows.append(CreatePartitionsTopicResult(name))
    return Decision(() if request.validate_only else tuple(records), CreatePartitionsResponse(results=rows))


def _added(
    image: Image, wanted: CreatePartitionsTopic, random: RandomSource, quota: MutationQuota, *, room: int
) -> list[MetadataRecord]:
    """At most `room` records. Raises RefusedError, before replicas are placed for nothing: that takes long."""
    topic = image.topic(wanted.name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name!r}")
    existing = len(topic.partitions)
    count = wanted.count - existing
    if count <= 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"{wanted.name!r} has {existing} partitions, and their number can only grow: {wanted.count} is no increase",
        )
    given = wanted.assignments
    if given is not None and len(given) != count:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{count} partitions are added, and replicas are given for {len(given)}",
        )
    if count > room:
        limit = f"one request adds at most {MAX_RECORDS_PER_REQUEST} partitions; {room} are left for these {count}"
        raise RefusedError(ErrorCode.POLICY_VIOLATION, limit)
    check_quota(quota, count)
    replication_factor = len(topic.partitions[0].replicas)
    if given is None:
        partitions = placed_partitions(image, partitions=count, replication_factor=replication_factor, random=random)
    else:
        partitions = [
            given_partition(image, row.broker_ids, index=index, replication_factor=replication_factor)
            for index, row in enumerate(given, existing)
        ]
    version = image.metadata_version
    return [partition_record(topic, index, each, version) for index, each in enumerate(partitions, existing)]
