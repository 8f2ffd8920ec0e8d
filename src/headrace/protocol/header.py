"""What stands before every request and response.

Which header version a message has follows from its API and version: flexible versions have tagged fields in the header,
too. Two exceptions are part of the protocol. The client id keeps its old two-byte length in every version, so that a
broker can read it before it knows anything else. Responses of ApiVersions have the oldest header in every version, so
that a client can read the answer to a version that the broker did not know.

The generated decoders demand that a message fills its bytes; a header is followed by the body. So these are by hand.
"""

from struct import Struct
from typing import Final

from headrace.protocol.apis import APIS
from headrace.protocol.blame import UNENCODABLE, blame
from headrace.protocol.errors import DecodeError
from headrace.protocol.messages.headers import RequestHeader, ResponseHeader
from headrace.protocol.primitives import absent, cut, new, not_text, read_tags, tag_section
from headrace.protocol.types import Buffer, UnknownTags

API_VERSIONS_KEY: Final = 18
# Kafka has no tags in request headers yet. How many rows a body may have is judged before it is decoded, and the header
# comes before that: without a limit of their own its tags could become gigabytes.
MAX_TAGS_BYTES: Final = 64 * 1024
_NEVER: Final = 1 << 15
_FLEXIBLE_SINCE: Final = {
    key: _NEVER if api.flexible_since is None else api.flexible_since for key, api in APIS.items()
}
_REQUEST: Final = Struct(">hhih")
_FIXED: Final = "request_api_key:2 request_api_version:2 correlation_id:4 client_id:2"
_read_request = _REQUEST.unpack_from
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = Struct(">ix")


def request_header_version(api_key: int, api_version: int) -> int:
    """1 or 2; 1 for an API that is not known."""
    return 2 if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1; always 0 for ApiVersions."""
    return 1 if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER) and api_key != API_VERSIONS_KEY else 0


def read_request_header(
    buffer: Buffer,
    view: memoryview,  # noqa: ARG001 - called like every decoder
    position: int,
    end: int,
) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body. Raises DecodeError."""
    p = position + 10
    if p > end:
        raise cut("", _FIXED, position, end)
    api_key, api_version, correlation_id, n = _read_request(buffer, position)
    client_id = None
    if n >= 0:
        q = p + n
        if q > end:
            raise cut("", "client_id:n", p, end, n)
        try:
            client_id = buffer[p:q].decode()
        except UnicodeDecodeError as error:
            raise not_text(error, "client_id", p) from None
        p = q
    elif n != -1:
        raise DecodeError(f"length {n}", field="client_id", position=p)
    tags: UnknownTags = ()
    if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER):
        if p >= end:
            raise cut("", "tags:1", p, end)
        t = buffer[p]
        p += 1
        if t:
            tags, p = read_tags(buffer, p, min(end, p + MAX_TAGS_BYTES), t, "RequestHeader")
    return new(RequestHeader, (api_key, api_version, correlation_id, client_id, tags)), p


def write_request_header(header: RequestHeader) -> bytes:
    """Raises EncodeError if a field does not fit."""
    try:
        api_key, api_version, correlation_id, client_id, tags = header
        client = b"" if client_id is None else client_id.encode()
        head = _REQUEST.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(client))
        if request_header_version(api_key, api_version) == 2:
            return head + client + (tag_section(tags) if tags else b"\0")
        if tags:
            raise absent("unknown_tags", "version 1")
    except UNENCODABLE as error:
        raise blame(header, error)  # noqa: B904 - the error itself, or one that names the field
    return head + client


def read_response_header(buffer: Buffer, position: int, end: int, header_version: int) -> tuple[ResponseHeader, int]:
    """The header of a response, its version as `response_header_version` says, and the position of the body."""
    p = position + 4 + header_version
    if p > end:
        raise cut("", "correlation_id:4 tags:1" if header_version else "correlation_id:4", position, end)
    (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
    tags: UnknownTags = ()
    if header_version and buffer[p - 1]:
        tags, p = read_tags(buffer, p, end, buffer[p - 1], "ResponseHeader")
    return new(ResponseHeader, (correlation_id, tags)), p


def write_response_header(correlation_id: int, header_version: int) -> bytes:
    return (_CORRELATION_ID_AND_NO_TAGS if header_version else _CORRELATION_ID).pack(correlation_id)
