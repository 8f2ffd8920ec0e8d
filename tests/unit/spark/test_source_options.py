"""The options of the source, read and checked before anybody is asked."""

import logging
import pickle
import re
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.client.errors import ConfigError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.datasource import HeadraceSource
from headrace.spark.options import Option, Options
from headrace.spark.sink_options import OPTIONS as SINK_OPTIONS
from headrace.spark.source_options import (
    SOURCE_OPTIONS,
    Assigned,
    TopicPattern,
    Topics,
    admin_configs,
    check_batch,
    check_stream,
    consumer_settings,
    is_read_committed,
    source_options,
    subscription,
)
from headrace.spark.source_tasks import fetch_settings
from headrace.spark.stream_source import group_of
from tests.support.kafka_tools import REPOSITORY

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
ORDERS = {**SERVERS, "subscribe": "orders"}


def read(**more: str) -> Options:
    return source_options({**ORDERS, **{name.replace("__", "."): text for name, text in more.items()}})


def value(name: str, text: str) -> Any:
    return source_options({**ORDERS, name: text}).values[name]


class TestWhatToRead:
    def test_topics_by_name(self) -> None:
        found = subscription(source_options({**SERVERS, "subscribe": "orders, users,orders"}))
        assert found == Topics(("orders", "users"))

    def test_topics_by_pattern(self) -> None:
        assert subscription(source_options({**SERVERS, "subscribePattern": "or.*"})) == TopicPattern("or.*")

    def test_partitions(self) -> None:
        found = subscription(source_options({**SERVERS, "assign": '{"b": [0], "a": [3, 1, 3]}'}))
        assert found == Assigned((TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("b", 0)))

    @pytest.mark.parametrize("given", [{}, {"subscribe": "a", "assign": '{"a": [0]}'}])
    def test_exactly_one_of_the_three(self, given: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match="exactly one of subscribe, subscribePattern and assign"):
            source_options({**SERVERS, **given})

    @pytest.mark.parametrize("text", ["", " , "])
    def test_no_topic_is_an_error(self, text: str) -> None:
        with pytest.raises(ConfigError, match="option subscribe"):
            source_options({**SERVERS, "subscribe": text})

    @pytest.mark.parametrize("text", ["(", ""])
    def test_a_pattern_that_is_none(self, text: str) -> None:
        with pytest.raises(ConfigError, match="option subscribePattern"):
            source_options({**SERVERS, "subscribePattern": text})

    @pytest.mark.parametrize("text", ["orders", "[]", "{}", '{"a": 0}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": [true]}'])
    def test_partitions_that_are_none(self, text: str) -> None:
        with pytest.raises(ConfigError, match="option assign"):
            source_options({**SERVERS, "assign": text})


class TestOffsets:
    @pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
    def test_words_and_numbers(self, name: str) -> None:
        assert value(name, "Earliest") == "earliest"
        assert value(name, "latest") == "latest"
        found = value(name, '{"a": {"0": 23, "1": -2}, "b": {"0": -1}}')
        assert found == {
            TopicPartition("a", 0): 23,
            TopicPartition("a", 1): "earliest",
            TopicPartition("b", 0): "latest",
        }

    @pytest.mark.parametrize(
        "text", ["newest", "{", '{"a": 3}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', '{"a":{"0":-3}}']
    )
    def test_what_is_no_offset(self, text: str) -> None:
        with pytest.raises(ConfigError, match="option startingOffsets"):
            value("startingOffsets", text)

    def test_times(self) -> None:
        assert value("startingTimestamp", "1700000000000") == 1_700_000_000_000
        assert value("endingOffsetsByTimestamp", '{"a": {"0": 5}}') == {TopicPartition("a", 0): 5}
        for name in ("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
            with pytest.raises(ConfigError, match=f"option {name}"):
                value(name, "yesterday")

    def test_the_strategy(self) -> None:
        assert read().values["startingOffsetsByTimestampStrategy"] == "error"
        assert value("startingOffsetsByTimestampStrategy", "LATEST") == "latest"
        with pytest.raises(ConfigError, match="one of error, latest"):
            value("startingOffsetsByTimestampStrategy", "earliest")


class TestNumbers:
    @pytest.mark.parametrize(
        "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"]
    )
    def test_are_above_zero(self, name: str) -> None:
        assert value(name, "7") == 7
        for text in ("0", "-1", "many", ""):
            with pytest.raises(ConfigError, match=f"option {name}"):
                value(name, text)

    def test_the_least_is_not_above_the_most(self) -> None:
        with pytest.raises(ConfigError, match="minOffsetsPerTrigger, 11, is above maxOffsetsPerTrigger, 10"):
            read(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")

    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2 min", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)],
    )
    def test_a_delay(self, text: str, milliseconds: int) -> None:
        assert value("maxTriggerDelay", text) == milliseconds
        assert read().values["maxTriggerDelay"] == 900_000

    @pytest.mark.parametrize("text", ["soon", "5 years", "-1s", ""])
    def test_what_is_no_delay(self, text: str) -> None:
        with pytest.raises(ConfigError, match="option maxTriggerDelay"):
            value("maxTriggerDelay", text)

    def test_flags(self) -> None:
        assert read().values["failOnDataLoss"] is True
        assert value("failOnDataLoss", "FALSE") is False
        assert read().values["includeHeaders"] is False
        for name in ("failOnDataLoss", "includeHeaders", "commitOffsets"):
            with pytest.raises(ConfigError, match=f"option {name}"):
                value(name, "yes")


class TestTheClient:
    def test_the_address_is_needed(self) -> None:
        with pytest.raises(ConfigError, match=r"kafka.bootstrap.servers is missing"):
            source_options({"subscribe": "orders"})

    def test_settings_of_a_consumer_are_understood(self) -> None:
        options = read(kafka__isolation__level="read_committed", kafka__max__poll__records="10")
        assert is_read_committed(options)
        assert not is_read_committed(read())
        assert consumer_settings(options).number("max.poll.records") == 10
        assert admin_configs(options) == {"bootstrap.servers": "127.0.0.1:9092"}

    def test_settings_for_every_client_go_on_to_the_admin_client(self) -> None:
        assert admin_configs(read(kafka__client__id="me"))["client.id"] == "me"

    def test_an_unknown_or_wrong_setting_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match=r"option kafka.isolation.levle"):
            read(kafka__isolation__levle="read_committed")
        with pytest.raises(ConfigError, match=r"option kafka.isolation.level"):
            read(kafka__isolation__level="read_all")

    @pytest.mark.parametrize(
        "name",
        ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"],
    )
    def test_what_the_source_decides_itself_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match=f"option kafka.{name} cannot be set: "):
            source_options({**ORDERS, f"kafka.{name}": "latest"})

    def test_how_a_task_fetches(self) -> None:
        plain = fetch_settings(read())
        assert (plain.read_committed, plain.slice_bytes, plain.patience_seconds) == (False, 8 << 20, 120)
        chosen = fetch_settings(
            source_options(
                {
                    **ORDERS,
                    "kafka.isolation.level": "read_committed",
                    "kafka.max.partition.fetch.bytes": "65536",
                    "kafka.fetch.max.wait.ms": "7",
                    "kafka.check.crcs": "false",
                    "kafkaConsumer.pollTimeoutMs": "3000",
                }
            )
        )
        assert chosen == (True, 65536, 7, False, 3.0)

    def test_the_group_is_named_or_made_of_the_subscription(self) -> None:
        assert group_of(read(kafka__group__id="sales", groupIdPrefix="other")) == "sales"
        made = group_of(read())
        assert made.startswith("headrace-spark.")
        assert made == group_of(read(maxOffsetsPerTrigger="10")) != group_of(read(subscribe="users"))
        assert group_of(read(groupIdPrefix="app")) == made.replace("headrace-spark.", "app-")


class TestKindsOfQueries:
    @pytest.mark.parametrize("text", ["latest", '{"orders": {"0": -1}}'])
    def test_a_batch_does_not_begin_at_the_end(self, text: str) -> None:
        with pytest.raises(ConfigError, match="startingOffsets is latest"):
            check_batch(read(startingOffsets=text))

    @pytest.mark.parametrize("text", ["earliest", '{"orders": {"0": -2}}'])
    def test_a_batch_does_not_end_at_the_beginning(self, text: str) -> None:
        with pytest.raises(ConfigError, match="endingOffsets is earliest"):
            check_batch(read(endingOffsets=text))

    def test_triggers_say_nothing_to_a_batch(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            check_batch(read(maxOffsetsPerTrigger="10"))
        assert "maxOffsetsPerTrigger says nothing to a batch query" in caplog.text

    @pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
    def test_a_stream_has_no_end(self, name: str) -> None:
        text = {"endingOffsets": "latest", "endingTimestamp": "5"}.get(name, '{"orders": {"0": 5}}')
        with pytest.raises(ConfigError, match=f"leave out {name}"):
            check_stream(source_options({**ORDERS, name: text}))


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean startingOffsets"):
        source_options({**ORDERS, "startingoffset": "latest"})


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        source_options({**ORDERS, "minPartitions": "0", "failOnDataLoss": "maybe"})
    assert len(caught.value.problems) == 2


def test_every_option_has_a_meaning_that_is_told() -> None:
    assert all(option.meaning.endswith(".") for option in SOURCE_OPTIONS)


@pytest.mark.parametrize(("options", "chapter"), [(SOURCE_OPTIONS, "## Source"), (SINK_OPTIONS, "## Sink")])
def test_every_option_stands_beside_that_of_sparks_connector(options: tuple[Option, ...], chapter: str) -> None:
    page = (REPOSITORY / "docs" / "spark-options.md").read_text()
    rows = [line for line in page.partition(f"\n{chapter}\n")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"]
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    assert {option.name for option in options} - named == set()


def test_the_columns_cannot_be_chosen() -> None:
    source = HeadraceSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "includeHeaders": "true"})
    assert source.reader(source.schema())
    other = StructType([StructField("value", BinaryType())])
    for reader in (source.reader, source.streamReader):
        with pytest.raises(
            ConfigError, match=r"cannot be chosen by schema\(\), they are struct<key:binary.*leave it out"
        ):
            reader(other)


def test_options_travel_to_the_workers() -> None:
    options = read(startingOffsets='{"orders": {"0": 5}}', kafka__client__id="me")
    assert pickle.loads(pickle.dumps(options)) == options
