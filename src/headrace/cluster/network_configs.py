"""Broker configs of connections and requests: listeners, sockets, limits, quotas."""

from typing import Final

from headrace.cluster.config_types import (
    CLUSTER_WIDE,
    DYNAMIC_ONLY,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MAX_INT,
    MAX_LONG,
    PER_BROKER,
    STRING,
    ConfigKey,
)
from headrace.cluster.listeners import (
    DEFAULT_PROTOCOLS,
    parse_advertised_listeners,
    parse_host_counts,
    parse_listeners,
    parse_protocol_map,
)

NETWORK_CONFIGS: Final = [
    # Listeners
    ConfigKey(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "Where the broker listens, as NAME://host:port; an empty host means every interface, port 0 any free port.",
        HIGH,
        check=lambda name, text: parse_listeners(text, name=name),
        scope=PER_BROKER,
    ),
    ConfigKey(
        "advertised.listeners",
        LIST,
        None,
        "Where clients reach those listeners, if not at the address they are bound to.",
        HIGH,
        check=lambda name, text: parse_advertised_listeners(text, name=name),
    ),
    ConfigKey(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener speaks, as NAME:PROTOCOL.",
        LOW,
        check=lambda name, text: parse_protocol_map(text, name=name),
        scope=PER_BROKER,
    ),
    ConfigKey("inter.broker.listener.name", STRING, None, "The listener over which brokers talk to one another."),
    ConfigKey(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The protocol between brokers, if inter.broker.listener.name is not set.",
        values=tuple(DEFAULT_PROTOCOLS),
    ),
    ConfigKey(
        "controller.listener.names",
        LIST,
        ("CONTROLLER",),
        "The listeners over which controllers are reached; the first one is used.",
        HIGH,
        is_empty_allowed=False,
    ),
    ConfigKey(
        "early.start.listeners",
        LIST,
        None,
        "Listeners that serve before the authorizer is ready; the controllers' if not set.",
        HIGH,
    ),
    # Sockets
    ConfigKey("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.", minimum=1),
    ConfigKey(
        "socket.receive.buffer.bytes", INT, 102_400, "The receive buffer of a socket; -1 leaves it to the system.", HIGH
    ),
    ConfigKey(
        "socket.send.buffer.bytes", INT, 102_400, "The send buffer of a socket; -1 leaves it to the system.", HIGH
    ),
    ConfigKey(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "The largest request that is taken; a larger one closes its connection before its body arrives.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long a connection to another node may take; grows with each failure.",
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "The longest that a connection to another node may take.",
    ),
    # Limits on connections
    ConfigKey("max.connections", INT, MAX_INT, "How many connections the broker holds.", minimum=0, scope=CLUSTER_WIDE),
    ConfigKey(
        "max.connections.per.ip",
        INT,
        MAX_INT,
        "How many connections the broker holds with one address.",
        minimum=0,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for certain addresses, as host:count.",
        check=lambda name, text: parse_host_counts(text, name=name),
        scope=CLUSTER_WIDE,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        INT,
        MAX_INT,
        "How many new connections per second the broker accepts.",
        minimum=0,
        scope=CLUSTER_WIDE,
    ),
    ConfigKey("connections.max.idle.ms", LONG, 600_000, "After how long of silence a connection is closed."),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long a client waits for the news that it could not prove who it is.",
        LOW,
        minimum=0,
    ),
    # Limits on requests
    ConfigKey(
        "queued.max.requests",
        INT,
        500,
        "How many requests may wait before the broker reads no more from sockets.",
        HIGH,
        minimum=1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        LONG,
        -1,
        "How many bytes of requests may wait before the broker reads no more; -1 sets no limit.",
    ),
    ConfigKey("request.timeout.ms", INT, 30_000, "How long the broker waits for an answer of another node.", HIGH),
    ConfigKey(
        "fetch.max.bytes",
        INT,
        57_671_680,
        "The most that one fetch returns, whatever the client asks for.",
        minimum=1024,
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many fetch sessions the broker remembers.",
        minimum=0,
    ),
    ConfigKey("max.request.partition.size.limit", INT, 2000, "How many partitions one answer may describe.", minimum=1),
    ConfigKey(
        "telemetry.max.bytes",
        INT,
        1_048_576,
        "The most that a client may push in one go as its metrics.",
        LOW,
        minimum=1,
    ),
    # Quotas
    ConfigKey("quota.window.num", INT, 11, "Over how many windows a client's traffic is averaged.", LOW, minimum=1),
    ConfigKey("quota.window.size.seconds", INT, 1, "How long such a window is.", LOW, minimum=1),
    ConfigKey(
        "controller.quota.window.num", INT, 11, "Over how many windows changes to topics are averaged.", LOW, minimum=1
    ),
    ConfigKey("controller.quota.window.size.seconds", INT, 1, "How long such a window is.", LOW, minimum=1),
    ConfigKey(
        "replication.quota.window.num", INT, 11, "Over how many windows replication is averaged.", LOW, minimum=1
    ),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, "How long such a window is.", LOW, minimum=1),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        "Over how many windows moves between data directories are averaged.",
        LOW,
        minimum=1,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds", INT, 1, "How long such a window is.", LOW, minimum=1
    ),
    ConfigKey(
        "leader.replication.throttled.rate",
        LONG,
        MAX_LONG,
        "How many bytes per second a leader sends to throttled replicas.",
        minimum=0,
        scope=DYNAMIC_ONLY,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        LONG,
        MAX_LONG,
        "How many bytes per second throttled replicas fetch.",
        minimum=0,
        scope=DYNAMIC_ONLY,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        MAX_LONG,
        "How fast replicas move between data directories.",
        minimum=0,
        scope=DYNAMIC_ONLY,
    ),
]
