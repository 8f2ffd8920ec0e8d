"""All messages at all versions, records included, against a codec that walks the definitions."""

import struct
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.errors import EncodeError
from tests.support import reference_codec
from tests.support.codec_checks import check_round_trip, codecs, for_each_message
from tests.support.message_values import examples, values_of
from tests.support.messages import Definition, all_messages, message_named, plain
from tests.support.reference_codec import complete

FEW = examples(3)
MANY = examples(10)


def check_versions(definition: Definition, versions: Iterable[int], effort: settings) -> None:
    @effort
    @given(st.fixed_dictionaries({version: values_of(definition, version) for version in versions}))
    def round_trip(values: dict[int, dict[str, Any]]) -> None:
        for version, values_of_version in values.items():
            check_round_trip(definition, version, values_of_version)

    round_trip()


@for_each_message
def test_every_version_has_the_bytes_and_the_values_of_the_reference(definition: Definition) -> None:
    check_versions(definition, definition.versions, FEW)


@pytest.mark.slow
@for_each_message
def test_every_codec_has_the_bytes_and_the_values_of_the_reference_at_length(definition: Definition) -> None:
    """Versions with the same layout are the same functions, and need not be tried for long each."""
    for version in codecs(definition):
        check_versions(definition, [version], MANY)


def test_all_messages_of_kafka_are_there() -> None:
    assert len({str(definition) for definition in all_messages()}) == 267
    assert sum(len(definition.versions) for definition in all_messages()) == 723


@for_each_message
def test_a_new_message_has_the_defaults_of_its_definition(definition: Definition) -> None:
    body = definition.message.body
    assert complete(body, plain(definition.build({}))) == complete(body, {})


def test_unknown_tags_are_kept_beside_known_ones_in_ascending_order() -> None:
    definition = message_named("FetchResponse")
    epoch = {"epoch": 3, "unknown_tags": ((0, b"in the epoch"),)}
    leader = {"leader_id": 2, "leader_epoch": 5, "unknown_tags": ((0, b"in the leader"),)}
    tags = ((3, b"after"), (200, b"far behind"))
    partition = {"diverging_epoch": epoch, "current_leader": leader, "records": b"", "unknown_tags": tags}
    values = {"responses": [{"partitions": [partition]}], "unknown_tags": ((1, b"at the end"),)}
    data = definition.encode(16, definition.build(values))
    assert data == reference_codec.encode(definition.message, 16, values)
    assert complete(definition.message.body, plain(definition.decode(16, data))) == complete(
        definition.message.body, values
    )


def test_a_tag_that_only_a_later_version_knows_is_kept_as_unknown() -> None:
    definition = message_named("FetchRequest")
    partition = {"partition": 4, "replica_directory_id": b"\xaa" * 16}
    values = {"topics": [{"partitions": [partition]}]}
    decoded = definition.decode(16, reference_codec.encode(definition.message, 17, values))
    assert decoded.topics[0].partitions[0].unknown_tags == ((0, b"\xaa" * 16),)
    assert decoded.topics[0].partitions[0].replica_directory_id == bytes(16)


def test_an_unknown_tag_cannot_take_the_number_of_a_known_one() -> None:
    definition = message_named("FetchResponse")
    endpoint = {"node_id": 1, "host": "b1", "port": 9092}
    message = definition.build({"node_endpoints": [endpoint], "unknown_tags": ((0, b"mine"),)})
    with pytest.raises(EncodeError, match="tag 0"):
        definition.encode(16, message)


def test_a_tagged_nullable_struct_carries_its_marker() -> None:
    """As Apache Kafka 4.3.1 writes it: tag 0 of 7 bytes, of which the first says that the struct is there."""
    definition = message_named("ConsumerGroupMemberMetadataValue")
    values = {
        "client_id": "c",
        "client_host": "h",
        "subscribed_topic_names": ["t"],
        "classic_member_metadata": {"session_timeout_ms": 7},
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
    }
    written_by_kafka = bytes.fromhex("00000263026802027400ffffffff0001000701000000070100")
    assert definition.encode(0, definition.build(values)).hex() == written_by_kafka.hex()
    assert plain(definition.decode(0, written_by_kafka))["classic_member_metadata"]["session_timeout_ms"] == 7
    null = written_by_kafka[:-10] + bytes.fromhex("01000100")
    assert definition.encode(0, definition.build(values | {"classic_member_metadata": None})).hex() == null.hex()
    assert definition.decode(0, null).classic_member_metadata is None


def test_records_are_passed_through_and_never_copied() -> None:
    class LogSlice:
        """Something that only has a length, as a range of a segment that will be sent by sendfile."""

        def __len__(self) -> int:
            return 100_000

    definition = message_named("FetchResponse")
    slices = [LogSlice(), LogSlice()]
    partitions = [{"partition_index": index, "records": records} for index, records in enumerate(slices)]
    for version in definition.versions:
        parts = definition.encoder(version)(definition.build({"responses": [{"partitions": partitions}]}))
        assert [part for part in parts if isinstance(part, LogSlice)] == slices
        head = b"".join(part for part in parts if not isinstance(part, LogSlice))
        length = reference_codec.varint(100_001) if version >= 12 else struct.pack(">i", 100_000)
        assert head.count(length) == 2


def test_decoded_records_are_a_view_of_the_frame() -> None:
    definition = message_named("ProduceRequest")
    values = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"batch"}]}]}
    for version in definition.versions[:-1]:
        frame = bytearray(reference_codec.encode(definition.message, version, values))
        view = memoryview(frame)
        request = definition.decoder(version)(frame, view, 0, len(frame))
        records = request.topic_data[0].partition_data[0].records
        assert records.obj is frame
        assert records == b"batch"
