"""Plans as texts, and what cannot be read as one."""

import pytest

from headrace.cli.group_plan import Move, as_csv, read_offsets
from headrace.cli.output import Complaint
from headrace.client.topic_partition import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def read(text: str) -> dict[TopicPartition, int]:
    return read_offsets(text, group="g", source="plan.csv")


def test_rows_with_and_without_a_group() -> None:
    assert read("a,0,5\na,1,7\n") == {A0: 5, A1: 7}
    assert read("g,a,0,5\n\nh,a,1,7\n") == {A0: 5}
    assert read('"a",0,5\r\n a , 1 , 7') == {A0: 5, A1: 7}
    assert read('{"topic":"a","partition":0,"offset":5,"note":"x"}\na,1,7') == {A0: 5, A1: 7}
    assert read('{"group":"h","topic":"a","partition":0,"offset":5}\ng,a,1,7') == {A1: 7}
    assert read("\ufeffa,0,5") == {A0: 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,0,5\na,1", "plan.csv, line 2: it has 2 columns."),
        ("topic,partition,offset", "line 1: partition and offset are numbers from 0 on."),
        ("a,0,-1", "partition and offset are numbers from 0 on."),
        ('{"topic":"a"}', "partition and offset is missing."),
        ('{"topic":"a","partition":true,"offset":0}', "partition and offset are numbers from 0 on."),
        ('{"topic":', "line 1: "),
        ("", "plan.csv has no offsets for g."),
        ("h,a,0,1\ni,a,0,1", "plan.csv has no offsets for g; it is about h, i."),
    ],
)
def test_what_is_no_plan(text: str, message: str) -> None:
    with pytest.raises(Complaint) as caught:
        read(text)
    assert message in caught.value.message


def test_a_plan_is_csv() -> None:
    assert as_csv([Move(A0, None, 5, 9), Move(A1, 3, 7, 9, "note")]) == "a,0,5\na,1,7\n"
