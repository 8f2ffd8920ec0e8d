"""Our config tables beside Apache Kafka's own: names, types, defaults, what can change, synonyms, what is taken.

Each difference that we chose is listed here by name, with its reason; one that is listed and does not exist fails, too.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.broker_configs import BROKER_CHAINS
from headrace.cluster.config_resolution import (
    ResolvedConfig,
    group_values,
    resolve_broker_config,
    resolve_client_metrics_config,
    resolve_group_config,
    resolve_topic_config,
)
from headrace.cluster.config_types import ConfigKey, ConfigTable, ConfigType, InvalidConfigError, Scope, format_value
from headrace.cluster.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    check_broker_file,
    check_group_bounds,
    validate,
)
from headrace.cluster.foreign_configs import REFUSED, WITHOUT_EFFECT
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

Line = dict[str, Any]
TABLES: Mapping[str, ConfigTable] = {
    "broker": BROKER_CONFIGS,
    "topic": TOPIC_CONFIGS,
    "group": GROUP_CONFIGS,
    "client-metrics": CLIENT_METRICS_CONFIGS,
}

OTHER_DEFAULTS = {
    "node.id": "one node starts without a file; Kafka has no default",
    "process.roles": "one node starts without a file; Kafka has no default",
    "controller.listener.names": "one node starts without a file; Kafka has no default",
    "log.dir": "`headrace start` decides where data lies; Kafka uses a directory that a restart may empty",
    "sasl.enabled.mechanisms": "Kafka's default is Kerberos, which Headrace does not have",
    "sasl.mechanism.inter.broker.protocol": "Kafka's default is Kerberos, which Headrace does not have",
    "sasl.mechanism.controller.protocol": "Kafka's default is Kerberos, which Headrace does not have",
    "ssl.keystore.type": "Python reads PEM, and not Java's JKS",
    "ssl.truststore.type": "Python reads PEM, and not Java's JKS",
}
NOT_DECLARED_BY_KAFKA = {
    "super.users": "Kafka's authorizer takes it out of the file by itself, undeclared",
    "allow.everyone.if.no.acl.found": "Kafka's authorizer takes it out of the file by itself, undeclared",
}


@pytest.fixture(scope="module")
def declared(kafka_tools: KafkaTools) -> dict[tuple[str, str], Line]:
    """How Kafka declares each config, by resource and name."""
    lines = [json.loads(line) for line in kafka_tools.run("Configs.java", "declare").splitlines()]
    return {(line["resource"], line["name"]): line for line in lines}


@pytest.fixture(scope="module")
def described(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Line], dict[str, str]]:
    """What a running Kafka says about its configs, and what stands in its file."""
    with ApacheKafka(tmp_path_factory.mktemp("configs"), kafka_tools) as kafka:
        lines = [json.loads(line) for line in kafka_tools.run("Configs.java", "describe", kafka.address).splitlines()]
        text = (kafka.directory / "server.properties").read_text()
    return lines, dict(line.split("=", 1) for line in text.splitlines())


def our_keys() -> Iterator[tuple[str, ConfigKey]]:
    for resource, table in TABLES.items():
        for key in table.values():
            if key.name not in NOT_DECLARED_BY_KAFKA:
                yield resource, key


def test_every_config_of_kafka_is_declared_or_known_to_be_foreign(declared: dict[tuple[str, str], Line]) -> None:
    for resource, table in TABLES.items():
        theirs = {name for kind, name in declared if kind == resource}
        ours = set(table) - set(NOT_DECLARED_BY_KAFKA)
        if resource == "broker":
            assert not ours & (set(WITHOUT_EFFECT) | set(REFUSED))
            ours |= set(WITHOUT_EFFECT) | set(REFUSED)
        assert ours == theirs
    assert all(("broker", name) not in declared for name in NOT_DECLARED_BY_KAFKA)


def test_types_importance_and_internal_ones_are_kafkas(declared: dict[tuple[str, str], Line]) -> None:
    for resource, key in our_keys():
        line = declared[resource, key.name]
        assert (key.type.name, key.importance.name, key.is_internal) == (
            line["type"],
            line["importance"],
            line["internal"],
        ), key.name


def test_defaults_are_kafkas_except_where_we_chose_another(declared: dict[tuple[str, str], Line]) -> None:
    differing = {
        key.name
        for resource, key in our_keys()
        if (format_value(key.default), True)
        != (declared[resource, key.name]["default"], declared[resource, key.name]["has_default"])
    }
    assert differing == set(OTHER_DEFAULTS)


def test_what_we_refuse_to_change_defaults_to_what_kafka_has(declared: dict[tuple[str, str], Line]) -> None:
    for name, (default, _) in REFUSED.items():
        assert (declared["broker", name]["default"] or "") == default, name


def test_a_config_changes_where_it_changes_in_kafka(declared: dict[tuple[str, str], Line]) -> None:
    for resource, key in our_keys():
        if resource == "broker":
            assert key.scope.value == declared[resource, key.name]["update_mode"], key.name
        else:
            assert key.scope is Scope.RESOURCE, key.name


def test_synonyms_are_kafkas(declared: dict[tuple[str, str], Line]) -> None:
    for (resource, name), line in declared.items():
        if resource == "topic":
            assert [list(each) for each in TOPIC_CONFIGS[name].synonyms] == line["synonyms"], name
        elif resource == "group":
            assert [each.name for each in GROUP_CONFIGS[name].synonyms] == line["synonyms"], name
        elif resource == "broker" and name in BROKER_CONFIGS:
            assert list(BROKER_CHAINS.get(name, (name,))) == line["synonyms"], name


# --- what is taken


OTHER_VALUES = {
    "advertised.listeners": "an empty list is the same as none",
    "authorizer.class.name": "only Kafka's own authorizer is there; another class could not be run",
    "broker.heartbeat.interval.ms": "a broker whose session ends before its next heartbeat would never serve",
    "broker.session.timeout.ms": "a broker whose session ends before its next heartbeat would never serve",
    "broker.id": "-1, its default, may also be written down",
    "controller.listener.names": "a name in lower case is the same name",
    "controller.quorum.bootstrap.servers": "a node that is the whole quorum knows itself",
    "follower.replication.throttled.replicas": "an empty item is a mistake in every list",
    "group.max.session.timeout.ms": "below the minimum no member could ever join",
    "group.min.session.timeout.ms": "above the maximum no member could ever join",
    "leader.replication.throttled.replicas": "an empty item is a mistake in every list",
    "listener.security.protocol.map": "the default may also be written down",
    "log.cleaner.io.buffer.load.factor": "Java's suffix for doubles (7d) is not a number to people",
    "log.cleaner.io.max.bytes.per.second": "Java's suffix for doubles (7d) is not a number to people",
    "log.flush.interval.ms": "a negative time is refused as in the topic config flush.ms, which is made from it",
    "log.retention.hours": "no limit is written as -1, and not as any negative number",
    "log.retention.minutes": "no limit is written as -1, and not as any negative number",
    "log.retention.ms": "no limit is written as -1, and not as any negative number",
    "process.roles": "a node that is the whole quorum needs no listener for controllers",
    "replica.selector.class": "only Kafka's own two selectors are there; another class could not be run",
    "sasl.enabled.mechanisms": "only mechanisms that Headrace speaks; Kafka finds out when a client connects",
    "sasl.mechanism.controller.protocol": "only mechanisms that Headrace speaks; Kafka finds out when it connects",
    "sasl.mechanism.inter.broker.protocol": "only mechanisms that Headrace speaks; Kafka finds out when it connects",
    "ssl.enabled.protocols": "only versions that OpenSSL speaks; Kafka finds out when a connection is made",
    "ssl.endpoint.identification.algorithm": "only https or none, as in Java, which finds out when it connects",
    "ssl.keystore.type": "only what Python can read",
    "ssl.protocol": "only versions that OpenSSL speaks; Kafka finds out when a connection is made",
    "ssl.truststore.type": "only what Python can read",
}


def probes(key: ConfigKey) -> set[str]:
    """Texts that are right or wrong in ways that people and programs produce."""
    texts = {"", " ", "x", format_value(key.default) or ""}
    if key.type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE):
        least, most = {
            ConfigType.SHORT: (-(2**15), 2**15 - 1),
            ConfigType.INT: (-(2**31), 2**31 - 1),
        }.get(key.type, (-(2**63), 2**63 - 1))
        edges = {-3, -2, -1, 0, 1, 2, 5, least, least - 1, most, most + 1}
        for bound in (key.minimum, key.maximum):
            if bound is not None:
                edges |= {int(bound) - 1, int(bound), int(bound) + 1}
        texts |= {str(edge) for edge in edges} | {" 7 ", "+7", "7d", "1_000", "0x10", "1.5", "0.25", "1e1", "1,5"}
    elif key.type is ConfigType.BOOLEAN:
        texts |= {"true", "TRUE", " False ", "yes", "1", "null"}
    elif key.type is ConfigType.LIST:
        texts |= {"a", "a,b", "a, b", "a,a", "a,,b", ",", "a,", "*", "0:1", "0:1,2:3", "0:x", "*,0:1", *key.values}
        texts |= {",".join(key.values), "delete,delete"}
    else:
        texts |= {*key.values, *(each.lower() for each in key.values), *(each.upper() for each in key.values)}
    return texts


def is_taken(resource: str, overrides: Mapping[str, str]) -> bool:
    table = TABLES[resource]
    try:
        if resource == "broker":
            base = {"process.roles": "broker", "node.id": "1", "log.dirs": "data"}
            return not check_broker_file({**base, **overrides}).problems
        validate(table, overrides)
        if resource == "group":
            check_group_bounds(group_values(overrides, BROKER_CONFIGS.defaults()), BROKER_CONFIGS.defaults())
    except InvalidConfigError:
        return False
    return True


def judge(tools: KafkaTools, file: Path, asked: list[tuple[str, dict[str, str]]]) -> list[tuple[bool, str]]:
    """Whether Kafka takes each of these, and what it says if not."""
    file.write_text("".join(json.dumps({"resource": kind, "overrides": texts}) + "\n" for kind, texts in asked))
    lines = [json.loads(line) for line in tools.run("Configs.java", "judge", str(file)).splitlines()]
    assert [(line["resource"], line["overrides"]) for line in lines] == asked
    return [(line["refused"] is None, line["refused"] or "") for line in lines]


def test_each_value_is_taken_or_refused_as_kafka_does(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    asked = [
        (resource, {key.name: text})
        for resource, key in our_keys()
        if key.scope is not Scope.DYNAMIC_ONLY
        for text in sorted(probes(key))
    ]
    differing: dict[str, list[str]] = {}
    for (resource, overrides), (taken, words) in zip(asked, judge(kafka_tools, tmp_path / "asked", asked), strict=True):
        ((name, text),) = overrides.items()
        if is_taken(resource, overrides) != taken:
            differing.setdefault(name, []).append(f"{text!r}: Kafka {'takes' if taken else 'refuses'} it {words}")
    unexpected = {name: lines for name, lines in differing.items() if name not in OTHER_VALUES}
    assert not unexpected, json.dumps(unexpected, indent=1)
    assert set(OTHER_VALUES) == set(differing)


PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"
# What one value is beside others: (resource, overrides)
TOGETHER: list[tuple[str, dict[str, str]]] = [
    ("topic", {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}),
    ("topic", {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}),
    ("topic", {"cleanup.policy": "compact,delete", "retention.ms": "-1"}),
    ("topic", {"remote.storage.enable": "true"}),
    ("topic", {"no.such.config": "1"}),
    ("topic", {"internal.segment.bytes": "1000"}),
    ("group", {"no.such.config": "1"}),
    ("group", {"consumer.session.timeout.ms": "60001"}),
    ("group", {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"}),
    ("group", {"consumer.heartbeat.interval.ms": "15001"}),
    ("group", {"share.delivery.count.limit": "11"}),
    ("group", {"share.record.lock.duration.ms": "60001"}),
    ("group", {"streams.num.standby.replicas": "3"}),
    ("group", {"share.auto.offset.reset": "by_duration:PT1H"}),
    ("group", {"share.auto.offset.reset": "by_duration:P1D"}),
    ("group", {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"}),
    ("group", {"share.auto.offset.reset": "by_duration:P"}),
    ("group", {"share.auto.offset.reset": "by_duration:PT"}),
    ("group", {"share.auto.offset.reset": "by_duration:1h"}),
    ("group", {"share.auto.offset.reset": "LATEST"}),
    ("group", {"share.auto.offset.reset": "by_duration:-PT1H"}),
    ("client-metrics", {"interval.ms": "100", "metrics": "*", "match": "client_id=app.*,client_software_name=x"}),
    ("client-metrics", {"interval.ms": "99"}),
    ("client-metrics", {"interval.ms": "3600001"}),
    ("client-metrics", {"match": "client_id=("}),
    ("client-metrics", {"match": "colour=red"}),
    ("client-metrics", {"match": "client_id"}),
    ("broker", {"broker.id": "2"}),
    ("broker", {"broker.id": "2", "node.id": "2"}),
    ("broker", {"log.roll.ms": "0"}),
    ("broker", {"log.roll.jitter.ms": "-1"}),
    ("broker", {"log.retention.ms": "0"}),
    ("broker", {"log.retention.minutes": "-1", "log.retention.hours": "5"}),
    ("broker", {"replica.fetch.wait.max.ms": "30001"}),
    ("broker", {"replica.fetch.wait.max.ms": "400", "replica.lag.time.max.ms": "399"}),
    ("broker", {"group.consumer.session.timeout.ms": "44999"}),
    ("broker", {"group.consumer.min.session.timeout.ms": "70000", "group.consumer.session.timeout.ms": "70000"}),
    ("broker", {"group.share.heartbeat.interval.ms": "15001"}),
    ("broker", {"group.streams.num.standby.replicas": "3"}),
    ("broker", {"group.share.max.share.sessions": "199"}),
    ("broker", {"group.share.max.share.sessions": "200"}),
    ("broker", {"cordoned.log.dirs": "data"}),
    ("broker", {"cordoned.log.dirs": "*,data"}),
    ("broker", {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}),
    ("broker", {"max.connections.per.ip.overrides": "127.0.0.1"}),
    ("broker", {"max.connections.per.ip.overrides": "127.0.0.1:x"}),
    ("broker", {"queued.max.request.bytes": "104857600"}),
    ("broker", {"controller.quorum.voters": "2@localhost:9093", "controller.quorum.bootstrap.servers": ""}),
    ("broker", {"controller.quorum.voters": "localhost:9093"}),
    ("broker", {"controller.quorum.voters": "x@localhost:9093"}),
    ("broker", {"controller.quorum.bootstrap.servers": "localhost"}),
    ("broker", {"controller.quorum.bootstrap.servers": "[::1]:9093,localhost:9094"}),
    *(
        ("broker", {"listeners": listeners, "listener.security.protocol.map": PROTOCOLS})
        for listeners in (
            "PLAINTEXT://localhost:9092",
            "PLAINTEXT://:0",
            "PLAINTEXT://[::1]:9092",
            "PLAINTEXT://[::1%eth0]:9092",
            "plaintext://localhost:9092",
            "PLAINTEXT://localhost:9092, SSL://localhost:9094",
            "PLAINTEXT://localhost:9092,SSL://localhost:9092",
            "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092",
            "PLAINTEXT://localhost:0,SSL://localhost:0",
            "PLAINTEXT://localhost:9092,PLAINTEXT://localhost:9093",
            "PLAINTEXT://localhost",
            "PLAINTEXT://localhost:",
            "PLAINTEXT://localhost:x",
            "localhost:9092",
            "PLAINTEXT:localhost:9092",
            "://localhost:9092",
            "OTHER://localhost:9092",
            "PLAINTEXT://local host:9092",
            "PLAINTEXT://localhost:9092,",
            "",
        )
    ),
    ("broker", {"listeners": "IN://:1,OUT://:2", "listener.security.protocol.map": "IN:PLAINTEXT"}),
    ("broker", {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}),
    ("broker", {"advertised.listeners": "PLAINTEXT://example.com:19092"}),
    ("broker", {"advertised.listeners": "SSL://example.com:19092"}),
    ("broker", {"inter.broker.listener.name": "SSL"}),
    ("broker", {"inter.broker.listener.name": "PLAINTEXT"}),
    ("broker", {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:NONE"}),
    ("broker", {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT"}),
    ("broker", {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:plaintext"}),
    ("broker", {"early.start.listeners": "PLAINTEXT"}),
    ("broker", {"early.start.listeners": "SSL"}),
    ("broker", {"listeners": "PLAINTEXT://:1,SSL://:2"}),
]
OTHER_JUDGEMENTS = {
    "PLAINTEXT://local host:9092": "no host has a blank in its name",
}


def test_values_that_depend_on_one_another_are_judged_as_kafka_does(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    judged = judge(kafka_tools, tmp_path / "asked", TOGETHER)
    differing = {
        json.dumps(overrides): f"Kafka {'takes' if taken else 'refuses'} it {words}"
        for (resource, overrides), (taken, words) in zip(TOGETHER, judged, strict=True)
        if is_taken(resource, overrides) != taken and not set(overrides.values()) & set(OTHER_JUDGEMENTS)
    }
    assert not differing, json.dumps(differing, indent=1)


# --- what is described


def resolve(line: Line, static: Mapping[str, str]) -> ResolvedConfig:
    # Kafka sets min.insync.replicas for the cluster by itself while eligible leader replicas are on.
    cluster = {"min.insync.replicas": "1"}
    match line["resource"]:
        case "broker":
            return resolve_broker_config(line["name"], {}, cluster, {**static, "broker.id": static["node.id"]})
        case "topic":
            return resolve_topic_config(line["name"], {}, {}, cluster, static)
        case "group":
            return resolve_group_config(line["name"], {"consumer.session.timeout.ms": "50000"}, {}, cluster, static)
        case _:
            return resolve_client_metrics_config(line["name"], {"interval.ms": "1000"})


def test_a_broker_describes_its_configs_as_kafka_does(described: tuple[list[Line], dict[str, str]]) -> None:
    lines, static = described
    ours: list[tuple[object, ...]] = []
    theirs: list[tuple[object, ...]] = []
    told = set()
    for line in lines:
        name = line["name"]
        told.add((line["resource"], name))
        if name in WITHOUT_EFFECT or name in REFUSED or name in NOT_DECLARED_BY_KAFKA:
            continue
        if line["resource"] == "broker" and name in OTHER_DEFAULTS:
            continue
        resolved = resolve(line, static).redacted()
        key = resolved.key
        ours.append((name, key.type.name, key.is_sensitive, key.is_read_only, resolved.value, resolved.source.name))
        ours.append(tuple((each.name, each.value, each.source.name) for each in resolved.synonyms))
        theirs.append((name, line["type"], line["sensitive"], line["read_only"], line["value"], line["source"]))
        theirs.append(tuple(tuple(each) for each in line["synonyms"]))
    assert ours == theirs
    for resource, key in our_keys():
        assert ((resource, key.name) in told) == (not key.is_internal and key.scope is not Scope.DYNAMIC_ONLY), key.name
