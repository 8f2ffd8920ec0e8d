"""Where a query begins and ends: the parts that ask nobody."""

import logging

import pytest

from headrace.client.errors import ConfigError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.source_bounds import at_places, within
from headrace.spark.source_loss import DataLossError
from headrace.spark.source_offsets import Limits

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
LIMITS = {A0: Limits(10, 50), A1: Limits(0, 7)}


def test_words_are_the_same_for_all() -> None:
    assert at_places("startingOffsets", "earliest", LIMITS) == {A0: 10, A1: 0}
    assert at_places("startingOffsets", "latest", LIMITS) == {A0: 50, A1: 7}


def test_places_are_of_each_partition() -> None:
    assert at_places("startingOffsets", {A0: 23, A1: "latest"}, LIMITS) == {A0: 23, A1: 7}


def test_no_partition_may_be_left_out() -> None:
    with pytest.raises(ConfigError, match="option startingOffsets must be given for every partition; a-1 is left out"):
        at_places("startingOffsets", {A0: 23}, LIMITS)


def test_nor_may_one_be_named_that_is_not_read() -> None:
    with pytest.raises(ConfigError, match="option endingOffsets names b-0"):
        at_places("endingOffsets", {A0: 23, A1: 1, TopicPartition("b", 0): 5}, LIMITS)


def test_offsets_that_are_there_stay() -> None:
    assert within({A0: 10, A1: 7}, LIMITS, fail=True) == {A0: 10, A1: 7}


def test_what_is_gone_is_an_error_with_the_offsets_and_what_to_do() -> None:
    with pytest.raises(DataLossError) as caught:
        within({A0: 4, A1: 0}, LIMITS, fail=True)
    said = str(caught.value)
    assert "a-0" in said
    assert "at offset 4" in said
    assert "begins at 10" in said
    assert "6 offsets" in said
    assert "failOnDataLoss=false" in said


def test_what_never_was_is_an_error() -> None:
    with pytest.raises(DataLossError, match="at offset 9, and the log ends at 7"):
        within({A0: 10, A1: 9}, LIMITS, fail=True)


def test_or_it_is_a_warning_and_what_there_is_counts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert within({A0: 4, A1: 9}, LIMITS, fail=False) == {A0: 10, A1: 7}
    assert len(caplog.records) == 2
    assert all("failOnDataLoss is false" in record.getMessage() for record in caplog.records)
