"""Broker configs of the coordinators of groups, offsets and transactions; share groups have their own file."""

from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MAX_INT,
    SHORT,
    STRING,
    ConfigKey,
    InvalidConfigError,
    split_list,
)

UNIFORM_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
RANGE_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"


def _check_classic_stays(name: str, text: str) -> None:
    if "classic" not in split_list(text):
        raise InvalidConfigError(name, f'must have classic among its items, not only "{text}"')


COORDINATOR_CONFIGS: Final = [
    # All groups
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        "Which group protocols are served; classic always is.",
        values=("consumer", "classic", "share", "streams"),
        is_empty_allowed=False,
        check=_check_classic_stays,
    ),
    ConfigKey(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long records of groups are gathered before they are written; -1 adapts to the load.",
        minimum=-1,
    ),
    ConfigKey(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        "The largest write buffer that a coordinator keeps for the next write.",
        minimum=524_288,
        scope=CLUSTER_WIDE,
    ),
    # Classic groups
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long a new group waits for more members before its first rebalance.",
    ),
    ConfigKey("group.min.session.timeout.ms", INT, 6000, "The shortest session time-out that a member may ask for."),
    ConfigKey(
        "group.max.session.timeout.ms", INT, 1_800_000, "The longest session time-out that a member may ask for."
    ),
    ConfigKey("group.max.size", INT, MAX_INT, "How many members a group may have.", minimum=1),
    # Consumer groups (KIP-848)
    ConfigKey(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members may choose; the first one is the default.",
        values=("uniform", "range", UNIFORM_ASSIGNOR, RANGE_ASSIGNOR),
        is_empty_allowed=False,
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Which way a group may change between the classic and the consumer protocol while it runs.",
        values=("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        ignores_case=True,
    ),
    ConfigKey("group.consumer.max.size", INT, MAX_INT, "How many members a consumer group may have.", minimum=1),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often subscriptions by pattern look for new topics.",
        minimum=10_000,
        is_internal=True,
    ),
    ConfigKey("group.consumer.heartbeat.interval.ms", INT, 5000, "How often members send a heartbeat.", minimum=1),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "The least that a group may set for consumer.heartbeat.interval.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The most that a group may set for consumer.heartbeat.interval.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "After how long without a heartbeat a member is taken for dead.",
        minimum=1,
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The least that a group may set for consumer.session.timeout.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The most that a group may set for consumer.session.timeout.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "The shortest time between two assignments.",
        minimum=0,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "The least that a group may set for consumer.assignment.interval.ms.",
        minimum=0,
    ),
    ConfigKey(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "The most that a group may set for consumer.assignment.interval.ms.",
        minimum=0,
    ),
    # Streams groups (KIP-1071)
    ConfigKey("group.streams.max.size", INT, MAX_INT, "How many members a streams group may have.", minimum=1),
    ConfigKey(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long a new streams group waits for more members.",
        minimum=0,
    ),
    ConfigKey("group.streams.num.standby.replicas", INT, 0, "How many spare copies of each state are kept.", minimum=0),
    ConfigKey(
        "group.streams.max.standby.replicas",
        INT,
        2,
        "The most that a group may set for streams.num.standby.replicas.",
        minimum=0,
    ),
    ConfigKey("group.streams.heartbeat.interval.ms", INT, 5000, "How often members send a heartbeat.", minimum=1),
    ConfigKey(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        5000,
        "The least that a group may set for streams.heartbeat.interval.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The most that a group may set for streams.heartbeat.interval.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.streams.session.timeout.ms",
        INT,
        45_000,
        "After how long without a heartbeat a member is taken for dead.",
        minimum=1,
    ),
    ConfigKey(
        "group.streams.min.session.timeout.ms",
        INT,
        45_000,
        "The least that a group may set for streams.session.timeout.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.streams.max.session.timeout.ms",
        INT,
        60_000,
        "The most that a group may set for streams.session.timeout.ms.",
        minimum=1,
    ),
    ConfigKey(
        "group.streams.assignment.interval.ms",
        INT,
        1000,
        "The shortest time between two assignments.",
        minimum=0,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "group.streams.min.assignment.interval.ms",
        INT,
        0,
        "The least that a group may set for streams.assignment.interval.ms.",
        minimum=0,
    ),
    ConfigKey(
        "group.streams.max.assignment.interval.ms",
        INT,
        15_000,
        "The most that a group may set for streams.assignment.interval.ms.",
        minimum=0,
    ),
    # Offsets
    ConfigKey(
        "offsets.retention.minutes", INT, 10_080, "How long the offsets of an empty group are kept.", HIGH, minimum=1
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often the broker looks for offsets to forget.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "How long a commit of offsets waits until it is replicated.",
        HIGH,
        minimum=1,
    ),
    ConfigKey("offset.metadata.max.bytes", INT, 4096, "How much a client may store beside an offset.", HIGH),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5_242_880,
        "How much of __consumer_offsets is read at a time when a coordinator takes over.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        INT,
        50,
        "How many partitions __consumer_offsets gets; must never change.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "offsets.topic.replication.factor", SHORT, 3, "How many replicas __consumer_offsets gets.", HIGH, minimum=1
    ),
    ConfigKey(
        "offsets.topic.segment.bytes", INT, 104_857_600, "The segment size of __consumer_offsets.", HIGH, minimum=1
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        INT,
        0,
        "How __consumer_offsets is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        HIGH,
        minimum=0,
        maximum=4,
    ),
    # Transactions
    ConfigKey(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest time-out that a transactional producer may ask for.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "After how long of silence a transactional id is forgotten.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often the broker looks for transactions that took too long.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often the broker looks for transactional ids to forget.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a write in a transaction is checked with the coordinator first.",
        LOW,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether a producer may keep a transaction open without a time-out.",
        LOW,
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "How many partitions __transaction_state gets; must never change.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "How many replicas __transaction_state gets.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        INT,
        2,
        "How many replicas of __transaction_state must be in sync for a write.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        INT,
        104_857_600,
        "The segment size of __transaction_state.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        "How much of __transaction_state is read at a time when a coordinator takes over.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "How long the broker waits before it asks again to add partitions to a transaction.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.max.ms", INT, 100, "For how long in all it asks again.", HIGH, minimum=0
    ),
]
