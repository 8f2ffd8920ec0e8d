"""The configs of a topic, and the broker configs that give each its default.

Remote storage is not part of Headrace. Its configs are known and described as Kafka does while tiered storage is off:
`remote.storage.enable=true` is refused, the others are kept and have no effect.
"""

import re
from collections.abc import Mapping
from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    STRING,
    ConfigKey,
    ConfigTable,
    InvalidConfigError,
    Scope,
    Synonym,
    Value,
    split_list,
)

MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = ("compact", "delete")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


def _check_throttled_replicas(name: str, text: str) -> None:
    items = split_list(text)
    if items != ("*",) and not all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in items):
        raise InvalidConfigError(name, f'must be * or items such as 0:1 (partition:broker), not "{text}"')


def _refuse_remote_storage(name: str, text: str) -> None:
    if text.lower() == "true":
        raise InvalidConfigError(name, "must be false: Headrace keeps all segments on the broker's own disks")


def _check_compaction_lags(values: Mapping[str, Value]) -> None:
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int), shortest
    assert isinstance(longest, int), longest
    if shortest > longest:
        raise InvalidConfigError(
            "min.compaction.lag.ms", f"must not be above max.compaction.lag.ms, but {shortest} > {longest}"
        )


TOPIC_CONFIGS: Final = ConfigTable(
    "topic",
    [
        ConfigKey(
            "cleanup.policy",
            LIST,
            ("delete",),
            "How old data goes: `delete` drops segments by age and size, `compact` keeps the last record of each key, "
            "both do both, and an empty list keeps everything.",
            values=CLEANUP_POLICIES,
            synonyms=(Synonym("log.cleanup.policy"),),
        ),
        ConfigKey(
            "compression.gzip.level",
            INT,
            -1,
            "The effort of gzip when the broker compresses: 1 is fast, 9 is small, -1 leaves the choice to zlib.",
            minimum=1,
            maximum=9,
            outliers=(-1,),
            synonyms=(Synonym("compression.gzip.level"),),
        ),
        ConfigKey(
            "compression.lz4.level",
            INT,
            9,
            "The effort of lz4 when the broker compresses: higher is smaller and slower.",
            minimum=1,
            maximum=17,
            synonyms=(Synonym("compression.lz4.level"),),
        ),
        ConfigKey(
            "compression.type",
            STRING,
            "producer",
            "How batches are stored: `producer` keeps them as they came, any other value makes the broker "
            "recompress those that differ.",
            values=COMPRESSION_TYPES,
            synonyms=(Synonym("compression.type"),),
        ),
        ConfigKey(
            "compression.zstd.level",
            INT,
            3,
            "The effort of zstd when the broker compresses: higher is smaller and slower, negative is faster still.",
            minimum=-131_072,
            maximum=22,
            synonyms=(Synonym("compression.zstd.level"),),
        ),
        ConfigKey(
            "delete.retention.ms",
            LONG,
            86_400_000,
            "How long compaction keeps a delete marker, so that a consumer reading from the start still meets it.",
            minimum=0,
            synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
        ),
        ConfigKey(
            "file.delete.delay.ms",
            LONG,
            60_000,
            "How long the file of a deleted segment stays on disk for those who still read it.",
            minimum=0,
            synonyms=(Synonym("log.segment.delete.delay.ms"),),
        ),
        ConfigKey(
            "flush.messages",
            LONG,
            MAX_LONG,
            "After how many records the log is forced to disk; 1 makes every acknowledgement wait for the disk.",
            minimum=1,
            synonyms=(Synonym("log.flush.interval.messages"),),
        ),
        ConfigKey(
            "flush.ms",
            LONG,
            MAX_LONG,
            "How long a record may wait until the log is forced to disk.",
            minimum=0,
            synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        ),
        ConfigKey(
            "follower.replication.throttled.replicas",
            LIST,
            (),
            "Which replicas obey `follower.replication.throttled.rate`: `partition:broker` items, or * for all.",
            check=_check_throttled_replicas,
        ),
        ConfigKey(
            "index.interval.bytes",
            INT,
            4096,
            "How many bytes of records lie between two entries of the offset index.",
            minimum=0,
            synonyms=(Synonym("log.index.interval.bytes"),),
        ),
        ConfigKey(
            "internal.segment.bytes",
            INT,
            None,
            "A segment size below the bounds of segment.bytes, for tests.",
            is_internal=True,
        ),
        ConfigKey(
            "leader.replication.throttled.replicas",
            LIST,
            (),
            "Which replicas obey `leader.replication.throttled.rate`: `partition:broker` items, or * for all.",
            check=_check_throttled_replicas,
        ),
        ConfigKey(
            "local.retention.bytes",
            LONG,
            -2,
            "Has no effect: remote storage, whose local part it would limit, is not part of Headrace.",
            minimum=-2,
            synonyms=(Synonym("log.local.retention.bytes"),),
        ),
        ConfigKey(
            "local.retention.ms",
            LONG,
            -2,
            "Has no effect: remote storage, whose local part it would limit, is not part of Headrace.",
            minimum=-2,
            synonyms=(Synonym("log.local.retention.ms"),),
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            LONG,
            MAX_LONG,
            "After how long a record must have been looked at by compaction, however clean the log is.",
            minimum=1,
            synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
        ),
        ConfigKey(
            "max.message.bytes",
            INT,
            1_048_588,
            "The largest record batch that the topic takes, after compression.",
            minimum=0,
            synonyms=(Synonym("message.max.bytes"),),
        ),
        ConfigKey(
            "message.timestamp.after.max.ms",
            LONG,
            3_600_000,
            "How far the timestamp of a producer may be ahead of the broker's clock.",
            minimum=0,
            synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
        ),
        ConfigKey(
            "message.timestamp.before.max.ms",
            LONG,
            MAX_LONG,
            "How far the timestamp of a producer may be behind the broker's clock.",
            minimum=0,
            synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
        ),
        ConfigKey(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whose clock dates a record: the producer's (CreateTime) or the broker's (LogAppendTime).",
            values=TIMESTAMP_TYPES,
            synonyms=(Synonym("log.message.timestamp.type"),),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            0.5,
            "Which part of the log must be uncompacted before compaction takes it on.",
            minimum=0,
            maximum=1,
            synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
        ),
        ConfigKey(
            "min.compaction.lag.ms",
            LONG,
            0,
            "How long compaction leaves a new record alone.",
            minimum=0,
            synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
        ),
        ConfigKey(
            "min.insync.replicas",
            INT,
            1,
            "How many replicas, the leader included, must be in sync before a write with acks=all is taken.",
            minimum=1,
            synonyms=(Synonym("min.insync.replicas"),),
        ),
        ConfigKey(
            "preallocate",
            BOOLEAN,
            False,
            "Whether a new segment's file takes its whole size at once; Headrace writes files that grow either way.",
            synonyms=(Synonym("log.preallocate"),),
        ),
        ConfigKey(
            "remote.log.copy.disable",
            BOOLEAN,
            False,
            "Has no effect: remote storage is not part of Headrace.",
        ),
        ConfigKey(
            "remote.log.delete.on.disable",
            BOOLEAN,
            False,
            "Has no effect: remote storage is not part of Headrace.",
        ),
        ConfigKey(
            "remote.storage.enable",
            BOOLEAN,
            False,
            "Must be false: remote storage is not part of Headrace.",
            check=_refuse_remote_storage,
        ),
        ConfigKey(
            "retention.bytes",
            LONG,
            -1,
            "The size of a partition above which its oldest segments go; -1 sets no limit.",
            synonyms=(Synonym("log.retention.bytes"),),
        ),
        ConfigKey(
            "retention.ms",
            LONG,
            604_800_000,
            "The age at which a segment goes; -1 sets no limit.",
            minimum=-1,
            synonyms=(
                Synonym("log.retention.ms"),
                Synonym("log.retention.minutes", MS_PER_MINUTE),
                Synonym("log.retention.hours", MS_PER_HOUR),
            ),
        ),
        ConfigKey(
            "segment.bytes",
            INT,
            1_073_741_824,
            "The size at which a segment is closed and the next one begins.",
            minimum=1_048_576,
            synonyms=(Synonym("log.segment.bytes"),),
        ),
        ConfigKey(
            "segment.index.bytes",
            INT,
            10_485_760,
            "The size at which a full index closes its segment.",
            minimum=4,
            synonyms=(Synonym("log.index.size.max.bytes"),),
        ),
        ConfigKey(
            "segment.jitter.ms",
            LONG,
            0,
            "By how much segment.ms is shortened at random, so that many segments do not close at once.",
            minimum=0,
            synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", MS_PER_HOUR)),
        ),
        ConfigKey(
            "segment.ms",
            LONG,
            604_800_000,
            "The age at which a segment is closed even if it is small.",
            minimum=1,
            synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", MS_PER_HOUR)),
        ),
        ConfigKey(
            "unclean.leader.election.enable",
            BOOLEAN,
            False,
            "Whether a replica that is not in sync may become leader: the partition serves again, and loses records.",
            synonyms=(Synonym("unclean.leader.election.enable"),),
        ),
    ],
    scope=Scope.RESOURCE,
    rules=(_check_compaction_lags,),
)
