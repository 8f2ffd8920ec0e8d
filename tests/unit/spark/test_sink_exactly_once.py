"""A micro-batch and its marker are there together or not at all; against both brokers, without Spark."""

from collections.abc import Iterable, Iterator
from contextlib import closing

import pyarrow as pa
import pytest

import headrace
from headrace.arrow import read
from headrace.client.errors import FencedError, KafkaError, TransactionAbortedError, WrongStateError
from headrace.client.murmur2 import partition_of
from headrace.client.topic_partition import TopicPartition
from headrace.spark.exactly_once import AppSink, MicroBatch
from headrace.spark.sink_options import SinkOptions, batch_options
from tests.support.both_brokers import eventually, unique

QUERY = "c639eeea-7d20-4598-8dc3-5271601ed1fe"
OTHER = "161967f5-0c9f-4479-a881-24095b195f23"


def options(bootstrap: str, app: str, topic: str | None, **client: object) -> SinkOptions:
    settings = {name.replace("_", "."): value for name, value in client.items()}
    return batch_options(
        bootstrap=bootstrap,
        app=app,
        topic=topic,
        guarantee="exactly_once",
        transactions="driver",
        checkpoint=None,
        client=settings,
    )


def batch(batch_id: int, query: str = QUERY, *, run: str = "run", ends: dict[str, int] | None = None) -> MicroBatch:
    return MicroBatch(query, run, batch_id, {TopicPartition(topic, 0): end for topic, end in (ends or {}).items()})


def rows(*values: str) -> list[pa.Table]:
    return [pa.table({"value": list(values)})]


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = unique("out")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1)
        eventually(lambda: bool(admin.describe_topic(name).partitions))
    return name


def values(topic: str, bootstrap: str) -> list[str]:
    """Committed ones, in the order of the log."""
    table = read(topic, bootstrap, isolation="read_committed")
    return [value.decode() for value in table.column("value").to_pylist()]


def test_a_repeated_batch_is_skipped_also_by_a_driver_that_comes_back(bootstrap: str, topic: str) -> None:
    app = unique("app")
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        assert sink.write(batch(0), rows("a", "b"))
        assert sink.write(batch(1), rows("c"))
        assert not sink.write(batch(1, run="again"), rows("c"))
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        assert sink.has(batch(1))
        assert not sink.has(batch(2))
        assert not sink.write(batch(1), rows("c"))
        assert sink.write(batch(2), rows("d"))
    assert values(topic, bootstrap) == ["a", "b", "c", "d"]


def test_a_new_query_starts_afresh(bootstrap: str, topic: str) -> None:
    app = unique("app")
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        sink.write(batch(7), rows("a"))
        assert sink.write(batch(0, OTHER), rows("b"))
        assert not sink.write(batch(0, OTHER, run="again"), rows("b"))
        with pytest.raises(FencedError, match=f"Another query \\({OTHER}\\) writes as application"):
            sink.write(batch(8), rows("c"))
    assert values(topic, bootstrap) == ["a", "b"]


def test_a_new_query_that_begins_without_rows_marks_its_beginning(bootstrap: str, topic: str) -> None:
    with closing(AppSink(options(bootstrap, unique("app"), None))) as sink:
        assert sink.write(batch(0, run="idle"), [])
        named = [pa.table({"topic": [topic], "value": ["a"]})]
        assert sink.write(batch(1), named)
        assert sink.write(batch(0, OTHER), [])
        assert sink.write(batch(1, OTHER), named)
    assert values(topic, bootstrap) == ["a", "a"]


def test_end_offsets_are_the_marker_and_the_lag(bootstrap: str, topic: str) -> None:
    app, source = unique("app"), unique("in")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(source, partitions=1)
        eventually(lambda: bool(admin.describe_topic(source).partitions))
        with closing(AppSink(options(bootstrap, app, topic))) as sink:
            sink.write(batch(0, ends={source: 5}), rows("a"))
            sink.write(batch(1, ends={source: 5}), [])  # without new offsets and without rows it still commits its id
            sink.write(batch(2, ends={source: 9}), rows("b"))
            found = admin.list_group_offsets(app, require_stable=True)
            assert {place: (each.offset, each.metadata) for place, each in found.items()} == {
                (source, 0): (9, f"{QUERY}:2")
            }
            assert admin.list_group_offsets(f"{app}.marker") == {}
        with closing(AppSink(options(bootstrap, app, topic))) as sink:
            assert sink.has(batch(2))
            assert not sink.has(batch(3))


def test_an_older_checkpoint_neither_loses_nor_doubles_rows(bootstrap: str, topic: str) -> None:
    app, source = unique("app"), unique("in")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(source, partitions=1)
        eventually(lambda: bool(admin.describe_topic(source).partitions))
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        for number, end in enumerate((5, 10, 15)):
            assert sink.write(batch(number, ends={source: end}), rows(f"up to {end}"))
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        # Micro-batch 1 is planned anew, and what it reads is written already.
        assert not sink.write(batch(1, run="restored", ends={source: 12}), rows("up to 12"))
        for end in (14, 16):  # from 14 on everything would be written again, from 15 to 16 nothing
            with pytest.raises(WrongStateError, match=f"up to offset {end}.*written up to 15.*checkpoint is older"):
                sink.write(batch(2, run="restored", ends={source: end}), rows(f"up to {end}"))
        with pytest.raises(WrongStateError, match="checkpoint is older"):
            sink.has(batch(1, run="restored", ends={source: 20}))
    assert values(topic, bootstrap) == ["up to 5", "up to 10", "up to 15"]


def test_a_topic_that_is_read_and_written_may_have_markers_of_both_kinds(bootstrap: str, topic: str) -> None:
    with closing(AppSink(options(bootstrap, unique("app"), topic))) as sink:
        assert sink.write(batch(0), rows("a"))
        assert sink.write(batch(1, ends={topic: 1}), rows("b"))
        assert not sink.write(batch(1, run="again", ends={topic: 1}), rows("b"))
    assert values(topic, bootstrap) == ["a", "b"]


def test_what_is_read_from_another_cluster_is_marked_beside_the_output(bootstrap: str, topic: str) -> None:
    app, here, elsewhere = unique("app"), unique("in"), unique("elsewhere")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(here, partitions=1)
        eventually(lambda: bool(admin.describe_topic(here).partitions))
        with closing(AppSink(options(bootstrap, app, topic))) as sink:
            assert sink.write(batch(0, ends={elsewhere: 5}), rows("a"))
            assert sink.write(batch(1, ends={elsewhere: 5}), [])
            eventually(lambda: list(admin.list_group_offsets(f"{app}.marker")) == [(topic, 0)])
        with closing(AppSink(options(bootstrap, app, topic))) as sink:
            assert not sink.write(batch(1, ends={elsewhere: 5}), [])
            assert sink.write(batch(2, ends={elsewhere: 7, here: 3}), rows("b"))
            eventually(lambda: list(admin.list_group_offsets(app)) == [(here, 0)])
            assert not sink.write(batch(2, run="again", ends={elsewhere: 7, here: 3}), rows("b"))
    assert values(topic, bootstrap) == ["a", "b"]


def test_a_batch_without_rows_does_not_wait_for_a_topic_that_is_not_there_yet(bootstrap: str, topic: str) -> None:
    app, later = unique("app"), unique("later")
    with closing(AppSink(options(bootstrap, app, later))) as sink:
        assert sink.write(batch(0), [])
        with headrace.Admin(bootstrap) as admin:
            admin.create_topic(later, partitions=1)
            eventually(lambda: bool(admin.describe_topic(later).partitions))
        assert sink.write(batch(1), rows("a"))
    # A new query marks its beginning where the one before has left a marker.
    with closing(AppSink(options(bootstrap, app, unique("never")))) as sink:
        assert sink.write(batch(0, OTHER), [])
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        assert sink.write(batch(1, OTHER), rows("b"))
    assert (values(later, bootstrap), values(topic, bootstrap)) == (["a"], ["b"])


def test_what_fails_in_the_middle_is_never_seen_and_comes_whole_the_next_time(bootstrap: str, topic: str) -> None:
    app = unique("app")

    def broken() -> Iterator[pa.Table]:
        yield from rows(*map(str, range(1_000)))
        raise RuntimeError("the third task failed")

    sink = AppSink(options(bootstrap, app, topic))
    with closing(sink), pytest.raises(RuntimeError, match="third task"):
        sink.write(batch(0), broken())
    assert values(topic, bootstrap) == []
    with closing(AppSink(options(bootstrap, app, topic))) as sink:
        assert sink.write(batch(0), rows("a"))
    assert values(topic, bootstrap) == ["a"]


def test_all_topics_in_one_transaction_and_keys_where_java_puts_them(bootstrap: str) -> None:
    app, first, second = unique("app"), unique("first"), unique("second")
    with headrace.Admin(bootstrap) as admin:
        for name in (first, second):
            admin.create_topic(name, partitions=3)
            eventually(lambda name=name: len(admin.describe_topic(name).partitions) == 3)  # type: ignore[misc]
    keys = [f"key {number}" for number in range(40)]
    table = pa.table({"topic": [first, second] * 20, "key": keys, "value": keys})
    with closing(AppSink(options(bootstrap, app, None))) as sink:
        sink.write(batch(0), [table])
    for index, name in enumerate((first, second)):
        found = read(name, bootstrap, isolation="read_committed")
        placed = dict(zip(found.column("key").to_pylist(), found.column("partition").to_pylist(), strict=True))
        assert placed == {key.encode(): partition_of(key.encode(), 3) for key in keys[index::2]}


def test_the_first_of_two_drivers_is_fenced_and_says_so(bootstrap: str, topic: str) -> None:
    app = unique("app")
    first = AppSink(options(bootstrap, app, topic))
    first.write(batch(0), rows("a"))
    second = AppSink(options(bootstrap, app, topic))
    with pytest.raises(FencedError, match=f"Another driver has begun with the application name '{app}'"):
        first.write(batch(1), rows("zombie"))
    assert second.write(batch(1), rows("b"))
    first.close()
    second.close()
    assert values(topic, bootstrap) == ["a", "b"]


def test_a_driver_that_is_fenced_in_the_middle_leaves_nothing(bootstrap: str, topic: str) -> None:
    app = unique("app")

    def overtaken() -> Iterator[pa.Table]:
        yield from rows("zombie 1")
        with closing(AppSink(options(bootstrap, app, topic))) as second:
            second.write(batch(0), rows("a"))
        yield from rows("zombie 2")

    first = AppSink(options(bootstrap, app, topic))
    with closing(first), pytest.raises(KafkaError, match="Another driver has begun"):
        first.write(batch(0), overtaken())
    assert values(topic, bootstrap) == ["a"]


def test_somebody_else_in_the_group_is_found_out(bootstrap: str, topic: str) -> None:
    app, source = unique("app"), unique("in")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(source, partitions=1)
        eventually(lambda: bool(admin.describe_topic(source).partitions))
        with closing(AppSink(options(bootstrap, app, topic))) as sink:
            sink.write(batch(0, ends={source: 5}), rows("a"))
            admin.alter_group_offsets(app, {TopicPartition(source, 0): 5})  # as a source with this group does
            with pytest.raises(WrongStateError, match=r"another kafka.group.id"):
                sink.write(batch(1, ends={source: 6}), rows("b"))


def test_a_second_write_of_one_batch_is_refused(bootstrap: str, topic: str) -> None:
    with closing(AppSink(options(bootstrap, unique("app"), topic))) as sink:
        sink.write(batch(0), rows("a"))
        with pytest.raises(WrongStateError, match="union the DataFrames"):
            sink.write(batch(0), rows("dead letters"))


def test_a_timeout_that_the_broker_refuses_is_told(bootstrap: str, topic: str) -> None:
    with pytest.raises(KafkaError, match=r"does not allow transactions of 90000000 ms.*transaction.max.timeout.ms"):
        AppSink(options(bootstrap, unique("app"), topic, transaction_timeout_ms=90_000_000))


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_is_an_error_that_says_so(bootstrap: str, topic: str) -> None:
    app = unique("app")

    def slow() -> Iterable[pa.Table]:
        yield from rows("late 1")
        with headrace.Admin(bootstrap) as admin:  # both brokers look for such transactions every ten seconds
            eventually(lambda: admin.describe_transactions([app])[app].state == "CompleteAbort")
        yield from rows("late 2")

    sink = AppSink(options(bootstrap, app, topic, transaction_timeout_ms=1_000))
    with closing(sink), pytest.raises(TransactionAbortedError, match=r"longer than transaction.timeout.ms \(1000 ms\)"):
        sink.write(batch(0), slow())
    assert values(topic, bootstrap) == []
