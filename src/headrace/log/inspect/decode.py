"""Records of internal topics with their names: what a cluster, its groups and its transactions have written.

The messages are loaded when a log of their kind is looked into. A record that cannot be decoded is no damage to the
file (its CRC is right): it is shown raw, with the reason.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from os.path import basename, dirname, realpath
from typing import Any, Final, get_args

from headrace.log.inspect.rows import Decoded
from headrace.log.inspect.segments import RecordDecoder
from headrace.protocol.batch import BatchHeader
from headrace.protocol.errors import DecodeError, ProtocolError
from headrace.protocol.records import ControlType, Record, read_control_type, read_coordinator_epoch
from headrace.protocol.types import ByteCount, uuid_to_text

_BY_TOPIC: Final = {
    "__cluster_metadata": "metadata",
    "__consumer_offsets": "offsets",
    "__transaction_state": "transactions",
    "__share_group_state": "share",
}
_CONSUMER_PROTOCOL: Final = "consumer"  # the protocol type of groups of consumers; others keep bytes of their own there


def decoder_for(mode: str, path: str) -> RecordDecoder:
    """The decoder of a mode: auto (by the name of the directory), metadata, offsets, transactions, share, or none."""
    if mode == "auto":
        topic = basename(dirname(realpath(path))).rpartition("-")[0]
        mode = "metadata" if path.endswith(".checkpoint") else _BY_TOPIC.get(topic, "none")
    decode = _DECODERS[mode]

    def decoder(header: BatchHeader, record: Record) -> Decoded | None:
        try:
            return _decode_control(record) if header.is_control else decode(record)
        except ProtocolError as error:
            return Decoded("undecodable", None, None, None, error=str(error))

    return decoder


def _decode_control(record: Record) -> Decoded:
    control_type = read_control_type(record.key)
    name = control_type.name
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        return Decoded(name, None, None, {"coordinator_epoch": read_coordinator_epoch(record.value)})
    from headrace.protocol.messages import control_records

    decoders: Mapping[ControlType, Mapping[int, Callable[..., Any]]] = {
        ControlType.LEADER_CHANGE: control_records.decode_leader_change_message,
        ControlType.SNAPSHOT_HEADER: control_records.decode_snapshot_header_record,
        ControlType.SNAPSHOT_FOOTER: control_records.decode_snapshot_footer_record,
        ControlType.KRAFT_VERSION: control_records.decode_kraft_version_record,
        ControlType.KRAFT_VOTERS: control_records.decode_voters_record,
    }
    value = record.value
    if control_type not in decoders or value is None or len(value) < 2:
        return Decoded(name, None, None, None)
    version = int.from_bytes(value[:2])  # the first field of each of them is its own version
    decoder = decoders[control_type].get(version)
    if decoder is None:
        raise DecodeError(f"version {version} of {name} is not known", field="version", position=0)
    return Decoded(name, version, None, plain(decoder(value, memoryview(value), 0, len(value))))


def _decode_metadata(record: Record) -> Decoded:
    from headrace.protocol.internal_records import decode_metadata_record

    record_type, version, message = decode_metadata_record(record.value or b"")
    return Decoded(record_type.name, version, None, plain(message))


def _decode_offsets(record: Record) -> Decoded:
    from headrace.protocol.apis import GROUP_RECORDS

    decoded = _decode_coordinator(GROUP_RECORDS, record)
    if decoded.type == "GroupMetadata" and decoded.value and decoded.value["protocol_type"] == _CONSUMER_PROTOCOL:
        members = [_with_consumer_protocol(member) for member in decoded.value["members"]]
        decoded = decoded._replace(value={**decoded.value, "members": members})
    return decoded


def _with_consumer_protocol(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """A member of a classic group, with what the consumers told one another in place of the bytes."""
    from headrace.protocol.internal_records import decode_versioned
    from headrace.protocol.messages.consumer_protocol import (
        decode_consumer_protocol_assignment,
        decode_consumer_protocol_subscription,
    )

    decoded = dict(member)
    for field, decoders in (
        ("subscription", decode_consumer_protocol_subscription),
        ("assignment", decode_consumer_protocol_assignment),
    ):
        # What cannot be decoded (an empty assignment, an assignor with bytes of its own) stays as it is.
        with suppress(ProtocolError):
            decoded[field] = plain(decode_versioned(decoders, member[field]))
    return decoded


def _decode_transactions(record: Record) -> Decoded:
    from headrace.protocol.apis import TRANSACTION_RECORDS

    return _decode_coordinator(TRANSACTION_RECORDS, record)


def _decode_share(record: Record) -> Decoded:
    from headrace.protocol.apis import SHARE_RECORDS

    return _decode_coordinator(SHARE_RECORDS, record)


def _decode_coordinator(types: Mapping[int, Any], record: Record) -> Decoded:
    from headrace.protocol.internal_records import decode_coordinator_record

    record_type, key, version, value = decode_coordinator_record(types, record.key, record.value)
    return Decoded(record_type.name, version, plain(key), None if value is None else plain(value))


def _decode_nothing(_: Record) -> None:
    return None


_DECODERS: Final[Mapping[str, Callable[[Record], Decoded | None]]] = {
    "metadata": _decode_metadata,
    "offsets": _decode_offsets,
    "transactions": _decode_transactions,
    "share": _decode_share,
    "none": _decode_nothing,
}


def plain(message: Any) -> Any:
    """A message as a dictionary of plain values: uuids as Kafka prints them, no unknown tags where there are none."""
    uuids = _uuid_fields(message.__class__)
    fields = {}
    for name, value in message._asdict().items():
        if name == "unknown_tags" and not value:
            continue
        fields[name] = _plain_value(value, is_uuid=name in uuids)
    return fields


def _plain_value(value: Any, *, is_uuid: bool) -> Any:
    if isinstance(value, bytes):
        return uuid_to_text(value) if is_uuid else value
    if hasattr(value, "_asdict"):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain_value(item, is_uuid=is_uuid) for item in value]
    return value


@cache
def _uuid_fields(message: type) -> frozenset[str]:
    """The fields that are uuids or lists of them; to Python they are bytes like any other."""
    return frozenset(name for name, hint in message.__annotations__.items() if _has_uuid(hint))


def _has_uuid(hint: Any) -> bool:
    if any(isinstance(mark, ByteCount) for mark in getattr(hint, "__metadata__", ())):
        return True
    return any(_has_uuid(argument) for argument in get_args(hint) if argument is not hint)
