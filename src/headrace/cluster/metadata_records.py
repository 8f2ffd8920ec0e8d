"""The records of the metadata log: which there are, and in which layout each is written.

The layout follows from the cluster's `metadata.version`, so that every member that joined can read it. Which layouts
are read does not: all of them. The frame around a record is that of `protocol.internal_records`.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from headrace.protocol.apis import METADATA_RECORDS, load_metadata_record
from headrace.protocol.internal_records import decode_metadata_record, encode_metadata_record
from headrace.protocol.messages import metadata_records as messages

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

_TYPE_IDS: Final[Mapping[type[Any], int]] = {
    load_metadata_record(type_id).message: type_id for type_id in METADATA_RECORDS
}

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
    if version is None:
        version = max(load_metadata_record(type_id).encode)
    return encode_metadata_record(type_id, record, version)


def decode_record(value: bytes) -> MetadataRecord:
    """The record behind the value of a record of the log. Raises DecodeError, and nothing else, for any other bytes."""
    record: MetadataRecord = decode_metadata_record(value).message
    return record
