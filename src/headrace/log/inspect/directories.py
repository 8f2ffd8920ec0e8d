"""A log directory at a glance: a row for each partition, from file names, checkpoints and the newest segment."""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    read_topic_id,
)
from headrace.log.epochs import FILE_NAME as LEADER_EPOCHS
from headrace.log.epochs import EpochHistory
from headrace.log.errors import CorruptFileError
from headrace.log.fs import FileSystem
from headrace.log.inspect.indexes import base_offset_of, read_offset_index
from headrace.log.inspect.rows import OffsetEntryRow, PartitionRow
from headrace.log.inspect.segments import last_offset_of
from headrace.log.names import ABORTED_INDEX, LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, parse_file_name
from headrace.protocol.types import uuid_to_text

# The order in which the files of one base offset are shown: what they describe comes first.
_SUFFIX_ORDER: Final = (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT)


def is_partition_directory(fs: FileSystem, path: str) -> bool:
    """Is there a segment, or the file that names the topic? Other programs write files that end in `.log`, too."""
    return any(name == PARTITION_METADATA or _is_segment(name) for name in fs.list_dir(path))


def partition_directories(fs: FileSystem, path: str) -> list[str]:
    """The names of the partition directories in a log directory, by topic and number."""
    names = [name for name in fs.list_dir(path) if "-" in name and _is_directory(fs, os.path.join(path, name))]
    return sorted((name for name in names if is_partition_directory(fs, os.path.join(path, name))), key=_topic_order)


def files_of_partition(fs: FileSystem, path: str) -> list[str]:
    """The names in a partition directory in reading order: segment by segment, then what is about all of them."""
    return sorted(fs.list_dir(path), key=_file_order)


def read_partitions(fs: FileSystem, path: str) -> Iterator[PartitionRow]:
    """A row for each partition of the log directory at `path`."""
    checkpoints = [_offsets(fs, os.path.join(path, name)) for name in (LOG_STARTS, HIGH_WATERMARKS, RECOVERY_POINTS)]
    for name in partition_directories(fs, path):
        yield _read_partition(fs, os.path.join(path, name), name, *checkpoints)


def _read_partition(
    fs: FileSystem,
    path: str,
    name: str,
    log_starts: Mapping[TopicPartition, int],
    high_watermarks: Mapping[TopicPartition, int],
    recovery_points: Mapping[TopicPartition, int],
) -> PartitionRow:
    topic, _, number = name.rpartition("-")
    place = TopicPartition(topic, int(number)) if number.isdecimal() else None
    segments = sorted(filter(_is_segment, fs.list_dir(path)))
    first_offset = base_offset_of(segments[0]) if segments else 0
    return PartitionRow(
        directory=name,
        topic_id=_topic_id(fs, path),
        segments=len(segments),
        size_bytes=sum(fs.size_of(os.path.join(path, segment)) for segment in segments),
        log_start_offset=max(first_offset, log_starts.get(place, 0)) if place else first_offset,
        log_end_offset=_log_end_offset(fs, path, segments),
        high_watermark=high_watermarks.get(place) if place else None,
        recovery_point=recovery_points.get(place) if place else None,
        leader_epoch=_leader_epoch(fs, path),
    )


def _log_end_offset(fs: FileSystem, path: str, segments: list[str]) -> int | None:
    if not segments:
        return 0
    newest = os.path.join(path, segments[-1])
    try:
        last_offset = last_offset_of(fs, newest, start=_last_indexed_position(fs, newest))
    except CorruptFileError:
        return None
    return base_offset_of(newest) if last_offset is None else last_offset + 1


def _last_indexed_position(fs: FileSystem, segment_path: str) -> int:
    """Where to begin, so that not all headers of a large segment are read; 0 when its index does not help."""
    index_path = segment_path.removesuffix(LOG) + OFFSET_INDEX
    position = 0
    try:
        for entry in read_offset_index(fs, index_path):
            if isinstance(entry, OffsetEntryRow):
                position = entry.position
    except (CorruptFileError, FileNotFoundError):
        return 0
    return position


def _topic_id(fs: FileSystem, path: str) -> str | None:
    try:
        topic_id = read_topic_id(fs, os.path.join(path, PARTITION_METADATA))
    except (CorruptFileError, FileNotFoundError):
        return None
    return None if topic_id is None else uuid_to_text(topic_id)


def _leader_epoch(fs: FileSystem, path: str) -> int | None:
    try:
        text = fs.read_bytes(os.path.join(path, LEADER_EPOCHS)).decode(errors="replace")
        return EpochHistory.parse(text).latest_epoch
    except (CorruptFileError, FileNotFoundError):
        return None


def _offsets(fs: FileSystem, path: str) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(fs, path)
    except CorruptFileError:
        return {}


def _is_segment(name: str) -> bool:
    parsed = parse_file_name(name)
    return parsed is not None and (parsed.suffix, parsed.stage) == (LOG, "")


def _is_directory(fs: FileSystem, path: str) -> bool:
    try:
        fs.list_dir(path)
    except NotADirectoryError:
        return False
    return True


def _topic_order(name: str) -> tuple[str, int, str]:
    topic, _, number = name.rpartition("-")
    return (topic, int(number), "") if number.isdecimal() else (name, -1, number)


def _file_order(name: str) -> tuple[int, int, int, str]:
    parsed = parse_file_name(name)
    if parsed is None:
        return 2, 0, 0, name
    return (1 if parsed.stage else 0), parsed.offset, _SUFFIX_ORDER.index(parsed.suffix), name
