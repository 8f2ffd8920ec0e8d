"""Records of internal topics are shown in words."""

from pathlib import Path

from headrace.log.inspect import read_file
from headrace.log.inspect.decode import decoder_for
from headrace.log.inspect.rows import RecordRow
from headrace.protocol.apis import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from headrace.protocol.internal_records import encode_coordinator_record, encode_metadata_record
from headrace.protocol.messages import group_records, metadata_records, share_records, transaction_records
from headrace.protocol.records import ControlType, NewRecord, build_batch, build_end_transaction_marker, control_key
from headrace.protocol.types import uuid_to_text
from tests.support.inspected import FS, SEGMENT, TOPIC_ID, write


class TestDecoding:
    def decoded(self, directory: Path, name: str, data: bytes, mode: str = "auto") -> list[RecordRow]:
        path = str(write(directory, name, data))
        rows = read_file(FS, path, decoder=decoder_for(mode, path))
        return [row for row in rows if isinstance(row, RecordRow)]

    def metadata_batch(self) -> bytes:
        topic = metadata_records.TopicRecord(name="orders", topic_id=TOPIC_ID)
        value = encode_metadata_record(2, topic, 0)
        return bytes(build_batch([NewRecord(0, None, value)]))

    def test_metadata_records_are_known_by_their_directory(self, tmp_path: Path) -> None:
        (row,) = self.decoded(tmp_path / "__cluster_metadata-0", SEGMENT, self.metadata_batch())
        assert row.decoded is not None
        assert row.decoded.type == "TopicRecord"
        assert row.decoded.value == {"name": "orders", "topic_id": uuid_to_text(TOPIC_ID)}

    def test_a_snapshot_of_the_metadata_is_known_by_its_suffix(self, tmp_path: Path) -> None:
        (row,) = self.decoded(tmp_path, "00000000000000000065-0000000001.checkpoint", self.metadata_batch())
        assert row.decoded is not None
        assert row.decoded.type == "TopicRecord"

    def test_other_topics_are_decoded_only_when_asked(self, tmp_path: Path) -> None:
        (row,) = self.decoded(tmp_path / "orders-0", SEGMENT, self.metadata_batch())
        assert row.decoded is None
        (row,) = self.decoded(tmp_path / "orders-0", SEGMENT, self.metadata_batch(), mode="metadata")
        assert row.decoded is not None
        assert row.decoded.type == "TopicRecord"
        (row,) = self.decoded(tmp_path / "__cluster_metadata-0", SEGMENT, self.metadata_batch(), mode="none")
        assert row.decoded is None

    def test_committed_offsets_and_their_tombstones_are_decoded(self, tmp_path: Path) -> None:
        commit = GROUP_RECORDS[1]
        key = group_records.OffsetCommitKey(group="billing", topic="orders", partition=3)
        value = group_records.OffsetCommitValue(offset=42, metadata="note", commit_timestamp=7, topic_id=TOPIC_ID)
        pairs = [encode_coordinator_record(commit, key, value, 4), encode_coordinator_record(commit, key, None, None)]
        data = bytes(build_batch([NewRecord(0, *pair) for pair in pairs]))
        first, second = (row.decoded for row in self.decoded(tmp_path / "__consumer_offsets-7", SEGMENT, data))
        assert first is not None
        assert second is not None
        assert (first.type, first.version) == ("OffsetCommit", 4)
        assert first.key == {"group": "billing", "topic": "orders", "partition": 3}
        assert first.value is not None
        assert first.value["offset"] == 42
        assert first.value["topic_id"] == uuid_to_text(TOPIC_ID)
        assert (second.key, second.version, second.value) == (first.key, None, None)

    def test_transactions_and_share_state_are_decoded(self, tmp_path: Path) -> None:
        key: object = transaction_records.TransactionLogKey(transactional_id="mover")
        value: object = transaction_records.TransactionLogValue(producer_id=9, transaction_status=1)
        pair = encode_coordinator_record(TRANSACTION_RECORDS[0], key, value, 1)
        data = bytes(build_batch([NewRecord(0, *pair)]))
        (row,) = self.decoded(tmp_path / "__transaction_state-0", SEGMENT, data)
        assert row.decoded is not None
        assert row.decoded.key == {"transactional_id": "mover"}
        assert row.decoded.value is not None
        assert row.decoded.value["producer_id"] == 9

        key = share_records.ShareSnapshotKey(group_id="sharers", topic_id=TOPIC_ID, partition=1)
        value = share_records.ShareSnapshotValue(start_offset=5)
        pair = encode_coordinator_record(SHARE_RECORDS[0], key, value, 0)
        data = bytes(build_batch([NewRecord(0, *pair)]))
        (row,) = self.decoded(tmp_path / "__share_group_state-0", SEGMENT, data)
        assert row.decoded is not None
        assert row.decoded.key == {"group_id": "sharers", "topic_id": uuid_to_text(TOPIC_ID), "partition": 1}

    def test_control_records_are_decoded_in_any_topic(self, tmp_path: Path) -> None:
        marker = build_end_transaction_marker(
            commit=False, coordinator_epoch=6, producer_id=1, producer_epoch=0, timestamp=5
        )
        footer = build_batch(
            [NewRecord(0, control_key(ControlType.SNAPSHOT_FOOTER), b"\0\0\0")], base_offset=1, control=True
        )
        rows = self.decoded(tmp_path / "orders-0", SEGMENT, bytes(marker + footer))
        assert [row.decoded for row in rows if row.decoded] == [row.decoded for row in rows]
        assert [(row.decoded.type, row.decoded.value) for row in rows if row.decoded] == [
            ("ABORT", {"coordinator_epoch": 6}),
            ("SNAPSHOT_FOOTER", {"version": 0}),
        ]

    def test_a_record_that_cannot_be_decoded_keeps_its_bytes_and_says_why(self, tmp_path: Path) -> None:
        data = bytes(
            build_batch([NewRecord(0, None, b"\1\x1d\0\0"), NewRecord(0, None, b"\1\2\0"), NewRecord(0, None, None)])
        )
        rows = self.decoded(tmp_path / "__cluster_metadata-0", SEGMENT, data)
        errors = [row.decoded.error for row in rows if row.decoded and row.decoded.error]
        assert len(errors) == 3
        assert "record type 29 is not known" in errors[0]
        assert rows[0].value == b"\1\x1d\0\0"
