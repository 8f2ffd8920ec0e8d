"""The frames around the records that a cluster writes for itself, byte by byte."""

import pytest

from headrace.protocol.apis import GROUP_RECORDS, METADATA_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import (
    decode_coordinator_record,
    decode_metadata_record,
    decode_versioned,
    encode_coordinator_record,
    encode_metadata_record,
)
from headrace.protocol.messages.consumer_protocol import decode_consumer_protocol_assignment
from headrace.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from headrace.protocol.messages.metadata_records import FeatureLevelRecord, NoOpRecord

# frame version 1, type 12, version 0; "group.version" (length plus one), level 1, no tags
FEATURE_LEVEL = bytes([1, 12, 0, 14]) + b"group.version" + b"\0\1\0"
# type 1; "billing", "orders", partition 3
OFFSET_COMMIT_KEY = b"\0\1\0\7billing\0\6orders\0\0\0\3"
# version 1; offset 42, metadata "", commit timestamp 7, expire timestamp -1
OFFSET_COMMIT_VALUE = b"\0\1" + (42).to_bytes(8) + b"\0\0" + (7).to_bytes(8) + b"\xff" * 8


def test_a_metadata_record_is_framed_as_kafka_frames_it() -> None:
    record = FeatureLevelRecord(name="group.version", feature_level=1)
    assert encode_metadata_record(12, record, 0) == FEATURE_LEVEL
    assert decode_metadata_record(FEATURE_LEVEL) == (METADATA_RECORDS[12], 0, record)
    assert encode_metadata_record(20, NoOpRecord(), 0) == b"\1\x14\0\0"


def test_a_coordinator_record_is_framed_as_kafka_frames_it() -> None:
    key = OffsetCommitKey(group="billing", topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, metadata="", commit_timestamp=7)
    assert encode_coordinator_record(GROUP_RECORDS[1], key, value, 1) == (OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE)
    decoded = decode_coordinator_record(GROUP_RECORDS, OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE)
    assert decoded == (GROUP_RECORDS[1], key, 1, value)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    key = GroupMetadataKey(group="billing")
    assert encode_coordinator_record(GROUP_RECORDS[2], key, None, None) == (b"\0\2\0\7billing", None)
    assert decode_coordinator_record(GROUP_RECORDS, b"\0\2\0\7billing", None) == (GROUP_RECORDS[2], key, None, None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "frame_version"),
        (b"\0\2\0", "frame version 0, only 1 is known"),
        (b"\1", "'type'"),
        (b"\1\2", "'version'"),
        (b"\1\x1d\0\0", "record type 29 is not known"),
        (b"\1\xff\xff\xff\xff\x7f\0", "a varint above 32 bits"),
        (b"\1\x0c\7\0", "version 7, known are 0 to 0"),
        (FEATURE_LEVEL[:-1], "at byte"),
        (FEATURE_LEVEL + b"\0", "at byte"),
    ],
)
def test_a_metadata_record_that_cannot_be_right_is_refused(value: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        decode_metadata_record(value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (None, None, "null in field 'type'"),
        (b"\0", None, "1 bytes left, 2 are needed"),
        (b"\0\x63", None, "record type 99 is not known"),
        (OFFSET_COMMIT_KEY[:-1], None, "at byte"),
        (OFFSET_COMMIT_KEY, b"", "in field 'version'"),
        (OFFSET_COMMIT_KEY, b"\0\7", "version 7, known are 0 to 4"),
        (OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE + b"\0", "at byte"),
    ],
)
def test_a_coordinator_record_that_cannot_be_right_is_refused(
    key: bytes | None, value: bytes | None, words: str
) -> None:
    with pytest.raises(DecodeError, match=words):
        decode_coordinator_record(GROUP_RECORDS, key, value)


def test_the_three_coordinators_have_types_of_their_own() -> None:
    names = [types[0].name for types in (GROUP_RECORDS, TRANSACTION_RECORDS, SHARE_RECORDS)]
    assert names == ["LegacyOffsetCommit", "TransactionLog", "ShareSnapshot"]


def test_bytes_that_begin_with_their_version_are_decoded_by_it() -> None:
    assignment = decode_versioned(decode_consumer_protocol_assignment, b"\0\1" + b"\0\0\0\0" + b"\xff\xff\xff\xff")
    assert (assignment.assigned_partitions, assignment.user_data) == ([], None)
    with pytest.raises(DecodeError, match="version 9, known are"):
        decode_versioned(decode_consumer_protocol_assignment, b"\0\x09")
