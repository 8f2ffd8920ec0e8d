"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs over the wire, and the levels of loggers."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.cluster.config_resolution import ConfigSource
from headrace.cluster.config_types import ConfigType
from headrace.cluster.configs import BROKER_CONFIGS
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_configs as legacy
from headrace.protocol.messages import incremental_alter_configs as incremental
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.metadata_records import ConfigRecord
from headrace.server.handlers.describe_configs import MAX_RESOURCES
from tests.support.admin_node import AdminNode

TOPIC, BROKER, LOGGER = ConfigKind.TOPIC, ConfigKind.BROKER, ConfigKind.BROKER_LOGGER
METRICS, GROUP = ConfigKind.CLIENT_METRICS, ConfigKind.GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)
NEWEST = 4


def describe(
    node: AdminNode,
    *resources: tuple[int, str],
    names: list[str] | None = None,
    version: int = NEWEST,
    synonyms: bool = False,
    documentation: bool = False,
) -> Any:
    rows = [DescribeConfigsResource(kind, name, names) for kind, name in resources]
    request = DescribeConfigsRequest(rows, include_synonyms=synonyms, include_documentation=documentation)
    return node.ask("DescribeConfigs", version, request)


def configs(node: AdminNode, kind: int, name: str, **options: Any) -> dict[str, Any]:
    (result,) = describe(node, (kind, name), **options).results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, kind, name)
    return {row.name: row for row in result.configs}


def alter(node: AdminNode, kind: int, name: str, *rows: tuple[str, int, str | None], **options: Any) -> ErrorCode:
    (response,) = alter_all(node, (kind, name, list(rows)), **options)
    return response


def alter_all(
    node: AdminNode, *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> list[ErrorCode]:
    rows = [
        incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(*change) for change in changes])
        for kind, name, changes in resources
    ]
    request = incremental.IncrementalAlterConfigsRequest(rows, validate_only)
    response = node.ask("IncrementalAlterConfigs", 1, request)
    told = [(row.resource_type, row.resource_name) for row in response.responses]
    assert told == [(kind, name) for kind, name, _ in resources]
    assert all(bool(row.error_message) == bool(row.error_code) for row in response.responses)
    return [ErrorCode(row.error_code) for row in response.responses]


# DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_tells_values_and_where_they_come_from(version: int) -> None:
    node = AdminNode()
    node.create_topic("orders", retention_ms="5")
    row = configs(node, TOPIC, "orders", version=version)["retention.ms"]
    assert (row.value, row.config_source, row.read_only, row.is_sensitive) == ("5", 1, False, False)
    assert row.config_type == (ConfigType.LONG if version >= 3 else 0)
    assert row.synonyms == []


def test_synonyms_are_all_places_that_have_a_value() -> None:
    node = AdminNode(static={"log.retention.ms": "9"})
    node.create_topic("orders", retention_ms="5")
    node.write(ConfigRecord(*CLUSTER_DEFAULT, "log.retention.ms", "7"))
    row = configs(node, TOPIC, "orders", names=["retention.ms"], synonyms=True)["retention.ms"]
    assert [(each.name, each.value, ConfigSource(each.source).name) for each in row.synonyms] == [
        ("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG"),
        ("log.retention.ms", "7", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("log.retention.ms", "9", "STATIC_BROKER_CONFIG"),
        ("log.retention.hours", "168", "DEFAULT_CONFIG"),
    ]


def test_a_request_of_a_few_bytes_does_not_get_the_same_again_and_again() -> None:
    node = AdminNode()
    node.create_topic("orders")
    first, again, other = describe(node, (TOPIC, "orders"), (TOPIC, "orders"), (GROUP, "orders")).results
    assert [(row.error_code, row.configs) for row in (first, again)] == [(ErrorCode.INVALID_REQUEST, [])] * 2
    assert (other.error_code, first.error_message) == (0, "the request names this resource twice")
    too_many = describe(node, *((GROUP, f"{number}") for number in range(MAX_RESOURCES + 1))).results
    assert {(row.error_code, len(row.configs)) for row in too_many} == {(ErrorCode.INVALID_REQUEST, 0)}


def test_documentation_is_told_on_demand() -> None:
    node = AdminNode()
    node.create_topic("orders")
    assert {row.documentation for row in configs(node, TOPIC, "orders").values()} == {None}
    assert all(row.documentation for row in configs(node, TOPIC, "orders", documentation=True).values())


def test_names_choose_and_names_that_nobody_knows_are_left_out() -> None:
    node = AdminNode()
    node.create_topic("orders")
    assert list(configs(node, TOPIC, "orders", names=["segment.ms", "nope"])) == ["segment.ms"]
    assert len(configs(node, TOPIC, "orders", names=[])) == 33  # an empty list means all, as in Kafka


def test_a_broker_tells_all_of_its_configs() -> None:
    node = AdminNode(static={"num.partitions": "3"})
    node.write(ConfigRecord(BROKER, "1", "message.max.bytes", "2"))
    told = configs(node, BROKER, "1")
    assert set(told) == {name for name, key in BROKER_CONFIGS.items() if not key.is_internal}
    assert (told["num.partitions"].value, told["num.partitions"].config_source) == ("3", 4)
    assert told["num.partitions"].read_only
    assert (told["message.max.bytes"].value, told["message.max.bytes"].config_source) == ("2", 2)
    assert not told["message.max.bytes"].read_only


def test_secrets_are_blank() -> None:
    node = AdminNode(static={"ssl.key.password": "hush"})
    row = configs(node, BROKER, "1", synonyms=True)["ssl.key.password"]
    assert (row.value, row.is_sensitive, row.config_type) == (None, True, ConfigType.PASSWORD)
    assert [(each.value, each.source) for each in row.synonyms] == [(None, 4)]


def test_variants_for_one_listener_are_told_where_they_are_set() -> None:
    name = "listener.name.external.ssl.keystore.location"
    node = AdminNode()
    assert name not in configs(node, BROKER, "1")
    node.write(ConfigRecord(BROKER, "1", name, "/keys"))
    assert configs(node, BROKER, "1")[name].value == "/keys"


def test_without_a_name_a_broker_tells_what_was_set_for_all() -> None:
    node = AdminNode(static={"log.retention.ms": "9"})
    node.write(ConfigRecord(*CLUSTER_DEFAULT, "log.retention.ms", "7"))
    told = configs(node, BROKER, "", synonyms=True)
    assert {name: row.value for name, row in told.items() if name != "min.insync.replicas"} == {"log.retention.ms": "7"}
    assert {each.source for row in told.values() for each in row.synonyms} == {3}


def test_groups_and_subscriptions_have_configs_before_anybody_sets_one() -> None:
    node = AdminNode()
    node.write(ConfigRecord(GROUP, "billing", "consumer.session.timeout.ms", "46000"))
    told = configs(node, GROUP, "billing")
    assert (told["consumer.session.timeout.ms"].value, told["consumer.session.timeout.ms"].config_source) == (
        "46000",
        8,
    )
    assert configs(node, GROUP, "other")["consumer.session.timeout.ms"].config_source == 5
    node.write(ConfigRecord(METRICS, "slow", "interval.ms", "1000"))
    assert {name: row.value for name, row in configs(node, METRICS, "slow").items()} == {
        "interval.ms": "1000",
        "match": "",
        "metrics": "",
    }


def test_each_resource_is_told_or_refused_by_itself() -> None:
    node = AdminNode(other_brokers=[2])
    node.create_topic("orders")
    wanted = {
        (TOPIC, "orders"): ErrorCode.NONE,
        (TOPIC, "nobody"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, "bad name"): ErrorCode.INVALID_TOPIC_EXCEPTION,
        (BROKER, "2"): ErrorCode.INVALID_REQUEST,
        (BROKER, "x"): ErrorCode.INVALID_REQUEST,
        (LOGGER, ""): ErrorCode.INVALID_REQUEST,
        (LOGGER, "2"): ErrorCode.INVALID_REQUEST,
        (METRICS, ""): ErrorCode.INVALID_REQUEST,
        (GROUP, ""): ErrorCode.INVALID_REQUEST,
    }
    results = describe(node, *wanted).results
    assert {(row.resource_type, row.resource_name): ErrorCode(row.error_code) for row in results} == wanted


@pytest.mark.parametrize("kind", [0, 1, 64])
def test_a_kind_that_nobody_knows_refuses_the_whole_request(kind: int) -> None:
    node = AdminNode()
    node.create_topic("orders")
    results = describe(node, (TOPIC, "orders"), (kind, "x")).results
    assert [row.error_code for row in results] == [ErrorCode.INVALID_REQUEST] * 2


# IncrementalAlterConfigs


def test_single_configs_are_set_and_deleted_appended_and_subtracted() -> None:
    node = AdminNode()
    node.create_topic("orders", retention_ms="5")
    resource = ConfigResource(TOPIC, "orders")
    assert not alter(node, TOPIC, "orders", ("segment.ms", SET, "100000"), ("cleanup.policy", APPEND, "compact"))
    assert node.image.config(resource) == {
        "retention.ms": "5",
        "segment.ms": "100000",
        "cleanup.policy": "delete,compact",
    }
    assert not alter(node, TOPIC, "orders", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
    assert node.image.config(resource) == {"segment.ms": "100000", "cleanup.policy": "compact"}


def test_each_resource_is_changed_or_refused_by_itself_with_kafkas_codes() -> None:
    node = AdminNode(other_brokers=[2])
    node.create_topic("orders")
    node.create_topic("users")
    number: list[tuple[str, int, str | None]] = [("retention.ms", SET, "soon")]
    session: list[tuple[str, int, str | None]] = [("consumer.session.timeout.ms", SET, "46000")]
    codes = alter_all(
        node,
        (TOPIC, "orders", [("retention.ms", SET, "7")]),
        (TOPIC, "users", number),
        (TOPIC, "nobody", [("retention.ms", SET, "7")]),
        (BROKER, "", [("log.retention.ms", SET, "8")]),
        (BROKER, "1", [("node.id", SET, "8")]),
        (BROKER, "2", [("log.retention.ms", SET, "8")]),
        (METRICS, "slow", [("interval.ms", SET, "5")]),
        (GROUP, "billing", session),
        (GROUP, "", session),
        (0, "x", []),
    )
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert node.image.config(ConfigResource(TOPIC, "orders")) == {"retention.ms": "7"}
    assert node.image.config(CLUSTER_DEFAULT)["log.retention.ms"] == "8"


def test_validating_a_change_changes_nothing() -> None:
    node = AdminNode()
    node.create_topic("orders")
    assert not alter(node, TOPIC, "orders", ("retention.ms", SET, "7"), validate_only=True)
    assert not node.image.config(ConfigResource(TOPIC, "orders"))


def test_a_changed_config_reaches_the_logs_before_the_answer() -> None:
    node = AdminNode()
    node.create_topic("orders")
    alter(node, TOPIC, "orders", ("max.message.bytes", SET, "777"))
    partition: Any = node.partitions.leader("orders", 0)
    assert partition.log.config.max_message_bytes == 777


# Loggers


@pytest.fixture
def quiet() -> Iterator[None]:
    """Levels are the process's, and are put back."""
    loggers = [logging.getLogger("headrace"), logging.getLogger("headrace.server.partitions")]
    levels = [each.level for each in loggers]
    loggers[0].setLevel(logging.WARNING)
    loggers[1].setLevel(logging.NOTSET)
    yield
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


@pytest.mark.usefixtures("quiet")
def test_the_loggers_of_the_broker_are_told_and_no_others() -> None:
    logging.getLogger("somebody.else")
    told = configs(AdminNode(), LOGGER, "1")
    assert told["root"].value == told["headrace.server.partitions"].value == "WARN"
    assert {row.config_source for row in told.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    assert all(name == "root" or name.startswith("headrace.") for name in told)
    assert list(configs(AdminNode(), LOGGER, "1", names=["root"])) == ["root"]


@pytest.mark.usefixtures("quiet")
def test_a_logger_is_given_a_level_and_gets_back_that_of_the_one_above() -> None:
    node = AdminNode()
    assert not alter(node, LOGGER, "1", ("headrace.server.partitions", SET, "TRACE"))
    told = configs(node, LOGGER, "1")
    assert (told["headrace.server.partitions"].value, told["root"].value) == ("TRACE", "WARN")
    assert logging.getLogger("headrace.server.partitions").level == 5
    assert not alter(node, LOGGER, "1", ("root", SET, "ERROR"), ("headrace.server.partitions", DELETE, None))
    told = configs(node, LOGGER, "1")
    assert told["headrace.server.partitions"].value == told["root"].value == "ERROR"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("1", ("nobody", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", ("somebody.else", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", SET, None), ErrorCode.INVALID_CONFIG),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("1", ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("2", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_with_a_change_of_levels_changes_none(
    name: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    node = AdminNode()
    assert alter(node, LOGGER, name, ("headrace.server.partitions", SET, "DEBUG"), change) is code
    assert {row.value for row in configs(node, LOGGER, "1").values()} == {"WARN"}


@pytest.mark.usefixtures("quiet")
def test_levels_are_validated_without_being_set_and_named_once() -> None:
    node = AdminNode()
    change: list[tuple[str, int, str | None]] = [("root", SET, "DEBUG")]
    assert alter_all(node, (LOGGER, "1", change), validate_only=True) == [ErrorCode.NONE]
    assert alter_all(node, (LOGGER, "1", change), (LOGGER, "1", change)) == [ErrorCode.INVALID_REQUEST] * 2
    assert configs(node, LOGGER, "1")["root"].value == "WARN"


# AlterConfigs


@pytest.mark.parametrize("version", range(3))
def test_the_legacy_call_replaces_all_configs_of_a_resource(version: int) -> None:
    node = AdminNode()
    node.create_topic("orders", retention_ms="5", segment_ms="100000")
    rows = [legacy.AlterConfigsResource(TOPIC, "orders", [legacy.AlterableConfig("retention.ms", "9")])]
    response = node.ask("AlterConfigs", version, legacy.AlterConfigsRequest(rows))
    assert [row.error_code for row in response.responses] == [0]
    assert node.image.config(ConfigResource(TOPIC, "orders")) == {"retention.ms": "9"}


def test_the_legacy_call_has_kafkas_codes() -> None:
    node = AdminNode(other_brokers=[2])
    node.create_topic("orders")
    given = {
        (TOPIC, "orders", "retention.ms", "soon"): ErrorCode.INVALID_CONFIG,
        (BROKER, "2", "log.retention.ms", "7"): ErrorCode.INVALID_REQUEST,
        (BROKER, "1", "log.retention.ms", "soon"): ErrorCode.INVALID_REQUEST,
        (TOPIC, "nobody", "retention.ms", "7"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (LOGGER, "1", "root", "INFO"): ErrorCode.INVALID_REQUEST,
    }
    rows = [
        legacy.AlterConfigsResource(kind, name, [legacy.AlterableConfig(config, value)])
        for kind, name, config, value in given
    ]
    response = node.ask("AlterConfigs", 2, legacy.AlterConfigsRequest(rows))
    assert [(row.resource_type, row.resource_name) for row in response.responses] == [each[:2] for each in given]
    assert [ErrorCode(row.error_code) for row in response.responses] == list(given.values())
