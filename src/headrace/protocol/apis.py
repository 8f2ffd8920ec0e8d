"""Every API and every record type of the protocol, and the module that speaks it, imported when it is first asked for.

`APIS[1]` is Fetch, versions 4-18, flexible since 12, served by brokers and controllers. `load(1).decode_request[16]`
imports its module and is the decoder of its version 16.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, cast

from headrace.protocol import messages
from headrace.protocol.types import Codec, Decoder, Encoder


class Api(NamedTuple):
    """One API; a removed one keeps its key and name, and has no module and no version."""

    key: int
    name: str
    module: str | None
    min_version: int
    max_version: int  # what the codec speaks
    max_stable_version: int  # what a broker advertises: `max_version`, unless that is still unstable
    flexible_since: int | None
    listeners: tuple[str, ...]  # "broker", "controller", or both

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


class ApiMessages(Protocol):
    """What the module of an API offers: codecs by version, besides its message classes."""

    decode_request: Mapping[int, Decoder[Any]]
    encode_request: Mapping[int, Encoder[Any]]
    decode_response: Mapping[int, Decoder[Any]]
    encode_response: Mapping[int, Encoder[Any]]


class RecordType(NamedTuple):
    """A record of a log that the cluster or a coordinator writes for itself."""

    id: int
    name: str
    module: str


def _by_id(rows: tuple[RecordType, ...]) -> Mapping[int, RecordType]:
    return MappingProxyType({row.id: row for row in rows})


APIS: Final[Mapping[int, Api]] = MappingProxyType({row[0]: Api(*row) for row in messages.APIS})
API_BY_NAME: Final[Mapping[str, Api]] = MappingProxyType({api.name: api for api in APIS.values()})

METADATA_RECORDS: Final = _by_id(tuple(RecordType(*row) for row in messages.METADATA_RECORDS))

# Records of the coordinators' logs, by the number that stands first in the record's key.
GROUP_RECORDS: Final = _by_id(tuple(RecordType(*row, "group_records") for row in messages.GROUP_RECORDS))
TRANSACTION_RECORDS: Final = _by_id(
    tuple(RecordType(*row, "transaction_records") for row in messages.TRANSACTION_RECORDS)
)
SHARE_RECORDS: Final = _by_id(tuple(RecordType(*row, "share_records") for row in messages.SHARE_RECORDS))


@cache
def load(key: int) -> ApiMessages:
    """The messages of an API. Raises KeyError for a key that is unknown or no longer spoken."""
    module = APIS[key].module
    if module is None:
        raise KeyError(key)
    return cast("ApiMessages", _import(module))


@cache
def load_metadata_record(record_id: int) -> Codec:
    """The codec of a metadata record by its type id. Raises KeyError for an unknown one."""
    record = METADATA_RECORDS[record_id]
    return _codec(record.module, record.name)


@cache
def load_coordinator_record(record: RecordType) -> tuple[Codec, Codec]:
    """The codecs of key and value of a record of GROUP_RECORDS, TRANSACTION_RECORDS or SHARE_RECORDS."""
    return _codec(record.module, f"{record.name}Key"), _codec(record.module, f"{record.name}Value")


def _codec(module: str, name: str) -> Codec:
    codecs: Mapping[str, Codec] = _import(module).CODECS
    return codecs[name]


def _import(module: str) -> Any:
    return import_module(f"headrace.protocol.messages.{module}")
