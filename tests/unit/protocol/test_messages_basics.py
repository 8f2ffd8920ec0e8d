"""What every generated message promises, shown on a few well-known ones."""

import subprocess
import sys
from typing import Any

import pytest

from headrace.protocol import apis
from headrace.protocol.errors import DecodeError, EncodeError
from headrace.protocol.messages import fetch, group_records, metadata, produce
from headrace.protocol.messages.api_versions import ApiVersionsRequest, decode_request, encode_request
from headrace.protocol.primitives import Shapes, tag_section, uvarint, uvarint_rest
from headrace.protocol.types import ZERO_UUID, uuid_from_text, uuid_to_text

TOPIC_ID = bytes(range(16))


def decode_fetch(data: bytes, version: int = 16) -> fetch.FetchRequest:
    return fetch.decode_request[version](data, memoryview(data), 0, len(data))


def fetch_request(**changes: Any) -> fetch.FetchRequest:
    partitions = [fetch.FetchPartition(partition=3, fetch_offset=1000, partition_max_bytes=1 << 20)]
    topics = [fetch.FetchTopic(topic_id=TOPIC_ID, partitions=partitions)]
    request = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, rack_id="r1")
    return request._replace(forgotten_topics_data=[], **changes)  # arrays are decoded as lists


def encoded(message: Any, table: Any, version: int) -> bytes:
    return b"".join(table[version](message))


# --- modules are loaded when they are asked for


def loaded_messages(program: str) -> set[str]:
    """Names of the message modules that a fresh interpreter has loaded after `program`."""
    prefix = "headrace.protocol.messages."
    report = f"import sys; print(*[name for name in sys.modules if name.startswith({prefix!r})])"
    result = subprocess.run([sys.executable, "-c", f"{program}\n{report}"], check=True, capture_output=True, text=True)
    return {name.removeprefix(prefix) for name in result.stdout.split()}


def test_importing_the_protocol_loads_no_message() -> None:
    assert loaded_messages("import headrace.protocol, headrace.protocol.apis") == set()


def test_loading_an_api_loads_its_module_alone() -> None:
    assert loaded_messages("from headrace.protocol import apis; apis.load(1)") == {"fetch"}


def test_every_api_can_be_loaded_and_speaks_the_versions_that_the_table_says() -> None:
    for key, api in apis.APIS.items():
        if api.module is None:
            continue
        module = apis.load(key)
        versions = list(range(api.min_version, api.max_version + 1))
        for table in (module.decode_request, module.encode_request, module.decode_response, module.encode_response):
            assert sorted(table) == versions, api.name


def test_a_removed_api_keeps_its_name_and_cannot_be_loaded() -> None:
    assert apis.APIS[4].name == "LeaderAndIsr"
    assert apis.APIS[4].listeners == ()
    with pytest.raises(KeyError):
        apis.load(4)
    with pytest.raises(KeyError):
        apis.load(93)


def test_an_unstable_version_is_spoken_but_not_advertised() -> None:
    api = apis.API_BY_NAME["InitProducerId"]
    assert (api.max_version, api.max_stable_version) == (6, 5)
    assert all(api.max_version == api.max_stable_version for api in apis.APIS.values() if api.name != "InitProducerId")


def test_flexible_versions_are_known_without_loading() -> None:
    assert apis.APIS[1].is_flexible(12)
    assert not apis.APIS[1].is_flexible(11)
    assert not apis.API_BY_NAME["SaslHandshake"].is_flexible(1)


def test_metadata_records_are_found_by_their_id() -> None:
    assert [record.name for record in apis.METADATA_RECORDS.values()][:3] == [
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "TopicRecord",
    ]
    codec = apis.load_metadata_record(2)
    record = codec.message(name="orders", topic_id=TOPIC_ID)
    data = encoded(record, codec.encode, 0)
    assert data == b"\x07orders" + TOPIC_ID + b"\0"
    assert codec.decode[0](data, memoryview(data), 0, len(data)) == record
    with pytest.raises(KeyError):
        apis.load_metadata_record(6)


def test_coordinator_records_are_found_by_the_number_in_their_key() -> None:
    key, value = apis.load_coordinator_record(apis.GROUP_RECORDS[1])
    assert (key.message, value.message) == (group_records.OffsetCommitKey, group_records.OffsetCommitValue)
    assert sorted(value.decode) == [0, 1, 2, 3, 4]
    assert apis.load_coordinator_record(apis.TRANSACTION_RECORDS[0])[0].message.__name__ == "TransactionLogKey"
    assert apis.load_coordinator_record(apis.SHARE_RECORDS[1])[1].message.__name__ == "ShareUpdateValue"


# --- messages


def test_every_field_has_the_default_of_the_protocol() -> None:
    assert fetch.FetchRequest() == (
        None, -1, fetch.ReplicaState(-1, -1), 0, 0, 2147483647, 0, 0, -1, (), (), "", (),
    )  # fmt: skip
    assert produce.ProduceRequest().transactional_id is None
    assert metadata.MetadataRequest().allow_auto_topic_creation is True
    assert fetch.PartitionData()._fields[-1] == "unknown_tags"


def test_a_message_without_flexible_versions_has_no_place_for_tags() -> None:
    assert "unknown_tags" not in group_records.OffsetCommitKey._fields


def test_a_request_goes_there_and_back() -> None:
    request = fetch_request()
    data = encoded(request, fetch.encode_request, 16)
    assert decode_fetch(data) == request


def test_a_message_is_read_at_its_place_in_a_larger_buffer() -> None:
    data = encoded(fetch_request(), fetch.encode_request, 16)
    for kind in (bytes, bytearray):
        buffer = kind(b"\xff" * 5 + data + b"\xff" * 7)
        assert fetch.decode_request[16](buffer, memoryview(buffer), 5, 5 + len(data)) == fetch_request()


def test_records_stay_a_slice_of_the_frame() -> None:
    rows = [produce.PartitionProduceData(0, b"batch"), produce.PartitionProduceData(1, None)]
    request = produce.ProduceRequest(None, -1, 100, [produce.TopicProduceData("t", partition_data=rows)])
    buffer = bytearray(encoded(request, produce.encode_request, 9))
    decoded = produce.decode_request[9](buffer, memoryview(buffer), 0, len(buffer))
    records, nothing = (row.records for row in decoded.topic_data[0].partition_data)
    assert nothing is None
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"


@pytest.mark.parametrize("version", [11, 12, 16])
def test_records_to_be_sent_are_not_looked_into(version: int) -> None:
    class Slice:
        def __len__(self) -> int:
            return 1000

    part = Slice()
    rows = [fetch.PartitionData(0, records=part), fetch.PartitionData(1, aborted_transactions=None, records=part)]
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("t", partitions=rows)])
    parts = fetch.encode_response[version](response)
    assert [each for each in parts if not isinstance(each, bytes)] == [part, part]


def test_bytes_are_copied_out_of_the_frame() -> None:
    record = group_records.GroupMetadataValue(
        "consumer", 1, None, None, members=[group_records.MemberMetadata("m", subscription=b"s", assignment=b"a")]
    )
    data = bytearray(encoded(record, group_records.encode_group_metadata_value, 3))
    decoded = group_records.decode_group_metadata_value[3](data, memoryview(data), 0, len(data))
    assert type(decoded.members[0].subscription) is bytes


def test_rows_may_be_given_as_plain_tuples_of_all_fields() -> None:
    named = fetch_request()
    rows: Any = [("", TOPIC_ID, [tuple(named.topics[0].partitions[0])], ())]
    plain = named._replace(topics=rows)
    assert encoded(plain, fetch.encode_request, 16) == encoded(named, fetch.encode_request, 16)


def test_any_byte_but_zero_is_true() -> None:
    data = encoded(metadata.MetadataRequest(topics=None), metadata.encode_request, 12)
    assert data == b"\0\1\0\0"
    decoded = metadata.decode_request[12](b"\0\xff\0\0", memoryview(b"\0\xff\0\0"), 0, 4)
    assert decoded.allow_auto_topic_creation is True


# --- tagged fields


def test_a_tagged_field_at_its_default_is_not_sent() -> None:
    assert encoded(fetch_request(), fetch.encode_request, 16)[-1:] == b"\0"
    equal = fetch.ReplicaState(-1, -1)
    assert encoded(fetch_request(replica_state=equal), fetch.encode_request, 16)[-1:] == b"\0"
    sent = encoded(fetch_request(cluster_id="c", replica_state=fetch.ReplicaState(1, 2)), fetch.encode_request, 16)
    assert sent.endswith(b"\x02" + b"\x00\x02\x02c" + b"\x01\x0d" + b"\0\0\0\x01" + b"\0" * 7 + b"\x02" + b"\0")


def test_unknown_tags_are_kept_and_sent_on_between_known_ones() -> None:
    tags = ((5, b""), (130, b"later"))
    request = fetch_request(cluster_id="c", unknown_tags=tags)
    data = encoded(request, fetch.encode_request, 16)
    assert decode_fetch(data) == request
    assert encoded(decode_fetch(data), fetch.encode_request, 16) == data


def test_unknown_tags_in_a_version_without_tags_are_refused() -> None:
    with pytest.raises(EncodeError, match="versions 9-10 cannot carry") as caught:
        encoded(fetch.FetchRequest(unknown_tags=((0, b""),)), fetch.encode_request, 9)
    assert caught.value.field == "unknown_tags"


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        (b"\x02\x05\x00\x05\x00", "tag 5 after tag 5"),
        (b"\x02\x05\x00\x04\x00", "tag 4 after tag 5"),
        (b"\x01\x00\x03\x02c", "3 bytes under tag 0, 2 are left"),
        (b"\x01\x00\x03\x02cc", "1 bytes are left over in field 'FetchRequest.tag 0'"),
        (b"\x02\x00\x03\x02c\x05\x00", "1 bytes are left over in field 'FetchRequest.tag 0'"),
        (b"\x01\x00\x01\x02c", "1 bytes needed, 0 are left"),
        (b"\x01\x00\x01\x00\x00", "1 bytes are left over"),
        (b"\x03\x00\x01\x00", "the frame ends before a varint"),
        (b"\xff", "the frame ends inside a varint"),
        (b"\xff\xff\xff\xff\xff\x01", "a varint above 32 bits"),
        (b"\xff\xff\xff\xff\x1f", "a varint above 32 bits"),
    ],
)
def test_bad_tagged_fields_are_refused(section: bytes, complaint: str) -> None:
    data = encoded(fetch_request(), fetch.encode_request, 16)[:-1] + section
    with pytest.raises(DecodeError, match=complaint):
        decode_fetch(data)


# --- what a decoder refuses


def test_an_error_names_the_field_and_its_absolute_place() -> None:
    data = encoded(fetch_request(), fetch.encode_request, 16)
    buffer = b"!" * 100 + data[:60] + b"!" * 100
    with pytest.raises(DecodeError) as caught:
        fetch.decode_request[16](buffer, memoryview(buffer), 100, 160)
    # 22 bytes of the request, 17 of the topic; the first row of 33 cannot be there.
    assert (caught.value.field, caught.value.position) == ("topics.partitions", 139)
    with pytest.raises(DecodeError) as caught:
        fetch.decode_request[16](buffer, memoryview(buffer), 100, 110)
    assert (caught.value.field, caught.value.position) == ("max_bytes", 108)


@pytest.mark.parametrize("version", [11, 16])
def test_two_billion_rows_in_a_small_frame_are_refused_at_once(version: int) -> None:
    start = encoded(fetch_request(topics=()), fetch.encode_request, version)
    count = b"\x7f\xff\xff\xff" if version == 11 else b"\xff\xff\xff\xff\x0f"
    size = 21 if version == 16 else 25
    data = start[:size] + count + bytes(20)
    with pytest.raises(DecodeError, match=r"\d{10} rows of at least") as caught:
        decode_fetch(data, version)
    assert caught.value.field == "topics"


def test_null_is_refused_where_it_is_not_allowed() -> None:
    for version, data in ((9, b"\0" + b"\0\1" + bytes(4) + b"\0\0"), (3, b"\xff\xff" + bytes(6) + b"\xff" * 4)):
        with pytest.raises(DecodeError, match="null, which is not allowed") as caught:
            produce.decode_request[version](data, memoryview(data), 0, len(data))
        assert caught.value.field == "topic_data"


def test_a_negative_length_that_is_not_null_is_refused() -> None:
    data = b"\xff\xfe" + bytes(10)
    with pytest.raises(DecodeError, match="length -2 in field 'transactional_id'"):
        produce.decode_request[3](data, memoryview(data), 0, len(data))
    data = b"\xff\xff" + bytes(6) + b"\xff\xff\xff\xfe"
    with pytest.raises(DecodeError, match="length -2 in field 'topic_data'"):
        produce.decode_request[3](data, memoryview(data), 0, len(data))


def test_a_string_must_be_utf_8() -> None:
    data = encoded(ApiVersionsRequest("abc", "1"), encode_request, 3).replace(b"abc", b"a\xffc")
    with pytest.raises(DecodeError, match="not UTF-8") as caught:
        decode_request[3](data, memoryview(data), 0, len(data))
    assert (caught.value.field, caught.value.position) == ("client_software_name", 2)


def test_a_string_of_more_than_32767_bytes_is_refused_both_ways() -> None:
    longest = encoded(ApiVersionsRequest("a" * 32767, "1"), encode_request, 3)
    assert decode_request[3](longest, memoryview(longest), 0, len(longest)).client_software_name == "a" * 32767
    with pytest.raises(EncodeError, match="a string of 32768 bytes") as caught:
        encode_request[3](ApiVersionsRequest("a" * 32768, "1"))
    assert caught.value.field == "client_software_name"
    data = uvarint(32769) + b"a" * 32768 + b"\x021\0"
    with pytest.raises(DecodeError, match="a string of 32768 bytes"):
        decode_request[3](data, memoryview(data), 0, len(data))


def test_nothing_may_be_left_over() -> None:
    data = encoded(fetch_request(), fetch.encode_request, 16)
    with pytest.raises(DecodeError, match="2 bytes are left over in field 'FetchRequest'") as caught:
        decode_fetch(data + b"\0\0")
    assert caught.value.position == len(data)


# --- what an encoder refuses


@pytest.mark.parametrize(
    ("request_", "field", "complaint"),
    [
        (fetch_request(max_wait_ms=1 << 31), "max_wait_ms", "2147483648 is not within"),
        (fetch_request(max_wait_ms="soon"), "max_wait_ms", "'soon' is not int"),
        (fetch_request(rack_id=None), "rack_id", "None is not a string"),
        (fetch_request(rack_id="\ud800"), "rack_id", "not encodable as UTF-8"),
        (fetch_request(topics=None), "topics", "None is no array"),
        (fetch_request(topics=[("a", "b")]), "topics", "is no FetchTopic with its 4 fields"),
        (fetch_request(topics=[fetch.FetchTopic(topic_id=b"short")]), "topics.topic_id", "5 bytes, a uuid has 16"),
        (
            fetch_request(topics=[fetch.FetchTopic(partitions=[fetch.FetchPartition(fetch_offset=1 << 63)])]),
            "topics.partitions.fetch_offset",
            "is not within",
        ),
        (fetch_request(replica_id=5), "replica_id", "which versions 15-16 cannot carry"),
        (fetch_request(unknown_tags=((1, b""), (1, b""))), "unknown_tags", "tag 1 after tag 1"),
        (fetch_request(unknown_tags=((0, b""),), cluster_id="c"), "unknown_tags", "tag 0 after tag 0"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused_with_its_field(
    request_: fetch.FetchRequest, field: str, complaint: str
) -> None:
    with pytest.raises(EncodeError, match=complaint) as caught:
        fetch.encode_request[16](request_)
    assert caught.value.field == field


def test_null_in_a_version_that_does_not_allow_it_is_refused() -> None:
    assert encoded(metadata.MetadataRequest(topics=None), metadata.encode_request, 1) == b"\xff\xff\xff\xff"
    with pytest.raises(EncodeError, match="None, which version 0 cannot carry") as caught:
        metadata.encode_request[0](metadata.MetadataRequest(topics=None))
    assert caught.value.field == "topics"


@pytest.mark.parametrize("record_errors", [None, "text", 5])
def test_null_does_not_pass_as_an_empty_array_on_the_short_way(record_errors: Any) -> None:
    rows = [produce.PartitionProduceResponse(0, record_errors=record_errors)]
    response = produce.ProduceResponse([produce.TopicProduceResponse("t", partition_responses=rows)])
    with pytest.raises(EncodeError) as caught:
        produce.encode_response[9](response)
    assert caught.value.field == "responses.partition_responses.record_errors"


def test_the_short_way_and_the_long_way_write_and_read_the_same_rows() -> None:
    usual = [produce.PartitionProduceResponse(index, 0, 1000, -1, 5) for index in range(3)]
    error = produce.BatchIndexAndErrorMessage(1, "bad")
    rows = [
        *usual,
        usual[0]._replace(error_message=""),
        usual[0]._replace(record_errors=[error]),
        usual[0]._replace(unknown_tags=((7, b"?"),)),
        usual[0]._replace(current_leader=produce.LeaderIdAndEpoch(1, 2)),
    ]
    for chosen in (usual, rows, rows[3:4], rows[4:5], rows[5:6], rows[6:7], usual[:1]):
        response = produce.ProduceResponse([produce.TopicProduceResponse("t", partition_responses=chosen)])
        data = encoded(response, produce.encode_response, 10)
        again = produce.decode_response[10](data, memoryview(data), 0, len(data))
        got = [row._replace(record_errors=tuple(row.record_errors)) for row in again.responses[0].partition_responses]
        assert got == [row._replace(record_errors=tuple(row.record_errors)) for row in chosen]


# --- small parts


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 0xFFFFFFFF])
def test_a_varint_goes_there_and_back(value: int) -> None:
    data = uvarint(value)
    assert len(data) == max(1, -(-value.bit_length() // 7))
    if value > 127:
        assert uvarint_rest(data, 1, len(data), data[0], "f") == (value, len(data))


def test_tags_are_written_in_ascending_order() -> None:
    assert tag_section(((3, b"c"),), ((1, b"a"), (200, b""))) == b"\x03" + b"\x01\x01a" + b"\x03\x01c" + b"\xc8\x01\x00"


def test_shapes_of_many_numbers_are_not_kept() -> None:
    shapes = Shapes("i", "B", "pack")
    assert shapes[2](1, 2, 3) == b"\0\0\0\x01\0\0\0\x02\x03"
    assert shapes[1000](*range(1001 - 1), 5)[-1] == 5
    assert list(shapes) == [2]


def test_a_uuid_is_22_characters_to_people() -> None:
    assert uuid_to_text(ZERO_UUID) == "A" * 22
    assert uuid_to_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    for uuid in (TOPIC_ID, b"\xff" * 16, ZERO_UUID):
        assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 24, "A" * 21 + "B", "A" * 21 + "+", "ä" * 22, "A" * 20 + "=="]
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid"):
        uuid_from_text(text)


def test_only_16_bytes_are_a_uuid() -> None:
    with pytest.raises(ValueError, match="a uuid has 16 bytes, not 15"):
        uuid_to_text(bytes(15))
