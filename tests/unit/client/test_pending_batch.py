"""Batches on their way: packed once, by whoever filled them, and settled with every record's place and time."""

import threading

from headrace.client.accumulator import STEP_BYTES, Accumulator
from headrace.client.delivery import Delivery, RecordMetadata
from headrace.client.pending_batch import PendingBatch
from headrace.protocol.record_encoding import OVERHEAD_BYTES, Row
from headrace.protocol.records import read_records

ROWS: list[Row] = [
    (b"k", b"first", 1_000, None),
    (None, None, 1_002, [("name", b"content"), ("empty", None)]),
    (None, b"third", 999, None),
]


def a_batch() -> PendingBatch:
    batch = PendingBatch("t", 0, 0.0)
    batch.rows = list(ROWS)
    batch.close()
    return batch


def rows_of(batch: PendingBatch) -> list[Row]:
    records = read_records(batch.encoded(0, None, transactional=False))
    return [(each.key, each.value, each.timestamp, list(each.headers) or None) for each in records]


def test_a_packed_batch_has_forgotten_its_rows_and_nothing_else() -> None:
    batch = a_batch()
    batch.pack(0, None)
    assert (batch.rows, batch.count) == ([], 3)
    batch.pack(0, None)
    assert rows_of(batch) == ROWS
    batch.succeed(70, -1)
    assert [batch.outcome_of(place) for place in range(3)] == [
        RecordMetadata("t", 0, 70 + place, row[2]) for place, row in enumerate(ROWS)
    ]


def test_every_record_has_its_own_time_also_between_others_of_one_time() -> None:
    times = [5, 5, 6, 6, 6, 5, 9]
    batch = PendingBatch("t", 0, 0.0)
    batch.rows = [(None, b"value", time, None) for time in times]
    batch.close()
    batch.encoded(0, None, transactional=False)
    batch.succeed(0, -1)
    assert [batch.outcome_of(place) for place in range(7)] == [
        RecordMetadata("t", 0, place, time) for place, time in enumerate(times)
    ]


def test_whoever_packs_when_all_is_over_finds_nothing_to_do() -> None:
    # The thread that filled it was slow, and the sender has packed it, sent it and heard of it meanwhile.
    batch = a_batch()
    batch.encoded(0, None, transactional=False)
    batch.succeed(0, -1)
    batch.pack(0, None)
    assert batch.outcome_of(1) == RecordMetadata("t", 0, 1, 1_002)


def test_the_halves_of_a_packed_batch_have_its_records() -> None:
    batch = a_batch()
    batch.encoded(0, None, transactional=False)
    halves = batch.split()
    assert halves is not None
    assert [row for half in halves for row in rows_of(half)] == ROWS


class Watched:
    """An accumulator for batches of three small records, and what it says."""

    def __init__(self, memory_bytes: int = 10_000) -> None:
        self.packed: list[tuple[PendingBatch, int]] = []
        self.wakes = 0
        self.begins = 0
        self.batches = Accumulator(
            batch_bytes=200, memory_bytes=memory_bytes, pack=self._pack, wake=self._wake, begun=self._begun
        )

    def _pack(self, batch: PendingBatch) -> None:
        assert not self.batches._lock.locked(), "others would wait"
        self.packed.append((batch, threading.get_ident()))

    def _wake(self) -> None:
        self.wakes += 1

    def _begun(self) -> None:
        assert self.batches.waiting(), "what has begun is there to be found"
        self.begins += 1

    def append(self) -> Delivery | None:
        return self.batches.append(self.batches.queue(("t", 0)), None, b"value", 0, None, OVERHEAD_BYTES + 5, None)


def test_a_batch_that_is_full_is_packed_by_the_thread_that_filled_it_before_the_sender_hears_of_it() -> None:
    watched = Watched()
    deliveries = [watched.append() for _ in range(4)]
    assert deliveries[0] is not None
    assert watched.packed == [(deliveries[0].batch, threading.get_ident())]
    assert (watched.begins, watched.wakes) == (1, 1), "when a batch begins, and when it is full"


def test_memory_is_taken_by_whole_batches_and_given_back_when_they_are_settled() -> None:
    watched = Watched(memory_bytes=450)
    assert all(watched.append() for _ in range(6)), "two batches"
    assert watched.append() is None
    watched.batches.settled(watched.batches.take(watched.batches.queue(("t", 0))))
    assert watched.append() is not None


def test_open_batches_take_memory_as_they_grow() -> None:
    batches = Accumulator(
        batch_bytes=4 * STEP_BYTES,
        memory_bytes=6 * STEP_BYTES,
        pack=lambda _: None,
        wake=lambda: None,
        begun=lambda: None,
    )

    def append(partition: int) -> PendingBatch | None:
        value = bytes(STEP_BYTES // 4)
        size = len(value) + OVERHEAD_BYTES
        delivery = batches.append(batches.queue(("t", partition)), None, value, 0, None, size, None)
        return None if delivery is None else delivery.batch

    assert all(append(partition) for partition in range(6)), "each takes a step"
    assert append(6) is None
    first = [append(0) for _ in range(3)]
    assert (first[0], first[2]) == (first[1], None), "a step has room for three"
    for partition in range(1, 6):
        batches.settled(batches.take(batches.queue(("t", partition))))
    assert {append(0) for _ in range(12)} == {first[0]}
    assert append(0) != first[0], "it has batch.size"


def test_who_finds_no_room_and_asks_when_all_is_settled_is_told_at_once() -> None:
    watched = Watched(memory_bytes=200)
    assert all(watched.append() for _ in range(3))
    assert watched.append() is None
    told: list[str] = []
    watched.batches.when_room(lambda: told.append("first"))
    assert not told
    watched.batches.settled(watched.batches.take(watched.batches.queue(("t", 0))))
    assert told == ["first"]
    watched.batches.when_room(lambda: told.append("second"))
    assert told == ["first", "second"], "nobody else would ever tell"
