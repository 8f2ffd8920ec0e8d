"""Broker configs of a node in its cluster: who it is, the metadata quorum, replication."""

from typing import Final

from headrace.cluster.config_types import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    ConfigKey,
)
from headrace.cluster.listeners import parse_bootstrap_servers, parse_voters

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

QUORUM_CONFIGS: Final = [
    # Who the node is
    ConfigKey("node.id", INT, 1, "The number of this node, which no other node of the cluster has.", HIGH, minimum=0),
    ConfigKey("broker.id", INT, -1, "The old name of node.id; if both are set they must be equal.", HIGH),
    ConfigKey(
        "process.roles",
        LIST,
        ("broker", "controller"),
        "What this node does: serve clients, be a voter of the metadata quorum, or both.",
        HIGH,
        values=("broker", "controller"),
        is_empty_allowed=False,
    ),
    ConfigKey("broker.rack", STRING, None, "Where this broker stands; replicas of a partition are spread over racks."),
    ConfigKey("broker.heartbeat.interval.ms", INT, 2000, "How often a broker tells the controller that it lives."),
    ConfigKey("broker.session.timeout.ms", INT, 9000, "After how long without a heartbeat a broker is taken for dead."),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "How long a starting broker tries to register before it gives up.",
    ),
    ConfigKey(
        "controlled.shutdown.enable", BOOLEAN, True, "Whether a stopping broker first hands its leaderships over."
    ),
    ConfigKey("controller.socket.timeout.ms", INT, 30_000, "How long a request to the controller may take."),
    # The metadata quorum
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Some controllers, as host:port, from which all are learned.",
        HIGH,
        check=lambda name, text: parse_bootstrap_servers(text, name=name),
    ),
    ConfigKey(
        "controller.quorum.voters",
        LIST,
        (),
        "All controllers of a quorum that never changes, as id@host:port.",
        HIGH,
        check=lambda name, text: parse_voters(text, name=name),
    ),
    ConfigKey(
        "controller.quorum.auto.join.enable", BOOLEAN, False, "Whether a new controller makes itself a voter.", LOW
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms",
        INT,
        1000,
        "How long a voter waits for votes before it starts another election.",
        HIGH,
        minimum=0,
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        INT,
        1000,
        "The longest random pause after a failed election.",
        HIGH,
        minimum=0,
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms",
        INT,
        2000,
        "After how long without a successful fetch a voter calls an election.",
        HIGH,
        minimum=0,
    ),
    ConfigKey(
        "controller.quorum.fetch.max.bytes",
        INT,
        1_048_576,
        "The most that one fetch of metadata returns.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        1_048_576,
        "The most that one fetch of a metadata snapshot returns.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "controller.quorum.append.linger.ms",
        INT,
        25,
        "How long the leader gathers metadata records before it writes them.",
        minimum=0,
    ),
    ConfigKey(
        "controller.quorum.request.timeout.ms", INT, 2000, "How long a request between voters may take.", minimum=0
    ),
    ConfigKey(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "How long a node waits before it asks the quorum again.",
        LOW,
        minimum=0,
    ),
    # The metadata log
    ConfigKey("metadata.log.dir", STRING, None, "Where the metadata log lies, if not in the first of log.dirs.", HIGH),
    ConfigKey(
        "metadata.log.segment.bytes",
        INT,
        1_073_741_824,
        "The size at which a segment of the metadata log is closed.",
        HIGH,
        minimum=8_388_608,
    ),
    ConfigKey(
        "metadata.log.segment.ms", LONG, 604_800_000, "The age at which a segment of the metadata log is closed.", HIGH
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20_971_520,
        "After how many bytes of metadata records a snapshot is written.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        "After how long a snapshot is written if anything changed; 0 turns this off.",
        HIGH,
        minimum=0,
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        INT,
        500,
        "How often an idle leader writes a record that says nothing; 0 turns this off.",
        LOW,
        minimum=0,
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        LONG,
        104_857_600,
        "The size of metadata log and snapshots above which the oldest go.",
        HIGH,
    ),
    ConfigKey(
        "metadata.max.retention.ms", LONG, 604_800_000, "The age at which metadata that a snapshot covers goes.", HIGH
    ),
    ConfigKey(
        "internal.metadata.delete.delay.millis",
        LONG,
        60_000,
        "How long a deleted file of the metadata log stays.",
        LOW,
        is_internal=True,
    ),
    ConfigKey(
        "internal.metadata.log.segment.bytes",
        INT,
        None,
        "A segment size below the bounds of metadata.log.segment.bytes, for tests.",
        LOW,
        is_internal=True,
    ),
    ConfigKey(
        "internal.metadata.max.batch.size.in.bytes",
        INT,
        8_388_608,
        "The largest batch of metadata records.",
        LOW,
        is_internal=True,
    ),
    # Replication
    ConfigKey(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "After how long behind its leader a follower is no longer in sync.",
        HIGH,
    ),
    ConfigKey("replica.fetch.min.bytes", INT, 1, "How much a follower's fetch waits for.", HIGH),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, "How long a follower's fetch waits for that much.", HIGH),
    ConfigKey(
        "replica.fetch.max.bytes", INT, 1_048_576, "How much a follower fetches of one partition at a time.", minimum=0
    ),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10_485_760, "How much a follower fetches at a time.", minimum=0),
    ConfigKey("replica.fetch.backoff.ms", INT, 1000, "How long a follower waits after a failed fetch.", minimum=0),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, "How often high watermarks are saved.", HIGH
    ),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, "How long a follower waits for its leader's answer.", HIGH),
    ConfigKey(
        "replica.socket.receive.buffer.bytes",
        INT,
        65_536,
        "The receive buffer of a follower's socket; -1 leaves it to the system.",
        HIGH,
    ),
    ConfigKey(
        "replica.selector.class",
        STRING,
        None,
        "From which replica consumers read: only the leader if not set, or one in their rack.",
        values=(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    ),
    ConfigKey(
        "num.replica.fetchers",
        INT,
        1,
        "Over how many connections a broker fetches from each other broker.",
        HIGH,
        minimum=1,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether leadership goes back to the preferred replicas by itself.",
        HIGH,
    ),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, "How often that is looked at.", HIGH, minimum=1),
]
