"""What a query's checkpoint says: its id, and how far each micro-batch reads.

Spark writes `metadata` ({"id": ...}) when the query begins, and `offsets/<batch id>` before it runs the micro-batch: a
version, then JSON texts, a line each: first the query's own, then the end offset of every source; with named sources
(version 2) they are one object by name. Sources of topics, ours and Spark's own, write {"topic": {"0": offset}}; what
looks otherwise is of another source.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.client.topic_partition import TopicPartition

MAX_INT64: Final = (1 << 63) - 1
MAX_INT32: Final = (1 << 31) - 1
Read = Callable[[str], str | None]  # the text of a file by its path, None if it is not there


def local_path(location: str) -> str | None:
    """Of a checkpoint on a file system of this machine; None for hdfs:, s3a: and the like."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if "://" in location or parts.scheme else location


def read_local(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def query_id(root: str, read: Read = read_local) -> str | None:
    text = read(os.path.join(root, "metadata"))
    found = _parse(text) if text is not None else None
    made = found.get("id") if isinstance(found, dict) else None
    return made if isinstance(made, str) and made else None


def batch_ends(root: str, batch_id: int, read: Read = read_local) -> dict[TopicPartition, int]:
    """The end offsets of a micro-batch; empty if it reads no topics, or if the file is not there."""
    text = read(os.path.join(root, "offsets", str(batch_id)))
    return {} if text is None else end_offsets(text)


def batch_watermark_ms(root: str, batch_id: int, read: Read = read_local) -> int:
    """By which the micro-batch closes what is over; 0 if there is none yet."""
    text = read(os.path.join(root, "offsets", str(batch_id)))
    lines = [] if text is None else text.splitlines()
    found = _parse(lines[1]) if len(lines) > 1 else None
    made = found.get("batchWatermarkMs") if isinstance(found, dict) else None
    return made if isinstance(made, int) else 0


def end_offsets(text: str) -> dict[TopicPartition, int]:
    """Of an offsets file. A partition that two sources read counts as read as far as both have."""
    ends: dict[TopicPartition, int] = {}
    for line in text.splitlines()[2:]:
        for topics in _sources(_parse(line)):
            for topic, partitions in topics.items():
                for number, offset in partitions.items():
                    place = TopicPartition(topic, int(number))
                    ends[place] = min(offset, ends.get(place, offset))
    return ends


def _sources(value: Any) -> Iterator[dict[str, dict[str, int]]]:
    """The offsets of topics in a line: its own, or those of the named sources in it."""
    if _is_of_topics(value):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            inner = _parse(each) if isinstance(each, str) else each
            if _is_of_topics(inner):
                yield inner


def _is_of_topics(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(each, dict) and all(map(_is_offset, each.items())) for each in value.values())
        and any(value.values())
    )


def _is_offset(item: tuple[str, Any]) -> bool:
    number, offset = item
    return (
        number.isascii()
        and number.isdigit()
        and int(number) <= MAX_INT32
        and type(offset) is int
        and 0 <= offset <= MAX_INT64
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
