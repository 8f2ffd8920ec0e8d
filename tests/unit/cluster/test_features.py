"""Feature levels: Kafka 4.3's names, ranges and defaults."""

import pytest

from headrace.cluster.features import (
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    default_levels,
    metadata_version_name,
    parse_metadata_version,
    records_change_between,
)


def test_levels_and_names_of_metadata_version_belong_together() -> None:
    assert [version.level for version in METADATA_VERSIONS] == list(range(7, 31))
    names = {7: "3.3-IV3", 17: "3.7-IV2", 21: "3.9-IV0", 23: "4.0-IV1", 25: "4.0-IV3", 27: "4.1-IV1", 30: "4.3-IV0"}
    assert {level: metadata_version_name(level) for level in names} == names


@pytest.mark.parametrize(("text", "level"), [("4.3", 30), ("4.3-IV0", 30), ("4.0", 25), ("3.9", 21), ("3.3-IV3", 7)])
def test_a_release_means_its_last_level(text: str, level: int) -> None:
    assert parse_metadata_version(text) == level


@pytest.mark.parametrize("text", ["", "4.4", "3.2", "4.3-IV7", "30"])
def test_an_unknown_release_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"known are 3\.3-IV3 to 4\.3-IV0"):
        parse_metadata_version(text)


def test_a_new_cluster_starts_with_the_features_of_its_release() -> None:
    assert default_levels(30) == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    assert default_levels() == default_levels(30)
    assert default_levels(21) == {"metadata.version": 21, "kraft.version": 1}
    assert default_levels(7) == {"metadata.version": 7}


def test_defaults_are_within_what_is_supported() -> None:
    for version in METADATA_VERSIONS:
        for name, level in default_levels(version.level).items():
            assert SUPPORTED_FEATURES[name].lowest <= level <= SUPPORTED_FEATURES[name].highest


def test_a_downgrade_loses_records_only_where_a_level_changed_them() -> None:
    assert not records_change_between(29, 24)
    assert records_change_between(30, 29)
    assert records_change_between(23, 22)
    assert not records_change_between(22, 18)
    assert not records_change_between(25, 25)
