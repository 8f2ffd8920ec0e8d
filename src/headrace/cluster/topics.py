"""Topics are created and deleted."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from headrace.cluster.assignments import given_partition, placed_partitions
from headrace.cluster.config_changes import TopicConfigRows, changed_configs
from headrace.cluster.decision import (
    MAX_RECORDS_PER_REQUEST,
    TOO_MANY_RECORDS,
    ControllerSettings,
    Decision,
    MutationQuota,
    RefusedError,
    check_quota,
    no_quota,
)
from headrace.cluster.image import ConfigKind, ConfigResource, Image, Partition, Topic
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.placement import RandomSource
from headrace.cluster.snapshot import partition_record
from headrace.cluster.topic_names import METADATA_TOPIC, collision_key, find_name_fault
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.metadata_records import RemoveTopicRecord, TopicRecord
from headrace.protocol.types import ZERO_UUID, uuid_to_text

UNSET = -1  # CreateTopics: as the broker's configs say


class Chance(NamedTuple):
    """The random sources of a decision."""

    random: RandomSource
    new_uuid: Callable[[], bytes]


def create_topics(
    image: Image,
    settings: ControllerSettings,
    request: CreateTopicsRequest,
    chance: Chance,
    *,
    quota: MutationQuota = no_quota,
    describable: Container[str] | None = None,
) -> Decision[CreateTopicsResponse]:
    """Answer CreateTopics. `describable` are the topics whose configs the asker may see; None means all."""
    creation = _Creation(image, settings, request, chance, quota, describable)
    rows = []
    for wanted in request.topics:
        rows.append(creation.create(wanted))
        if len(creation.records) > MAX_RECORDS_PER_REQUEST:  # as Kafka: nothing is created, and nobody waits for more
            too_many = RefusedError(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
            return Decision((), CreateTopicsResponse(topics=[_refusal(each, too_many) for each in request.topics]))
    records = () if request.validate_only else tuple(creation.records)
    return Decision(records, CreateTopicsResponse(topics=rows))


class _Creation:
    """The topics of one request, each created or refused by itself."""

    def __init__(
        self,
        image: Image,
        settings: ControllerSettings,
        request: CreateTopicsRequest,
        chance: Chance,
        quota: MutationQuota,
        describable: Container[str] | None,
    ) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._settings = settings
        self._chance = chance
        self._quota = quota
        self._describable = describable
        self._times_named = Counter(wanted.name for wanted in request.topics)
        self._collisions: dict[str, str] | None = None  # made when a name needs it: it costs a look at every topic
        self._config_rows = TopicConfigRows(image, settings)
        self._partitions_wanted = sum(map(self._partition_count, request.topics))

    def create(self, wanted: CreatableTopic) -> CreatableTopicResult:
        try:
            return self._create(wanted)
        except RefusedError as refused:
            return _refusal(wanted, refused)

    def _create(self, wanted: CreatableTopic) -> CreatableTopicResult:
        self._check_request(wanted)
        self._check_name(wanted.name)
        resource = ConfigResource(ConfigKind.TOPIC, wanted.name)
        configs = self._configs(wanted)
        config_records = changed_configs(self._image, self._settings, resource, configs, created=True)
        partitions = self._assign(wanted)
        check_quota(self._quota, len(partitions))
        topic = Topic(wanted.name, self._chance.new_uuid(), dict(enumerate(partitions)))
        if self._collisions is not None:
            self._collisions[collision_key(topic.name)] = topic.name
        version = self._image.metadata_version
        self.records += [
            TopicRecord(topic.name, topic.topic_id),
            *config_records,
            *(partition_record(topic, index, each, version) for index, each in topic.partitions.items()),
        ]
        return self._result(topic, configs)

    def _result(self, topic: Topic, configs: dict[str, str]) -> CreatableTopicResult:
        if self._describable is not None and topic.name not in self._describable:
            hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return CreatableTopicResult(
                topic.name, topic.topic_id, error_message=None, topic_config_error_code=hidden, configs=()
            )
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            num_partitions=len(topic.partitions),
            replication_factor=len(topic.partitions[0].replicas),
            configs=self._config_rows.of(configs),
        )

    def _check_request(self, wanted: CreatableTopic) -> None:
        if self._partitions_wanted > MAX_RECORDS_PER_REQUEST:
            raise RefusedError(
                ErrorCode.POLICY_VIOLATION,
                f"one request creates at most {MAX_RECORDS_PER_REQUEST} partitions, not {self._partitions_wanted}",
            )
        if self._times_named[wanted.name] > 1:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request names the topic {wanted.name!r} twice")

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{name} belongs to the controllers")
        if fault := find_name_fault(name):
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name in self._image.topic_ids:
            raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {name!r} exists already")
        if other := self._find_collision(name):
            raise RefusedError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} collides with {other!r}: '.' and '_' count as the same"
            )

    def _find_collision(self, name: str) -> str | None:
        if "." not in name and "_" not in name:
            return None
        if self._collisions is None:
            created = (record.name for record in self.records if isinstance(record, TopicRecord))
            self._collisions = {collision_key(each): each for each in (*self._image.topic_ids, *created)}
        return self._collisions.get(collision_key(name))

    def _configs(self, wanted: CreatableTopic) -> dict[str, str]:
        configs = {}
        for config in wanted.configs:
            if config.value is None:
                raise RefusedError(ErrorCode.INVALID_CONFIG, f"{config.name} of {wanted.name!r} has no value")
            configs[config.name] = config.value
        return configs

    def _assign(self, wanted: CreatableTopic) -> list[Partition]:
        if wanted.assignments:
            return self._assign_as_given(wanted)
        replication_factor, partitions = wanted.replication_factor, wanted.num_partitions
        if replication_factor < UNSET or replication_factor == 0:
            raise RefusedError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"the replication factor is at least 1, or -1 for the default, not {replication_factor}",
            )
        if partitions < UNSET or partitions == 0:
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS,
                f"a topic has at least 1 partition, or -1 for the default, not {partitions}",
            )
        if replication_factor == UNSET:
            replication_factor = self._settings.default_replication_factor
        return placed_partitions(
            self._image,
            partitions=self._partition_count(wanted),
            replication_factor=replication_factor,
            random=self._chance.random,
        )

    def _assign_as_given(self, wanted: CreatableTopic) -> list[Partition]:
        if (wanted.replication_factor, wanted.num_partitions) != (UNSET, UNSET):
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                "with replicas given by hand the number of partitions and the replication factor must be -1",
            )
        given: dict[int, Partition] = {}
        replication_factor = len(wanted.assignments[0].broker_ids)
        for row in wanted.assignments:
            index = row.partition_index
            if index in given:
                raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} is assigned twice")
            given[index] = given_partition(
                self._image, row.broker_ids, index=index, replication_factor=replication_factor
            )
        if sorted(given) != list(range(len(given))):
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partitions are numbered from 0 without gaps, not {sorted(given)}",
            )
        return [given[index] for index in range(len(given))]

    def _partition_count(self, wanted: CreatableTopic) -> int:
        if wanted.assignments:
            return len(wanted.assignments)
        return self._settings.default_partitions if wanted.num_partitions == UNSET else max(0, wanted.num_partitions)


def _refusal(wanted: CreatableTopic, refused: RefusedError) -> CreatableTopicResult:
    return CreatableTopicResult(name=wanted.name, error_code=refused.code, error_message=refused.reason, configs=())


def delete_topics(
    image: Image, settings: ControllerSettings, request: DeleteTopicsRequest, *, quota: MutationQuota = no_quota
) -> Decision[DeleteTopicsResponse]:
    """Answer DeleteTopics, by name or by id."""
    wanted = [*request.topics, *(DeleteTopicState(name) for name in request.topic_names)]
    times_named = Counter((each.name, each.topic_id) for each in wanted)
    # By its name and by its id: neither of them counts, and Kafka answers with one row for both.
    by_both = {topic_id: name for topic_id, name in _names_of(image, times_named) if (None, topic_id) in times_named}
    doubled = set(by_both.values())
    records: list[MetadataRecord] = []
    rows = []
    for each, times in times_named.items():
        name, topic_id = each
        if name in doubled and topic_id == ZERO_UUID:
            continue
        try:
            if not settings.delete_topic_enable:
                raise RefusedError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
            if name is None and topic_id in by_both:
                name = by_both[topic_id]
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the request names this topic by its name and by its id")
            if times > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            topic = _find_topic(image, name, topic_id)
            if len(records) == MAX_RECORDS_PER_REQUEST:  # as in Kafka, those before it are deleted
                raise RefusedError(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
            check_quota(quota, len(topic.partitions))
            records.append(RemoveTopicRecord(topic.topic_id))
            rows.append(DeletableTopicResult(topic.name, topic.topic_id))
        except RefusedError as refused:
            rows.append(DeletableTopicResult(name, topic_id, refused.code, refused.reason))
    return Decision(tuple(records), DeleteTopicsResponse(responses=rows))


def _names_of(image: Image, wanted: Iterable[tuple[str | None, bytes]]) -> Iterator[tuple[bytes, str]]:
    """Ids and names of the topics that are wanted by name alone."""
    for name, topic_id in wanted:
        found = None if name is None or topic_id != ZERO_UUID else image.topic(name)
        if found is not None:
            yield found.topic_id, found.name


def _find_topic(image: Image, name: str | None, topic_id: bytes) -> Topic:
    if name is None and topic_id == ZERO_UUID:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the request gives neither the name nor the id of a topic")
    if name is not None and topic_id != ZERO_UUID:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request gives the name {name!r} and an id: one is enough")
    topic = image.topics.get(topic_id) if name is None else image.topic(name)
    if topic is not None:
        return topic
    if name is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {uuid_to_text(topic_id)}")
    raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
