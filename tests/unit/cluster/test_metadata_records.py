"""The frame around metadata records: Kafka's bytes, the right layout for the cluster, no way to break the decoder."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.metadata_records import MetadataRecord, decode_record, encode_record, record_version
from headrace.protocol.errors import DecodeError
from headrace.protocol.messages import metadata_records as messages
from tests.support.message_values import values_of
from tests.support.messages import Definition, all_messages, plain

DEFINITIONS = [definition for definition in all_messages() if definition.module_name == "metadata_records"]
KINDS = [(definition, version) for definition in DEFINITIONS for version in definition.versions]


def test_a_topic_record_has_the_bytes_that_kafka_writes() -> None:
    record = messages.TopicRecord(name="foo", topic_id=bytes(range(16)))
    #                              frame type version, compact string, uuid, no tags
    assert encode_record(record) == b"\x01\x02\x00" + b"\x04foo" + bytes(range(16)) + b"\x00"


def test_every_record_type_of_the_definitions_is_known() -> None:
    for definition in DEFINITIONS:
        record = definition.build({})
        assert plain(decode_record(encode_record(record))) == plain(record)


@pytest.mark.parametrize(("definition", "version"), KINDS, ids=[f"{each}-{version}" for each, version in KINDS])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_record_of_any_version_comes_back_as_it_was(
    definition: Definition, version: int, data: st.DataObject
) -> None:
    record = definition.build(data.draw(values_of(definition, version)))
    encoded = encode_record(record, version)
    assert encoded[:1] == b"\x01"
    assert plain(decode_record(encoded)) == plain(record)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.binary(max_size=80), st.binary(max_size=60).map(lambda tail: b"\x01\x03\x02" + tail)))
def test_any_bytes_are_a_record_or_a_decode_error(value: bytes) -> None:
    try:
        record = decode_record(value)
    except DecodeError:
        return
    assert isinstance(record, tuple)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "ends before it in field 'frame_version'"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x06\x00", "record type 6 is not known"),
        (b"\x01\x80\x80\x80\x80\x80\x01\x00", "above 32 bits"),
        (b"\x01\x02\x07", "version 7, known are 0 to 0"),
        (b"\x01\x14\x00\x00\x00", "in field"),  # a no-op with bytes after its end
    ],
)
def test_a_broken_frame_is_refused_by_name(value: bytes, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_record(value)


@pytest.mark.parametrize(
    ("record", "by_metadata_version"),
    [
        (messages.RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (messages.PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (messages.PartitionChangeRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (messages.TopicRecord(), {7: 0, 30: 0}),
        (messages.BrokerRegistrationChangeRecord(fenced=1), {7: 0, 30: 0}),
        (messages.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {7: 1, 30: 1}),
        (messages.BrokerRegistrationChangeRecord(log_dirs=[bytes(16)]), {17: 2, 30: 2}),
        (messages.BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), {30: 3}),
    ],
)
def test_the_layout_that_is_written_follows_metadata_version(
    record: MetadataRecord, by_metadata_version: dict[int, int]
) -> None:
    assert {level: record_version(record, level) for level in by_metadata_version} == by_metadata_version
