"""The committed offsets of the groups of one shard, and those that wait for the end of a transaction.

Theory. An offset is committed by a record outside a transaction, or by one inside and the transaction's commit marker.
Until the marker comes it is *pending*: nobody may see it, but whoever insists on a stable offset is told to wait.

    commit, plain             the offset counts at once
    commit, in transaction    pending for its producer
    marker, commit            the producer's pending offsets count
    marker, abort             they are forgotten
    tombstone                 the offset is gone, and whatever is pending for the same partition

Invariant: of two commits the one whose record stands later in the log counts, whenever the marker comes. Otherwise a
compacted log, which keeps only the later record, would say something else than the full one. So whatever counts makes
all pending offsets that were written before it worthless; their partition stays unstable until their marker.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from headrace.coordinator.result import NO_PRODUCER_ID
from headrace.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue

ByPartition: TypeAlias = dict[int, OffsetCommitValue]
ByTopic: TypeAlias = dict[str, ByPartition]
_Place: TypeAlias = tuple[str, str, int]  # group, topic, partition


class Offsets:
    """By group, topic and partition. A group, topic or producer without any offset has no entry."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, ByTopic] = {}
        # By producer: what would count if its transaction were committed now. None: something later counts already.
        self._pending: dict[int, dict[_Place, OffsetCommitValue | None]] = {}
        # The same, by group: the producers that are pending for a partition, in the order of their records.
        self._open: dict[str, dict[tuple[str, int], dict[int, None]]] = {}

    # Reading

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        """What counts, by topic and partition."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """What counts."""
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Is a transaction open that wrote an offset of this partition?"""
        return (topic, partition) in self._open.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        """Is a transaction open that wrote an offset of this group?"""
        return group_id in self._open

    def places(self, group_id: str) -> Iterator[tuple[str, int]]:
        """The partitions with a committed or a pending offset, each once."""
        committed = self._committed.get(group_id, {})
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self._open.get(group_id, ()):
            if partition not in committed.get(topic, ()):
                yield topic, partition

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue | None]]:
        """Group, partition and value of all offsets of a topic, committed and pending."""
        for group_id, topics in self._committed.items():
            for partition, value in topics.get(topic, {}).items():
                yield group_id, partition, value
        for pending in self._pending.values():
            for (group_id, its_topic, partition), pending_value in pending.items():
                if its_topic == topic:
                    yield group_id, partition, pending_value

    def __bool__(self) -> bool:
        return bool(self._committed or self._pending)

    # Replaying

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        group_id, topic, partition = key
        if value is None:
            self._forget(group_id, topic, partition)
        elif producer_id == NO_PRODUCER_ID:
            if group_id in self._open:
                self._supersede(group_id, topic, partition)
            self._count(group_id, topic, partition, value)
        else:
            self._pending.setdefault(producer_id, {})[group_id, topic, partition] = value
            producers = self._open.setdefault(group_id, {}).setdefault((topic, partition), {})
            producers.pop(producer_id, None)  # it goes to the end: its last record is the last of all
            producers[producer_id] = None

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker. Offsets of several groups may have waited for it, or none."""
        for place, value in self._pending.pop(producer_id, {}).items():
            if committed and value is not None:
                self._supersede(*place, before=producer_id)
                self._count(*place, value)
            self._close(place, producer_id)

    def _count(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = value

    def _supersede(self, group_id: str, topic: str, partition: int, *, before: int = NO_PRODUCER_ID) -> None:
        """Something counts now that was written after the pending offsets: all, or those `before` a producer's."""
        for producer_id in self._open[group_id].get((topic, partition), ()):
            if producer_id == before:
                return
            self._pending[producer_id][group_id, topic, partition] = None

    def _close(self, place: _Place, producer_id: int) -> None:
        group_id, topic, partition = place
        places = self._open[group_id]
        producers = places[topic, partition]
        del producers[producer_id]
        if not producers:
            del places[topic, partition]
            if not places:
                del self._open[group_id]

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._committed.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
                if not topics:
                    del self._committed[group_id]
        place = (group_id, topic, partition)
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            pending = self._pending[producer_id]
            del pending[place]
            if not pending:
                del self._pending[producer_id]
            self._close(place, producer_id)
