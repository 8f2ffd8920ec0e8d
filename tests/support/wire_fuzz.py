"""Requests to throw at a broker: valid ones, ones that could be meant, and ones with something wrong.

A request of random values hardly gets past the first check: its topics do not exist. So `plausible` puts what a client
could have meant in place of most values, by the names of the fields: topics that exist, small partition numbers, known
configs, whole batches. What remains random finds its way deep into the handlers.

All randomness is the caller's, so that every frame can be made again from its seed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wiregen.model import Field, Struct

from headrace.protocol.records import NewRecord, build_batch
from tests.support import reference_codec
from tests.support.message_values import DECISIONS, values_from
from tests.support.messages import Definition
from tests.support.record_strategies import damage, random_batch

UNCHANGED_SHARE: Final = 0.1  # of the values that could be made plausible
MAX_WAIT_MS: Final = 5  # a request may ask the broker to wait for weeks; the tests will not

# Lengths and counts that are larger than any frame.
HUGE: Final = (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\x80\x80\x80",
)


@dataclass(frozen=True)
class World:
    """What there is at the broker, for requests that are about it."""

    topics: Sequence[str]
    topic_ids: Sequence[bytes]
    node_id: int = 1


Draw = Callable[[random.Random, World], Any]


def _one_of(*values: Any) -> Draw:
    return lambda source, world: source.choice(values)


def _topic(source: random.Random, world: World) -> str:
    return source.choice((*world.topics, f"fuzz-{source.randrange(4)}", "__consumer_offsets", ".."))


def _topic_id(source: random.Random, world: World) -> bytes:
    return source.choice((*world.topic_ids, bytes(16), source.randbytes(16)))


def _records(source: random.Random, world: World) -> bytes | None:
    kind = source.randrange(6)
    if kind == 0:
        return source.choice((None, b"", source.randbytes(source.randrange(100))))
    if kind == 1:
        return damage(bytes(random_batch(source)), source.randrange(1 << 32))
    if kind == 2:
        return bytes(random_batch(source))
    return bytes(build_batch([NewRecord(1_700_000_000_000 + source.randrange(1000), b"k", source.randbytes(20))]))


_CONFIG_NAMES: Final = (
    "cleanup.policy", "compression.type", "flush.messages", "flush.ms", "index.interval.bytes", "max.message.bytes",
    "message.timestamp.type", "min.insync.replicas", "retention.bytes", "retention.ms", "segment.bytes", "segment.ms",
    "log.retention.ms", "message.max.bytes", "log.cleaner.threads", "headrace.server.maintenance", "root",
    "interval.ms", "metrics", "match", "consumer.session.timeout.ms", "producer_byte_rate", "request_percentage",
)  # fmt: skip
_CONFIG_VALUES: Final = (
    "0", "1", "-1", "100", "1048576", "9223372036854775807", "compact", "delete", "compact,delete", "zstd", "gzip",
    "producer", "true", "LogAppendTime", "DEBUG", "INFO", "0.5", "", "org.apache", "client_id=x", None,
)  # fmt: skip

_PARTITION: Final = _one_of(0, 0, 0, 1, 2, 3, -1, 2**31 - 1)
_COUNT: Final = _one_of(1, 1, 2, 3, -1, 0, 101, 2**31 - 1)
_EPOCH: Final = _one_of(-1, -1, 0, 0, 1, 2**31 - 1)
_OFFSET: Final = _one_of(0, 0, 1, 5, 100, -1, -2, -3, -4, -5, -6, 1_700_000_000_500, 2**63 - 1)
_BYTES: Final = _one_of(0, 1, 100, 10_000, 1 << 20, 2**31 - 1, -1)
_NODE: Final[Draw] = lambda source, world: source.choice((world.node_id, world.node_id, 2, -1, 0))  # noqa: E731
_WAIT: Final = _one_of(0, 1, MAX_WAIT_MS)
_GROUP: Final = _one_of("g", "g", "h", "")
_CONFIG_NAME: Final = _one_of(*_CONFIG_NAMES)
_RESOURCE_NAME: Final[Draw] = lambda source, world: source.choice((*world.topics, str(world.node_id), "", "x"))  # noqa: E731

# By the name of the field, or of struct and field where the name alone says too little.
_PLAUSIBLE: Final[Mapping[str, Draw]] = {
    "acks": _one_of(1, -1, 0, 2),
    "broker_id": _NODE,
    "broker_ids": _NODE,
    "config_operation": _one_of(0, 1, 2, 3, 4),
    "configuration_keys": _CONFIG_NAME,
    "count": _COUNT,
    "current_leader_epoch": _EPOCH,
    "fetch_offset": _OFFSET,
    "generation_id": _EPOCH,
    "group_id": _GROUP,
    "group_ids": _GROUP,
    "groups_names": _GROUP,
    "index": _PARTITION,
    "last_fetched_epoch": _EPOCH,
    "leader_epoch": _EPOCH,
    "max_bytes": _BYTES,
    "member_epoch": _EPOCH,
    "member_id": _one_of("", "m", "AAAAAAAAAAAAAAAAAAAAAQ"),
    "min_bytes": _BYTES,
    "num_partitions": _COUNT,
    "offset": _OFFSET,
    "partition": _PARTITION,
    "partition_index": _PARTITION,
    "partition_indexes": _PARTITION,
    "partition_max_bytes": _BYTES,
    "partitions": _PARTITION,
    "producer_epoch": _EPOCH,
    "protocol_type": _one_of("consumer", "connect"),
    "records": _records,
    "replica_id": _one_of(-1, -1, -2, 1, 2),
    "replicas": _NODE,
    "replication_factor": _one_of(1, -1, 2, 0),
    "resource_name": _RESOURCE_NAME,
    "resource_type": _one_of(2, 2, 4, 8, 16, 32, 0, -1),
    "response_partition_limit": _one_of(2000, 1, 0, -1),
    "session_epoch": _one_of(0, -1, 1, 2**31 - 1),
    "session_id": _one_of(0, 0, 1),
    "timestamp": _OFFSET,
    "topic": _topic,
    "topic_id": _topic_id,
    "topic_ids": _topic_id,
    "topic_name": _topic,
    "topic_names": _topic,
    "topics": _topic,
    "transactional_id": _one_of(None, None, "", "tx"),
    "value": _one_of(*_CONFIG_VALUES),
}
_CONFIG_STRUCTS: Final = frozenset({"AlterableConfig", "CreatableTopicConfig"})
_WAITS: Final = frozenset({"max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms", "timeout_ms"})
_NOBODY: Final = 77  # a node that does not exist


def values(definition: Definition, version: int, source: random.Random) -> dict[str, Any]:
    """Any values that the version can carry, but for what would end the test: weeks of waiting, a broker sent away."""

    def change(row: Struct, field: Field, value: Any) -> Any:
        if field.name in _WAITS:
            return _WAIT(source, _NOWHERE)
        return _NOBODY if row.name == "UnregisterBrokerRequest" else value

    drawn = values_from(source.randbytes(DECISIONS), definition, version)
    return _changed_struct(definition.message.body, drawn, change)


def plausible(definition: Definition, version: int, source: random.Random, world: World) -> dict[str, Any]:
    """Values of which most could be meant."""

    def change(row: Struct, field: Field, value: Any) -> Any:
        draw = _draw_of(row, field)
        if draw is None or source.random() < UNCHANGED_SHARE:
            return value
        meant = draw(source, world)
        return meant if _fits(meant, field, version) else value

    drawn = values(definition, version, source)
    return _changed_struct(definition.message.body, drawn, change)


def _draw_of(row: Struct, field: Field) -> Draw | None:
    if row.name == "UnregisterBrokerRequest":
        return None
    if field.name == "name" and field.type == "string":
        return _CONFIG_NAME if row.name in _CONFIG_STRUCTS else _topic
    if field.name == "value" and field.type != "string":
        return None
    return _PLAUSIBLE.get(field.name)


def _fits(value: Any, field: Field, version: int) -> bool:
    if value is None:
        return version in field.nullable
    if field.type.startswith(("int", "uint")):
        bits = int(field.type.removeprefix("u").removeprefix("int"))
        lowest = 0 if field.type.startswith("u") else -(1 << bits - 1)
        return lowest <= int(value) < lowest + (1 << bits)
    return True


_NOWHERE: Final = World((), ())
Change = Callable[[Struct, Field, Any], Any]


def _changed_struct(row: Struct, values: Mapping[str, Any], change: Change) -> dict[str, Any]:
    fields = {field.name: field for field in row.fields}
    return {
        name: _changed(row, fields[name], value, change) if name in fields else value for name, value in values.items()
    }


def _changed(row: Struct, field: Field, value: Any, change: Change) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        if not field.is_array:
            return _changed_struct(field.struct, value, change)
        return [_changed_struct(field.struct, each, change) for each in value]
    if not field.is_array:
        return change(row, field, value)
    return [item for item in (change(row, field, each) for each in value) if item is not None]


def body_of(definition: Definition, version: int, values: Mapping[str, Any]) -> bytes:
    return reference_codec.encode(definition.message, version, values)


def changed(data: bytes, source: random.Random) -> bytes:
    """The same bytes with one to three places wrong."""
    wrong = bytearray(data)
    for _ in range(source.randint(1, 3)):
        place = source.randint(0, len(wrong))
        match source.randrange(6):
            case 0 if place < len(wrong):
                wrong[place] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, source.randrange(256)))
            case 1:
                wrong[place:place] = source.randbytes(source.randint(1, 4))
            case 2:
                del wrong[place : place + source.randint(1, 4)]
            case 3:
                del wrong[place:]
            case 4:
                huge = source.choice(HUGE)
                wrong[place : place + len(huge)] = huge
            case _:
                wrong[place:place] = wrong[place : place + source.randint(1, 30)]
    return bytes(wrong)
