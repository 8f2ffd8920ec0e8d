"""Leaders come and go: what a broker's end or return means for partitions, and elections that somebody asks for.

Which partitions are concerned is found by looking at all of them. That takes 4 ms for 10,000 partitions, where
changing them takes 20 us for each, and happens when a broker dies, not in the path of a request; an index by broker
would have to be kept right with every change.
"""

from collections.abc import Callable, Iterator
from typing import Final

from headrace.cluster.decision import (
    MAX_RECORDS_PER_REQUEST,
    ControllerSettings,
    Decision,
    RefusedError,
    TopicRules,
)
from headrace.cluster.image import NO_LEADER, Image, Partition, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.partition_change import Election, Surroundings, Wish, change_partition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED_ELECTION: Final = 0
UNCLEAN_ELECTION: Final = 1


def all_partitions(image: Image) -> Iterator[tuple[Topic, int, Partition]]:
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def leads_something(image: Image, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in all_partitions(image))


def broker_leaves(image: Image, settings: ControllerSettings, broker_id: int) -> list[MetadataRecord]:
    """Take a broker out of every ISR, and give what it led to others: it is fenced, shuts down or is unregistered."""
    return _changes(
        image,
        settings,
        concerns=lambda partition: broker_id in partition.isr,
        wish=lambda partition: Wish(isr=[each for each in partition.isr if each != broker_id]),
        is_alive=lambda each: each != broker_id and image.is_active(each),
    )


def broker_lost_data(image: Image, settings: ControllerSettings, broker_id: int) -> list[MetadataRecord]:
    """As `broker_leaves`, for one that may have lost records that it had acknowledged: it is not eligible any more."""
    return _changes(
        image,
        settings,
        concerns=lambda partition: broker_id in partition.isr or broker_id in partition.elr,
        wish=lambda partition: Wish(isr=[each for each in partition.isr if each != broker_id], lost_data=broker_id),
        is_alive=lambda each: each != broker_id and image.is_active(each),
    )


def broker_returns(image: Image, settings: ControllerSettings, broker_id: int) -> list[MetadataRecord]:
    """Let a broker that is about to be unfenced lead what has no leader."""
    return _changes(
        image,
        settings,
        concerns=lambda partition: partition.leader == NO_LEADER,
        wish=lambda _: Wish(),
        is_alive=lambda each: each == broker_id or image.is_active(each),
    )


def directory_fails(
    image: Image, settings: ControllerSettings, broker_id: int, directory: bytes
) -> list[MetadataRecord]:
    """Take a broker out of the ISR of those partitions that it kept in a directory."""

    def lies_there(partition: Partition) -> bool:
        return (broker_id, directory) in zip(partition.replicas, partition.directories, strict=True)

    return _changes(
        image,
        settings,
        concerns=lies_there,
        wish=lambda partition: Wish(isr=[each for each in partition.isr if each != broker_id]),
        is_alive=lambda each: each != broker_id and image.is_active(each),
    )


def _changes(
    image: Image,
    settings: ControllerSettings,
    *,
    concerns: Callable[[Partition], bool],
    wish: Callable[[Partition], Wish],
    is_alive: Callable[[int], bool],
) -> list[MetadataRecord]:
    rules = TopicRules(image, settings)
    records: list[MetadataRecord] = []
    for topic in image.topics.values():
        concerned = [(index, partition) for index, partition in topic.partitions.items() if concerns(partition)]
        if not concerned:
            continue
        election = Election.UNCLEAN if rules.allows_unclean_election(topic) else Election.ONLINE
        around = Surroundings(image, rules.min_insync_replicas(topic), is_alive)
        for index, partition in concerned:
            wanted = wish(partition)._replace(election=election)
            record = change_partition(topic.topic_id, index, partition, wanted, around)
            if record is not None:
                records.append(record)
    return records


def routine_elections(image: Image, settings: ControllerSettings, *, limit: int) -> list[MetadataRecord]:
    """What is done from time to time: preferred leaders lead again, and topics that allow it get any leader at all."""
    rules = TopicRules(image, settings)
    records: list[MetadataRecord] = []
    for topic, index, partition in all_partitions(image):
        if len(records) == limit:
            break
        if partition.leader == NO_LEADER:
            election = Election.UNCLEAN if rules.allows_unclean_election(topic) else Election.ONLINE
        elif partition.leader != partition.preferred_leader:
            election = Election.PREFERRED
        else:
            continue
        around = Surroundings(image, rules.min_insync_replicas(topic), image.is_active)
        record = change_partition(topic.topic_id, index, partition, Wish(election=election), around)
        if record is not None:
            records.append(record)
    return records


def elect_leaders(
    image: Image, settings: ControllerSettings, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    """Answer ElectLeaders: for the given partitions, or for all that need it."""
    if request.election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        return Decision((), ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    ballot = _Ballot(image, settings, unclean=request.election_type == UNCLEAN_ELECTION)
    results = []
    if request.topic_partitions is None:
        for topic in image.topics.values():
            rows = [ballot.vote(topic.name, index) for index in topic.partitions]
            needed = [row for row in rows if row.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(topic.name, needed))
    else:
        for wanted in request.topic_partitions:
            rows = [ballot.vote(wanted.topic, index) for index in wanted.partitions]
            results.append(ReplicaElectionResult(wanted.topic, rows))
    return Decision(tuple(ballot.records), ElectLeadersResponse(replica_election_results=results))


class _Ballot:
    """The elections of one request."""

    def __init__(self, image: Image, settings: ControllerSettings, *, unclean: bool) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._rules = TopicRules(image, settings)
        self._unclean = unclean

    def vote(self, name: str, index: int) -> PartitionResult:
        try:
            self.records.append(self._elect(name, index))
        except RefusedError as refused:
            return PartitionResult(index, refused.code, refused.reason)
        return PartitionResult(index, ErrorCode.NONE, None)

    def _elect(self, name: str, index: int) -> MetadataRecord:
        topic = self._image.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
        if partition.leader == partition.preferred_leader or (self._unclean and partition.leader != NO_LEADER):
            raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads {name}-{index} already")
        if len(self.records) == MAX_RECORDS_PER_REQUEST:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION, f"more than {MAX_RECORDS_PER_REQUEST} elections in one request"
            )
        wish = Wish(election=Election.UNCLEAN if self._unclean else Election.PREFERRED)
        around = Surroundings(self._image, self._rules.min_insync_replicas(topic), self._image.is_active)
        record = change_partition(topic.topic_id, index, partition, wish, around)
        if record is not None:
            return record
        if self._unclean:
            reason = f"none of the replicas {list(partition.replicas)} of {name}-{index} is alive"
            raise RefusedError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason)
        reason = f"broker {partition.preferred_leader} is not alive, or not in sync for {name}-{index}"
        raise RefusedError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, reason)
