"""Quotas: changed and described."""

from collections.abc import Sequence

import pytest

from headrace.cluster.decision import Decision
from headrace.cluster.quotas import alter_client_quotas, describe_client_quotas
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from headrace.protocol.messages.metadata_records import ClientQuotaRecord
from headrace.protocol.messages.metadata_records import EntityData as RecordEntity
from tests.unit.cluster.harness import Cluster

EXACT, DEFAULT, ANY = 0, 1, 2


def alter(
    cluster: Cluster, entity: Sequence[tuple[str, str | None]], *ops: OpData, validate_only: bool = False
) -> tuple[str, str]:
    entry = EntryData([EntityData(*each) for each in entity], ops)
    request = AlterClientQuotasRequest([entry], validate_only)
    (row,) = cluster.do(alter_client_quotas(cluster.image, request)).entries
    assert row.entity == entry.entity
    return ErrorCode(row.error_code).name, row.error_message or ""


def test_a_quota_is_set_changed_and_removed() -> None:
    cluster = Cluster()
    alice = [("user", "alice")]
    assert alter(cluster, alice, OpData("producer_byte_rate", 1000.0), OpData("request_percentage", 12.5)) == (
        "NONE",
        "",
    )
    entity = (("user", "alice"),)
    assert cluster.image.client_quotas == {entity: {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    before = len(cluster.log)
    assert alter(cluster, alice, OpData("producer_byte_rate", 1000.0), OpData("missing", remove=True))[0] == "NONE"
    assert alter(cluster, alice, OpData("producer_byte_rate", 5.0), validate_only=True)[0] == "NONE"
    assert len(cluster.log) == before
    assert alter(cluster, alice, OpData("producer_byte_rate", remove=True))[0] == "NONE"
    assert cluster.image.client_quotas == {entity: {"request_percentage": 12.5}}


@pytest.mark.parametrize(
    ("entity", "op", "complaint"),
    [
        ([], OpData("producer_byte_rate", 1.0), "names neither"),
        ([("planet", "mars")], OpData("producer_byte_rate", 1.0), "no quotas by 'planet'"),
        ([("user", "a"), ("user", "b")], OpData("producer_byte_rate", 1.0), "two of user"),
        ([("user", "")], OpData("producer_byte_rate", 1.0), "is empty"),
        ([("ip", "10.0.0.1"), ("user", "a")], OpData("connection_creation_rate", 1.0), "cannot be combined"),
        ([("ip", "10.0.0.256")], OpData("connection_creation_rate", 1.0), "is no address"),
        ([("ip", "not a host")], OpData("connection_creation_rate", 1.0), "is no address"),
        ([("ip", "localhost")], OpData("connection_creation_rate", 1.0), "set the quota of each of its addresses"),
        ([("ip", "localhost")], OpData("connection_creation_rate", remove=True), "is no address"),
        ([("ip", "10.0.0.1")], OpData("producer_byte_rate", 1.0), "no quota here; there are connection_creation_rate"),
        ([("user", "a")], OpData("connection_creation_rate", 1.0), "is no quota here"),
        ([("user", "a")], OpData("producer_byte_rate", 0.0), "greater than 0"),
        ([("user", "a")], OpData("producer_byte_rate", -1.0), "greater than 0"),
        ([("user", "a")], OpData("producer_byte_rate", float("nan")), "greater than 0"),
        ([("user", "a")], OpData("producer_byte_rate", 1.5), "whole number"),
        ([("ip", None)], OpData("connection_creation_rate", 3e9), "fit its type"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(
    entity: list[tuple[str, str | None]], op: OpData, complaint: str
) -> None:
    cluster = Cluster()
    code, message = alter(cluster, entity, op)
    assert code == "INVALID_REQUEST"
    assert complaint in message
    assert cluster.image.client_quotas == {}


def test_the_quota_of_a_host_that_apache_kafka_has_written_can_be_removed() -> None:
    cluster = Cluster()
    record = ClientQuotaRecord([RecordEntity("ip", "localhost")], "connection_creation_rate", 5.0)
    cluster.do(Decision((record,), None))
    assert alter(cluster, [("ip", "localhost")], OpData("connection_creation_rate", 6.0))[0] == "INVALID_REQUEST"
    assert alter(cluster, [("ip", "localhost")], OpData("connection_creation_rate", remove=True))[0] == "NONE"
    assert cluster.image.client_quotas == {}


def test_what_comes_twice_is_refused() -> None:
    cluster = Cluster()
    op = OpData("producer_byte_rate", 1.0)
    assert alter(cluster, [("user", "a")], op, op)[0] == "INVALID_REQUEST"
    entry = EntryData([EntityData("user", "a")], [op])
    rows = cluster.do(alter_client_quotas(cluster.image, AlterClientQuotasRequest([entry, entry]))).entries
    assert [row.error_code for row in rows] == [0, ErrorCode.INVALID_REQUEST]


def described(cluster: Cluster, *components: ComponentData, strict: bool = False) -> list[str]:
    reply = describe_client_quotas(cluster.image, DescribeClientQuotasRequest(components, strict))
    assert reply.error_code == ErrorCode.NONE, reply
    return sorted(
        "/".join(f"{each.entity_type}={each.entity_name}" for each in entry.entity) for entry in reply.entries or ()
    )


def test_quotas_are_found_by_filters() -> None:
    cluster = Cluster()
    rate = OpData("producer_byte_rate", 1.0)
    alter(cluster, [("user", "alice")], rate)
    alter(cluster, [("user", None)], rate)
    alter(cluster, [("user", "alice"), ("client-id", "app")], rate)
    alter(cluster, [("ip", "10.0.0.1")], OpData("connection_creation_rate", 5.0))
    assert len(described(cluster)) == 4
    assert described(cluster, strict=True) == []
    alice = ComponentData("user", EXACT, "alice")
    assert described(cluster, alice) == ["client-id=app/user=alice", "user=alice"]
    assert described(cluster, alice, strict=True) == ["user=alice"]
    assert described(cluster, ComponentData("user", DEFAULT, None)) == ["user=None"]
    assert described(cluster, ComponentData("user", ANY, None), strict=True) == ["user=None", "user=alice"]
    assert described(cluster, alice, ComponentData("client-id", ANY, None)) == ["client-id=app/user=alice"]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([ComponentData("", EXACT, "a")], "INVALID_REQUEST"),
        ([ComponentData("planet", EXACT, "a")], "UNSUPPORTED_VERSION"),
        ([ComponentData("user", EXACT, None)], "INVALID_REQUEST"),
        ([ComponentData("user", DEFAULT, "a")], "INVALID_REQUEST"),
        ([ComponentData("user", ANY, "a")], "INVALID_REQUEST"),
        ([ComponentData("user", 7, None)], "INVALID_REQUEST"),
        ([ComponentData("user", ANY, None)] * 2, "INVALID_REQUEST"),
        ([ComponentData("user", ANY, None), ComponentData("ip", ANY, None)], "INVALID_REQUEST"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(components: list[ComponentData], code: str) -> None:
    reply = describe_client_quotas(Cluster().image, DescribeClientQuotasRequest(components))
    assert ErrorCode(reply.error_code).name == code
    assert reply.error_message
    assert reply.entries is None
