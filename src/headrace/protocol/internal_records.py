"""The records that a cluster writes for itself, in the frames that Kafka puts around them.

    __cluster_metadata      key null; value: frame version 1, type, version (unsigned varints), then the message
    __consumer_offsets      key: int16 type, then the key's message (version 0);
    __transaction_state     value: int16 version, then the value's message; null deletes the key
    __share_group_state

Which record types a log has is said by the tables of `apis.py`: METADATA_RECORDS, GROUP_RECORDS and so on.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.protocol.apis import METADATA_RECORDS, RecordType, load_coordinator_record, load_metadata_record
from headrace.protocol.errors import DecodeError
from headrace.protocol.primitives import uvarint_rest
from headrace.protocol.types import Codec, Decoder

FRAME_VERSION: Final = 1  # of the metadata log; 0 was never released
KEY_VERSION: Final = 0  # of every coordinator key: where a version would stand is the record's type

_KEPT_KEYS: Final = 10_000  # encoded: the offsets of a group are written again and again under the same keys

RecordTypes: TypeAlias = Mapping[int, RecordType]

_SHORT: Final = Struct(">h")


class MetadataRecord(NamedTuple):
    type: RecordType
    version: int
    message: Any


class CoordinatorRecord(NamedTuple):
    """`version` and `value` are None for a tombstone."""

    type: RecordType
    key: Any
    version: int | None
    value: Any | None


def decode_metadata_record(value: bytes) -> MetadataRecord:
    """Raises DecodeError."""
    frame_version, position = _read_uvarint(value, 0, "frame_version")
    if frame_version != FRAME_VERSION:
        reason = f"frame version {frame_version}, only {FRAME_VERSION} is known"
        raise DecodeError(reason, field="frame_version", position=0)
    type_id, position = _read_uvarint(value, position, "type")
    version, position = _read_uvarint(value, position, "version")
    record_type = _type_of(METADATA_RECORDS, type_id)
    message = _decode(load_metadata_record(type_id).decode, version, value, position)
    return MetadataRecord(record_type, version, message)


def encode_metadata_record(type_id: int, message: Any, version: int) -> bytes:
    """Raises EncodeError for a value that the version cannot carry."""
    # All three numbers are below 128 and so are their own varints.
    head = bytes((FRAME_VERSION, type_id, version))
    return b"".join((head, *load_metadata_record(type_id).encode[version](message)))


def decode_coordinator_record(types: RecordTypes, key: bytes | None, value: bytes | None) -> CoordinatorRecord:
    """`types` are those of the log: GROUP_RECORDS, TRANSACTION_RECORDS or SHARE_RECORDS. Raises DecodeError."""
    type_id, key = _split_short(key, "type")
    record_type = _type_of(types, type_id)
    key_codec, value_codec = load_coordinator_record(record_type)
    decoded_key = _decode(key_codec.decode, KEY_VERSION, key, _SHORT.size)
    if value is None:
        return CoordinatorRecord(record_type, decoded_key, None, None)
    version, value = _split_short(value, "version")
    return CoordinatorRecord(
        record_type, decoded_key, version, _decode(value_codec.decode, version, value, _SHORT.size)
    )


def encode_coordinator_record(
    record_type: RecordType, key: Any, value: Any | None, version: int | None
) -> tuple[bytes, bytes | None]:
    """Key and value of a record; a value of None deletes the key. Raises EncodeError."""
    encoded_key = _encode_key(record_type, key)
    if value is None or version is None:
        return encoded_key, None
    value_codec = load_coordinator_record(record_type)[1]
    return encoded_key, b"".join((_SHORT.pack(version), *value_codec.encode[version](value)))


@lru_cache(_KEPT_KEYS)
def _encode_key(record_type: RecordType, key: Any) -> bytes:
    key_codec = load_coordinator_record(record_type)[0]
    return _SHORT.pack(record_type.id) + _encode(key_codec, key, KEY_VERSION)


def decode_versioned(decoders: Mapping[int, Decoder[Any]], data: bytes) -> Any:
    """A message that begins with its int16 version, as those of the consumer protocol do. Raises DecodeError."""
    version, data = _split_short(data, "version")
    return _decode(decoders, version, data, _SHORT.size)


def _type_of(types: RecordTypes, type_id: int) -> RecordType:
    try:
        return types[type_id]
    except KeyError:
        raise DecodeError(f"record type {type_id} is not known", field="type", position=0) from None


def _decode(decoders: Mapping[int, Decoder[Any]], version: int, data: bytes, position: int) -> Any:
    decoder = decoders.get(version)
    if decoder is None:
        reason = f"version {version}, known are {min(decoders)} to {max(decoders)}"
        raise DecodeError(reason, field="version", position=0)
    return decoder(data, memoryview(data), position, len(data))


def _encode(codec: Codec, message: Any, version: int) -> bytes:
    return b"".join(codec.encode[version](message))


def _split_short(data: bytes | None, field: str) -> tuple[int, bytes]:
    """The int16 at the start of `data`, and `data`, which is then known to be there."""
    if data is None:
        raise DecodeError("null", field=field, position=0)
    if len(data) < _SHORT.size:
        raise DecodeError(f"{len(data)} bytes left, {_SHORT.size} are needed", field=field, position=0)
    return int(_SHORT.unpack_from(data)[0]), data


def _read_uvarint(data: bytes, position: int, field: str) -> tuple[int, int]:
    if position >= len(data):
        raise DecodeError("the record ends before it", field=field, position=position)
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return uvarint_rest(data, position + 1, len(data), first, field)
