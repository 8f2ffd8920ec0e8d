"""From what was fetched to the user's records, while the client's thread moves the partition."""

from typing import Any

from headrace.client.consumer_inbox import Fetched, Inbox
from headrace.client.consumer_intake import Intake
from headrace.client.consumer_settings import consumer_settings
from headrace.client.fetch_decode import open_batches
from headrace.client.subscriptions import PartitionState, Place
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.record_encoding import Row, seal_rows

PLACE = TopicPartition("orders", 0)


def fetched(state: PartitionState, *values: bytes) -> Fetched:
    rows: list[Row] = [(None, value, 0, None) for value in values]
    opened = open_batches(PLACE, seal_rows(rows), position=0, aborted=None, checks_crc=True)
    return Fetched(state, opened.batches, Place(len(values)), 100)


def test_records_of_before_a_jump_are_not_handed_out_after_it() -> None:
    state = PartitionState(PLACE)
    inbox = Inbox(on_room=lambda: None)
    jumps = [Place(0)]

    def while_records_are_made(_: str, data: bytes | None) -> Any:
        if jumps:
            inbox.jump(state, jumps.pop())
        return data

    intake = Intake(consumer_settings("localhost:9", None, {"value_deserializer": while_records_are_made}, None), inbox)
    state.jump(Place(0))
    inbox.put(fetched(state, b"lost", b"lost, too"))
    assert intake.take(10) == []
    assert state.position == Place(0)
    inbox.put(fetched(state, b"there"))
    assert [record.value for record in intake.take(10)] == [b"there"]
    assert state.position == Place(1)


def test_a_jump_forgets_what_was_fetched_of_the_partition_and_of_no_other() -> None:
    inbox = Inbox(on_room=lambda: None)
    moved, other = PartitionState(PLACE), PartitionState(TopicPartition("orders", 1))
    for state in (moved, other):
        state.jump(Place(0))
        inbox.put(fetched(state, b"v"))
    inbox.jump(moved, Place(5))
    taken = inbox.take()
    assert taken is not None
    assert (taken.state, inbox.take()) == (other, None)
    assert (moved.buffered_bytes, moved.position) == (0, Place(5))
