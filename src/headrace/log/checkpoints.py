"""The small text files of a data directory, with the exact content that Kafka writes.

Checkpoints are tables: a version, the number of lines, the lines. Four of them keep one offset for each partition of
a data directory:

    recovery-point-offset-checkpoint    everything below is on disk: where a recovery after a crash begins
    log-start-offset-checkpoint         records below are deleted, though their segment may still be there
    replication-offset-checkpoint       high watermarks
    cleaner-offset-checkpoint           compaction has seen everything below

`leader-epoch-checkpoint` (epochs.py) is a fifth table, one for each partition, and `partition.metadata` keeps its
topic's id. `.kafka_cleanshutdown` says that the last process closed every log: nothing needs recovery. A file that
cannot be read is an error with file and line, since guessing would lose records.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from headrace.log.errors import CorruptCheckpointError
from headrace.log.fs import FileSystem, write_whole
from headrace.protocol.types import ZERO_UUID, uuid_from_text, uuid_to_text

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1

TABLE_VERSION: Final = 0
PARTITION_METADATA_VERSION: Final = 0
CLEAN_SHUTDOWN_VERSION: Final = 0


_PARTITION_METADATA_SIZE: Final = len("version: 0\ntopic_id: ") + 22


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets: TypeAlias = Mapping[TopicPartition, int]


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """One of the four offset checkpoints; nothing if the file is not there. Raises CorruptCheckpointError."""
    return parse_offsets(_read_text(fs, path), path=path) if fs.exists(path) else {}


def format_offsets(offsets: Offsets) -> str:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return f"{TABLE_VERSION}\n{len(lines)}\n{''.join(lines)}"


def parse_offsets(text: str, *, path: str) -> dict[TopicPartition, int]:
    offsets = {}
    is_ascii = text.isascii()
    for number, fields in parse_table(text, path=path):
        if len(fields) != 3:
            raise _corrupt(path, number, f"{' '.join(fields)!r}, expected topic, partition and offset")
        topic, partition, offset = fields
        if is_ascii and partition.isdecimal() and offset.isdecimal():  # as nearly all of ten thousand are
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        else:
            place = TopicPartition(topic, parse_number(partition, path=path, line=number))
            offsets[place] = parse_number(offset, path=path, line=number)
    return offsets


def parse_table(text: str, *, path: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line. An empty file is an empty table."""
    if not text:
        return
    lines = text.splitlines()
    version = parse_number(lines[0], path=path, line=1)
    if version != TABLE_VERSION:
        raise _corrupt(path, 1, f"version {version}, only {TABLE_VERSION} is known")
    if len(lines) < 2:
        raise _corrupt(path, 2, "the number of lines is missing")
    expected = parse_number(lines[1], path=path, line=2)
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], start=3) if line.strip()]
    if len(rows) != expected:
        raise _corrupt(path, 2, f"{expected} lines announced, there are {len(rows)}")
    yield from rows


def parse_number(text: str, *, path: str, line: int) -> int:
    # Not int() alone: it would take "1_000", "+5" and digits of other scripts.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise _corrupt(path, line, f"{text!r} is not a number")
    return int(text)


def read_topic_id(fs: FileSystem, path: str) -> bytes | None:
    """The topic id in the `partition.metadata` at `path`; None if it was never saved. Raises CorruptCheckpointError."""
    text = _read_text(fs, path)
    # A power cut before the first flush of a log leaves the file empty, cut short, or with zeros in it.
    is_whole = len(text) >= _PARTITION_METADATA_SIZE and "\0" not in text
    return parse_partition_metadata(text, path=path) if is_whole else None


def write_topic_id(fs: FileSystem, path: str, topic_id: bytes) -> None:
    """Not synced: the first flush of the log does it, before anything else of the log is safe."""
    write_whole(fs, path, format_partition_metadata(topic_id).encode(), sync=False)


def format_partition_metadata(topic_id: bytes) -> str:
    assert topic_id != ZERO_UUID, "the zero uuid means that there is no topic id"
    return f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {uuid_to_text(topic_id)}"


def parse_partition_metadata(text: str, *, path: str) -> bytes:
    lines = text.splitlines()
    version = parse_number(_value_of("version", lines, 0, path), path=path, line=1)
    if version != PARTITION_METADATA_VERSION:
        raise _corrupt(path, 1, f"version {version}, only {PARTITION_METADATA_VERSION} is known")
    value = _value_of("topic_id", lines, 1, path)
    try:
        topic_id = uuid_from_text(value)
    except ValueError:
        raise _corrupt(path, 2, f"{value!r} is not a topic id") from None
    if topic_id == ZERO_UUID:
        raise _corrupt(path, 2, "the topic id is zero")
    return topic_id


def _value_of(name: str, lines: list[str], index: int, path: str) -> str:
    found, _, value = lines[index].partition(":") if index < len(lines) else ("", "", "")
    if found != name or not value.strip():
        raise _corrupt(path, index + 1, f"expected '{name}: ...'")
    return value.strip()


def write_clean_shutdown(fs: FileSystem, path: str, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    content = {"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    fs.write_atomically(path, json.dumps(content, separators=(",", ":")).encode())


def read_clean_shutdown(fs: FileSystem, path: str) -> int | None:
    """The broker epoch of the last process if it stopped cleanly; None if it did not.

    The file's presence is the message (an old Kafka left it empty), so a content that says no epoch does not make it
    an error.
    """
    if not fs.exists(path):
        return None
    try:
        content = json.loads(fs.read_bytes(path))
        return int(content["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH


def _read_text(fs: FileSystem, path: str) -> str:
    try:
        return fs.read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path}: not UTF-8 at byte {error.start}") from None


def _corrupt(path: str, line: int, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"{path}, line {line}: {reason}")
