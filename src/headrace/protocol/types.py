"""The vocabulary of the generated messages: scalar types as they stand on the wire, and what a codec is.

A message is a NamedTuple. Its annotations name the wire type (`Int16`, `Uuid`), which is a plain `int` or `bytes` to
Python and to the type checker; the range behind the name is read only when a value could not be encoded, to say which
one it was.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar


class IntRange(NamedTuple):
    """What an integer on the wire can hold, both ends inclusive."""

    lowest: int
    highest: int


class ByteCount(NamedTuple):
    """How long a bytes value on the wire must be."""

    size: int


Int8: TypeAlias = Annotated[int, IntRange(-(2**7), 2**7 - 1)]
Int16: TypeAlias = Annotated[int, IntRange(-(2**15), 2**15 - 1)]
Int32: TypeAlias = Annotated[int, IntRange(-(2**31), 2**31 - 1)]
Int64: TypeAlias = Annotated[int, IntRange(-(2**63), 2**63 - 1)]
Uint16: TypeAlias = Annotated[int, IntRange(0, 2**16 - 1)]
Uint32: TypeAlias = Annotated[int, IntRange(0, 2**32 - 1)]
Uuid: TypeAlias = Annotated[bytes, ByteCount(16)]

ZERO_UUID: Final = bytes(16)

# Record batches: a memoryview into the frame when decoded; to encode, anything with a length, also a slice of a log
# file that never enters this process. One name for both ways, so the checker must take it as it comes.
Records: TypeAlias = Any

# What an encoder returns a list of: bytes, except where a message carries records, which pass through as they are.
Part: TypeAlias = Any

# Tagged fields that the definitions do not know, in ascending order: kept, and sent on when encoded again.
UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]

# `bytes` and `bytearray` are indexed faster than a memoryview, which in turn is sliced without a copy: decoders take
# both faces of one receive buffer.
Buffer: TypeAlias = bytes | bytearray

Message = TypeVar("Message")

# decoder(buffer, view, position, end): the message that fills position..end exactly. `view` is a memoryview of
# `buffer`; bytes from `end` on belong to the next frame and are not looked at. Raises DecodeError and nothing else.
Decoder: TypeAlias = Callable[[Buffer, memoryview, int, int], Message]

# encoder(message): the bytes in parts, for one gathered write. Raises EncodeError for a value that does not fit.
Encoder: TypeAlias = Callable[[Message], list[Part]]


class Codec(NamedTuple):
    """One message outside of requests: its class, and how to read and write each version."""

    message: type[Any]
    decode: Mapping[int, Decoder[Any]]
    encode: Mapping[int, Encoder[Any]]


def uuid_to_text(uuid: bytes) -> str:
    """The 22 characters that Kafka prints for a uuid: base64url without padding."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid)[:22].decode()


@lru_cache(maxsize=1024)  # ten thousand partitions of a few topics are opened at once
def uuid_from_text(text: str) -> bytes:
    """The uuid behind Kafka's 22 characters."""
    try:
        # `altchars` would be ignored on foreign characters, so the alphabet is checked by encoding back.
        uuid = urlsafe_b64decode(text + "==")
    except ValueError:
        uuid = b""
    if len(uuid) != 16 or uuid_to_text(uuid) != text:
        raise ValueError(f"{text!r} is not a uuid: 22 characters of base64url are expected")
    return uuid
