"""Markers: what tells a sink that comes back which micro-batches it has written already.

A marker is a committed offset whose metadata says `<query id>:<batch id>`. It is committed in the transaction that has
the rows of the micro-batch, so both are there or neither. If the query reads topics, the offset is the end of what the
micro-batch has read, of each partition, in the group of the application's name: one write is the marker, the exact
lag, and the proof of what was consumed. If it reads something else, or topics of another cluster, the marker stands in
a group of its own (`<app>.marker`), on partition 0 of an output topic, and its offset is the number of micro-batches.

A micro-batch whose id is not above the marker's is written already, and skipped; unless it ends elsewhere than what was
written, which only happens with a checkpoint that is not the newest: then the query must stop. Another query id means
another checkpoint (the application was reset): its first micro-batch starts afresh, instead of skipping for ever. A
query that finds its own marker replaced has lost the name to another one, and must stop.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.client.commits import OffsetAndMetadata
from headrace.client.errors import WrongStateError
from headrace.client.topic_partition import TopicPartition

NONE_WRITTEN: Final = -1


class Marker(NamedTuple):
    query_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"{self.query_id}:{self.batch_id}"


def read_marker(text: str) -> Marker | None:
    """None if the text is not one of ours."""
    query_id, colon, number = text.rpartition(":")
    if not colon or not query_id or not (number.isascii() and number.isdigit()):
        return None
    return Marker(query_id, int(number))


def marker_group(app: str) -> str:
    """For queries that do not read topics."""
    return f"{app}.marker"


def task_name(app: str, task: int) -> str:
    """Transactional id of a task, and the group of its marker: tasks end one by one, so each has its own."""
    return f"{app}.task-{task}"


def read_markers(committed: Mapping[TopicPartition, Any], *, group: str) -> dict[TopicPartition, Marker]:
    """The markers of a group. Raises WrongStateError if somebody else commits to it: what was there may be gone."""
    markers = {}
    for partition, offset in committed.items():
        marker = read_marker(offset.metadata)
        if marker is None:
            raise WrongStateError(
                f"Group {group!r} has an offset of {partition} that this sink did not commit, so it cannot tell what "
                f"it has written. The group belongs to the sink alone: give the source another kafka.group.id, or "
                f"the sink another app; if the offsets are not needed any more, delete the group."
            )
        markers[partition] = marker
    return markers


def last_written(markers: Iterable[Marker], query_id: str) -> int:
    """The highest batch id of this query; NONE_WRITTEN if there is none."""
    return max((marker.batch_id for marker in markers if marker.query_id == query_id), default=NONE_WRITTEN)


def is_taken_over(markers: Collection[Marker], query_id: str, batch_id: int) -> bool:
    """Whether another query has the application's name now.

    A query marks its first micro-batch, so later ones find its own marker, or none at all if the name is a new one.
    """
    return batch_id > 0 and bool(markers) and last_written(markers, query_id) == NONE_WRITTEN


def other_ends(
    ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Any], marker: Marker
) -> dict[TopicPartition, int]:
    """Partitions of which something else was written than a micro-batch with these ends, and under which ids.

    Spark logs the ends before it runs a micro-batch, so one that is repeated has the same. One of an older checkpoint
    under the same id may not: what it reads beyond what is written would be skipped, and be lost.
    """
    found = {}
    for place in ends.keys() & committed.keys():
        written = read_marker(committed[place].metadata)
        if written is None or written.query_id != marker.query_id or written.batch_id < marker.batch_id:
            continue
        beyond = ends[place] - committed[place].offset
        if beyond > 0 or (beyond and written.batch_id == marker.batch_id):
            found[place] = written.batch_id
    return found


def source_marker(ends: Mapping[TopicPartition, int], marker: Marker) -> dict[TopicPartition, OffsetAndMetadata]:
    """For the group of the application."""
    return {partition: OffsetAndMetadata(offset, None, str(marker)) for partition, offset in ends.items()}


def plain_marker(topic: str, marker: Marker) -> dict[TopicPartition, OffsetAndMetadata]:
    """For a group that has nothing but markers."""
    return {TopicPartition(topic, 0): OffsetAndMetadata(marker.batch_id + 1, None, str(marker))}
