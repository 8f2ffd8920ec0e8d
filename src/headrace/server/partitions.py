"""All partitions that this node has a replica of, as the newest image says.

`apply` makes what is here equal to what the image says: it opens and creates logs, deletes those of deleted topics,
tells partitions who leads them, and hands them changed configs. It looks only at what changed, which `is` tells: images
share all that the records between them did not touch.

A log that was there when the node started is opened when somebody first asks for it, or when `wake` comes to it: ten
thousand partitions must not delay the start. Until then the partition sleeps. Nothing is lost on the way: the image
says what its role is, and the newest image holds when it wakes. Of many new partitions most sleep, too: making files
takes a part of a millisecond for each, in which the loop serves nobody.

A log that cannot be opened does not stop the others: its partition is offline, and clients hear KAFKA_STORAGE_ERROR. If
it was for lack of room, whoever asks for it later tries again, at most once a second.
"""

import logging
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Final

from headrace.cluster.image import CLUSTER_DEFAULT, EMPTY_IMAGE, ConfigKind, ConfigResource, Image, Topic
from headrace.cluster.image import Partition as PartitionState
from headrace.log.checkpoints import TopicPartition
from headrace.log.directory import LogDirectory
from headrace.log.errors import StorageError, is_passing
from headrace.log.log import Log
from headrace.protocol.error_codes import ErrorCode
from headrace.server.clock import Clock
from headrace.server.group_commit import GroupCommit
from headrace.server.log_configs import TopicDefaults, TopicSettings
from headrace.server.log_errors import LOG_ERRORS
from headrace.server.partition import Partition
from headrace.server.write_trouble import WriteTrouble

_LOG: Final = logging.getLogger(__name__)
_RETRY_MS: Final = 1000  # between attempts to open a log for which there was no room
_NEVER: Final = 1 << 62

CREATES_AT_ONCE: Final = 10  # new logs of one change of the image; the others are made when they wake


class Partitions:
    """Iterates over the replicas of this node that are awake. `leader` finds those that it leads.

    Invariant: every replica of this node is in exactly one of `_by_place`, `_sleeping` and `_offline`.
    """

    __slots__ = (
        "_by_place",
        "_creates_left",
        "_defaults",
        "_flushes",
        "_image",
        "_led",
        "_logs",
        "_offline",
        "_sleeping",
        "_static",
        "_trouble",
        "clock",
        "node_id",
    )

    def __init__(
        self,
        node_id: int,
        logs: LogDirectory,
        flushes: GroupCommit,
        clock: Clock,
        static: Mapping[str, str] | None = None,
        trouble: WriteTrouble | None = None,
    ) -> None:
        self._trouble = trouble or WriteTrouble()
        self.node_id = node_id
        self.clock = clock
        self._logs = logs
        self._flushes = flushes
        self._static = static or {}  # broker configs as the operator gave them
        self._image = EMPTY_IMAGE
        self._defaults = TopicDefaults(EMPTY_IMAGE, node_id, self._static)
        self._by_place: dict[tuple[bytes, int], Partition] = {}
        self._led: dict[tuple[str | bytes, int], Partition] = {}  # by name and by id
        self._offline: dict[tuple[bytes, int], int] = {}  # and when to try again
        self._sleeping: dict[tuple[bytes, int], None] = {}
        self._creates_left = 0  # within one `apply`

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_place.values())

    def __len__(self) -> int:
        return len(self._by_place)

    @property
    def path(self) -> str:
        """The data directory."""
        return self._logs.path

    def leader(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """The partition if this node leads it, else what to tell the client. A topic is a name or an id."""
        return self._led.get((topic, index)) or self._find(topic, index)

    def replica(self, topic_id: bytes, index: int) -> Partition | None:
        """The partition, whoever leads it."""
        return self._by_place.get((topic_id, index))

    def has(self, partition: Partition) -> bool:
        """Is it still here? Who keeps one for later must ask."""
        return self._by_place.get((partition.topic_id, partition.index)) is partition

    @property
    def are_some_asleep(self) -> bool:
        return bool(self._sleeping)

    def wake(self, count: int) -> bool:
        """Open so many of the logs that sleep. False if none is left."""
        for topic_id, index in list(islice(self._sleeping, count)):
            self._wake(self._image.topics[topic_id], index)
        return bool(self._sleeping)

    def _wake(self, topic: Topic, index: int) -> None:
        del self._sleeping[topic.topic_id, index]
        if self._open(topic, index, self._settings_of(self._image, topic)):
            self._set_role(self._by_place[topic.topic_id, index], topic.partitions[index])

    def _find(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """The partition, woken if it sleeps, or why it is not led here."""
        topic_id = self._image.topic_ids.get(topic) if isinstance(topic, str) else topic
        found = None if topic_id is None else self._image.topics.get(topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(topic, str) else ErrorCode.UNKNOWN_TOPIC_ID
        if index not in found.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        place = (found.topic_id, index)
        if place in self._sleeping and found.partitions[index].leader == self.node_id:
            self._wake(found, index)
        if place in self._offline and not self._retry(found, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self._led.get(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _retry(self, topic: Topic, index: int) -> bool:
        """Is it open now? Only what had no room is tried again."""
        place = (topic.topic_id, index)
        if self.clock.now_ms() < self._offline[place]:
            return False
        if not self._open(topic, index, self._settings_of(self._image, topic)):
            return False
        self._set_role(self._by_place[place], topic.partitions[index])
        return True

    # Following the image

    def apply(self, old: Image, new: Image) -> None:
        """What the node has becomes what `new` says; it was what `old` says."""
        self._image = new
        self._creates_left = CREATES_AT_ONCE
        if new.configs is not old.configs and self._broker_configs_differ(old, new):
            self._defaults = TopicDefaults(new, self.node_id, self._static)
            self._configure(new, new.topics)
        elif new.configs is not old.configs:
            self._configure(new, self._topics_with_other_configs(old, new))
        if new.topics is not old.topics:
            for topic_id, topic in old.topics.items():
                if topic_id not in new.topics:
                    self._remove(topic, topic.partitions)
            opened = self._logs.opened
            for topic_id, topic in new.topics.items():
                before = old.topics.get(topic_id)
                if before is not topic:
                    self._update(new, before, topic, opened)

    def _broker_configs_differ(self, old: Image, new: Image) -> bool:
        node = ConfigResource(ConfigKind.BROKER, str(self.node_id))
        return any(old.configs.get(each) is not new.configs.get(each) for each in (node, CLUSTER_DEFAULT))

    def _topics_with_other_configs(self, old: Image, new: Image) -> list[bytes]:
        changed = [
            resource.name
            for resource in {**old.configs, **new.configs}
            if resource.kind == ConfigKind.TOPIC and old.configs.get(resource) is not new.configs.get(resource)
        ]
        return [new.topic_ids[name] for name in changed if name in new.topic_ids]

    def _configure(self, image: Image, topic_ids: "Mapping[bytes, Topic] | list[bytes]") -> None:
        for topic_id in topic_ids:
            topic = image.topics[topic_id]
            settings = self._settings_of(image, topic)
            for index in topic.partitions:
                partition = self._by_place.get((topic_id, index))
                if partition is not None:
                    partition.configure(settings)

    def _settings_of(self, image: Image, topic: Topic) -> TopicSettings:
        return self._defaults.settings_of(image.config(ConfigResource(ConfigKind.TOPIC, topic.name)))

    def _update(self, image: Image, before: Topic | None, topic: Topic, opened: Container[TopicPartition]) -> None:
        settings = None
        known = before.partitions if before is not None else {}
        for index, state in topic.partitions.items():
            if known.get(index) is state:
                continue
            place = (topic.topic_id, index)
            if self.node_id not in state.replicas:
                self._remove(topic, (index,))
                continue
            if place in self._sleeping:
                continue  # the newest image holds when it wakes
            if place not in self._by_place and self._may_sleep(topic, index, opened):
                self._sleeping[place] = None
                continue
            if place not in self._by_place:
                settings = settings or self._settings_of(image, topic)
                if not self._open(topic, index, settings):
                    continue
            self._set_role(self._by_place[place], state)

    def _may_sleep(self, topic: Topic, index: int, opened: Container[TopicPartition]) -> bool:
        """Is its log there, and has nobody opened it? Or are too many new ones at once?"""
        name = TopicPartition(topic.name, index)
        if name in opened or (topic.topic_id, index) in self._offline:
            return False
        if name not in self._logs:
            self._creates_left -= 1
        return name in self._logs or self._creates_left < 0

    def _open(self, topic: Topic, index: int, settings: TopicSettings) -> bool:
        place = (topic.topic_id, index)
        try:
            log = self._log_of(TopicPartition(topic.name, index), topic.topic_id)
            log.epoch_file.load()  # whoever leads it begins an epoch, and cannot be refused then
        except (*LOG_ERRORS, OSError) as error:
            if place not in self._offline:
                _LOG.error("[%s-%d] is offline: %s", topic.name, index, error)
            self._offline[place] = self.clock.now_ms() + _RETRY_MS if is_passing(error) else _NEVER
            return False
        if self._offline.pop(place, None) is not None:
            _LOG.info("[%s-%d] is not offline any more", topic.name, index)
        if log.recovery_report is not None and log.recovery_report.loss:
            _LOG.warning("[%s-%d] was not closed well: %s", topic.name, index, log.recovery_report.loss)
        partition = Partition(topic.name, topic.topic_id, index, log, self._flushes, self._trouble)
        self._by_place[place] = partition
        partition.configure(settings)
        return True

    def _log_of(self, place: TopicPartition, topic_id: bytes) -> Log:
        """The log that is there, or a new one. Raises one of LOG_ERRORS."""
        now_ms = self.clock.now_ms()
        if place in self._logs and self._logs.topic_id(place) not in (topic_id, None):
            self._logs.delete(place, now_ms=now_ms)  # of a topic with the same name, deleted while this node was away
        log = self._logs.get(place, now_ms=now_ms)
        if log is None:
            return self._logs.create(place, topic_id=topic_id, now_ms=now_ms)
        if self._logs.topic_id(place) is None:
            self._logs.adopt(place, topic_id)
        return log

    def _set_role(self, partition: Partition, state: PartitionState) -> None:
        keys: tuple[tuple[str | bytes, int], ...] = (
            (partition.topic, partition.index),
            (partition.topic_id, partition.index),
        )
        if state.leader == self.node_id:
            for key in keys:
                self._led[key] = partition
            partition.lead(leader_epoch=state.leader_epoch, in_sync=len(state.isr), replicas=len(state.replicas))
        else:
            for key in keys:
                self._led.pop(key, None)
            partition.follow(leader_epoch=state.leader_epoch)

    def _remove(self, topic: Topic, indexes: "Mapping[int, PartitionState] | tuple[int, ...]") -> None:
        """The topic was deleted, or moved away from this node."""
        for index in indexes:
            place = (topic.topic_id, index)
            is_here = place in self._by_place or place in self._sleeping or place in self._offline
            self._offline.pop(place, None)
            self._sleeping.pop(place, None)
            if is_here:
                self._delete(TopicPartition(topic.name, index))
            partition = self._by_place.pop(place, None)
            if partition is not None:
                for key in ((topic.name, index), place):
                    self._led.pop(key, None)
                partition.is_leader = False
                partition.release(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._trouble.gone(partition.log)

    def _delete(self, place: TopicPartition) -> None:
        if place in self._logs:
            try:
                self._logs.delete(place, now_ms=self.clock.now_ms())
            except StorageError as error:
                _LOG.error("[%s] its files stay: %s", place, error)

    def delete_strays(self) -> None:
        """After the first image: delete the logs of topics that were deleted while this node was away.

        A log with the name of a partition of today may be of an older topic, too: that is seen when it is opened.
        """
        for place in list(self._logs):
            if (self._image.topic_ids.get(place.topic), place.partition) in self._sleeping:
                continue  # ten thousand ids to read would be felt at the start
            # One without an id was never flushed, or is older than ids: then its name must do.
            topic_id = self._logs.topic_id(place) or self._image.topic_ids.get(place.topic)
            if topic_id not in self._image.topics:
                _LOG.info("[%s] belongs to no topic any more, and is deleted", place)
                self._delete(place)
