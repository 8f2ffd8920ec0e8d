"""The log against a plain list of batches, through crashes, full disks, truncations and everything else.

The model is the list of batches that were acknowledged, and how far they were synced. After each crash the log must
hold a prefix of the list that reaches at least as far as it was synced; everything else is derived from the list.
"""

import contextlib
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.log.append import Origin
from headrace.log.config import LogConfig
from headrace.log.errors import OutOfOrderSequenceError, StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem, PowerCut
from headrace.log.run_append import append_run
from headrace.protocol.batch import BatchHeader, read_header
from headrace.protocol.records import iter_batches, read_records
from tests.support.log_batches import NOW_MS, a_batch, a_marker

PRODUCERS = (11, 12, 13)
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=150, segment_ms=1000)
PARENT = "/data"
DIRECTORY = "/data/topic-0"

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)

seeds = st.integers(0, 1 << 30)
fractions = st.floats(0, 1)
timestamps = st.lists(st.integers(NOW_MS, NOW_MS + 3000), min_size=1, max_size=4)


class Stored(NamedTuple):
    """One batch of the model."""

    header: BatchHeader
    data: bytes
    is_commit: bool | None  # of a marker

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


class Producer:
    """What the list says about one producer."""

    def __init__(self) -> None:
        self.next_sequence = 0
        self.last: Stored | None = None
        self.window: list[Stored] = []  # the last five batches
        self.open_since: int | None = None


class LogMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.fs = MemoryFileSystem()
        self.fs.make_dir(PARENT)
        self.fs.sync_dir("/")
        self.batches: list[Stored] = []
        self.synced_end = 0
        self.epoch = 1
        self.high_watermark = 0
        self.log_start = 0
        self.is_reloaded = False  # what the log knows of ended transactions may come from a snapshot, which has none
        # As a log directory keeps them, in files of its own:
        self.saved_recovery_point = 0
        self.saved_log_start = 0
        self.open_log(clean=False)

    # What the model says

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.base

    @property
    def base(self) -> int:
        return self.log.segments[0].base_offset

    def producer(self, producer_id: int) -> Producer:
        producer = Producer()
        for batch in self.batches:
            header = batch.header
            if header.producer_id == producer_id:
                if batch.is_commit is not None:
                    producer.open_since = None
                else:
                    producer.next_sequence = (header.last_sequence + 1) & 0x7FFFFFFF
                    producer.last = batch
                    producer.window = [*producer.window[-4:], batch]
                    if header.is_transactional and producer.open_since is None:
                        producer.open_since = header.base_offset
        return producer

    def transactions(self) -> list[tuple[int, int, int | None, bool | None]]:
        """(producer, first offset, offset of the marker, did it commit) of all transactions."""
        found: list[tuple[int, int, int | None, bool | None]] = []
        for producer_id in PRODUCERS:
            first = None
            for batch in self.batches:
                header = batch.header
                if header.producer_id != producer_id:
                    continue
                if batch.is_commit is None:
                    first = header.base_offset if first is None and header.is_transactional else first
                elif first is not None:
                    found.append((producer_id, first, header.base_offset, batch.is_commit))
                    first = None
            if first is not None:
                found.append((producer_id, first, None, None))
        return found

    # Doing it

    def open_log(self, *, clean: bool) -> None:
        exists = self.fs.exists(DIRECTORY)
        self.is_new = not (exists and any(name.endswith(".log") for name in self.fs.list_dir(DIRECTORY)))
        self.log = Log.open(
            self.fs,
            DIRECTORY,
            CONFIG,
            clean=clean,
            now_ms=NOW_MS,
            recovery_point=self.saved_recovery_point,
            log_start_offset=self.saved_log_start,
            high_watermark=self.high_watermark,
        )
        self.high_watermark = self.log.high_watermark
        self.saved_recovery_point = self.log.recovery_point
        self.is_reloaded = True

    def take(self, data: bytearray, *, is_commit: bool | None = None) -> None:
        """Append to log and list."""
        origin = Origin.CLIENT if is_commit is None else Origin.COORDINATOR
        end = self.log.log_end_offset
        result = self.log.append(data, leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin)
        header = read_header(data)
        assert (result.base_offset, result.duplicate) == (end, False)
        assert result.last_offset == header.last_offset
        self.batches.append(Stored(header, bytes(data), is_commit))

    def survive(self, log_end_at_least: int) -> None:
        """The log was opened after something bad: it must hold a prefix of the list."""
        end = self.log.log_end_offset
        assert end >= log_end_at_least, (end, log_end_at_least)
        assert end in {self.log.log_start_offset, *(batch.next_offset for batch in self.batches)}, end
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        report = self.log.recovery_report
        if self.is_new or (report is not None and report.end_offset < end):
            # Less survived than the saved log start, perhaps not even a file: the log was begun anew there.
            assert end == self.log.log_start_offset == self.saved_log_start
            self.batches = []
        self.synced_end = min(self.synced_end, end)
        self.log_start = self.log.log_start_offset
        self.check_all()

    def crash(self, seed: int, *, log_end_at_least: int) -> None:
        self.fs = self.fs.crash(Random(seed))
        self.open_log(clean=False)
        self.survive(log_end_at_least)

    # Rules: appending

    @rule(times=timestamps, size=st.integers(0, 120))
    def append(self, times: list[int], size: int) -> None:
        self.take(a_batch(*[b"x" * size] * len(times), timestamps=times))

    @rule(producer_id=st.sampled_from(PRODUCERS), times=timestamps, transactional=st.booleans())
    def append_of_producer(self, producer_id: int, times: list[int], transactional: bool) -> None:
        producer = self.producer(producer_id)
        transactional = transactional or producer.open_since is not None
        self.take(
            a_batch(
                *[b"y"] * len(times),
                timestamps=times,
                producer=producer_id,
                sequence=producer.next_sequence,
                transactional=transactional,
            )
        )

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=6), producer_id=st.sampled_from([-1, *PRODUCERS]))
    def append_together(self, counts: list[int], producer_id: int) -> None:
        """As many as go by one write, which may be none."""
        sequence = self.producer(producer_id).next_sequence
        offered = []
        for count in counts:
            offered.append(memoryview(a_batch(*[b"w"] * count, producer=producer_id, sequence=sequence)))
            sequence += count
        for batch, placed in zip(offered, append_run(self.log, offered, self.epoch), strict=False):
            header = read_header(batch)
            assert placed[2:4] == (self.end, header.last_offset)
            self.batches.append(Stored(header, bytes(batch), None))

    @rule(producer_id=st.sampled_from(PRODUCERS), back=st.integers(1, 5))
    def retry(self, producer_id: int, back: int) -> None:
        """The last batch of a producer is known for good, those before it as long as they are there."""
        window = self.producer(producer_id).window
        if len(window) < back:
            return
        header, data, _ = window[-back]
        try:
            result = self.log.append(bytearray(data), leader_epoch=self.epoch, now_ms=NOW_MS)
        except OutOfOrderSequenceError:
            assert back > 1
            assert header.base_offset < self.base, "it is still there"
        else:
            assert result.duplicate
            assert (result.base_offset, result.last_offset) == (header.base_offset, header.last_offset)

    @rule(producer_id=st.sampled_from(PRODUCERS), gap=st.integers(1, 3))
    def skip_a_sequence(self, producer_id: int, gap: int) -> None:
        producer = self.producer(producer_id)
        if producer.last is None:
            return
        data = a_batch(
            producer=producer_id,
            sequence=producer.next_sequence + gap,
            transactional=producer.open_since is not None,
        )
        with pytest.raises(OutOfOrderSequenceError):
            self.log.append(data, leader_epoch=self.epoch, now_ms=NOW_MS)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        if self.producer(producer_id).open_since is not None:
            self.take(a_marker(commit=commit, producer=producer_id), is_commit=commit)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule(free=st.integers(0, 200), times=timestamps)
    def append_on_a_full_disk(self, free: int, times: list[int]) -> None:
        self.fs.capacity_bytes = self.fs.used_bytes() + free
        data = a_batch(*[b"z" * 30] * len(times), timestamps=times)
        try:
            self.take(data)
        except StorageError:
            assert self.log.failure is None
        self.fs.capacity_bytes = None

    # Rules: moving the marks

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=NOW_MS)

    @rule(fraction=fractions)
    def raise_high_watermark(self, fraction: float) -> None:
        ends = [batch.next_offset for batch in self.batches if batch.next_offset > self.high_watermark]
        if ends:
            self.high_watermark = ends[int(fraction * (len(ends) - 1))]
            self.log.raise_high_watermark(self.high_watermark)

    @rule()
    def flush(self) -> None:
        plan = self.log.plan_flush()
        if plan is not None:
            plan.run()
            plan.done()
        assert self.log.flushed_offset == self.end
        self.synced_end = self.end
        self.saved_recovery_point = self.log.recovery_point

    @rule()
    def do_chores(self) -> None:
        for chore in self.log.take_chores():
            chore.run()
            chore.done()
        self.synced_end = max(self.synced_end, self.log.flushed_offset)
        self.saved_recovery_point = self.log.recovery_point

    @rule(fraction=fractions)
    def truncate(self, fraction: float) -> None:
        offset = self.base + int(fraction * (self.end - self.base))
        self.log.truncate_to(offset)
        self.truncated(offset)

    def truncated(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.synced_end = min(self.synced_end, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.log_start = min(self.log_start, self.end)
        self.saved_recovery_point = self.log.recovery_point
        self.saved_log_start = self.log_start
        self.is_reloaded = True

    @rule(fraction=fractions)
    def advance_log_start(self, fraction: float) -> None:
        offset = self.log_start + int(fraction * (self.high_watermark - self.log_start))
        self.log.advance_log_start(offset)
        self.log_start = self.saved_log_start = max(self.log_start, offset)

    @rule(fraction=fractions)
    def delete_old_segments(self, fraction: float) -> None:
        self.flush()
        deletable = [
            s
            for s, after in zip(self.log.segments, list(self.log.segments)[1:], strict=False)
            if after.base_offset <= self.high_watermark
        ]
        doomed = deletable[: int(fraction * len(deletable))]
        if doomed:
            new_start = self.log.segments[len(doomed)].base_offset
            self.log_start = self.saved_log_start = max(self.log_start, new_start)
            self.log.delete_segments(doomed)

    # Rules: going down and coming back

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.synced_end, self.saved_recovery_point = self.end, self.log.recovery_point
        self.open_log(clean=True)
        assert self.log.recovery_report is None
        self.survive(self.end)

    @rule(seed=seeds)
    def close_and_lose_power(self, seed: int) -> None:
        self.log.close()
        self.synced_end, self.saved_recovery_point = self.end, self.log.recovery_point
        self.fs = self.fs.crash(Random(seed))
        self.open_log(clean=True)
        self.survive(self.end)

    @rule()
    def be_killed(self) -> None:
        """The process dies, the machine does not: nothing is lost."""
        self.open_log(clean=False)
        self.survive(self.end)

    @rule(seed=seeds)
    def lose_power(self, seed: int) -> None:
        self.crash(seed, log_end_at_least=self.synced_end)

    @rule(seed=seeds, steps=st.integers(0, 6), times=timestamps)
    def lose_power_while_appending(self, seed: int, steps: int, times: list[int]) -> None:
        data = a_batch(*[b"w" * 40] * len(times), timestamps=times)
        self.fs.power_steps = steps
        try:
            self.take(data)
        except PowerCut:
            header = read_header(data)
            if header.base_offset == self.end and header.leader_epoch == self.epoch:
                self.batches.append(Stored(header, bytes(data), None))
        self.crash(seed, log_end_at_least=self.synced_end)

    @rule(seed=seeds, steps=st.integers(0, 30), what=st.sampled_from(("roll", "flush", "chores", "close")))
    def lose_power_while_tidying(self, seed: int, steps: int, what: str) -> None:
        self.fs.power_steps = steps
        with contextlib.suppress(PowerCut):
            {"roll": self.roll, "flush": self.flush, "chores": self.do_chores, "close": self.log.close}[what]()
        self.crash(seed, log_end_at_least=self.synced_end)

    @rule(seed=seeds, steps=st.integers(0, 20), fraction=fractions)
    def lose_power_while_truncating(self, seed: int, steps: int, fraction: float) -> None:
        offset = self.base + int(fraction * (self.end - self.base))
        kept = max([self.base, *(batch.next_offset for batch in self.batches if batch.next_offset <= offset)])
        self.fs.power_steps = steps
        try:
            self.log.truncate_to(offset)
        except PowerCut:
            self.synced_end = min(self.synced_end, kept)
            self.crash(seed, log_end_at_least=self.synced_end)
        else:
            self.truncated(offset)
            self.crash(seed, log_end_at_least=min(self.synced_end, kept))

    @rule(times=timestamps)
    def be_torn(self, times: list[int]) -> None:
        """An append fails in the middle, and its part cannot be cut off: no more writes, but every read."""
        self.fs.faults = [Fault("append", path_end=".log", written_bytes=40), Fault("truncate", path_end=".log")]
        with pytest.raises(StorageError):
            self.take(a_batch(*[b"u"] * len(times), timestamps=times))
        if self.log.failure is not None:
            with pytest.raises(StorageError, match="takes no more writes"):
                self.take(a_batch())
            self.check_all()
            self.fs.faults = []
            self.open_log(clean=False)
            self.survive(self.end)
        self.fs.faults = []

    @precondition(lambda self: self.log.plan_flush() is not None)
    @rule(seed=seeds)
    def fail_to_sync(self, seed: int) -> None:
        self.fs.faults = [Fault("sync", path_end=".log")]
        plan = self.log.plan_flush()
        assert plan is not None
        try:
            plan.run()
        except OSError as error:
            plan.failed(error)
        assert self.log.failure is not None
        with pytest.raises(StorageError, match="sync failed"):
            self.take(a_batch())
        self.check_all()
        self.fs.faults = []
        self.crash(seed, log_end_at_least=self.synced_end)

    # Looking at it

    @rule(fraction=fractions, max_bytes=st.integers(1, 2000), bound=fractions, one=st.booleans())
    def read(self, fraction: float, max_bytes: int, bound: float, one: bool) -> None:
        offset = self.log_start + int(fraction * (self.end - self.log_start))
        upper = self.log_start + int(bound * (self.end - self.log_start))
        visible = [b for b in self.batches if b.header.last_offset >= offset and b.next_offset <= upper]
        data = self.log.read(offset, max_bytes=max_bytes, end_offset=upper, at_least_one_batch=one).read()
        if offset >= upper or not visible or visible[0].header.base_offset > max(offset, self.log_start) >= upper:
            assert not data
            return
        found = [data[at : at + header.size_bytes] for at, header in iter_batches(data)]
        assert b"".join(found) == data
        assert found == [batch.data for batch in visible[: len(found)]]
        assert len(data) <= max_bytes or len(found) == 1
        if len(found) < len(visible):
            # It ends for a reason: the limit, or the end of a segment.
            following = visible[len(found)]
            is_cut = len(data) + len(following.data) > max_bytes
            if not found:
                assert is_cut
                assert not one
            bases = {segment.base_offset for segment in self.log.segments}
            assert is_cut or following.header.base_offset in bases

    @rule(timestamp=st.integers(NOW_MS - 1, NOW_MS + 3001))
    def find_timestamp(self, timestamp: int) -> None:
        expected = None
        for batch in self.batches:
            for record in read_records(batch.data):
                if expected is None and record.offset >= self.log_start and record.timestamp >= timestamp:
                    expected = (record.timestamp, record.offset, batch.header.leader_epoch)
        assert self.log.find_timestamp(timestamp) == expected

    @rule(low=fractions, high=fractions)
    def list_aborted_transactions(self, low: float, high: float) -> None:
        start = self.log_start + int(low * (self.end - self.log_start))
        upper = start + int(high * (self.end - start))
        expected = sorted(
            (producer_id, first, last)
            for producer_id, first, last, committed in self.transactions()
            if last is not None and not committed and last >= start and first < upper
        )
        found = self.log.aborted_transactions(start, upper)
        assert sorted((each.producer_id, each.first_offset, each.last_offset) for each in found) == expected

    @rule()
    def look_at_last_stable_offset(self) -> None:
        unstable = [
            first
            for _, first, marker, _ in self.transactions()
            if marker is None or (marker >= self.high_watermark and not self.is_reloaded)
        ]
        still_open = [first for _, first, marker, _ in self.transactions() if marker is None]
        stable = max(min([self.high_watermark, *unstable]), self.log_start)
        assert stable <= self.log.last_stable_offset or self.is_reloaded
        assert self.log.last_stable_offset <= max(min([self.high_watermark, *still_open]), self.log_start)
        if not self.is_reloaded:
            assert self.log.last_stable_offset == stable

    @rule()
    def look_at_epochs(self) -> None:
        first_of: dict[int, int] = {}
        for batch in self.batches:
            if batch.next_offset > self.log_start:
                start = max(batch.header.base_offset, self.log_start)
                first_of.setdefault(batch.header.leader_epoch, start)
        found = dict(self.log.epochs.entries)
        if not first_of:  # the epoch that wrote the last record may still be known
            assert set(found.values()) <= {self.log_start}
        else:
            assert found == first_of

    def check_all(self) -> None:
        """Every batch, in one pass."""
        offset, found = self.log.log_start_offset, []
        while data := self.log.read(offset, max_bytes=600).read():
            for at, header in iter_batches(data):
                found.append(data[at : at + header.size_bytes])
                offset = header.next_offset
        assert found == [batch.data for batch in self.batches if batch.next_offset > self.log_start]
        assert offset == self.log.log_end_offset

    @invariant()
    def marks_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == self.end
            assert self.log.log_start_offset == self.log_start
            assert self.log.high_watermark == self.high_watermark
            assert self.log.recovery_point <= self.end
            assert self.log.flushed_offset <= self.end


def test_the_log_agrees_with_a_plain_list_through_any_short_story() -> None:
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=20, stateful_step_count=30, deadline=None, phases=PHASES)
    )


@pytest.mark.slow
def test_the_log_agrees_with_a_plain_list_through_thousands_of_steps() -> None:
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=150, stateful_step_count=100, deadline=None, phases=PHASES)
    )
