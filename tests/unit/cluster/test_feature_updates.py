"""UpdateFeatures, and producer ids."""

import pytest

from headrace.cluster.decision import Decision
from headrace.cluster.feature_updates import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, update_features
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigResource
from headrace.cluster.producer_ids import allocate_producer_ids
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.protocol.messages.broker_registration import Feature
from headrace.protocol.messages.metadata_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from headrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.cluster.harness import EVERYTHING, Cluster


def update(cluster: Cluster, *changes: tuple[str, int, int], validate_only: bool = False) -> tuple[str, str]:
    rows = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level, kind in changes]
    request = UpdateFeaturesRequest(feature_updates=rows, validate_only=validate_only)
    reply = cluster.do(update_features(cluster.image, cluster.settings, request))
    return ErrorCode(reply.error_code).name, reply.error_message or ""


def test_metadata_version_and_what_depends_on_it_are_raised_together() -> None:
    cluster = Cluster(1, metadata_version=22)
    assert update(cluster, ("eligible.leader.replicas.version", 1, UPGRADE))[0] == "INVALID_UPDATE_VERSION"
    both = (("eligible.leader.replicas.version", 1, UPGRADE), ("metadata.version", 30, UPGRADE))
    assert update(cluster, *both, validate_only=True) == ("NONE", "")
    assert cluster.image.metadata_version == 22
    assert update(cluster, *both) == ("NONE", "")
    assert cluster.image.metadata_version == 30
    assert cluster.image.elr_enabled


def test_eligible_leaders_come_with_one_min_insync_replicas_for_all_brokers() -> None:
    cluster = Cluster(1, 2, levels={"eligible.leader.replicas.version": 0}, static={"min.insync.replicas": "2"})
    cluster.do(Decision((ConfigRecord(4, "1", "min.insync.replicas", "1"),), None))
    update(cluster, ("eligible.leader.replicas.version", 1, UPGRADE))
    assert cluster.image.config(CLUSTER_DEFAULT) == {"min.insync.replicas": "2"}
    assert ConfigResource(4, "1") not in cluster.image.configs


@pytest.mark.parametrize(
    ("change", "code", "complaint"),
    [
        (("metadata.version", 31, UPGRADE), "INVALID_UPDATE_VERSION", "this controller supports 7 to 30"),
        (("metadata.version", 6, SAFE_DOWNGRADE), "INVALID_UPDATE_VERSION", "this controller supports 7 to 30"),
        (("metadata.version", 29, UPGRADE), "INVALID_UPDATE_VERSION", "must be asked for as a downgrade"),
        (("metadata.version", 29, SAFE_DOWNGRADE), "INVALID_UPDATE_VERSION", "would be lost"),
        (("metadata.version", 29, UNSAFE_DOWNGRADE), "INVALID_UPDATE_VERSION", "would be lost"),
        (("group.version", 0, UPGRADE), "INVALID_UPDATE_VERSION", "must be asked for as a downgrade"),
        (("group.version", -1, SAFE_DOWNGRADE), "INVALID_UPDATE_VERSION", "supports 0 to 1"),
        (("group.version", 0, 9), "INVALID_UPDATE_VERSION", "no kind of change 9"),
        (("of.tomorrow", 1, UPGRADE), "INVALID_UPDATE_VERSION", "supports 0 to 0"),
        (("kraft.version", 0, SAFE_DOWNGRADE), "INVALID_UPDATE_VERSION", "by the quorum itself"),
        (("group.version", 0, SAFE_DOWNGRADE), "NONE", ""),
        (("group.version", 1, UPGRADE), "NONE", ""),
    ],
)
def test_a_level_is_changed_only_where_everybody_can_follow(
    change: tuple[str, int, int], code: str, complaint: str
) -> None:
    cluster = Cluster(1)
    before = len(cluster.log)
    answer, message = update(cluster, change)
    assert answer == code
    assert complaint in message
    assert (len(cluster.log) > before) == (code == "NONE")


def test_one_wrong_level_refuses_them_all() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("group.version", 0, SAFE_DOWNGRADE), ("share.version", 5, UPGRADE))[0] != "NONE"
    assert cluster.image.features["group.version"] == 1


def test_a_broker_that_cannot_follow_is_named() -> None:
    cluster = Cluster(metadata_version=25)
    cluster.start_broker(1)
    old = [Feature("metadata.version", 7, 27) if row.name == "metadata.version" else row for row in EVERYTHING]
    cluster.start_broker(2, features=old)
    assert "broker 2 supports 7 to 27" in update(cluster, ("metadata.version", 30, UPGRADE))[1]
    assert update(cluster, ("metadata.version", 27, UPGRADE))[0] == "NONE"
    assert update(cluster, ("metadata.version", 26, SAFE_DOWNGRADE))[0] == "NONE"


def test_version_zero_of_the_call_says_downgrade_in_another_field() -> None:
    cluster = Cluster(1)
    rows = [FeatureUpdateKey("group.version", 0, allow_downgrade=True)]
    reply = cluster.do(update_features(cluster.image, cluster.settings, UpdateFeaturesRequest(feature_updates=rows)))
    assert reply.error_code == 0
    assert [(row.feature, row.error_code) for row in reply.results] == [("group.version", 0)]


def test_producer_ids_are_handed_out_in_blocks_and_never_twice() -> None:
    cluster = Cluster(1, 2)
    starts = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id, cluster.image.brokers[broker_id].epoch)
        reply = cluster.do(allocate_producer_ids(cluster.image, request))
        assert reply.producer_id_len == 1000
        starts.append(reply.producer_id_start)
    assert starts == [0, 1000, 2000]
    assert cluster.image.next_producer_id == 3000
    stale = allocate_producer_ids(cluster.image, AllocateProducerIdsRequest(1, -1))
    assert stale.reply.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_the_last_producer_ids_are_not_handed_out_twice() -> None:
    cluster = Cluster(1)
    image = cluster.image.apply([ProducerIdsRecord(next_producer_id=2**63 - 500)])
    request = AllocateProducerIdsRequest(1, image.brokers[1].epoch)
    decision = allocate_producer_ids(image, request)
    assert decision.records == ()
    assert decision.reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_level_record_is_written_even_for_the_level_that_is() -> None:
    cluster = Cluster(1)
    rows = [FeatureUpdateKey("group.version", 1)]
    decision = update_features(cluster.image, cluster.settings, UpdateFeaturesRequest(feature_updates=rows))
    assert decision.records == (FeatureLevelRecord("group.version", 1),)
