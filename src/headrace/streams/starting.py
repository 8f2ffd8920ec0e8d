"""Where queries without a checkpoint begin: where their sources say, or where a reset has set them.

`@start.json` has offsets of partitions for each query that the reset knew; tables are not in it, since their state is
all of their topic. A partition that came later begins at its beginning.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.client.admin import Admin
from headrace.client.topic_partition import TopicPartition
from headrace.streams.plan import Source
from headrace.streams.queries import Query
from headrace.streams.shapes import Kind
from headrace.streams.state_directory import START, read_json

Offsets = Mapping[TopicPartition, int]
Starts = Mapping[str, Offsets]  # by query


def read_starts(directory: str) -> Starts:
    written = read_json(directory, START) or {}
    return {query: offsets_from_json(topics) for query, topics in written.get("queries", {}).items()}


def offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """As Spark writes them."""
    made: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        made.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return made


def offsets_from_json(written: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in written.items()
        for number, offset in partitions.items()
    }


def stream_sources(query: Query) -> tuple[Source, ...]:
    """Those whose beginning can be chosen."""
    return tuple(source for source in query.sources if source.shape.kind is Kind.STREAM and not source.internal)


def read_topics(source: Source, known: Iterable[str]) -> tuple[str, ...]:
    """Those of `known` that a source reads."""
    if source.pattern is None:
        return tuple(topic for topic in source.topics if topic in set(known))
    return tuple(topic for topic in known if re.fullmatch(source.pattern, topic))


def stream_partitions(query: Query, partitions: Mapping[str, int]) -> list[TopicPartition]:
    """Of its streams; `partitions` says how many each topic has."""
    topics = {topic for source in stream_sources(query) for topic in read_topics(source, partitions)}
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partitions[topic])]


def complete_starts(admin: Admin, queries: Iterable[Query], starts: Starts) -> dict[tuple[str, str], str]:
    """By query and source what Spark is told (`startingOffsets`), with every partition that there is now."""
    wanted = [query for query in queries if query.name in starts]
    if not wanted:
        return {}
    partitions = {topic.name: topic.partitions for topic in admin.list_topics()}
    made = {}
    for query in wanted:
        for source in stream_sources(query):
            places = [
                TopicPartition(topic, number)
                for topic in read_topics(source, partitions)
                for number in range(partitions[topic])
            ]
            if any(place in starts[query.name] for place in places):
                made[query.name, source.name] = json.dumps(_offsets(admin, places, starts[query.name]))
    return made


def _offsets(admin: Admin, places: Iterable[TopicPartition], wanted: Offsets) -> dict[str, Any]:
    """Cut to what the log holds, as it may have lost its beginning since the reset."""
    listed = list(places)
    first = admin.list_offsets(dict.fromkeys(listed, "earliest"))
    last = admin.list_offsets(dict.fromkeys(listed, "latest"), read_committed=True)
    chosen = {
        place: min(max(wanted.get(place, 0), first[place].offset), max(last[place].offset, first[place].offset))
        for place in listed
    }
    return offsets_to_json(chosen)
