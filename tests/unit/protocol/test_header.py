"""Headers of requests and responses, beside the generated codecs of the same definitions."""

import pytest

from headrace.protocol.apis import APIS
from headrace.protocol.errors import DecodeError, EncodeError
from headrace.protocol.header import (
    API_VERSIONS_KEY,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
    write_request_header,
    write_response_header,
)
from headrace.protocol.messages import headers
from headrace.protocol.messages.headers import RequestHeader, ResponseHeader

TAGS = ((0, b"x"), (300, b""))
HEADERS = [
    RequestHeader(1, 16, 7, "rdkafka"),
    RequestHeader(1, 16, -1, None),
    RequestHeader(1, 16, 2**31 - 1, "", TAGS),
    RequestHeader(1, 11, 7, "rdkafka"),
    RequestHeader(1, 11, 7, None),
    RequestHeader(17, 1, 7, "ä" * 100),
    RequestHeader(999, 9, 7, "who"),
]


def read(data: bytes, start: int = 0) -> tuple[RequestHeader, int]:
    return read_request_header(data, memoryview(data), start, len(data))


@pytest.mark.parametrize("header", HEADERS)
def test_a_request_header_goes_there_and_back_with_the_body_behind_it(header: RequestHeader) -> None:
    data = write_request_header(header)
    assert read(data) == (header, len(data))
    assert read(b"???" + data + b"body", 3) == (header, 3 + len(data))


@pytest.mark.parametrize("header", HEADERS)
def test_a_request_header_is_what_the_definitions_say(header: RequestHeader) -> None:
    version = request_header_version(header.request_api_key, header.request_api_version)
    data = b"".join(headers.encode_request_header[version](header))
    assert write_request_header(header) == data
    assert headers.decode_request_header[version](data, memoryview(data), 0, len(data)) == header


@pytest.mark.parametrize("header", HEADERS)
def test_a_request_header_that_is_cut_is_refused(header: RequestHeader) -> None:
    data = write_request_header(header)
    for end in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            read_request_header(data, memoryview(data), 0, end)
        assert caught.value.position <= end


def test_header_versions_follow_the_api() -> None:
    for key, api in APIS.items():
        for version in range(api.min_version, api.max_version + 1):
            flexible = api.is_flexible(version)
            assert request_header_version(key, version) == (2 if flexible else 1)
            assert response_header_version(key, version) == (1 if flexible and key != API_VERSIONS_KEY else 0)


def test_responses_of_api_versions_have_the_oldest_header_in_every_version() -> None:
    assert [response_header_version(API_VERSIONS_KEY, version) for version in range(10)] == [0] * 10
    assert request_header_version(API_VERSIONS_KEY, 9) == 2


def test_an_unknown_api_has_the_old_header() -> None:
    assert (request_header_version(999, 5), response_header_version(999, 5)) == (1, 0)


def test_the_client_id_keeps_its_two_byte_length_in_the_flexible_header() -> None:
    assert write_request_header(RequestHeader(1, 16, 7, "ab")) == b"\0\x01\0\x10\0\0\0\x07" + b"\0\x02ab" + b"\0"


def test_a_bad_client_id_is_refused() -> None:
    with pytest.raises(DecodeError, match="length -2 in field 'client_id'"):
        read(b"\0\x01\0\x10\0\0\0\x07\xff\xfe\0")
    with pytest.raises(DecodeError, match="not UTF-8") as caught:
        read(b"\0\x01\0\x10\0\0\0\x07\0\x02a\xff\0")
    assert (caught.value.field, caught.value.position) == ("client_id", 11)


@pytest.mark.parametrize(
    ("header", "field"),
    [
        (RequestHeader(1 << 15, 0, 0, None), "request_api_key"),
        (RequestHeader(0, 0, 1 << 31, None), "correlation_id"),
        (RequestHeader(0, 0, 0, "a" * 40_000), "client_id"),
        (RequestHeader(1, 11, 0, None, TAGS), "unknown_tags"),
        (RequestHeader(1, 16, 0, None, ((1, b""), (0, b""))), "unknown_tags"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_with_its_field(header: RequestHeader, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        write_request_header(header)
    assert caught.value.field == field


@pytest.mark.parametrize("version", [0, 1])
def test_a_response_header_goes_there_and_back(version: int) -> None:
    data = write_response_header(7, version)
    assert data == b"".join(headers.encode_response_header[version](ResponseHeader(7)))
    assert read_response_header(b"!" + data + b"body", 1, len(data) + 5, version) == (ResponseHeader(7), 1 + len(data))
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            read_response_header(data, 0, end, version)


def test_tags_of_a_response_header_are_kept() -> None:
    data = b"".join(headers.encode_response_header[1](ResponseHeader(7, TAGS)))
    assert read_response_header(data, 0, len(data), 1) == (ResponseHeader(7, TAGS), len(data))
