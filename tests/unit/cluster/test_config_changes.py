"""Configs change: of topics, brokers, the cluster, groups and client metrics."""

from typing import Any

import pytest

from headrace.cluster.config_changes import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    alter_configs,
    alter_configs_incrementally,
)
from headrace.cluster.decision import Decision
from headrace.cluster.image import ConfigResource
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_configs as legacy
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord
from tests.unit.cluster.harness import CONTROLLER_ID, Cluster, brief

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster(1, 2, 3)
    found.create_topic("orders", [1, 2, 3])
    return found


def alter(
    cluster: Cluster, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[str, str]:
    rows = [AlterableConfig(*change) for change in changes]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, rows)], validate_only)
    (row,) = cluster.do(alter_configs_incrementally(cluster.image, cluster.settings, request)).responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return ErrorCode(row.error_code).name, row.error_message or ""


def configs(cluster: Cluster, kind: int, name: str) -> dict[str, str]:
    return dict(cluster.image.config(ConfigResource(kind, name)))


def test_a_topics_configs_are_set_deleted_and_edited_as_lists(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "orders", ("retention.ms", SET, "7"), ("cleanup.policy", SET, "compact"))[0] == "NONE"
    assert configs(cluster, TOPIC, "orders") == {"retention.ms": "7", "cleanup.policy": "compact"}
    assert (
        alter(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "delete"), ("retention.ms", DELETE, None))[0]
        == "NONE"
    )
    assert configs(cluster, TOPIC, "orders") == {"cleanup.policy": "compact,delete"}
    assert alter(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))[0] == "NONE"
    assert alter(cluster, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "compact"))[0] == "NONE"
    assert configs(cluster, TOPIC, "orders") == {"cleanup.policy": "delete"}


def test_a_request_that_would_make_more_than_ten_thousand_records_changes_nothing(cluster: Cluster) -> None:
    def change(count: int) -> tuple[int, set[tuple[int, int]]]:
        rows = [
            AlterConfigsResource(METRICS, f"m{at}", [AlterableConfig("interval.ms", SET, "500")]) for at in range(count)
        ]
        request = IncrementalAlterConfigsRequest(rows)
        decision = alter_configs_incrementally(cluster.image, cluster.settings, request)
        responses = decision.reply.responses
        assert [row.resource_name for row in responses] == [row.resource_name for row in rows]
        return len(decision.records), {(row.error_code, row.resource_type) for row in responses}

    assert change(10_000) == (10_000, {(ErrorCode.NONE, METRICS)})
    assert change(10_001) == (0, {(ErrorCode.POLICY_VIOLATION, METRICS)})
    given = [
        legacy.AlterConfigsResource(METRICS, f"m{at}", [legacy.AlterableConfig("interval.ms", "500")])
        for at in range(10_001)
    ]
    decision = alter_configs(cluster.image, cluster.settings, legacy.AlterConfigsRequest(given))
    assert decision.records == ()
    assert {row.error_code for row in decision.reply.responses} == {ErrorCode.POLICY_VIOLATION}


def test_appending_to_an_unset_list_begins_with_its_default(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))[0] == "NONE"
    assert configs(cluster, TOPIC, "orders") == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("change", "code", "complaint"),
    [
        (("retention.ms", APPEND, "7"), "INVALID_CONFIG", "is not a list"),
        (("retention.msec", SET, "7"), "INVALID_CONFIG", "did you mean retention.ms?"),
        (("retention.msec", APPEND, "7"), "INVALID_CONFIG", "is not a list"),
        (("retention.ms", SET, "soon"), "INVALID_CONFIG", "whole number"),
        (("retention.ms", SET, None), "INVALID_REQUEST", "no value"),
        (("retention.ms", 9, "7"), "INVALID_REQUEST", "unknown operation 9"),
        (("cleanup.policy", SET, "x" * 40_000), "INVALID_CONFIG", "longer than 32767"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    cluster: Cluster, change: tuple[str, int, str | None], code: str, complaint: str
) -> None:
    answer, message = alter(cluster, TOPIC, "orders", change)
    assert answer == code
    assert complaint in message
    assert configs(cluster, TOPIC, "orders") == {}


def test_one_wrong_config_refuses_its_resource_and_not_the_others(cluster: Cluster) -> None:
    cluster.create_topic("users")
    rows = [
        AlterConfigsResource(
            TOPIC, "orders", [AlterableConfig("retention.ms", SET, "7"), AlterableConfig("x", SET, "1")]
        ),
        AlterConfigsResource(TOPIC, "users", [AlterableConfig("retention.ms", SET, "8")]),
        AlterConfigsResource(TOPIC, "missing", [AlterableConfig("retention.ms", SET, "8")]),
    ]
    request = IncrementalAlterConfigsRequest(rows)
    answer = cluster.do(alter_configs_incrementally(cluster.image, cluster.settings, request)).responses
    assert [ErrorCode(row.error_code).name for row in answer] == [
        "INVALID_CONFIG",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert configs(cluster, TOPIC, "orders") == {}
    assert configs(cluster, TOPIC, "users") == {"retention.ms": "8"}


def test_what_comes_twice_is_refused(cluster: Cluster) -> None:
    assert (
        alter(cluster, TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))[0] == "INVALID_REQUEST"
    )
    row = AlterConfigsResource(TOPIC, "orders", [AlterableConfig("retention.ms", SET, "1")])
    request = IncrementalAlterConfigsRequest([row, row])
    answer = cluster.do(alter_configs_incrementally(cluster.image, cluster.settings, request)).responses
    assert [row.error_code for row in answer] == [ErrorCode.INVALID_REQUEST] * 2


def test_validate_only_writes_nothing(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "orders", ("retention.ms", SET, "7"), validate_only=True) == ("NONE", "")
    assert alter(cluster, TOPIC, "orders", ("retention.ms", SET, "-7"), validate_only=True)[0] == "INVALID_CONFIG"
    assert configs(cluster, TOPIC, "orders") == {}


def test_configs_are_checked_together_with_those_that_are_there(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "orders", ("max.compaction.lag.ms", SET, "5"))[0] == "NONE"
    assert alter(cluster, TOPIC, "orders", ("min.compaction.lag.ms", SET, "6"))[0] == "INVALID_CONFIG"
    assert alter(cluster, TOPIC, "orders", ("min.compaction.lag.ms", SET, "5"))[0] == "NONE"


def test_setting_what_is_set_writes_nothing_for_a_topic_and_again_for_a_broker(cluster: Cluster) -> None:
    for kind, name, config, again in ((TOPIC, "orders", "retention.ms", 0), (BROKER, "1", "log.retention.ms", 1)):
        alter(cluster, kind, name, (config, SET, "700000"))
        before = len(cluster.log)
        alter(cluster, kind, name, (config, SET, "700000"))
        assert len(cluster.log) - before == again


def test_brokers_are_named_by_id_or_all_at_once(cluster: Cluster) -> None:
    assert alter(cluster, BROKER, "", ("log.retention.ms", SET, "700000"))[0] == "NONE"
    assert alter(cluster, BROKER, "2", ("log.retention.ms", SET, "800000"))[0] == "NONE"
    assert configs(cluster, BROKER, "") == {"min.insync.replicas": "1", "log.retention.ms": "700000"}
    assert configs(cluster, BROKER, "2") == {"log.retention.ms": "800000"}
    assert alter(cluster, BROKER, "9", ("log.retention.ms", SET, "1"))[0] == "BROKER_ID_NOT_REGISTERED"
    assert alter(cluster, BROKER, "one", ("log.retention.ms", SET, "1"))[0] == "INVALID_REQUEST"
    assert alter(cluster, BROKER, "-1", ("log.retention.ms", SET, "1"))[0] == "INVALID_REQUEST"
    assert alter(cluster, BROKER, "1", ("node.id", SET, "7"))[0] == "INVALID_CONFIG"
    assert alter(cluster, BROKER, str(CONTROLLER_ID), ("log.retention.ms", SET, "1"))[0] == "BROKER_ID_NOT_REGISTERED"


@pytest.mark.parametrize("name", ["", "1"])
def test_configs_of_brokers_are_checked_together_so_that_nobody_locks_everybody_out(
    cluster: Cluster, name: str
) -> None:
    nobody, somebody = ("max.connections.per.ip", SET, "0"), ("max.connections.per.ip.overrides", SET, "10.0.0.7:5")
    code, reason = alter(cluster, BROKER, name, nobody)
    assert (code, "unless max.connections.per.ip.overrides lets somebody in" in reason) == ("INVALID_CONFIG", True)
    assert alter(cluster, BROKER, name, nobody, somebody)[0] == "NONE"
    assert alter(cluster, BROKER, name, ("max.connections.per.ip.overrides", DELETE, None))[0] == "INVALID_CONFIG"
    assert alter(cluster, BROKER, name, (nobody[0], DELETE, None), (somebody[0], DELETE, None))[0] == "NONE"


def test_a_combination_that_is_wrong_already_does_not_stand_in_the_way(cluster: Cluster) -> None:
    cluster.do(Decision((ConfigRecord(BROKER, "", "max.connections.per.ip", "0"),), None))
    assert alter(cluster, BROKER, "", ("message.max.bytes", SET, "1000"))[0] == "NONE"


def test_groups_and_client_metrics_have_configs_without_existing(cluster: Cluster) -> None:
    assert alter(cluster, GROUP, "billing", ("consumer.session.timeout.ms", SET, "50000"))[0] == "NONE"
    assert alter(cluster, GROUP, "billing", ("consumer.session.timeout.ms", SET, "1"))[0] == "INVALID_CONFIG"
    assert alter(cluster, GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))[0] == "INVALID_REQUEST"
    assert alter(cluster, METRICS, "all", ("interval.ms", SET, "60000"))[0] == "NONE"
    assert alter(cluster, METRICS, "all", ("interval.msec", SET, "60000"))[0] == "INVALID_CONFIG"
    assert alter(cluster, METRICS, "", ("interval.ms", SET, "60000"))[0] == "INVALID_REQUEST"
    assert alter(cluster, LOGGER, "1", ("headrace", SET, "DEBUG"))[0] == "INVALID_REQUEST"
    assert alter(cluster, 99, "x", ("y", SET, "z"))[0] == "INVALID_REQUEST"


def replace(cluster: Cluster, kind: int, name: str, validate_only: bool = False, **values: Any) -> str:
    rows = [legacy.AlterableConfig(key.replace("_", "."), value) for key, value in values.items()]
    request = legacy.AlterConfigsRequest([legacy.AlterConfigsResource(kind, name, rows)], validate_only)
    (row,) = cluster.do(alter_configs(cluster.image, cluster.settings, request)).responses
    return ErrorCode(row.error_code).name


def test_the_legacy_call_replaces_all_configs(cluster: Cluster) -> None:
    alter(cluster, TOPIC, "orders", ("retention.ms", SET, "7"), ("segment.ms", SET, "8"))
    assert replace(cluster, TOPIC, "orders", segment_ms="8", flush_ms="9") == "NONE"
    assert configs(cluster, TOPIC, "orders") == {"segment.ms": "8", "flush.ms": "9"}
    assert replace(cluster, TOPIC, "orders", segment_ms=None) == "INVALID_REQUEST"
    assert replace(cluster, TOPIC, "orders", segment_ms="soon") == "INVALID_CONFIG"
    assert replace(cluster, TOPIC, "orders", validate_only=True) == "NONE"
    assert configs(cluster, TOPIC, "orders") == {"segment.ms": "8", "flush.ms": "9"}
    assert replace(cluster, TOPIC, "orders") == "NONE"
    assert configs(cluster, TOPIC, "orders") == {}
    row = legacy.AlterableConfig("segment.ms", "1")
    request = legacy.AlterConfigsRequest([legacy.AlterConfigsResource(TOPIC, "orders", [row, row])])
    assert alter_configs(cluster.image, cluster.settings, request).reply.responses[0].error_code == 42


def test_with_eligible_leaders_on_min_insync_replicas_is_one_for_the_cluster(cluster: Cluster) -> None:
    assert configs(cluster, BROKER, "") == {"min.insync.replicas": "1"}
    assert alter(cluster, BROKER, "1", ("min.insync.replicas", SET, "2"))[0] == "INVALID_CONFIG"
    assert alter(cluster, BROKER, "", ("min.insync.replicas", DELETE, None))[0] == "INVALID_CONFIG"
    assert replace(cluster, BROKER, "") == "INVALID_CONFIG"
    assert alter(cluster, BROKER, "", ("min.insync.replicas", SET, "2"))[0] == "NONE"


def test_a_new_min_insync_replicas_forgets_who_was_eligible(cluster: Cluster) -> None:
    cluster.set_partition("orders", replicas=(1, 2, 3), isr=(1,), leader=1, eligible_leader_replicas=(2,))
    row = AlterConfigsResource(TOPIC, "orders", [AlterableConfig("min.insync.replicas", SET, "3")])
    decision = alter_configs_incrementally(cluster.image, cluster.settings, IncrementalAlterConfigsRequest([row]))
    assert decision.records == (
        ConfigRecord(TOPIC, "orders", "min.insync.replicas", "3"),
        ClearElrRecord("orders"),
    )
    cluster.do(decision)
    assert brief(cluster.partition("orders")) == "1@5 isr=1"
    alter(cluster, BROKER, "", ("min.insync.replicas", SET, "2"))
    assert cluster.replayed() == cluster.image
