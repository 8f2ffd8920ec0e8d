"""Where varints take another byte, strings become too long, and tags are out of order."""

from typing import Any, Final

import pytest

from headrace.protocol.apis import load
from headrace.protocol.errors import DecodeError, EncodeError
from tests.support.codec_checks import check_round_trip
from tests.support.messages import message_named
from tests.support.reference_codec import varint

PRODUCE: Final = message_named("ProduceRequest")
API_VERSIONS: Final = message_named("ApiVersionsRequest")  # version 3: two strings and the tags
SHORT_NAMES: Final = b"\x02a\x02b"

# A compact length is one above the size: the last size of one length, and the first of the next.
EDGES: Final = [126, 127, 128, 2**14 - 2, 2**14 - 1, 2**14, 2**21 - 2, 2**21 - 1, 2**21]


def decode_api_versions(data: bytes) -> Any:
    return API_VERSIONS.decode(3, data)


@pytest.mark.parametrize("size", EDGES)
def test_records_of_any_size_have_a_length_of_as_many_bytes_as_it_needs(size: int) -> None:
    records = b"\x5a" * size
    values = {"topic_data": [{"name": "t", "partition_data": [{"index": 1, "records": records}]}]}
    check_round_trip(PRODUCE, 9, values)
    parts = PRODUCE.encoder(9)(PRODUCE.build(values))
    place = next(place for place, part in enumerate(parts) if part is records)
    assert parts[place - 1].endswith(varint(size + 1))


@pytest.mark.parametrize("size", [126, 127, 2**14 - 2, 2**14 - 1, 2**14, 2**15 - 2, 2**15 - 1])
def test_a_string_may_have_up_to_32767_bytes(size: int) -> None:
    check_round_trip(API_VERSIONS, 3, {"client_software_name": "x" * size})
    check_round_trip(message_named("FindCoordinatorRequest"), 0, {"key": "x" * size})


def test_a_longer_string_is_refused_though_its_length_could_be_said() -> None:
    with pytest.raises(DecodeError, match="a string of 32768 bytes, 32767 are allowed in field 'client_software_name'"):
        decode_api_versions(varint(2**15 + 1) + b"x" * 2**15 + b"\x02b\x00")
    with pytest.raises(EncodeError, match="32768 bytes, 32767 are allowed"):
        API_VERSIONS.encode(3, API_VERSIONS.build({"client_software_name": "x" * 2**15}))


def test_a_varint_may_be_longer_than_it_needs_to_be() -> None:
    """Kafka takes them, too: a length can be written before what follows it, with room to spare."""
    assert decode_api_versions(b"\x82\x80\x80\x80\x00a\x82\x00b\x80\x00") == decode_api_versions(SHORT_NAMES + b"\x00")


@pytest.mark.parametrize("length", ["ff ff ff ff 1f", "80 80 80 80 10", "80 80 80 80 80 00", "ff ff ff ff ff ff"])
def test_a_varint_above_32_bits_is_refused(length: str) -> None:
    with pytest.raises(DecodeError, match="a varint above 32 bits in field 'client_software_name'"):
        decode_api_versions(bytes.fromhex(length) + b"a" * 20)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_varint_that_the_frame_cuts_off_is_refused(cut: int) -> None:
    buffer = b"\xff\xff\xff\xff\x07" + b"a" * 50
    with pytest.raises(DecodeError, match="client_software_name"):
        API_VERSIONS.decoder(3)(buffer, memoryview(buffer), 0, cut)


@pytest.mark.parametrize("tags", ["02 05 00 05 00", "02 07 00 05 00", "03 05 00 07 00 06 00"])
def test_tags_that_do_not_ascend_are_refused(tags: str) -> None:
    with pytest.raises(DecodeError, match="tags ascend"):
        decode_api_versions(SHORT_NAMES + bytes.fromhex(tags))


@pytest.mark.parametrize("tags", [((5, b""), (5, b"")), ((7, b""), (5, b""))])
def test_tags_that_do_not_ascend_are_not_written(tags: tuple[tuple[int, bytes], ...]) -> None:
    with pytest.raises(EncodeError, match="tags ascend"):
        API_VERSIONS.encode(3, API_VERSIONS.build({"unknown_tags": tags}))


@pytest.mark.parametrize("count", [1, 126, 127, 128, 129, 300])
def test_any_number_of_tags_is_kept(count: int) -> None:
    tags = tuple((tag, bytes(tag % 3)) for tag in range(count))
    check_round_trip(API_VERSIONS, 3, {"unknown_tags": tags})


@pytest.mark.parametrize("size", [126, 127, 128, 2**14 - 1, 2**14])
def test_a_tag_may_be_long(size: int) -> None:
    check_round_trip(API_VERSIONS, 3, {"unknown_tags": ((2**31 - 2, b"\x5a" * size),)})


@pytest.mark.parametrize("tags", ["01 05 03 00 00", "01 05", "01", "01 80", "02 05 00", "ff ff ff ff 0f"])
def test_tags_that_claim_more_than_is_there_are_refused(tags: str) -> None:
    with pytest.raises(DecodeError):
        decode_api_versions(SHORT_NAMES + bytes.fromhex(tags))


def test_a_known_tag_must_fill_its_size() -> None:
    definition = message_named("FetchRequest")
    good = definition.encode(16, definition.build({"cluster_id": "abc"}))
    assert good.endswith(b"\x01\x00\x04\x04abc")
    assert definition.decode(16, good).cluster_id == "abc"
    for wrong in (b"\x01\x00\x05\x04abc\x00", b"\x01\x00\x03\x04abc", b"\x01\x00\x04\x03abc"):
        with pytest.raises(DecodeError):
            definition.decode(16, good[: -len(b"\x01\x00\x04\x04abc")] + wrong)


def test_a_null_array_may_have_a_count_longer_than_it_needs_to_be() -> None:
    frame = bytes.fromhex("808080008000")
    request = load(35).decode_request[5](frame, memoryview(frame), 0, len(frame))
    assert request.topics is None
