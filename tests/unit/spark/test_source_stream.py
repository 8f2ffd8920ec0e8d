"""What Spark asks a streaming source, asked here, of a real broker: positions, tasks, losses, the group."""

import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import headrace
from headrace.client import background
from headrace.client.topic_partition import TopicPartition
from headrace.spark import source_tasks
from headrace.spark.source_loss import DataLossError
from headrace.spark.source_options import source_options
from headrace.spark.source_tasks import SourceTask
from headrace.spark.stream_source import StreamSource, group_of
from tests.support.spark_source import fill, offsets_in

Position = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def shared() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        yield broker
    while source_tasks._clients:  # kept for the next task, they would look for this broker until the process ends
        background.call(source_tasks._clients.popitem()[1].close())


@pytest.fixture
def admin(shared: headrace.Broker) -> Iterator[headrace.Admin]:
    """With the topic "t" of two partitions: 0 to 9, and 100 to 104."""
    with headrace.Admin(shared.address) as admin:
        for name in (listing.name for listing in admin.list_topics()):
            admin.delete_topic(name)
        admin.create_topic("t", partitions=2)
        fill(shared.address, "t", range(10))
        fill(shared.address, "t", range(100, 105), partition=1)
        yield admin


@pytest.fixture
def make(shared: headrace.Broker, admin: headrace.Admin) -> Iterator[Any]:
    made: list[StreamSource] = []

    def source(**options: Any) -> StreamSource:
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        given = {"kafka.bootstrap.servers": shared.address, "startingOffsets": "earliest", **named}
        if not given.keys() & {"assign", "subscribePattern"}:
            given.setdefault("subscribe", "t")
        made.append(StreamSource(source_options(given)))
        return made[-1]

    yield source
    for each in made:
        each.stop()


def step(source: StreamSource, start: Position, limit: Any = None) -> tuple[Position, list[int]]:
    """One micro-batch: its end, and what it reads; the JSON goes through a checkpoint."""
    end = json.loads(json.dumps(source.latestOffset(start, limit or source.getDefaultReadLimit())))
    return end, read(source, start, end)


def step_to(source: StreamSource, start: Position) -> tuple[Position, list[int]]:
    """The same, with nothing but offsets in the end."""
    end, found = step(source, start)
    return offsets_in(end), found


def made_anew(admin: headrace.Admin, topic: str = "t") -> None:
    partitions = len(admin.describe_topic(topic).partitions)
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=partitions)


def read(source: StreamSource, start: Position, end: Position) -> list[int]:
    tasks = pickle.loads(pickle.dumps(source.partitions(start, end)))
    return sorted(int(value) for task in tasks for batch in source.read(task) for value in batch["value"].to_pylist())


class TestPositions:
    def test_begin_where_the_options_say(self, make: Any) -> None:
        assert offsets_in(make().initialOffset()) == {"t": {"0": 0, "1": 0}}
        assert offsets_in(make(startingOffsets="latest").initialOffset()) == {"t": {"0": 10, "1": 5}}
        chosen = make(startingOffsets='{"t": {"0": 4, "1": -1}}')
        assert offsets_in(chosen.initialOffset()) == {"t": {"0": 4, "1": 5}}

    def test_begin_at_the_end_if_nothing_is_said(self, shared: headrace.Broker, admin: headrace.Admin) -> None:
        assert admin
        source = StreamSource(source_options({"kafka.bootstrap.servers": shared.address, "subscribe": "t"}))
        assert offsets_in(source.initialOffset()) == {"t": {"0": 10, "1": 5}}
        source.stop()

    def test_begin_at_one_place_however_often_spark_asks(self, make: Any, shared: headrace.Broker) -> None:
        """It asks for a start, for an end, and before it reads for the start once more."""
        source = make(startingOffsets="latest")
        start = source.initialOffset()
        fill(shared.address, "t", [10])
        end = source.latestOffset(start, ReadAllAvailable())
        fill(shared.address, "t", [11])
        assert read(source, source.initialOffset(), end) == [10]
        assert step(source, end)[1] == [11]

    def test_begin_at_the_end_of_the_first_micro_batch_if_a_restart_finds_a_later_start(
        self, make: Any, shared: headrace.Broker
    ) -> None:
        source = make(startingOffsets="latest")
        end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
        fill(shared.address, "t", [10, 11])
        restarted = make(startingOffsets="latest")
        assert read(restarted, restarted.initialOffset(), end) == []
        assert step(restarted, end)[1] == [10, 11]

    def test_go_on_with_what_comes(self, make: Any, shared: headrace.Broker) -> None:
        source = make()
        end, found = step(source, source.initialOffset())
        assert (offsets_in(end), found) == ({"t": {"0": 10, "1": 5}}, [*range(10), *range(100, 105)])
        assert step(source, end) == (end, [])
        fill(shared.address, "t", [10])
        end, found = step(source, end)
        assert (offsets_in(end), found) == ({"t": {"0": 11, "1": 5}}, [10])
        assert source.reportLatestOffset() == offsets_in(end)

    def test_a_topic_that_is_not_there_is_an_error_at_the_beginning(self, make: Any) -> None:
        with pytest.raises(headrace.UnknownTopicError, match="There is no u"):
            make(subscribe="t,u").initialOffset()

    def test_a_source_that_was_not_used_travels(self, make: Any) -> None:
        assert pickle.loads(pickle.dumps(make()))


class TestLimits:
    def test_which_one_spark_is_told(self, make: Any) -> None:
        assert make().getDefaultReadLimit() == ReadAllAvailable()
        assert make(minOffsetsPerTrigger=5).getDefaultReadLimit() == ReadMinRows(5)
        assert make(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=9).getDefaultReadLimit() == ReadMaxRows(9)

    def test_the_most_is_shared_out(self, make: Any) -> None:
        source = make(maxOffsetsPerTrigger=3)
        position = source.initialOffset()
        batches = []
        while (after := step(source, position))[0] != position:
            position = after[0]
            batches.append(after[1])
        assert [len(each) for each in batches] == [3, 3, 3, 3, 3]
        assert sorted(value for each in batches for value in each) == [*range(10), *range(100, 105)]

    def test_a_trigger_that_asks_for_all_gets_all(self, make: Any) -> None:
        source = make(maxOffsetsPerTrigger=3, minOffsetsPerTrigger=2)
        assert offsets_in(step(source, source.initialOffset(), ReadAllAvailable())[0]) == {"t": {"0": 10, "1": 5}}

    def test_the_least_is_waited_for(self, make: Any, shared: headrace.Broker) -> None:
        source = make(minOffsetsPerTrigger=3, maxTriggerDelay="1h")
        position, found = step(source, source.initialOffset())
        assert len(found) == 15  # the first micro-batch does not wait
        fill(shared.address, "t", [10, 11])
        assert step(source, position) == (position, [])
        fill(shared.address, "t", [12], partition=1)
        assert step(source, position)[1] == [10, 11, 12]

    def test_but_not_longer_than_the_delay(self, make: Any, shared: headrace.Broker) -> None:
        source = make(minOffsetsPerTrigger=3, maxTriggerDelay="0s")
        position, _ = step(source, source.initialOffset())
        fill(shared.address, "t", [10])
        assert step(source, position)[1] == [10]

    def test_large_ranges_become_several_tasks(self, make: Any) -> None:
        source = make(minPartitions=4)
        start = source.initialOffset()
        end = source.latestOffset(start, ReadAllAvailable())
        parts = [(task.part.partition, task.part.start, task.part.end) for task in source.partitions(start, end)]
        assert parts == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 5)]
        assert read(source, start, end) == [*range(10), *range(100, 105)]
        pieces = make(maxRecordsPerPartition=2).partitions(start, end)
        assert [task.part.end - task.part.start for task in pieces] == [2, 2, 2, 2, 2, 1, 2, 2]


class TestAvailableNow:
    def test_ends_where_the_topic_ended_when_it_began(self, make: Any, shared: headrace.Broker) -> None:
        source = make(maxOffsetsPerTrigger=8, minOffsetsPerTrigger=4, maxTriggerDelay="1h")
        source.prepareForTriggerAvailableNow()
        position = source.initialOffset()
        fill(shared.address, "t", range(10, 20))
        found: list[int] = []
        while (after := step(source, position))[0] != position:
            position = after[0]
            found += after[1]
        assert sorted(found) == [*range(10), *range(100, 105)]

    def test_does_not_begin_after_its_end(self, make: Any, shared: headrace.Broker) -> None:
        source = make(startingOffsets="latest")
        source.prepareForTriggerAvailableNow()
        fill(shared.address, "t", [10])
        start = source.initialOffset()
        assert step(source, start) == (start, [])


class TestWhatChanges:
    def test_new_partitions_are_read_from_their_beginning(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        source = make(startingOffsets="latest")
        position = source.initialOffset()
        admin.create_partitions({"t": 3})
        fill(shared.address, "t", [200, 201], partition=2)
        assert step_to(source, position) == ({"t": {"0": 10, "1": 5, "2": 2}}, [200, 201])

    def test_new_topics_of_a_pattern_are_read_from_their_beginning(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        source = make(subscribePattern="[tu]", startingOffsets="latest")
        position = source.initialOffset()
        assert offsets_in(position) == {"t": {"0": 10, "1": 5}}
        admin.create_topic("u", partitions=1)
        admin.create_topic("uu", partitions=1)
        fill(shared.address, "u", [300])
        fill(shared.address, "uu", [400])
        assert step_to(source, position) == ({"t": {"0": 10, "1": 5}, "u": {"0": 1}}, [300])

    def test_assigned_partitions_stay_as_they_are(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        source = make(assign='{"t": [1]}')
        admin.create_partitions({"t": 3})
        fill(shared.address, "t", [200], partition=2)
        assert step_to(source, source.initialOffset()) == ({"t": {"1": 5}}, list(range(100, 105)))

    def test_a_micro_batch_is_planned_again_after_a_restart(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        source = make()
        start = source.initialOffset()
        admin.create_partitions({"t": 3})
        fill(shared.address, "t", [200], partition=2)
        end, found = step(source, start)
        fill(shared.address, "t", [11, 12, 13])
        assert read(make(), start, end) == found == [*range(10), *range(100, 105), 200]


class TestLosses:
    def test_retention_that_passed_the_position(
        self, make: Any, admin: headrace.Admin, caplog: pytest.LogCaptureFixture
    ) -> None:
        start = {"t": {"0": 2, "1": 0}}
        admin.delete_records({TopicPartition("t", 0): 6})
        with pytest.raises(DataLossError, match=r"t-0 are gone: the query is at offset 2.*begins at 6.*4 offsets"):
            make().latestOffset(start, ReadAllAvailable())
        with caplog.at_level(logging.WARNING):
            assert step(make(failOnDataLoss=False), start)[1] == [*range(6, 10), *range(100, 105)]
        assert "the query is at offset 2" in caplog.text

    def test_retention_that_passed_a_planned_task(self, make: Any, admin: headrace.Admin) -> None:
        failing, going_on = make(), make(failOnDataLoss=False)
        start, end = {"t": {"0": 0, "1": 0}}, {"t": {"0": 10, "1": 5}}
        tasks = failing.partitions(start, end)
        admin.delete_records({TopicPartition("t", 0): 6, TopicPartition("t", 1): 5})
        with pytest.raises(DataLossError, match="begins at 6"):
            list(failing.read(tasks[0]))
        values = [value for task in tasks for batch in going_on.read(task) for value in batch["value"].to_pylist()]
        assert values == [b"6", b"7", b"8", b"9"]

    def test_a_topic_made_anew_while_the_query_runs(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin, caplog: pytest.LogCaptureFixture
    ) -> None:
        failing, going_on = make(), make(failOnDataLoss=False)
        position, _ = step(failing, failing.initialOffset())
        assert step(going_on, going_on.initialOffset())[0] == position
        made_anew(admin)
        # More than before in the one partition, so that only the id of the topic tells.
        fill(shared.address, "t", range(500, 530))
        fill(shared.address, "t", [600], partition=1)
        with pytest.raises(DataLossError, match=r"Topic t was deleted.*\{'t': \{'0': 10, '1': 5\}\}.*failOnDataLoss"):
            failing.latestOffset(position, ReadAllAvailable())
        with caplog.at_level(logging.WARNING):
            end, found = step(going_on, position)
        assert "Topic t was deleted" in caplog.text
        assert (offsets_in(end), found) == ({"t": {"0": 30, "1": 1}}, [*range(500, 530), 600])
        assert step(going_on, end) == (end, [])
        assert read(make(), position, end) == found  # from the checkpoint alone

    @pytest.mark.parametrize("held", [2, 10, 30])
    def test_a_topic_made_anew_while_the_query_rested(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin, held: int
    ) -> None:
        """However much the new topic holds: less than the old one, as much, more."""
        source = make()
        position, _ = step(source, source.initialOffset())
        made_anew(admin)
        fill(shared.address, "t", range(500, 500 + held))
        with pytest.raises(DataLossError, match=r"Topic t was deleted.*\{'t': \{'0': 10, '1': 5\}\}"):
            make().latestOffset(position, ReadAllAvailable())
        going_on = make(failOnDataLoss=False, maxOffsetsPerTrigger=7)
        found: list[int] = []
        while (after := step(going_on, position))[0] != position:
            position = after[0]
            found += after[1]
        assert found == list(range(500, 500 + held))

    def test_a_topic_made_anew_after_its_micro_batch_was_planned(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        """The driver died, and its micro-batch is planned again: it must not have the records of another topic."""
        source = make()
        start = source.initialOffset()
        end = source.latestOffset(start, ReadAllAvailable())
        made_anew(admin)
        fill(shared.address, "t", range(500, 530))
        with pytest.raises(DataLossError, match="Topic t was deleted"):
            make().partitions(start, end)
        going_on = make(failOnDataLoss=False)
        assert read(going_on, start, end) == []
        assert step(going_on, end)[1] == list(range(500, 530))

    def test_a_topic_made_anew_of_which_nothing_was_read(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        admin.create_topic("u", partitions=1)
        source = make(subscribe="u")
        position, _ = step(source, source.initialOffset())
        made_anew(admin, "u")
        fill(shared.address, "u", [300])
        assert step_to(make(subscribe="u"), position) == ({"u": {"0": 1}}, [300])

    def test_a_checkpoint_without_ids_tells_by_an_end_below_the_position(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        position = {"t": {"0": 10, "1": 5}}
        made_anew(admin)
        fill(shared.address, "t", [500, 501])
        with pytest.raises(DataLossError, match="at offset 10, and the log ends at 2 now"):
            make().latestOffset(position, ReadAllAvailable())
        assert step_to(make(failOnDataLoss=False), position) == ({"t": {"0": 2, "1": 0}}, [500, 501])

    def test_a_checkpoint_without_ids_has_them_with_the_next_micro_batch(self, make: Any) -> None:
        position = {"t": {"0": 10, "1": 5}}
        end, found = step(make(), position)
        assert (offsets_in(end), found) == (position, [])
        assert len(end) == 2

    def test_a_log_that_was_cut_is_not_read_again(self, make: Any, shared: headrace.Broker) -> None:
        source = make()
        read_to, _ = step(source, source.initialOffset())
        position = {**read_to, "t": {"0": 14, "1": 5}}  # as if four records more had been there once
        with pytest.raises(DataLossError, match="at offset 14, and the log ends at 10 now"):
            make().latestOffset(position, ReadAllAvailable())
        going_on = make(failOnDataLoss=False)
        assert step(going_on, position) == (read_to, [])
        fill(shared.address, "t", [10])
        assert step(going_on, read_to)[1] == [10]

    def test_a_topic_that_was_deleted(self, make: Any, shared: headrace.Broker, admin: headrace.Admin) -> None:
        admin.create_topic("u", partitions=1)
        fill(shared.address, "u", [300])
        failing, going_on = make(subscribe="t,u"), make(subscribe="t,u", failOnDataLoss=False)
        position, _ = step(failing, failing.initialOffset())
        admin.delete_topic("t")
        with pytest.raises(DataLossError, match=r"t-0 \(read up to offset 10\), t-1 \(read up to offset 5\)"):
            failing.latestOffset(position, ReadAllAvailable())
        fill(shared.address, "u", [301])
        assert step_to(going_on, position) == ({"u": {"0": 2}}, [301])

    def test_a_topic_that_was_deleted_before_its_micro_batch_ran(self, make: Any, admin: headrace.Admin) -> None:
        start, end = {"t": {"0": 0, "1": 0}}, {"t": {"0": 10, "1": 5}}
        admin.delete_topic("t")
        with pytest.raises(DataLossError, match="t-0"):
            make().partitions(start, end)
        assert make(failOnDataLoss=False).partitions(start, end) == []

    def test_a_new_partition_that_has_lost_its_first_records(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        failing, going_on = make(), make(failOnDataLoss=False)
        position, _ = step(failing, failing.initialOffset())
        admin.create_partitions({"t": 3})
        fill(shared.address, "t", [200, 201], partition=2)
        admin.delete_records({TopicPartition("t", 2): 1})
        with pytest.raises(DataLossError, match="new partition t-2 begins at offset 1"):
            failing.latestOffset(position, ReadAllAvailable())
        assert step(going_on, position)[1] == [201]

    def test_a_new_partition_that_loses_them_before_its_micro_batch_is_planned_again(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin
    ) -> None:
        source = make()
        start, _ = step(source, source.initialOffset())
        admin.create_partitions({"t": 3})
        fill(shared.address, "t", range(200, 205), partition=2)
        end, found = step(source, start)
        assert found == [200, 201, 202, 203, 204]
        admin.delete_records({TopicPartition("t", 2): 3})
        with pytest.raises(DataLossError, match="new partition t-2 begins at offset 3, not at 0"):
            read(make(), start, end)
        assert read(make(failOnDataLoss=False), start, end) == [203, 204]

    def test_a_checkpoint_of_something_else(self, make: Any) -> None:
        with pytest.raises(ValueError, match="that of another source"):
            make().latestOffset({"offset": 5}, ReadAllAvailable())


class TestTheGroup:
    def committed(self, admin: headrace.Admin, group: str) -> dict[str, int]:
        return {str(each): found.offset for each, found in admin.list_group_offsets(group).items()}

    def test_has_the_position_as_soon_as_a_micro_batch_is_done(self, make: Any, admin: headrace.Admin) -> None:
        source = make(kafka__group__id="lag-now")
        start = source.initialOffset()
        end, _ = step(source, start)
        assert self.committed(admin, "lag-now") == {}  # nothing is done yet
        source.latestOffset(end, ReadAllAvailable())
        assert self.committed(admin, "lag-now") == {"t-0": 10, "t-1": 5}

    def test_has_it_when_spark_says_so(self, make: Any, admin: headrace.Admin) -> None:
        source = make(groupIdPrefix="lag-said")
        source.commit({"t": {"0": 3}})
        assert self.committed(admin, group_of(source._options)) == {"t-0": 3}

    def test_has_nothing_if_it_is_not_wanted(self, make: Any, admin: headrace.Admin) -> None:
        source = make(kafka__group__id="lag-off", commitOffsets=False)
        source.commit({"t": {"0": 3}})
        assert self.committed(admin, "lag-off") == {}

    def test_does_not_end_the_query_if_it_refuses(
        self, make: Any, shared: headrace.Broker, admin: headrace.Admin, caplog: pytest.LogCaptureFixture
    ) -> None:
        with headrace.Consumer(shared.address, group="taken", topics=["t"], auto_offset_reset="earliest") as consumer:
            next(iter(consumer))  # a member, so nobody else may commit
            source = make(kafka__group__id="taken")
            with caplog.at_level(logging.WARNING):
                source.commit({"t": {"0": 3}})
                source.commit({"t": {"0": 4}})
        assert [record.getMessage()[:40] for record in caplog.records] == ["The position could not be committed to g"]
        assert admin


def test_the_tasks_of_spark_itself_have_no_rows(make: Any) -> None:
    from pyspark.sql.datasource import InputPartition

    assert list(make().read(InputPartition(None))) == []


def test_a_task_tells_what_it_reads(make: Any) -> None:
    source = make()
    task = source.partitions({"t": {"0": 0}}, {"t": {"0": 1}})[0]
    assert isinstance(task, SourceTask)
    assert "partition=0, start=0, end=1" in repr(task)
