"""The records of the metadata log as bytes: Kafka's frame around the generated messages.

The value of a record in `__cluster_metadata` is three unsigned varints (frame version, always 1; the type of the
record; the version of its layout) and then the message. The key is null. Which layout is written follows from the
cluster's `metadata.version`, so that every member that joined can read it; which layouts are read does not: all of
them.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from headrace.protocol.apis import METADATA_RECORDS, load_metadata_record
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import FRAME_VERSION
from headrace.protocol.messages import metadata_records as messages
from headrace.protocol.types import Codec

MetadataRecord: TypeAlias = (
    messages.RegisterBrokerRecord
    | messages.UnregisterBrokerRecord
    | messages.TopicRecord
    | messages.PartitionRecord
    | messages.ConfigRecord
    | messages.PartitionChangeRecord
    | messages.FenceBrokerRecord
    | messages.UnfenceBrokerRecord
    | messages.RemoveTopicRecord
    | messages.DelegationTokenRecord
    | messages.UserScramCredentialRecord
    | messages.FeatureLevelRecord
    | messages.ClientQuotaRecord
    | messages.ProducerIdsRecord
    | messages.BrokerRegistrationChangeRecord
    | messages.AccessControlEntryRecord
    | messages.RemoveAccessControlEntryRecord
    | messages.NoOpRecord
    | messages.ZkMigrationStateRecord
    | messages.RemoveUserScramCredentialRecord
    | messages.BeginTransactionRecord
    | messages.EndTransactionRecord
    | messages.AbortTransactionRecord
    | messages.RemoveDelegationTokenRecord
    | messages.RegisterControllerRecord
    | messages.ClearElrRecord
)

_CODECS: Final[Mapping[int, Codec]] = {type_id: load_metadata_record(type_id) for type_id in METADATA_RECORDS}
_TYPE_IDS: Final[Mapping[type[Any], int]] = {codec.message: type_id for type_id, codec in _CODECS.items()}

# (first metadata.version, layout) in descending order, for the records whose layout follows metadata.version.
_LAYOUTS: Final[Mapping[type[Any], tuple[tuple[int, int], ...]]] = {
    messages.RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    messages.PartitionRecord: ((23, 2), (17, 1), (7, 0)),
    messages.PartitionChangeRecord: ((23, 2), (17, 1), (7, 0)),
}


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """The layout in which `record` is written in a cluster of this metadata.version."""
    if isinstance(record, messages.BrokerRegistrationChangeRecord):
        return _registration_change_version(record)
    for since, version in _LAYOUTS.get(type(record), ()):
        if metadata_version >= since:
            return version
    return 0


def _registration_change_version(record: messages.BrokerRegistrationChangeRecord) -> int:
    # The decision that fills a field already asked whether metadata.version allows it; the oldest layout that has the
    # field is written, as Kafka does.
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value of the record in the log; in the newest layout if none is given. Raises EncodeError."""
    type_id = _TYPE_IDS[type(record)]
    encoders = _CODECS[type_id].encode
    if version is None:
        version = max(encoders)
    # All three numbers are below 128 and so are their own varints.
    return b"".join((bytes((FRAME_VERSION, type_id, version)), *encoders[version](record)))


def decode_record(value: bytes) -> MetadataRecord:
    """The record behind the value of a record of the log. Raises DecodeError, and nothing else, for any other bytes."""
    frame_version, place = _read_unsigned(value, 0, "frame_version")
    if frame_version != FRAME_VERSION:
        raise DecodeError(
            f"frame version {frame_version} instead of {FRAME_VERSION}", field="frame_version", position=0
        )
    type_id, after_type = _read_unsigned(value, place, "type")
    codec = _CODECS.get(type_id)
    if codec is None:
        raise DecodeError(f"unknown record type {type_id}", field="type", position=place)
    version, start = _read_unsigned(value, after_type, "version")
    decoder = codec.decode.get(version)
    if decoder is None:
        reason = f"{codec.message.__name__} has no version {version}, only {min(codec.decode)}-{max(codec.decode)}"
        raise DecodeError(reason, field="version", position=after_type)
    record: MetadataRecord = decoder(value, memoryview(value), start, len(value))
    return record


def _read_unsigned(value: bytes, place: int, field: str) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and where it ends."""
    number = 0
    for count, byte in enumerate(value[place : place + 5]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, place + count + 1
    raise DecodeError("a number that does not end", field=field, position=place)
