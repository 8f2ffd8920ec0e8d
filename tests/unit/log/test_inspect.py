"""Files become rows up to the place where they break."""

import tracemalloc
from pathlib import Path

import pytest

from headrace.log.aborted import AbortedTxn
from headrace.log.errors import CorruptCheckpointError
from headrace.log.inspect import is_known_file, read_file
from headrace.log.inspect.directories import files_of_partition, is_partition_directory, read_partitions
from headrace.log.inspect.rows import (
    AbortedRow,
    BatchRow,
    DamagedFileError,
    EpochRow,
    OffsetEntryRow,
    OffsetRow,
    PreallocatedRow,
    ProducerRow,
    PropertyRow,
    RecordRow,
    Row,
    TimeEntryRow,
)
from headrace.log.snapshots import SnapshotEntry, pack_snapshot
from headrace.protocol.batch import read_header, write_crc
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    NewRecord,
    build_batch,
)
from headrace.protocol.types import uuid_to_text
from tests.support.inspected import FS, SEGMENT, TOPIC_ID, batch, rows_of, rows_until_fault, write


class TestSegments:
    def test_batches_are_followed_by_their_records(self, tmp_path: Path) -> None:
        header = ("trace", b"1")
        first = build_batch(
            [NewRecord(1_000, b"a", b"one", (header,)), NewRecord(1_005, None, None)],
            codec=Codec.ZSTD,
            leader_epoch=4,
            producer_id=7,
            producer_epoch=2,
            base_sequence=10,
            transactional=True,
        )
        rows = rows_of(write(tmp_path, SEGMENT, bytes(first) + batch(2, b"two")))
        head, *records = rows[:3]
        assert isinstance(head, BatchRow)
        assert head._asdict() == {
            "position": 0,
            "size_bytes": len(first),
            "base_offset": 0,
            "last_offset": 1,
            "record_count": 2,
            "leader_epoch": 4,
            "producer_id": 7,
            "producer_epoch": 2,
            "base_sequence": 10,
            "last_sequence": 11,
            "codec": "zstd",
            "timestamp_type": "CreateTime",
            "base_timestamp": 1_000,
            "max_timestamp": 1_005,
            "transactional": True,
            "control": False,
            "delete_horizon_ms": None,
            "crc": read_header(first).crc,
            "crc_ok": True,
        }
        assert records == [
            RecordRow(0, 1_000, b"a", b"one", (header,), None),
            RecordRow(1, 1_005, None, None, (), None),
        ]
        assert [type(row) for row in rows[3:]] == [BatchRow, RecordRow]

    def test_without_records_only_batches_are_shown(self, tmp_path: Path) -> None:
        path = write(tmp_path, SEGMENT, batch(0, b"one") + batch(1, b"two"))
        assert [type(row) for row in rows_of(path, with_records=False)] == [BatchRow, BatchRow]

    def test_an_empty_segment_has_no_rows(self, tmp_path: Path) -> None:
        assert rows_of(write(tmp_path, SEGMENT, b"")) == []

    def test_a_wrong_crc_is_shown_and_ends_the_file(self, tmp_path: Path) -> None:
        broken = bytearray(batch(1, b"two"))
        broken[-2] ^= 1
        first = batch(0, b"one")
        rows, error = rows_until_fault(write(tmp_path, SEGMENT, first + broken + batch(2, b"three")))
        assert [row.crc_ok for row in rows if isinstance(row, BatchRow)] == [True, False]
        assert isinstance(error, DamagedFileError)
        assert error.position == len(first)
        assert "CRC" in error.reason

    @pytest.mark.parametrize(
        ("kept", "reason"), [(30, "30 bytes left, a batch header has 61"), (65, "a batch of 72 bytes, 65 are left")]
    )
    def test_a_torn_tail_is_named_with_its_place(self, tmp_path: Path, kept: int, reason: str) -> None:
        first = batch(0, b"one")
        rows, error = rows_until_fault(write(tmp_path, SEGMENT, first + batch(1, b"two")[:kept]))
        assert len(rows) == 2
        assert isinstance(error, DamagedFileError)
        assert (error.position, error.reason) == (len(first), reason)

    def test_bytes_that_are_no_batch_are_refused(self, tmp_path: Path) -> None:
        rows, error = rows_until_fault(write(tmp_path, SEGMENT, bytes(100)))
        assert rows == []
        assert "no batch begins here (magic 0" in str(error)

    def test_a_batch_length_below_its_header_is_refused(self, tmp_path: Path) -> None:
        data = bytearray(batch(0, b"one"))
        data[8:12] = (48).to_bytes(4)
        assert "a batch length of 48" in str(rows_until_fault(write(tmp_path, SEGMENT, bytes(data)))[1])

    def test_an_offset_that_goes_back_is_a_fault(self, tmp_path: Path) -> None:
        rows, error = rows_until_fault(write(tmp_path, SEGMENT, batch(5, b"one") + batch(5, b"two")))
        assert len(rows) == 2
        assert "a batch at offset 5, after offset 5" in str(error)

    def test_records_that_break_their_format_under_a_right_crc_are_a_fault(self, tmp_path: Path) -> None:
        data = bytearray(batch(0, b"one"))
        data[61] = 0x70  # the first record claims more bytes than there are
        write_crc(data, 0, len(data))
        rows, error = rows_until_fault(write(tmp_path, SEGMENT, bytes(data)))
        assert len(rows) == 1
        assert "inside the batch" in str(error)

    def test_a_batch_above_the_limit_is_shown_but_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headrace.log.inspect.segments.MAX_BATCH_BYTES", 80)
        path = write(tmp_path, SEGMENT, batch(0, b"x" * 100) + batch(1, b"two"))
        large, small, record = rows_of(path)
        assert isinstance(large, BatchRow)
        assert large.crc_ok is None
        assert isinstance(small, BatchRow)
        assert small.crc_ok is True
        assert isinstance(record, RecordRow)

    def test_memory_is_bounded_by_the_largest_batch(self, tmp_path: Path) -> None:
        path = tmp_path / SEGMENT
        with path.open("wb") as file:
            for number in range(40):
                file.write(batch(number, bytes(500_000)))
        tracemalloc.start()
        try:
            count = sum(1 for _ in read_file(FS, str(path)))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert count == 80
        assert peak_bytes < 5_000_000


class TestIndexes:
    def segment(self, directory: Path) -> list[int]:
        """A segment from offset 10 on, with three batches; where they begin."""
        batches = [batch(10, b"a", b"b"), batch(12, b"c"), batch(13, b"d", b"e", b"f")]
        write(directory, "00000000000000000010.log", b"".join(batches))
        return [0, len(batches[0]), len(batches[0]) + len(batches[1])]

    def entry(self, relative: int, position: int) -> bytes:
        return relative.to_bytes(4) + position.to_bytes(4)

    def test_offset_entries_are_absolute(self, tmp_path: Path) -> None:
        _, second, third = self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index", self.entry(2, second) + self.entry(5, third))
        assert rows_of(path) == [OffsetEntryRow(12, second), OffsetEntryRow(15, third)]

    def test_the_zeros_of_a_preallocated_index_are_no_entries(self, tmp_path: Path) -> None:
        _, second, _ = self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index", self.entry(2, second) + bytes(80))
        assert rows_of(path) == [OffsetEntryRow(12, second), PreallocatedRow(8, 80)]
        path = write(tmp_path, "00000000000000000010.timeindex", bytes(1200))
        assert rows_of(path) == [PreallocatedRow(0, 1200)]

    def test_an_index_of_zeros_only_is_preallocated_and_empty(self, tmp_path: Path) -> None:
        self.segment(tmp_path)
        assert rows_of(write(tmp_path, "00000000000000000010.index", bytes(800))) == [PreallocatedRow(0, 800)]

    def test_a_first_entry_may_be_zero(self, tmp_path: Path) -> None:
        later = (5).to_bytes(8) + (2).to_bytes(4)
        assert rows_of(write(tmp_path, "00000000000000000010.timeindex", bytes(12))) == [TimeEntryRow(0, 10)]
        path = write(tmp_path, "00000000000000000010.timeindex", bytes(12) + later)
        assert rows_of(path) == [TimeEntryRow(0, 10), TimeEntryRow(5, 12)]

    def test_an_entry_behind_zeros_is_a_fault(self, tmp_path: Path) -> None:
        _, second, third = self.segment(tmp_path)
        data = self.entry(2, second) + bytes(16) + self.entry(5, third)
        rows, error = rows_until_fault(write(tmp_path, "00000000000000000010.index", data))
        assert rows == [OffsetEntryRow(12, second)]
        assert "an entry after zero bytes" in str(error)

    @pytest.mark.parametrize(("relative", "position"), [(3, 72), (2, 73), (2, 100_000)])
    def test_an_entry_that_its_segment_does_not_confirm_is_a_fault(
        self, tmp_path: Path, relative: int, position: int
    ) -> None:
        self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index", self.entry(relative, position))
        rows, error = rows_until_fault(path)
        assert rows == [OffsetEntryRow(10 + relative, position)]
        assert isinstance(error, DamagedFileError)
        assert error.position == 0

    def test_entries_that_go_back_are_a_fault(self, tmp_path: Path) -> None:
        _, second, third = self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index", self.entry(5, third) + self.entry(2, second))
        rows, error = rows_until_fault(path)
        assert rows == [OffsetEntryRow(15, third)]
        assert "follows" in str(error)

    def test_a_part_of_an_entry_is_a_fault(self, tmp_path: Path) -> None:
        _, second, _ = self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index", self.entry(2, second) + b"\1\2\3")
        rows, error = rows_until_fault(path)
        assert rows == [OffsetEntryRow(12, second)]
        assert isinstance(error, DamagedFileError)
        assert (error.position, error.reason) == (8, "3 bytes left, an entry has 8")

    def test_the_index_of_a_replaced_segment_is_not_compared_with_the_new_one(self, tmp_path: Path) -> None:
        self.segment(tmp_path)
        path = write(tmp_path, "00000000000000000010.index.deleted", self.entry(4, 900))
        assert rows_of(path) == [OffsetEntryRow(14, 900)]

    def test_time_entries_are_absolute_and_grow(self, tmp_path: Path) -> None:
        entries = [(1_000, 2), (1_500, 5), (1_500, 6)]
        data = b"".join(timestamp.to_bytes(8) + relative.to_bytes(4) for timestamp, relative in entries)
        rows, error = rows_until_fault(write(tmp_path, "00000000000000000010.timeindex", data))
        assert rows == [TimeEntryRow(1_000, 12), TimeEntryRow(1_500, 15)]
        assert "time 1500 of offset 16 follows" in str(error)

    def test_aborted_transactions_are_shown(self, tmp_path: Path) -> None:
        first, second = AbortedTxn(7, 10, 14, 15), AbortedTxn(8, 12, 20, 16)
        path = write(tmp_path, "00000000000000000010.txnindex", first.pack() + second.pack())
        assert rows_of(path) == [AbortedRow(*first), AbortedRow(*second)]
        backwards = write(tmp_path, "00000000000000000010.txnindex", second.pack() + first.pack())
        assert rows_until_fault(backwards)[0] == [AbortedRow(*second)]
        unknown = write(tmp_path, "00000000000000000010.txnindex", b"\0\1" + first.pack()[2:])
        assert "version 1, only 0 is known" in str(rows_until_fault(unknown)[1])

    def test_producer_snapshots_are_shown_and_their_crc_is_checked(self, tmp_path: Path) -> None:
        entry = SnapshotEntry(7, 1, 41, 99, 2, 1_000, 5, -1)
        data = pack_snapshot([entry])
        assert rows_of(write(tmp_path, "00000000000000000100.snapshot", data)) == [ProducerRow(*entry)]
        broken = write(tmp_path, "00000000000000000100.snapshot", data[:-1] + b"\7")
        rows, error = rows_until_fault(broken)
        assert rows == []
        assert "CRC" in str(error)


class TestTextFiles:
    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("leader-epoch-checkpoint", "0\n2\n0 0\n3 17\n", [EpochRow(0, 0), EpochRow(3, 17)]),
            ("leader-epoch-checkpoint", "0\n2\n3 17\n0 0\n", [EpochRow(3, 17), EpochRow(0, 0)]),
            ("recovery-point-offset-checkpoint", "0\n1\nmy-topic 4 17\n", [OffsetRow("my-topic", 4, 17)]),
            ("log-start-offset-checkpoint", "0\n0\n", []),
            ("replication-offset-checkpoint", "", []),
            (
                "partition.metadata",
                f"version: 0\ntopic_id: {uuid_to_text(TOPIC_ID)}",
                [PropertyRow("topic_id", uuid_to_text(TOPIC_ID))],
            ),
            (
                "meta.properties",
                "#\n#Mon Nov 16 01:40:59 UTC 2026\nnode.id=1\nversion=1\n",
                [PropertyRow("node.id", "1"), PropertyRow("version", "1")],
            ),
            (
                ".kafka_cleanshutdown",
                '{"version":0,"brokerEpoch":156}',
                [PropertyRow("version", 0), PropertyRow("brokerEpoch", 156)],
            ),
            (
                "quorum-state",
                '{"leaderId":1,"data_version":1}',
                [PropertyRow("leaderId", 1), PropertyRow("data_version", 1)],
            ),
        ],
    )
    def test_lines_become_rows_as_they_stand(
        self, tmp_path: Path, name: str, content: str, expected: list[Row]
    ) -> None:
        assert rows_of(write(tmp_path, name, content)) == expected

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("leader-epoch-checkpoint", "0\n1\n0 0 0\n", "line 3"),
            ("leader-epoch-checkpoint", "0\n2\n0 0\n", "2 lines announced, there are 1"),
            ("cleaner-offset-checkpoint", "0\n1\nmy-topic x 17\n", "'x' is not a number"),
            ("partition.metadata", "version: 0\ntopic_id: short", "not a topic id"),
            ("meta.properties", "node.id=\\u00", "line 1"),
            ("quorum-state", "{", "not JSON"),
            ("quorum-state", "[1]", "not a JSON object"),
        ],
    )
    def test_a_file_that_cannot_be_right_says_where(self, tmp_path: Path, name: str, content: str, words: str) -> None:
        _, error = rows_until_fault(write(tmp_path, name, content))
        assert words in str(error)
        assert name in str(error)

    def test_bytes_that_are_not_text_are_a_fault_with_their_place(self, tmp_path: Path) -> None:
        path = write(tmp_path, "leader-epoch-checkpoint", b"0\n1\n\xff 0\n")
        with pytest.raises(DamagedFileError, match="damaged at byte 4: not UTF-8"):
            rows_of(path)

    def test_errors_of_checkpoints_name_the_line(self, tmp_path: Path) -> None:
        path = write(tmp_path, "recovery-point-offset-checkpoint", "0\n1\nonly two\n")
        with pytest.raises(CorruptCheckpointError, match="line 3"):
            rows_of(path)


class TestDirectories:
    def test_a_log_directory_is_summed_up_from_its_files(self, tmp_path: Path) -> None:
        orders = tmp_path / "orders-3"
        write(orders, "00000000000000000000.log", batch(0, b"a", b"b"))
        newest = batch(2, b"c") + batch(3, b"d", b"e")
        write(orders, "00000000000000000002.log", newest)
        write(orders, "00000000000000000000.log.deleted", b"x")
        write(orders, "leader-epoch-checkpoint", "0\n1\n5 0\n")
        write(orders, "partition.metadata", f"version: 0\ntopic_id: {uuid_to_text(TOPIC_ID)}")
        write(tmp_path, "log-start-offset-checkpoint", "0\n1\norders 3 1\n")
        write(tmp_path, "replication-offset-checkpoint", "0\n1\norders 3 4\n")
        write(tmp_path, "recovery-point-offset-checkpoint", "0\n1\norders 3 2\n")
        write(tmp_path / "not-a-partition", "notes.txt", "x")
        write(tmp_path / "orders-20", "00000000000000000007.log", b"")
        write(tmp_path / "broken-0", "00000000000000000000.log", b"torn")
        rows = {row.directory: row for row in read_partitions(FS, str(tmp_path))}
        assert list(rows) == ["broken-0", "orders-3", "orders-20"]
        assert rows["orders-3"]._asdict() == {
            "directory": "orders-3",
            "topic_id": uuid_to_text(TOPIC_ID),
            "segments": 2,
            "size_bytes": len(batch(0, b"a", b"b")) + len(newest),
            "log_start_offset": 1,
            "log_end_offset": 5,
            "high_watermark": 4,
            "recovery_point": 2,
            "leader_epoch": 5,
        }
        assert (rows["orders-20"].log_start_offset, rows["orders-20"].log_end_offset) == (7, 7)
        assert rows["broken-0"].log_end_offset is None

    def test_files_are_shown_segment_by_segment(self, tmp_path: Path) -> None:
        names = [
            "00000000000000000000.log",
            "00000000000000000000.index",
            "00000000000000000000.timeindex",
            "00000000000000000009.log",
            "00000000000000000009.index",
            "00000000000000000009.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]
        for name in reversed(names):
            write(tmp_path, name, b"")
        assert files_of_partition(FS, str(tmp_path)) == names

    def test_a_directory_with_other_programs_logs_is_no_partition(self, tmp_path: Path) -> None:
        write(tmp_path, "server.log", b"started")
        assert not is_partition_directory(FS, str(tmp_path))
        write(tmp_path, "00000000000000000000.log", b"")
        assert is_partition_directory(FS, str(tmp_path))

    @pytest.mark.parametrize(
        ("name", "known"),
        [
            ("00000000000000000000.log", True),
            ("00000000000000000000.timeindex.deleted", True),
            ("00000000000000000000.log.swap", True),
            ("bootstrap.checkpoint", True),
            ("meta.properties", True),
            (".lock", False),
            ("notes.txt", False),
        ],
    )
    def test_files_are_known_by_their_names(self, name: str, known: bool) -> None:
        assert is_known_file(f"/data/orders-0/{name}") is known
