"""The names of directories inside a data directory: which partition they hold, and in what state.

    orders-3                                          partition 3 of the topic orders
    orders-3.0123456789abcdef0123456789abcdef-delete  deleted, its files wait for removal
    orders-3.<32 hex>-future                          Kafka: a copy that moves here from another data directory
    orders-3.<32 hex>-stray                           Kafka: a partition that the cluster does not know here

A topic's name may itself hold dots and dashes, so the partition is what follows the last dash.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from headrace.log.checkpoints import TopicPartition

MAX_NAME_BYTES: Final = 255  # what file systems allow for one name


class DirectoryState(Enum):
    LIVE = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class PartitionDirectory(NamedTuple):
    partition: TopicPartition
    state: DirectoryState


_LIVE: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})")
_MARKED: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})\.[0-9a-f]{32}(-delete|-future|-stray)")


def directory_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def deleted_name(partition: TopicPartition, unique: str) -> str:
    """`unique` has 32 hex digits. A long topic is cut, so that the whole stays a legal name."""
    assert re.fullmatch("[0-9a-f]{32}", unique), unique
    rest = f"-{partition.partition}.{unique}{DirectoryState.DELETED.value}"
    return partition.topic[: MAX_NAME_BYTES - len(rest)] + rest


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """None for a directory that holds no partition, such as `lost+found`."""
    marked = _MARKED.fullmatch(name)
    if marked:
        topic, partition, state = marked.groups()
        return PartitionDirectory(TopicPartition(topic, int(partition)), DirectoryState(state))
    live = _LIVE.fullmatch(name)
    if live:
        topic, partition = live.groups()
        return PartitionDirectory(TopicPartition(topic, int(partition)), DirectoryState.LIVE)
    return None
