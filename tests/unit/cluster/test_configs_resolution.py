"""Which value counts, and where DescribeConfigs says it comes from."""

import pytest

from headrace.cluster.config_resolution import (
    ConfigSource,
    ConfigSynonym,
    broker_values,
    client_metrics_values,
    group_values,
    resolve_broker_config,
    resolve_client_metrics_config,
    resolve_group_config,
    resolve_topic_config,
    topic_defaults,
    topic_values,
)
from headrace.cluster.configs import GROUP_CONFIGS, TOPIC_CONFIGS

TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
BROKER = ConfigSource.DYNAMIC_BROKER_CONFIG
CLUSTER = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


def test_the_strongest_place_counts_and_all_are_told() -> None:
    places = {"log.retention.ms": "3"}, {"log.retention.ms": "4"}, {"log.retention.ms": "5"}
    resolved = resolve_topic_config("retention.ms", {"retention.ms": " 2 "}, *places)
    assert (resolved.value, resolved.source) == ("2", TOPIC)
    assert list(resolved.synonyms) == [
        ConfigSynonym("retention.ms", " 2 ", TOPIC),
        ConfigSynonym("log.retention.ms", "3", BROKER),
        ConfigSynonym("log.retention.ms", "4", CLUSTER),
        ConfigSynonym("log.retention.ms", "5", STATIC),
        ConfigSynonym("log.retention.hours", "168", DEFAULT),
    ]
    assert resolve_topic_config("retention.ms", {}, *places)[1:3] == ("3", BROKER)
    assert resolve_topic_config("retention.ms", {}, {}, *places[1:])[1:3] == ("4", CLUSTER)
    assert resolve_topic_config("retention.ms", {}, {}, {}, places[2])[1:3] == ("5", STATIC)


@pytest.mark.parametrize(
    ("static", "value"),
    [
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.minutes": "3", "log.retention.hours": "2"}, "180000"),
        ({"log.retention.ms": "7", "log.retention.minutes": "3"}, "7"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({"log.retention.minutes": "-1", "log.retention.hours": "2"}, "-1"),
    ],
)
def test_minutes_and_hours_become_milliseconds(static: dict[str, str], value: str) -> None:
    resolved = resolve_topic_config("retention.ms", {}, {}, {}, static)
    assert (resolved.value, resolved.source) == (value, STATIC)
    assert topic_defaults(broker_values(static=static))["retention.ms"] == int(value)


def test_a_chain_that_nobody_touched_is_a_default_without_synonyms() -> None:
    for name, value in (("retention.ms", "604800000"), ("segment.ms", "604800000"), ("flush.ms", str(2**63 - 1))):
        resolved = resolve_topic_config(name, {}, {}, {}, {})
        assert resolved[1:] == (value, DEFAULT, [])


def test_a_topic_config_without_synonym_has_its_own_default() -> None:
    resolved = resolve_topic_config("leader.replication.throttled.replicas", {}, {}, {}, {})
    assert resolved[1:] == ("", DEFAULT, [])


def test_typed_values_follow_the_same_order() -> None:
    name = "message.max.bytes"
    assert broker_values({name: "1"}, {name: "2"}, {name: "3"})[name] == 1
    assert broker_values({}, {name: "2"}, {name: "3"})[name] == 2
    assert broker_values({}, {}, {name: "3"})[name] == 3


def test_a_broker_config_is_not_set_by_the_next_in_its_chain() -> None:
    static = {"log.retention.hours": "2"}
    assert resolve_broker_config("log.retention.ms", {}, {}, static)[1:] == (None, DEFAULT, [])
    hours = resolve_broker_config("log.retention.hours", {"log.retention.ms": "5"}, {}, static)
    assert hours[1:3] == ("2", STATIC)
    assert [each.source for each in hours.synonyms] == [STATIC, DEFAULT]


def test_a_value_for_one_listener_goes_before_that_for_all() -> None:
    static = {"listener.name.in.max.connections": "5", "max.connections": "9"}
    own = resolve_broker_config("listener.name.in.max.connections", {}, {}, static)
    assert (own.value, own.source) == ("5", STATIC)
    assert [each.name for each in own.synonyms] == [
        "listener.name.in.max.connections",
        "max.connections",
        "max.connections",
    ]
    assert resolve_broker_config("max.connections", {}, {}, static).value == "9"
    assert broker_values(static=static)["listener.name.in.max.connections"] == 5


def test_a_secret_is_shown_as_set_and_no_more() -> None:
    resolved = resolve_broker_config("ssl.key.password", {}, {}, {"ssl.key.password": "hunter2"})
    assert resolved.value == "hunter2"
    shown = resolved.redacted()
    assert (shown.value, shown.source) == (None, STATIC)
    assert shown.synonyms == [ConfigSynonym("ssl.key.password", None, STATIC)]
    open_one = resolve_broker_config("num.partitions", {}, {}, {})
    assert open_one.redacted() is open_one


def test_values_are_shown_as_kafka_writes_them() -> None:
    assert resolve_topic_config("preallocate", {"preallocate": "TRUE"}, {}, {}, {}).value == "true"
    assert (
        resolve_topic_config("cleanup.policy", {"cleanup.policy": "compact, delete"}, {}, {}, {}).value
        == "compact,delete"
    )


def test_a_value_from_elsewhere_that_we_cannot_read_is_shown_and_not_used() -> None:
    overrides = {"compression.type": "brotli", "future.config": "1"}
    assert resolve_topic_config("compression.type", overrides, {}, {}, {}).value == "brotli"
    left_behind = {"log.retention.ms": "a week"}
    assert resolve_topic_config("retention.ms", {}, left_behind, {}, {})[1:3] == ("a week", BROKER)
    values = topic_values(overrides, topic_defaults(broker_values()))
    assert values["compression.type"] == "producer"
    assert "future.config" not in values


def test_a_group_takes_its_own_value_then_the_brokers() -> None:
    name, broker = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
    own = resolve_group_config(name, {name: "50000"}, {}, {}, {broker: "46000"})
    assert (own.value, own.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [each.name for each in own.synonyms] == [name, broker, broker]
    assert resolve_group_config(name, {}, {}, {}, {broker: "46000"})[1:3] == ("46000", STATIC)
    level = resolve_group_config("share.isolation.level", {}, {}, {}, {})
    assert level[1:] == (
        "read_uncommitted",
        DEFAULT,
        [ConfigSynonym("share.isolation.level", "read_uncommitted", DEFAULT)],
    )
    assert group_values({name: "50000"}, broker_values())[name] == 50000
    assert group_values({}, broker_values(static={broker: "46000"}))[name] == 46000


def test_a_subscription_has_only_its_own_values() -> None:
    own = resolve_client_metrics_config("interval.ms", {"interval.ms": "1000"})
    assert own[1:3] == ("1000", ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
    assert resolve_client_metrics_config("match", {})[1:] == ("", DEFAULT, [])
    assert client_metrics_values({"metrics": "a,b"}) == {"interval.ms": 300_000, "match": (), "metrics": ("a", "b")}


def test_with_nothing_set_typed_values_are_the_declared_defaults() -> None:
    broker = broker_values()
    assert topic_defaults(broker) == TOPIC_CONFIGS.defaults()
    assert group_values({}, broker) == GROUP_CONFIGS.defaults()


def test_what_is_described_is_what_is_used() -> None:
    static = {"log.roll.hours": "3", "message.max.bytes": "77", "log.cleanup.policy": "compact"}
    overrides = {"segment.jitter.ms": "5", "max.message.bytes": "99"}
    values = topic_values(overrides, topic_defaults(broker_values(static=static)))
    for name, key in TOPIC_CONFIGS.items():
        text = resolve_topic_config(name, overrides, {}, {}, static).value
        assert (None if text is None else key.parse(text)) == values[name], name


def test_an_unknown_name_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        resolve_topic_config("nope", {}, {}, {}, {})
    with pytest.raises(KeyError):
        resolve_broker_config("nope", {}, {}, {})
