"""One request makes at most 10,000 records of metadata, whatever it asks for. See also the tests of each decision."""

from collections import Counter

import pytest

from headrace.cluster.brokers import unregister_broker
from headrace.cluster.feature_updates import UPGRADE, update_features
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.quotas import alter_client_quotas
from headrace.cluster.scram import alter_scram_credentials
from headrace.cluster.topics import delete_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.metadata_records import FeatureLevelRecord, PartitionRecord, TopicRecord
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.cluster.harness import Cluster

LIMIT = 10_000
COMPLAINT = "one request makes at most 10000 records of metadata: ask for less at once"
REFUSED = (ErrorCode.POLICY_VIOLATION, COMPLAINT)
GRANTED = (ErrorCode.NONE, None)


def _with_topics(cluster: Cluster, count: int) -> Image:
    """All with one partition, on broker 1."""
    records: list[MetadataRecord] = []
    for number in range(count):
        topic_id = number.to_bytes(16, "big").replace(b"\0", b"\1", 1)
        partition = PartitionRecord(0, topic_id, replicas=[1], isr=[1], leader=1, directories=[b"d" * 16])
        records += [TopicRecord(f"t{number}", topic_id), partition]
    return cluster.image.apply(records)


def test_ten_thousand_topics_are_deleted_and_those_behind_them_refused_as_in_kafka() -> None:
    cluster = Cluster(1)
    image = _with_topics(cluster, LIMIT + 2)
    counted: list[int] = []

    def quota(partitions: int) -> bool:
        counted.append(partitions)
        return True

    names = ["missing", *(f"t{number}" for number in range(LIMIT + 2)), "missing, too"]
    request = DeleteTopicsRequest([DeleteTopicState(name) for name in names])
    decision = delete_topics(image, cluster.settings, request, quota=quota)
    rows = decision.reply.responses
    assert [row.name for row in rows] == names
    assert Counter((row.error_code, row.error_message) for row in rows[1:-1]) == {GRANTED: LIMIT, REFUSED: 2}
    assert [row.error_code for row in (rows[0], rows[-1])] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert len(decision.records) == LIMIT
    assert len(counted) == LIMIT, "nobody pays for what is refused"
    left = [topic.name for topic in image.apply(decision.records).topics.values()]
    assert left == [f"t{LIMIT}", f"t{LIMIT + 1}"]


@pytest.mark.parametrize("validate_only", [True, False])
def test_quotas_of_too_many_are_refused_as_a_whole(validate_only: bool) -> None:
    def alter(count: int) -> tuple[int, Counter[tuple[int, str | None]]]:
        # What is wrong with one of them does not matter any more, as in Kafka.
        kinds = ["planet", *["user"] * count]
        entries = [
            EntryData([EntityData(kind, f"u{at}")], [OpData("producer_byte_rate", 5.0)])
            for at, kind in enumerate(kinds)
        ]
        decision = alter_client_quotas(Cluster(1).image, AlterClientQuotasRequest(entries, validate_only))
        rows = decision.reply.entries
        assert [row.entity for row in rows] == [entry.entity for entry in entries]
        return len(decision.records), Counter((row.error_code, row.error_message) for row in rows)

    records, answers = alter(LIMIT)
    assert records == (0 if validate_only else LIMIT)
    assert answers[GRANTED] == LIMIT
    assert alter(LIMIT + 1) == (0, {REFUSED: LIMIT + 2})


def test_credentials_of_too_many_users_are_refused_as_a_whole() -> None:
    def alter(count: int) -> tuple[int, Counter[tuple[int, str | None]]]:
        rows = [ScramCredentialUpsertion(f"u{at}", 1, 4096, b"salt", b"p" * 32) for at in range(count)]
        # Somebody who comes twice has one row.
        request = AlterUserScramCredentialsRequest([], [*rows, rows[0]])
        decision = alter_scram_credentials(Cluster(1).image, request)
        results = decision.reply.results
        assert [row.user for row in results] == [row.name for row in rows]
        return len(decision.records), Counter((row.error_code, row.error_message) for row in results)

    records, answers = alter(LIMIT + 1)
    assert (records, answers[GRANTED]) == (LIMIT, LIMIT)
    assert alter(LIMIT + 2) == (0, {REFUSED: LIMIT + 2})


def test_a_broker_that_is_in_sync_for_too_many_partitions_is_not_unregistered_while_it_lives() -> None:
    cluster = Cluster(1)
    for partitions, code in ((LIMIT - 1, ErrorCode.NONE), (LIMIT, ErrorCode.POLICY_VIOLATION)):
        decision = unregister_broker(_with_topics(cluster, partitions), cluster.settings, UnregisterBrokerRequest(1))
        assert decision.reply.error_code == code
        assert len(decision.records) == (0 if code else LIMIT)
    assert "in sync for 10000 partitions: stop it first" in (decision.reply.error_message or "")


def test_a_feature_that_is_named_many_times_is_changed_once_as_the_last_one_says() -> None:
    cluster = Cluster(1, metadata_version=22)
    rows = [FeatureUpdateKey("metadata.version", 7 + at % 20, upgrade_type=UPGRADE) for at in range(LIMIT)]
    rows.append(FeatureUpdateKey("metadata.version", 28, upgrade_type=UPGRADE))
    decision = update_features(cluster.image, cluster.settings, UpdateFeaturesRequest(feature_updates=rows))
    assert decision.records == (FeatureLevelRecord("metadata.version", 28),)
    assert [row.feature for row in decision.reply.results] == ["metadata.version"] * len(rows), (
        "a row each, as in Kafka"
    )
