import pytest

from headrace.client.topic_partition import TopicPartition
from headrace.streams.ranges import Place, Target, place_in

HERE = TopicPartition("orders", 0)
THERE = TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("target", "found", "offset", "note"),
    [
        (Target(), None, 5, ""),
        (Target(offset=7), None, 7, ""),
        (Target(offset=2), None, 5, "the log begins after 2"),
        (Target(offset=99), None, 20, "the log ends before 99"),
        (Target(offsets={HERE: 8}), None, 8, ""),
        (Target(offsets={THERE: 8}), None, 5, ""),
        (Target(offsets={THERE: 8}, offset=9), None, 9, ""),
        (Target(time_ms=1), 11, 11, ""),
        (Target(time_ms=1), -1, 20, "no record is so late"),
        (Target(time_ms=1), 21, 20, ""),
    ],
)
def test_where_a_partition_begins_that_has_offsets_5_to_19(
    target: Target, found: int | None, offset: int, note: str
) -> None:
    assert place_in(HERE, target, 5, 20, found) == Place(HERE, offset, 20, note)


def test_an_end_that_is_not_told_is_that_of_the_log() -> None:
    assert place_in(HERE, Target(), 5, 20, None, at_end=True).offset == 20
