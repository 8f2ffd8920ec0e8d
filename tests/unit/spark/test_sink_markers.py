"""Markers, and what a checkpoint says."""

import json
from pathlib import Path

import pytest

from headrace.client.admin_groups import CommittedOffset
from headrace.client.errors import WrongStateError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.checkpoints import batch_ends, end_offsets, local_path, query_id
from headrace.spark.markers import (
    NONE_WRITTEN,
    Marker,
    is_taken_over,
    last_written,
    plain_marker,
    read_marker,
    read_markers,
    source_marker,
)
from headrace.spark.source_offsets import to_json

QUERY = "c639eeea-7d20-4598-8dc3-5271601ed1fe"
OTHER = "161967f5-0c9f-4479-a881-24095b195f23"


def committed(*texts: str) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition("in", number): CommittedOffset(7, -1, text) for number, text in enumerate(texts)}


class TestMarkers:
    def test_text_and_back(self) -> None:
        marker = Marker(QUERY, 12)
        assert str(marker) == f"{QUERY}:12"
        assert read_marker(str(marker)) == marker

    @pytest.mark.parametrize("text", ["", "12", ":12", f"{QUERY}:", f"{QUERY}:-1", f"{QUERY}:x", f"{QUERY}:²"])
    def test_another_text_is_none(self, text: str) -> None:
        assert read_marker(text) is None

    def test_the_highest_of_this_query_counts(self) -> None:
        markers = read_markers(committed(f"{QUERY}:3", f"{QUERY}:5", f"{OTHER}:9"), group="sales")
        assert last_written(markers.values(), QUERY) == 5

    def test_another_query_starts_afresh(self) -> None:
        assert last_written([Marker(OTHER, 9)], QUERY) == NONE_WRITTEN
        assert not is_taken_over([Marker(OTHER, 9)], QUERY, 0)
        assert not is_taken_over([Marker(OTHER, 9), Marker(QUERY, 0)], QUERY, 1)

    def test_a_query_whose_marker_is_replaced_has_lost_its_name(self) -> None:
        assert is_taken_over([Marker(OTHER, 0)], QUERY, 5)
        assert not is_taken_over([], QUERY, 5)  # an application may be given a new name

    def test_somebody_else_in_the_group_is_an_error_that_says_what_to_do(self) -> None:
        with pytest.raises(WrongStateError, match=r"'sales'.*in-1.*another kafka.group.id"):
            read_markers(committed(f"{QUERY}:3", ""), group="sales")

    def test_offsets_of_both_kinds(self) -> None:
        (place,) = plain_marker("out", Marker(QUERY, 4)).items()
        assert place == (("out", 0), (5, None, f"{QUERY}:4"))
        (place,) = source_marker({TopicPartition("in", 2): 99}, Marker(QUERY, 4)).items()
        assert place == (("in", 2), (99, None, f"{QUERY}:4"))


OWN = json.dumps({"batchWatermarkMs": 0, "conf": {}})


def offsets_file(*sources: object) -> str:
    return "\n".join(["v1", OWN, *(json.dumps(source) for source in sources)])


class TestCheckpoints:
    def test_end_offsets_of_every_topic(self) -> None:
        text = offsets_file({"a": {"0": 3, "1": 4}, "b": {"0": 0}})
        assert end_offsets(text) == {("a", 0): 3, ("a", 1): 4, ("b", 0): 0}

    def test_ids_of_topics_beside_their_offsets_are_none(self) -> None:
        position = to_json({TopicPartition("a", 0): 3}, {"a": bytes([1] * 16)})
        assert len(position) == 2
        assert end_offsets(offsets_file(position)) == {("a", 0): 3}
        assert end_offsets(offsets_file({"orders": json.dumps(position)})) == {("a", 0): 3}

    def test_several_sources_of_which_some_read_no_topic(self) -> None:
        text = offsets_file({"a": {"0": 3}}, {"logOffset": 7}, {"offset": 5, "timestamp": 1}, {"b": {"1": 9}})
        assert end_offsets(text + "\n-") == {("a", 0): 3, ("b", 1): 9}

    def test_a_partition_that_two_sources_read_counts_as_far_as_both_have(self) -> None:
        assert end_offsets(offsets_file({"a": {"0": 3}}, {"a": {"0": 8}})) == {("a", 0): 3}

    def test_named_sources(self) -> None:
        named = {"orders": {"a": {"0": 3}}, "users": json.dumps({"b": {"0": 4}}), "rate": {"offset": 1}}
        assert end_offsets(offsets_file(named)) == {("a", 0): 3, ("b", 0): 4}

    @pytest.mark.parametrize(
        "source",
        [
            {},
            {"a": {}},
            {"a": {"x": 1}},
            {"a": {"0": -1}},
            {"a": {"0": "1"}},
            {"a": {"0": True}},
            {"a": {"0": 1 << 63}},
        ],
    )
    def test_what_is_no_offset_of_a_topic_is_left_alone(self, source: object) -> None:
        assert end_offsets(offsets_file(source)) == {}

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "offsets").mkdir()
        (tmp_path / "metadata").write_text(json.dumps({"id": QUERY}))
        (tmp_path / "offsets" / "3").write_text(offsets_file({"a": {"0": 1}}))
        assert query_id(str(tmp_path)) == QUERY
        assert batch_ends(str(tmp_path), 3) == {("a", 0): 1}
        assert batch_ends(str(tmp_path), 4) == {}
        assert query_id(str(tmp_path / "nowhere")) is None

    def test_where_a_checkpoint_is(self) -> None:
        assert local_path("/c/d") == "/c/d"
        assert local_path("c") == "c"
        assert local_path("file:/tmp/a%20b") == "/tmp/a b"
        assert local_path("file:///tmp/c") == "/tmp/c"
        assert local_path("hdfs://host:9000/c") is None
        assert local_path("s3a://bucket/c") is None
