"""Client telemetry: what clients are asked for, and when they may send it."""

from typing import Any

import pytest

from headrace.cluster.image import ConfigKind
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.protocol.messages.metadata_records import ConfigRecord
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest
from headrace.protocol.types import ZERO_UUID
from headrace.server import telemetry
from tests.support.admin_node import AdminNode, Client

ALICE = b"a" * 16
FIVE_MINUTES_MS = 300_000


def ask(node: AdminNode, client_instance_id: bytes = ALICE, **options: Any) -> Any:
    request = GetTelemetrySubscriptionsRequest(client_instance_id)
    return node.ask("GetTelemetrySubscriptions", 0, request, **options)


def push(node: AdminNode, subscription_id: int, **fields: Any) -> ErrorCode:
    request = PushTelemetryRequest(**{"client_instance_id": ALICE, "subscription_id": subscription_id, **fields})
    return ErrorCode(node.ask("PushTelemetry", 0, request).error_code)


def subscribe(node: AdminNode, name: str, **configs: str) -> None:
    rows = [
        ConfigRecord(ConfigKind.CLIENT_METRICS, name, key.replace("_", "."), value) for key, value in configs.items()
    ]
    node.write(*rows)


def wishes(node: AdminNode, **options: Any) -> tuple[list[str], int]:
    response = ask(node, ZERO_UUID, **options)
    return sorted(response.requested_metrics), response.push_interval_ms


# What is wanted


def test_where_nothing_is_wanted_a_client_is_told_so_and_asks_again_in_five_minutes() -> None:
    response = ask(AdminNode())
    assert (response.error_code, response.requested_metrics) == (0, [])
    assert (response.client_instance_id, response.push_interval_ms) == (ALICE, FIVE_MINUTES_MS)
    assert (response.telemetry_max_bytes, response.delta_temporality) == (1048576, True)
    assert response.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]


def test_a_client_without_an_id_gets_one_of_its_own() -> None:
    node = AdminNode()
    first, second = ask(node, ZERO_UUID), ask(node, ZERO_UUID)
    assert ZERO_UUID != first.client_instance_id != second.client_instance_id != ZERO_UUID
    assert first.subscription_id != second.subscription_id


def test_a_client_is_asked_for_all_that_matching_subscriptions_want_at_the_shortest_interval() -> None:
    node = AdminNode()
    subscribe(node, "some", metrics="org.apache.kafka.producer.", interval_ms="60000")
    subscribe(node, "more", metrics="org.apache.kafka.consumer.,org.apache.kafka.producer.", interval_ms="90000")
    subscribe(node, "others", metrics="secret.", match="client_id=nobody", interval_ms="100")
    assert wishes(node) == (["org.apache.kafka.consumer.", "org.apache.kafka.producer."], 60000)


def test_an_interval_above_the_default_does_not_count() -> None:
    node = AdminNode()
    subscribe(node, "slow", metrics="a.", interval_ms="3600000")
    assert wishes(node) == (["a."], FIVE_MINUTES_MS)


def test_a_star_asks_for_all_metrics() -> None:
    node = AdminNode()
    subscribe(node, "all", metrics="*")
    subscribe(node, "some", metrics="a.")
    assert wishes(node)[0] == ["*"]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("client_id=app.*", True),
        ("client_id=app", False),  # the whole of it must match
        ("client_source_address=10[.]0[.]0[.]7", True),
        ("client_source_port=5000", True),
        ("client_source_port=5001", False),
        ("client_software_name=librdkafka", True),
        ("client_software_version=2[.].*", True),
        ("client_id=app.*,client_software_version=1.*", False),  # all of them must match
        ("client_instance_id=.*", True),
        (r"client_id=\p{Alpha}.*", False),  # Java's dialect: who cannot be understood asks nobody
    ],
)
def test_subscriptions_match_what_a_client_says_of_itself(match: str, expected: bool) -> None:
    node = AdminNode()
    subscribe(node, "some", metrics="a.", match=match)
    node.ask("ApiVersions", 3, ApiVersionsRequest("librdkafka", "2.15.0"))
    assert bool(wishes(node, client_id="app-1")[0]) is expected


def test_a_client_that_does_not_name_its_software_is_unknown() -> None:
    node = AdminNode()
    subscribe(node, "some", metrics="a.", match="client_software_name=unknown")
    assert wishes(node)[0] == ["a."]
    assert wishes(node, client=Client(peer=("::1", 7)))[0] == ["a."]


def test_telemetry_is_offered_while_somebody_wants_it() -> None:
    def is_offered() -> bool:
        rows = node.ask("ApiVersions", 4, ApiVersionsRequest("test", "1")).api_keys
        return {71, 72} <= {row.api_key for row in rows}

    node = AdminNode()
    assert not is_offered()
    subscribe(node, "some", metrics="a.")
    assert is_offered()
    node.write(ConfigRecord(ConfigKind.CLIENT_METRICS, "some", "metrics", None))
    assert not is_offered()


# When


def test_asking_again_before_the_interval_is_over_is_too_early() -> None:
    node = AdminNode()
    assert ask(node).error_code == 0
    node.clock.move(FIVE_MINUTES_MS - 1)
    assert ask(node).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.clock.move(1)
    assert ask(node).error_code == 0


def test_when_other_metrics_are_wanted_a_client_may_ask_at_once() -> None:
    node = AdminNode()
    first = ask(node)
    subscribe(node, "some", metrics="a.")
    second = ask(node)
    assert (second.error_code, second.requested_metrics) == (0, ["a."])
    assert second.subscription_id != first.subscription_id


def test_a_client_pushes_once_per_interval() -> None:
    node = AdminNode()
    subscription_id = ask(node).subscription_id
    assert push(node, subscription_id, metrics=b"some") is ErrorCode.NONE
    assert push(node, subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.clock.move(FIVE_MINUTES_MS)
    assert push(node, subscription_id) is ErrorCode.NONE


def test_a_push_for_a_subscription_of_yesterday_makes_the_client_ask_at_once() -> None:
    node = AdminNode()
    old = ask(node).subscription_id
    subscribe(node, "some", metrics="a.")
    assert push(node, old) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    response = ask(node)
    assert response.error_code == 0
    assert push(node, response.subscription_id) is ErrorCode.NONE


def test_a_codec_that_was_not_offered_makes_the_client_ask_at_once() -> None:
    node = AdminNode()
    subscription_id = ask(node).subscription_id
    assert push(node, subscription_id, compression_type=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert ask(node).error_code == 0


def test_a_client_that_ends_may_push_early_and_then_no_more() -> None:
    node = AdminNode()
    subscription_id = ask(node).subscription_id
    assert push(node, subscription_id) is ErrorCode.NONE
    assert push(node, subscription_id, terminating=True) is ErrorCode.NONE
    node.clock.move(FIVE_MINUTES_MS)
    assert push(node, subscription_id) is ErrorCode.INVALID_REQUEST


def test_a_push_above_the_limit_is_too_large() -> None:
    node = AdminNode(static={"telemetry.max.bytes": "10"})
    subscription_id = ask(node).subscription_id
    assert push(node, subscription_id, metrics=bytes(11)) is ErrorCode.TELEMETRY_TOO_LARGE
    assert ask(AdminNode(static={"telemetry.max.bytes": "10"})).telemetry_max_bytes == 10


def test_a_push_without_an_id_is_refused() -> None:
    assert push(AdminNode(), 0, client_instance_id=ZERO_UUID) is ErrorCode.INVALID_REQUEST


def test_the_oldest_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MAX_CLIENTS", 2)
    node = AdminNode()
    clients = [bytes([number]) * 16 for number in range(1, 4)]
    for client in clients:
        ask(node, client)
    assert ask(node, clients[0]).error_code == 0  # as if it had never asked
    assert ask(node, clients[2]).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
