"""Produce on the wire: the request that carries some batches, and what the answer says of each. It only computes."""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.accumulator import Place
from headrace.client.config import Settings
from headrace.client.errors import code_of
from headrace.client.metadata import Topic
from headrace.client.pending_batch import PendingBatch
from headrace.protocol.compression import Codec
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.protocol.types import ZERO_UUID

_NAMES_ONLY: Final = 12  # the last version that names topics
_TOLD: Final = 3  # errors of single records that a message spells out

Topics = Mapping[str, Topic]


def version_limit(batches: Sequence[PendingBatch], topics: Topics, limit: int | None) -> int | None:
    """Topics are named where one of them has no id, as with brokers before 2.8."""
    for batch in batches:
        topic = topics.get(batch.topic)
        if topic is not None and topic.id == ZERO_UUID:
            return _NAMES_ONLY if limit is None else min(limit, _NAMES_ONLY)
    return limit


def produce_request(
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    batches: Sequence[PendingBatch],
    encoded: Sequence[bytearray],
    topics: Topics,
) -> ProduceRequest:
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for batch, data in zip(batches, encoded, strict=True):
        by_topic.setdefault(batch.topic, []).append(PartitionProduceData(batch.partition, memoryview(data)))
    return ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [
            TopicProduceData(name, topics[name].id if name in topics else ZERO_UUID, rows)
            for name, rows in by_topic.items()
        ],
    )


def rows_by_place(response: ProduceResponse, names: Mapping[bytes, str]) -> dict[Place, PartitionProduceResponse]:
    """`names` are those of topics by id."""
    return {
        (topic.name or names.get(topic.topic_id, ""), row.index): row
        for topic in response.responses
        for row in topic.partition_responses
    }


def reason(batch: PendingBatch, row: PartitionProduceResponse) -> str:
    """Why it was refused, for people."""
    detail = row.error_message or code_of(row.error_code).meaning
    records = "; ".join(each.batch_index_error_message or "" for each in row.record_errors[:_TOLD])
    return f"{batch.topic}-{batch.partition}: {detail}{f' ({records})' if records else ''}"


def compression_of(settings: Settings) -> tuple[int, int | None]:
    """The codec, and its level if one was given."""
    name = settings.text("compression.type")
    if name == "none":
        return Codec.NONE, None
    level_name = f"compression.{name}.level"
    is_given = name != "snappy" and settings.is_given(level_name)
    return Codec[name.upper()], settings.number(level_name) if is_given else None
