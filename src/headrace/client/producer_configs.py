"""What a producer is told: how records become batches, how batches are sent, and what counts as delivered."""

from typing import Final

from headrace.client.common_configs import COMMON_CONFIGS
from headrace.client.security_configs import SECURITY_CONFIGS
from headrace.cluster.config_types import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MAX_INT,
    STRING,
    ConfigKey,
    ConfigTable,
    InvalidConfigError,
)

COMPRESSION_TYPES: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def _check_not_empty(name: str, text: str) -> None:
    if not text:
        raise InvalidConfigError(name, "must not be empty; leave it out instead")


_OWN: Final = [
    # Delivery
    ConfigKey(
        "acks",
        STRING,
        "all",
        "Who must have a batch before it counts: all replicas in sync (all, -1), the leader (1) or nobody (0).",
        LOW,
        values=("all", "-1", "0", "1"),
    ),
    ConfigKey(
        "delivery.timeout.ms",
        INT,
        120_000,
        "How long a record may take from send() to its acknowledgement, retries included.",
        minimum=0,
    ),
    ConfigKey("retries", INT, MAX_INT, "How often a batch is sent again.", HIGH, minimum=0, maximum=MAX_INT),
    ConfigKey(
        "enable.idempotence",
        BOOLEAN,
        True,
        "Number the batches, so that a repetition is written once and order holds.",
        LOW,
    ),
    ConfigKey(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "How many requests to one broker may be unanswered; more than 5 only without idempotence.",
        LOW,
        minimum=1,
    ),
    # Batches
    # Kafka's default is 16,384. A batch costs Python 80 us, whatever is in it: as much as sending 60 records.
    ConfigKey("batch.size", INT, 65_536, "A batch of one partition is sent when it has so many bytes.", minimum=0),
    ConfigKey("linger.ms", LONG, 5, "How long a batch that is not full waits for more records.", minimum=0),
    ConfigKey(
        "buffer.memory", LONG, 33_554_432, "The bytes of records that may wait; then send() blocks.", HIGH, minimum=0
    ),
    ConfigKey(
        "max.block.ms", LONG, 60_000, "How long send() waits for room or for a topic's metadata, at most.", minimum=0
    ),
    ConfigKey("max.request.size", INT, 1_048_576, "The largest request, and so the largest record.", minimum=0),
    ConfigKey("compression.type", STRING, "none", "How batches are compressed.", HIGH, values=COMPRESSION_TYPES),
    ConfigKey(
        "compression.gzip.level",
        INT,
        -1,
        "From 1, the fastest, to 9, the smallest; -1 is gzip's own default.",
        minimum=1,
        maximum=9,
        outliers=(-1,),
    ),
    ConfigKey("compression.lz4.level", INT, 9, "From 1, the fastest, to 17, the smallest.", minimum=1, maximum=17),
    ConfigKey(
        "compression.zstd.level",
        INT,
        3,
        "From -131072, the fastest, to 22, the smallest.",
        minimum=-131_072,
        maximum=22,
    ),
    # Partitions
    ConfigKey(
        "partitioner.class",
        CLASS,
        None,
        "A function (topic, key, value, partitions) -> partition, or round_robin; None is Kafka's own way.",
    ),
    ConfigKey("partitioner.ignore.keys", BOOLEAN, False, "Spread records with a key as if they had none."),
    ConfigKey(
        "partitioner.adaptive.partitioning.enable",
        BOOLEAN,
        True,
        "Records without a key prefer partitions whose brokers are faster.",
        LOW,
    ),
    ConfigKey(
        "partitioner.availability.timeout.ms",
        LONG,
        0,
        "A partition whose broker takes nothing for so long gets no records without a key; 0 turns this off.",
        LOW,
        minimum=0,
    ),
    ConfigKey(
        "metadata.max.idle.ms",
        LONG,
        300_000,
        "A topic that gets no record for so long is no longer asked about.",
        LOW,
        minimum=5_000,
    ),
    # Transactions
    ConfigKey(
        "transactional.id",
        STRING,
        None,
        "The name under which transactions survive a restart; at most one producer has it at a time.",
        LOW,
        check=_check_not_empty,
    ),
    ConfigKey(
        "transaction.timeout.ms", INT, 60_000, "The coordinator aborts a transaction that is open for so long.", LOW
    ),
    # Hooks
    ConfigKey("key.serializer", CLASS, None, "What makes bytes of a key: a name such as json, or a function.", HIGH),
    ConfigKey("value.serializer", CLASS, None, "What makes bytes of a value.", HIGH),
    ConfigKey("interceptor.classes", LIST, (), "Objects that see records before they are sent, and how it went.", LOW),
]

PRODUCER_CONFIGS: Final = ConfigTable(
    "producer",
    [*COMMON_CONFIGS, *SECURITY_CONFIGS, *_OWN],
)
