"""One segment: Kafka's index rules, finding and reading batches, and indexes that are wrong."""

from struct import pack

import pytest

from headrace.log.config import LogConfig
from headrace.log.cutting import truncate_segment
from headrace.log.index import OffsetEntry, TimeEntry
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.names import LOG, OFFSET_INDEX, TIME_INDEX, LogFileName, file_name, parse_file_name
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment
from headrace.log.tail import find_end_offset
from headrace.protocol.batch import read_header
from headrace.protocol.errors import CorruptBatchError
from tests.support.log_batches import a_batch

BASE = 100
CONFIG = LogConfig(index_interval_bytes=200)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/d")
    return fs


def a_segment(fs: MemoryFileSystem, config: LogConfig = CONFIG) -> Segment:
    return Segment.create(fs, "/d", BASE, config, open_files=OpenFiles(10), now_ms=0)


def reopened(fs: MemoryFileSystem, config: LogConfig = CONFIG) -> Segment:
    path = f"/d/{file_name(BASE, LOG)}"
    return Segment(fs, "/d", BASE, fs.size_of(path), config, open_files=OpenFiles(10), now_ms=0)


def fill(segment: Segment, count: int = 10, *, timestamps: list[int] | None = None, step: int = 1) -> list[bytes]:
    """Batches of one record and 100 bytes, at BASE and then every `step` offsets."""
    batches = []
    for number in range(count):
        timestamp = timestamps[number] if timestamps else 1000 + number
        batch = a_batch(b"v" * 31, timestamps=[timestamp], base_offset=BASE + number * step)
        assert len(batch) == 100
        segment.append(batch, last_offset=BASE + number * step, max_timestamp=timestamp)
        batches.append(bytes(batch))
    return batches


def a_sealed_segment(fs: MemoryFileSystem, count: int = 10, *, timestamps: list[int] | None = None) -> Segment:
    segment = a_segment(fs)
    fill(segment, count, timestamps=timestamps)
    segment.write_indexes()
    return segment


def test_names_are_the_base_offset_in_twenty_digits() -> None:
    assert file_name(42, ".log") == "00000000000000000042.log"
    assert parse_file_name("00000000000000000042.timeindex") == LogFileName(42, ".timeindex", "")
    assert parse_file_name("00000000000000000042.log.swap") == LogFileName(42, ".log", ".swap")
    for other in ("42.log", "leader-epoch-checkpoint", "00000000000000000042.log.bak", "00000000000000000042.txt"):
        assert parse_file_name(other) is None


def test_an_entry_is_added_for_the_first_batch_that_begins_more_than_the_interval_after_the_last_one(
    fs: MemoryFileSystem,
) -> None:
    segment = a_segment(fs)
    fill(segment)
    # At 300 more than 200 bytes lie behind the beginning; then at 600, and at 900.
    assert list(segment.offsets) == [OffsetEntry(103, 300), OffsetEntry(106, 600), OffsetEntry(109, 900)]
    assert list(segment.times) == [TimeEntry(1003, 103), TimeEntry(1006, 106), TimeEntry(1009, 109)]


def test_time_entries_name_the_batch_with_the_largest_timestamp_so_far(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    fill(segment, timestamps=[5, 9, 7, 8, 1, 2, 3, 4, 5, 6])
    assert list(segment.times) == [TimeEntry(9, 101)]
    assert (segment.max_timestamp, segment.max_timestamp_offset, segment.first_timestamp) == (9, 101, 5)


def test_sealing_adds_the_largest_timestamp_and_writes_files_of_exact_size(fs: MemoryFileSystem) -> None:
    segment = a_sealed_segment(fs, 8)
    assert fs.read_bytes(segment.path(OFFSET_INDEX)) == pack(">iiii", 3, 300, 6, 600)
    assert fs.read_bytes(segment.path(TIME_INDEX)) == pack(">qiqiqi", 1003, 3, 1006, 6, 1007, 7)


def test_a_reopened_segment_knows_what_it_knew(fs: MemoryFileSystem) -> None:
    segment = a_sealed_segment(fs)
    again = reopened(fs)
    again.load_indexes()
    for name in ("size", "max_timestamp", "max_timestamp_offset", "first_timestamp"):
        assert getattr(again, name) == getattr(segment, name), name
    assert list(again.offsets) == list(segment.offsets)


@pytest.mark.parametrize("damage", ["missing", "odd length", "beyond the log", "zeros", "wrong entries"])
def test_a_damaged_index_is_rebuilt_and_every_offset_is_found(fs: MemoryFileSystem, damage: str) -> None:
    segment = a_segment(fs)
    batches = fill(segment)
    segment.write_indexes()
    path = segment.path(OFFSET_INDEX)
    fs.remove(path)
    if damage != "missing":
        content = {
            "odd length": bytes(13),
            "beyond the log": pack(">ii", 3, 5000),
            "zeros": bytes(8 * 100),
            "wrong entries": pack(">iiii", 2, 350, 7, 710),
        }[damage]
        fs.open(path, create=True).append(content)
    again = reopened(fs)
    assert find_end_offset(again) == BASE + 10
    again = reopened(fs)
    for number, batch in enumerate(batches):
        found = again.read(BASE + number, max_bytes=100, end_offset=None, at_least_one_batch=True)
        assert found is not None
        assert found.read() == batch


def test_a_preallocated_index_of_kafka_is_read(fs: MemoryFileSystem) -> None:
    segment = a_sealed_segment(fs)
    for suffix, entry_size in ((OFFSET_INDEX, 8), (TIME_INDEX, 12)):
        fs.open(segment.path(suffix)).append(bytes(entry_size * 1000))
    again = reopened(fs)
    assert find_end_offset(again) == BASE + 10
    assert list(again.offsets) == list(segment.offsets)
    assert again.largest_timestamp == 1009


def test_a_reader_does_not_wait_for_the_time_index(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batches = fill(segment)
    segment.write_indexes()
    fs.faults.append(Fault("read", path_end=TIME_INDEX))
    found = reopened(fs).read(BASE + 5, max_bytes=100, end_offset=None, at_least_one_batch=True)
    assert found is not None
    assert found.read() == batches[5]
    assert len(fs.faults) == 1  # nobody has read the file


def test_the_largest_timestamp_is_told_by_the_end_of_the_time_index(fs: MemoryFileSystem) -> None:
    segment = a_sealed_segment(fs, timestamps=[5, 9, 7, 8, 1, 2, 3, 4, 5, 6])
    again = reopened(fs)
    faults = [Fault("read", path_end=OFFSET_INDEX), Fault("read", path_end=LOG)]
    fs.faults += faults
    assert again.largest_timestamp == again.largest_timestamp == 9
    assert not again.are_indexes_loaded
    assert fs.faults == faults  # nobody has read the files
    fs.faults.clear()
    again.load_indexes()
    for name in ("max_timestamp", "max_timestamp_offset", "first_timestamp"):
        assert getattr(again, name) == getattr(segment, name), name


@pytest.mark.parametrize(
    "content",
    [None, pack(">qib", 1007, 7, 1), pack(">qi", 1007, -1), pack(">qi", -7, 7)],
    ids=["missing", "odd length", "negative offset", "negative time"],
)
def test_a_time_index_that_cannot_tell_is_rebuilt(fs: MemoryFileSystem, content: bytes | None) -> None:
    segment = a_sealed_segment(fs)
    path = segment.path(TIME_INDEX)
    fs.remove(path)
    if content is not None:
        fs.open(path, create=True).append(content)
    assert reopened(fs).largest_timestamp == 1009


def test_a_segment_that_was_read_first_goes_on_with_its_index(fs: MemoryFileSystem) -> None:
    a_sealed_segment(fs, 8)
    again = reopened(fs)
    assert again.find(BASE + 7) == 700
    for number in (8, 9):
        batch = a_batch(b"v" * 31, timestamps=[1000 + number], base_offset=BASE + number)
        again.append(batch, last_offset=BASE + number, max_timestamp=1000 + number)
    assert list(again.offsets) == [OffsetEntry(103, 300), OffsetEntry(106, 600), OffsetEntry(109, 900)]


def test_the_age_of_a_segment_needs_no_index(fs: MemoryFileSystem) -> None:
    a_sealed_segment(fs)
    again = reopened(fs)
    again.load_first_timestamp()
    assert again.first_timestamp == 1000
    assert not again.are_indexes_loaded


def test_a_read_gives_whole_batches_up_to_the_limit(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batches = fill(segment)
    for start in range(10):
        for limit in (100, 199, 200, 350, 5000):
            found = segment.read(BASE + start, max_bytes=limit, end_offset=None, at_least_one_batch=False)
            assert found is not None
            assert found.read() == b"".join(batches[start : start + limit // 100])


@pytest.mark.parametrize("max_bytes", [100, 150, 200, 299, 300, 301, 555, 950])
def test_a_reader_goes_on_where_it_stopped_without_a_search(fs: MemoryFileSystem, max_bytes: int) -> None:
    segment = a_segment(fs)
    fill(segment)
    found = segment.read(BASE, max_bytes=max_bytes, end_offset=None, at_least_one_batch=True)
    assert found is not None
    next_offset = BASE + len(found) // 100
    fs.faults.append(Fault("read", path_end=LOG))
    assert segment.find(next_offset) == len(found)
    assert len(fs.faults) == 1  # nobody has read the file


def test_a_read_of_a_batch_above_the_limit_gives_it_whole_or_nothing(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batches = fill(segment)
    one = segment.read(BASE + 4, max_bytes=10, end_offset=None, at_least_one_batch=True)
    assert one is not None
    assert one.read() == batches[4]
    assert one.first_offset == BASE + 4
    none = segment.read(BASE + 4, max_bytes=10, end_offset=None, at_least_one_batch=False)
    assert none is not None
    assert none.read() == b""
    assert none.first_offset is None


def test_a_read_ends_before_a_batch_that_is_not_wholly_below_the_end_offset(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batch = a_batch(b"a", b"b", b"c", base_offset=BASE)
    segment.append(batch, last_offset=BASE + 2, max_timestamp=1)
    for end_offset, size in ((BASE + 1, 0), (BASE + 2, 0), (BASE + 3, len(batch))):
        found = segment.read(BASE, max_bytes=5000, end_offset=end_offset, at_least_one_batch=True)
        assert found is not None
        assert len(found) == size


def test_an_offset_in_a_gap_is_found_at_the_next_batch(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batches = fill(segment, step=10)
    found = segment.read(BASE + 31, max_bytes=100, end_offset=None, at_least_one_batch=True)
    assert found is not None
    assert found.read() == batches[4]
    assert segment.read(BASE + 91, max_bytes=100, end_offset=None, at_least_one_batch=True) is None


def test_a_cut_drops_batches_and_entries_and_remeasures_the_rest(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    fill(segment, timestamps=[1, 2, 3, 4, 50, 6, 7, 8, 9, 10])
    assert truncate_segment(segment, BASE + 5) == BASE + 5
    assert (segment.size, fs.size_of(segment.path(LOG))) == (500, 500)
    assert list(segment.offsets) == [OffsetEntry(103, 300)]
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (50, 104)
    assert truncate_segment(segment, BASE) == BASE
    assert (segment.size, segment.max_timestamp, segment.first_timestamp) == (0, -1, -1)


def test_a_torn_end_is_no_end(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    fill(segment)
    segment.file.append(b"half a batch")
    with pytest.raises(CorruptBatchError, match="no whole batch at byte 1000"):
        find_end_offset(reopened(fs))


def test_damage_in_the_middle_of_a_log_is_reported_not_skipped(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs, LogConfig())
    batches = fill(segment)
    batches[4] = bytes(100)
    fs.remove(segment.path(LOG))
    fs.open(segment.path(LOG), create=True).append(b"".join(batches))
    with pytest.raises(CorruptBatchError, match="no whole batch at byte 400"):
        reopened(fs, LogConfig()).read(BASE + 7, max_bytes=100, end_offset=None, at_least_one_batch=True)


def test_the_least_recently_used_files_are_dropped_and_opened_again(fs: MemoryFileSystem) -> None:
    open_files = OpenFiles(2)
    segments = [Segment.create(fs, "/d", base, CONFIG, open_files=open_files, now_ms=0) for base in (100, 200, 300)]
    assert len(open_files) == 2
    for segment in segments:
        segment.append(a_batch(base_offset=segment.base_offset), last_offset=segment.base_offset, max_timestamp=1)
        assert len(open_files) == 2
    for segment in segments:
        assert read_header(segment.file.read(0, 100)).base_offset == segment.base_offset


def test_a_slice_survives_that_its_file_is_dropped_deleted_and_removed(fs: MemoryFileSystem) -> None:
    segment = a_segment(fs)
    batches = fill(segment)
    found = segment.read(BASE, max_bytes=200, end_offset=None, at_least_one_batch=True)
    segment.files.rename(".deleted")
    segment.close()
    fs.remove(segment.path(LOG))
    assert found is not None
    assert found.read() == batches[0] + batches[1]
