"""Overrides of topics, brokers, groups and subscriptions: what is taken, and what people read when it is not."""

import subprocess
import sys

import pytest

from headrace.cluster.config_resolution import group_values
from headrace.cluster.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigTable,
    InvalidConfigError,
    check_broker_change,
    check_broker_file,
    check_group_bounds,
    find_problems,
    nearest,
    validate,
)


def complaint(table: ConfigTable, overrides: dict[str, str]) -> str:
    with pytest.raises(InvalidConfigError) as refused:
        validate(table, overrides)
    return str(refused.value)


def file_complaints(overrides: dict[str, str]) -> list[str]:
    return [str(each) for each in check_broker_file(overrides).problems]


@pytest.mark.parametrize(
    ("table", "overrides", "words"),
    [
        (TOPIC_CONFIGS, {"retention.ms": "7d"}, 'retention.ms must be a whole number of milliseconds >= -1, not "7d"'),
        (TOPIC_CONFIGS, {"retention.mss": "7"}, "retention.mss is not a topic config; did you mean retention.ms?"),
        (TOPIC_CONFIGS, {"qqq": "7"}, "qqq is not a topic config"),
        (
            TOPIC_CONFIGS,
            {"log.retention.hours": "7"},
            "log.retention.hours is not a topic config; did you mean retention.ms?",
        ),
        (
            TOPIC_CONFIGS,
            {"compression.type": "brotli"},
            "compression.type must be uncompressed, zstd, lz4, snappy, gzip",
        ),
        (TOPIC_CONFIGS, {"remote.storage.enable": "TRUE"}, "remote.storage.enable must be false: Headrace keeps"),
        (
            TOPIC_CONFIGS,
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "min.compaction.lag.ms must not be above max.compaction.lag.ms, but 5 > 4",
        ),
        (
            TOPIC_CONFIGS,
            {"leader.replication.throttled.replicas": "0"},
            'leader.replication.throttled.replicas must be * or items such as 0:1 (partition:broker), not "0"',
        ),
        (
            GROUP_CONFIGS,
            {"share.auto.offset.reset": "never"},
            'share.auto.offset.reset must be latest, earliest or by_duration:PT1H (ISO 8601), not "never"',
        ),
        (
            CLIENT_METRICS_CONFIGS,
            {"interval.ms": "99"},
            'interval.ms must be a whole number of milliseconds from 100 to 3600000, not "99"',
        ),
        (CLIENT_METRICS_CONFIGS, {"match": "colour=red"}, "match must be items such as client_id=app.*, with one of"),
        (CLIENT_METRICS_CONFIGS, {"match": "client_id=("}, "match must have a regular expression for client_id"),
    ],
)
def test_a_wrong_override_is_explained(table: ConfigTable, overrides: dict[str, str], words: str) -> None:
    assert complaint(table, overrides).startswith(words)


def test_right_overrides_are_taken() -> None:
    validate(TOPIC_CONFIGS, {"cleanup.policy": "compact,delete", "retention.ms": "-1", "local.retention.ms": "5"})
    validate(TOPIC_CONFIGS, {"follower.replication.throttled.replicas": "0:1,1:2"})
    validate(TOPIC_CONFIGS, {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    validate(GROUP_CONFIGS, {"share.auto.offset.reset": "by_duration:P1DT2H"})
    validate(CLIENT_METRICS_CONFIGS, {"match": "client_id=app.*", "metrics": "org.apache.kafka.producer"})
    validate(BROKER_CONFIGS, {"listener.name.internal.ssl.keystore.location": "key.pem"})
    validate(BROKER_CONFIGS, {})


def test_all_problems_are_told_at_once() -> None:
    problems = find_problems(TOPIC_CONFIGS, {"retention.ms": "x", "flush.ms": "5", "segment.bytes": "1", "nope": ""})
    assert [each.name for each in problems] == ["retention.ms", "segment.bytes", "nope"]


def test_the_broker_bounds_what_a_group_may_set() -> None:
    broker = BROKER_CONFIGS.defaults()
    check_group_bounds(group_values({"consumer.session.timeout.ms": "60000"}, broker), broker)
    for overrides, words in (
        ({"consumer.session.timeout.ms": "60001"}, "at most group.consumer.max.session.timeout.ms, but 60001 > 60000"),
        ({"share.heartbeat.interval.ms": "4999"}, "at least group.share.min.heartbeat.interval.ms, but 4999 < 5000"),
        ({"streams.num.standby.replicas": "3"}, "at most group.streams.max.standby.replicas, but 3 > 2"),
    ):
        with pytest.raises(InvalidConfigError, match=words):
            check_group_bounds(group_values(overrides, broker), broker)


def test_the_session_of_a_group_must_outlast_the_heartbeats_that_the_broker_asks_for() -> None:
    broker = BROKER_CONFIGS.defaults() | {
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.min.session.timeout.ms": 50,
    }
    check_group_bounds(group_values({"consumer.session.timeout.ms": "101"}, broker), broker)
    with pytest.raises(InvalidConfigError, match=r"must be above consumer\.heartbeat\.interval\.ms, but 100 <= 100"):
        check_group_bounds(group_values({"consumer.session.timeout.ms": "100"}, broker), broker)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"listners": "A://:1"}, "listners is not a broker config; did you mean listeners?"),
        ({"num.partitions": "0"}, 'num.partitions must be a whole number >= 1, not "0"'),
        ({"node.id": "1", "broker.id": "2"}, "broker.id must be left out or equal to node.id, but 2 != 1"),
        ({"log.retention.hours": "0"}, 'log.retention.hours must be a whole number of hours >= 1, or -1, not "0"'),
        ({"log.roll.ms": "0"}, 'log.roll.ms must be a whole number of milliseconds >= 1, not "0"'),
        (
            {"broker.heartbeat.interval.ms": "9000"},
            "broker.session.timeout.ms must be above broker.heartbeat.interval.ms, but 9000 <= 9000",
        ),
        (
            {"replica.lag.time.max.ms": "100"},
            "replica.fetch.wait.max.ms must be at most replica.lag.time.max.ms, but 500 > 100",
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            "group.consumer.session.timeout.ms must be at least group.consumer.min.session.timeout.ms",
        ),
        ({"queued.max.request.bytes": "1"}, "socket.request.max.bytes must be at most queued.max.request.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip must be above 0 unless"),
        ({"log.dirs": "a,b", "cordoned.log.dirs": "c"}, "cordoned.log.dirs must be among log.dirs, and c is not"),
        ({"cordoned.log.dirs": "*,c"}, "cordoned.log.dirs must have no other item beside *"),
        ({"inter.broker.listener.name": "IN"}, 'inter.broker.listener.name must name one of listeners, not "IN"'),
        (
            {"security.inter.broker.protocol": "SSL"},
            'security.inter.broker.protocol must name one of listeners, not "SSL"',
        ),
        ({"early.start.listeners": "IN"}, 'early.start.listeners must be among listeners, and "IN" is not'),
        ({"listeners": "IN://:1"}, "listener.security.protocol.map must say which protocol IN speaks"),
        (
            {"process.roles": "broker", "controller.quorum.auto.join.enable": "true"},
            "controller.quorum.auto.join.enable is only for nodes with controller in process.roles",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols must have classic",
        ),
        ({"group.share.assignors": ""}, "group.share.assignors must be a list of simple"),
        ({"super.users": "alice"}, "super.users must be items such as User:alice separated by semicolons"),
        ({"ssl.keystore.type": "JKS"}, 'ssl.keystore.type must be PEM or PKCS12, not "JKS"'),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms must be a list of PLAIN, SCRAM-SHA-256"),
        (
            {"leader.replication.throttled.rate": "5"},
            "leader.replication.throttled.rate can only be set while the broker",
        ),
        ({"create.topic.policy.class.name": "a.B"}, "create.topic.policy.class.name must be left out: it names a Java"),
        ({"remote.log.storage.system.enable": "true"}, "remote.log.storage.system.enable must be left out: remote"),
        ({"listener.name.in.num.partitions": "3"}, "listener.name.in.num.partitions is not a broker config"),
        ({"listener.name.in.ssl.client.auth": "no"}, "listener.name.in.ssl.client.auth must be required, requested or"),
    ],
)
def test_a_file_that_cannot_work_stops_the_start(overrides: dict[str, str], words: str) -> None:
    (told,) = file_complaints(overrides)
    assert told.startswith(words)


def test_kafkas_own_example_file_starts_a_broker() -> None:
    check = check_broker_file(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "socket.send.buffer.bytes": "102400",
            "log.dirs": "data",
            "offsets.topic.replication.factor": "1",
            "log.retention.hours": "168",
            "ssl.engine.factory.class": "",
        }
    )
    assert check.problems == []
    between_brokers, threads = check.notices
    assert between_brokers.startswith("inter.broker.listener.name has no effect yet: there is one broker")
    assert threads.startswith("num.network.threads has no effect: a Headrace broker runs one event loop")


def test_one_listener_can_have_its_own_value() -> None:
    assert not file_complaints({"listener.name.internal.scram-sha-256.sasl.jaas.config": "secret"})
    assert file_complaints({"listener.name.internal.plain.ssl.client.auth": "none"})
    key = BROKER_CONFIGS.find("listener.name.internal.ssl.keystore.password")
    assert key is not None
    assert key.is_sensitive
    handler = "listener.name.internal.plain.sasl.server.callback.handler.class"
    assert file_complaints({handler: "a.B"}) == [
        f"{handler} must be left out: it names a Java class, and Headrace cannot run one"
    ]
    assert check_broker_file({"listener.name.internal.num.network.threads": "3"}).notices


@pytest.mark.parametrize(
    ("name", "text", "is_cluster_wide", "words"),
    [
        ("log.retention.ms", "5", True, None),
        ("log.retention.ms", "5", False, None),
        ("log.retention.ms", None, True, None),
        ("log.retention.ms", "x", True, "log.retention.ms must be a whole number"),
        ("log.retention.hours", "5", True, "log.retention.hours cannot change while the broker runs"),
        ("listeners", "PLAINTEXT://:1", False, None),
        ("listeners", "PLAINTEXT://:1", True, "listeners can only be set for one broker at a time"),
        ("leader.replication.throttled.rate", "5", False, None),
        ("max.connections", "5", True, None),
        ("listener.name.a.max.connections", "5", False, None),
        (
            "listener.name.a.max.connections",
            "5",
            True,
            "listener.name.a.max.connections can only be set for one broker",
        ),
        ("num.io.threads", "5", True, "num.io.threads would have no effect: a Headrace broker runs one event loop"),
        ("num.io.threads", None, True, None),
        ("config.providers", "x", True, "config.providers cannot be set: it names a Java class"),
        ("left.by.a.newer.version", None, True, None),
        ("log.retention.ms", "0", True, "log.retention.ms must be a whole number of milliseconds >= 1, or -1"),
        ("log.retention", "5", False, "log.retention is not a broker config; did you mean log.retention.ms?"),
    ],
)
def test_a_running_broker_takes_what_it_can_change(
    name: str, text: str | None, is_cluster_wide: bool, words: str | None
) -> None:
    if words is None:
        check_broker_change(name, text, is_cluster_wide=is_cluster_wide)
    else:
        with pytest.raises(InvalidConfigError) as refused:
            check_broker_change(name, text, is_cluster_wide=is_cluster_wide)
        assert str(refused.value).startswith(words)


def test_the_nearest_name_is_found_or_none_is() -> None:
    assert nearest("auto.create.topic.enable", BROKER_CONFIGS) == "auto.create.topics.enable"
    assert nearest("min.isr", TOPIC_CONFIGS) is None
    assert nearest("zzz", BROKER_CONFIGS) is None


def test_the_tables_load_nothing_heavy() -> None:
    program = "import sys, headrace.cluster.configs, headrace.cluster.config_resolution; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"dataclasses", "difflib", "inspect", "json", "asyncio", "socket"} & set(done.stdout.split())
