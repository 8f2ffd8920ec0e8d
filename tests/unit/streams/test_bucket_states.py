"""What a bucket keeps in Spark's state and what workers remember, on the states that PySpark has for tests."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.tws_tester import TwsTester

from headrace.streams.compiler.bucket_states import BucketStates, Loaded, Remembered
from headrace.streams.keyed.state_table import GROUP, StateTable

SCHEMA = pa.schema([("v", pa.int64())])
PLENTY = 1 << 30


class _Nothing(StatefulProcessor):  # type: ignore[misc]  # PySpark has no types for it
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        return iter(())

    def close(self) -> None:
        pass


class Store:
    """The state of one bucket as Spark keeps it. It can be put back to what it was."""

    def __init__(self) -> None:
        self.handle: Any = TwsTester(_Nothing(), timeMode="EventTime", eventTimeExtractor=lambda row: 0).handle
        self.handle.setGroupingKey(0)

    def saved(self) -> Any:
        return deepcopy(self.handle)

    def go_back(self, saved: Any) -> None:
        self.handle = deepcopy(saved)

    def forget_chunk(self, version: int) -> None:
        self._chunks().removeKey((version,))

    def chunks(self) -> int:
        return len(list(self._chunks().keys()))

    def _chunks(self) -> Any:
        return self.handle.getMapState("chunks", "version long", "follows binary, rows binary")


class Worker:
    """A process that remembers."""

    def __init__(self, store: Store, remembers: int = PLENTY) -> None:
        self._store = store
        self._remembered = Remembered(remembers)

    def put(self, **rows: int) -> None:
        states, loaded = self._load()
        _put(loaded.table, rows)
        states.save(0, loaded, wakes_at=None)

    def fail(self, **rows: int) -> None:
        """A task that has saved, and whose micro-batch fails afterwards: Spark takes back what it has saved."""
        before = self._store.saved()
        self.put(**rows)
        self._store.go_back(before)

    def rows(self) -> dict[str, int]:
        states, loaded = self._load()
        live = loaded.table.live()
        states.save(0, loaded, wakes_at=None)
        return {
            group.decode(): value for group, value in zip(live[GROUP].to_pylist(), live["v"].to_pylist(), strict=True)
        }

    def _load(self) -> tuple[BucketStates, Loaded]:
        states = BucketStates(self._store.handle, SCHEMA, "run", self._remembered)
        return states, states.load(0)


def _put(table: StateTable, rows: dict[str, int]) -> None:
    groups = pa.array([key.encode() for key in rows], pa.binary())
    table.put(pa.table({GROUP: groups, "v": pa.array(rows.values(), pa.int64())}))


@pytest.fixture
def store() -> Store:
    return Store()


def test_another_worker_finds_what_the_first_has_saved(store: Store) -> None:
    Worker(store).put(a=1, b=2)
    Worker(store).put(b=3)
    assert Worker(store).rows() == {"a": 1, "b": 3}


def test_a_worker_that_has_the_table_reads_nothing(store: Store) -> None:
    worker = Worker(store)
    worker.put(a=1)
    worker.put(b=2)
    store.forget_chunk(1)
    store.forget_chunk(2)
    assert worker.rows() == {"a": 1, "b": 2}


def test_a_worker_reads_only_what_another_has_changed_meanwhile(store: Store) -> None:
    one, other = Worker(store), Worker(store)
    one.put(a=1)
    other.put(b=2)
    other.put(a=3)
    store.forget_chunk(1)
    assert one.rows() == {"a": 3, "b": 2}


def test_a_worker_that_has_seen_a_micro_batch_that_failed_does_not_believe_it(store: Store) -> None:
    worker = Worker(store)
    worker.put(a=1)
    worker.fail(a=100, x=100)
    assert worker.rows() == {"a": 1}


def test_a_micro_batch_that_another_worker_runs_again_in_another_way_wins(store: Store) -> None:
    one, other = Worker(store), Worker(store)
    one.put(a=1)
    one.fail(a=100, x=100)
    other.put(a=2)
    assert one.rows() == {"a": 2}, "the version is the same, and the table is not"
    one.fail(b=100)
    other.put(b=3)
    other.put(c=4)
    assert one.rows() == {"a": 2, "b": 3, "c": 4}


def test_a_query_that_goes_back_to_an_older_checkpoint_has_the_state_of_that_time(store: Store) -> None:
    worker = Worker(store)
    worker.put(a=1)
    old = store.saved()
    worker.put(a=2, b=2)
    worker.put(c=3)
    store.go_back(old)
    assert worker.rows() == {"a": 1}
    worker.put(d=4)
    assert Worker(store).rows() == {"a": 1, "d": 4}


def test_chunks_are_rewritten_and_a_worker_from_before_that_reads_all_anew(store: Store) -> None:
    one, other = Worker(store), Worker(store)
    one.put(a=1)
    rounds = 600
    for number in range(rounds):
        other.put(**{"a": number, f"k{number % 3}": number})
    assert one.rows() == other.rows() == Worker(store).rows()
    assert one.rows()["a"] == rounds - 1
    assert store.chunks() < rounds / 2


def test_tables_that_do_not_fit_into_memory_are_forgotten_and_read_again(store: Store) -> None:
    worker = Worker(store, remembers=0)
    worker.put(a=1)
    worker.put(b=2)
    assert worker.rows() == {"a": 1, "b": 2}
    remembered = Remembered(1000)
    for number in range(20):
        table = StateTable(SCHEMA)
        _put(table, {"a": number, "b": number})
        remembered.put(number, Loaded(table))
    assert remembered.take(0) is None
    assert remembered.take(19) is not None


def test_a_timer_is_set_and_moved(store: Store) -> None:
    states = BucketStates(store.handle, SCHEMA, "run", Remembered(PLENTY))
    for wakes_at, timers in ((10, [10]), (10, [10]), (20, [20]), (None, [])):
        states.save(0, states.load(0), wakes_at=wakes_at)
        assert list(store.handle.listTimers()) == timers
