"""What every client is told: where the cluster is, how long to wait, how to reconnect. Kafka's names and defaults."""

from typing import Final

from headrace.cluster.config_types import HIGH, INT, LIST, LONG, LOW, STRING, ConfigKey

COMMON_CONFIGS: Final = [
    ConfigKey(
        "bootstrap.servers",
        LIST,
        (),
        "Where to find the cluster, as host:port; a few of its brokers are enough, since they know the others.",
        HIGH,
        is_empty_allowed=False,
    ),
    ConfigKey("client.id", STRING, "", "The name of this program in the broker's log, metrics and quotas."),
    ConfigKey(
        "client.dns.lookup",
        STRING,
        "use_all_dns_ips",
        "Try every address of a name in turn, or replace the bootstrap names by the canonical names behind them.",
        values=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    # Time
    ConfigKey(
        "request.timeout.ms",
        INT,
        30_000,
        "How long an answer may take; then its connection is closed and the request may be sent again.",
        minimum=0,
    ),
    ConfigKey(
        "retry.backoff.ms", LONG, 100, "The wait before the first repetition of a failed request.", LOW, minimum=0
    ),
    ConfigKey(
        "retry.backoff.max.ms",
        LONG,
        1_000,
        "The longest wait before a repetition; waits double from retry.backoff.ms up to it, and vary by a fifth.",
        LOW,
        minimum=0,
    ),
    # Connections
    ConfigKey("reconnect.backoff.ms", LONG, 50, "The wait before connecting again to one broker.", LOW, minimum=0),
    ConfigKey(
        "reconnect.backoff.max.ms",
        LONG,
        1_000,
        "The longest such wait; waits double from reconnect.backoff.ms up to it, and vary by a fifth.",
        LOW,
        minimum=0,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long connecting to one address may take at first; it doubles with each failure.",
        minimum=0,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms", LONG, 30_000, "How long connecting may take at the most.", minimum=0
    ),
    ConfigKey(
        "connections.max.idle.ms", LONG, 540_000, "A connection that is not used for so long is closed; -1: never."
    ),
    ConfigKey(
        "send.buffer.bytes",
        INT,
        -1,  # Kafka's 128 KiB, and its 64 KiB to receive, would end the kernel's own tuning, which is faster
        "The size of the socket's send buffer; -1 leaves it to the system.",
        minimum=-1,
    ),
    ConfigKey(
        "receive.buffer.bytes",
        INT,
        -1,
        "The size of the socket's receive buffer; -1 leaves it to the system.",
        minimum=-1,
    ),
    # Metadata
    ConfigKey(
        "metadata.max.age.ms",
        LONG,
        300_000,
        "Brokers, topics and leaders are asked for again after this time, even if nothing went wrong.",
        LOW,
        minimum=0,
    ),
    ConfigKey(
        "metadata.recovery.strategy",
        STRING,
        "rebootstrap",
        "When no known broker answers: begin again at bootstrap.servers, or not (none).",
        LOW,
        values=("rebootstrap", "none"),
        ignores_case=True,
    ),
    ConfigKey(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        300_000,
        "After so long without fresh metadata the client begins again at bootstrap.servers.",
        LOW,
        minimum=0,
    ),
]
