from headrace.cluster.config_resolution import broker_values
from headrace.cluster.image import EMPTY_IMAGE, ConfigKind, ConfigResource, Image
from headrace.coordinator.group_settings import GroupSettings

SETTINGS = GroupSettings.from_configs(broker_values())


def image_with(kind: ConfigKind, name: str, **configs: str) -> Image:
    texts = {key.replace("_", "."): text for key, text in configs.items()}
    return EMPTY_IMAGE._replace(configs={ConfigResource(kind, name): texts})


def test_the_brokers_configs_count_with_kafkas_defaults() -> None:
    assert SETTINGS.initial_rebalance_delay_ms == 3_000
    assert (SETTINGS.min_session_timeout_ms, SETTINGS.max_session_timeout_ms) == (6_000, 1_800_000)
    assert SETTINGS.max_size == (1 << 31) - 1
    assert SETTINGS.offsets_retention_ms == 7 * 24 * 3_600_000
    assert SETTINGS.offset_metadata_max_bytes == 4096
    assert SETTINGS.consumer_assignors == ("uniform", "range")
    assert SETTINGS.consumer_migration_policy == "bidirectional"


def test_a_policy_may_be_written_in_any_case() -> None:
    values = broker_values(static={"group.consumer.migration.policy": "UPGRADE"})
    assert GroupSettings.from_configs(values).consumer_migration_policy == "upgrade"


def test_what_is_set_on_a_group_counts_for_that_group() -> None:
    image = image_with(ConfigKind.GROUP, "g", consumer_session_timeout_ms="50000")
    assert SETTINGS.of_group(image, "g").consumer_session_timeout_ms == 50_000
    assert SETTINGS.of_group(image, "g").consumer_heartbeat_interval_ms == SETTINGS.consumer_heartbeat_interval_ms
    assert SETTINGS.of_group(image, "h") is SETTINGS


def test_a_value_that_nobody_here_can_read_does_not_count() -> None:
    image = image_with(ConfigKind.GROUP, "g", consumer_session_timeout_ms="soon")
    assert SETTINGS.of_group(image, "g").consumer_session_timeout_ms == SETTINGS.consumer_session_timeout_ms


def test_a_record_fits_into_what_the_topic_allows() -> None:
    assert SETTINGS.max_record_bytes(EMPTY_IMAGE) == 1_048_588 - 128
    image = image_with(ConfigKind.TOPIC, "__consumer_offsets", max_message_bytes="1000")
    assert SETTINGS.max_record_bytes(image) == 872
