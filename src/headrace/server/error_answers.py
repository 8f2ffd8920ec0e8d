"""An error as the answer to a request of any API: a whole response, with the code where that API carries it.

Theory. Responses repeat the shape of their requests: a row for each topic, partition, group or resource that was named,
with its name and a code. So no API is known by name here. The classes of the messages are walked: rows of the response
that lead to a code are made from the rows of the request, names are copied, and everything else stays at its default.

Many APIs have codes at several depths: one for the request as a whole, others for its partitions. What a code is about
says where it goes (`IN_ROWS`), and the version says which of these places exist: an answer is encoded and decoded
again, and taken only if the code is still there.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_type_hints

from headrace.protocol.apis import Api, load
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import EncodeError

MessageClass: TypeAlias = Any  # a NamedTuple of headrace.protocol.messages

NO_OFFSET: Final = -1

# What is wrong with a topic, a partition or what is in it; all other codes are about the request or its group.
IN_ROWS: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_FETCH_SIZE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.INVALID_RECORD_STATE,
    }
)

_CODES: Final = ("error_code", "partition_error_code")
_MESSAGE: Final = "error_message"
# Fields by which a row says what it is about. The first field of a row does, too, whatever its name is.
_NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "topic_id",
        "index",
        "partition",
        "partition_index",
        "group_id",
        "member_id",
        "group_instance_id",
        "resource_type",
        "resource_name",
        "transactional_id",
        "producer_id",
        "entity",
        "entity_type",
        "entity_name",
    }
)
_FORGOTTEN: Final = "forgotten"  # partitions that a fetch no longer wants: it is not about them


class Depth(Enum):
    """Where a code goes, if the API has several places for it."""

    OUTERMOST = "request"
    INNERMOST = "rows"


def error_answer(api: Api, version: int, request: Any, code: ErrorCode, *, message: str, depth: Depth) -> Any | None:
    """The response; None if this version has no place for the code, or the request names nothing that could get it."""
    messages: Any = load(api.key)
    response = getattr(messages, f"{api.name}Response")
    depths = range(_depth(response) + 1)
    for rows_down in depths if depth is Depth.OUTERMOST else reversed(depths):
        for text in (message, None):  # some versions have no place for a message
            answer = _struct(response, request, _Error(code, text), rows_down)
            if _survives(messages, version, answer, code):
                return answer
    return None


def carriers(response: MessageClass) -> tuple[str, ...]:
    """The fields of a response by which its codes are reached."""
    return tuple(name for name, row in _fields(response).items() if name in _CODES or (row and _has_codes(row)))


class _Error(NamedTuple):
    code: ErrorCode
    message: str | None


def _survives(messages: Any, version: int, answer: Any, code: ErrorCode) -> bool:
    """Is the code still there after encoding and decoding in this version?"""
    try:
        data = b"".join(messages.encode_response[version](answer))
    except EncodeError:
        return False
    return code in _codes_in(messages.decode_response[version](data, memoryview(data), 0, len(data)))


def _codes_in(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for row in value:
            yield from _codes_in(row)
    elif hasattr(value, "_fields"):
        for name in value._fields:
            if name in _CODES:
                yield getattr(value, name)
            else:
                yield from _codes_in(getattr(value, name))


# Classes


@cache
def _fields(message: MessageClass) -> dict[str, MessageClass]:
    """Each field of a message, and the class of its rows if it has rows of a class."""
    return {name: _row_class(hint) for name, hint in get_type_hints(message).items()}


def _row_class(hint: Any) -> MessageClass:
    """T for Sequence[T] and Sequence[T] | None, where T is a message."""
    if isinstance(hint, type) or not get_args(hint):
        return None
    for inner in get_args(hint):
        if isinstance(inner, type) and hasattr(inner, "_fields"):
            return inner
        found = _row_class(inner)
        if found is not None:
            return found
    return None


@cache
def _has_codes(message: MessageClass) -> bool:
    return bool(carriers(message))


@cache
def _depth(message: MessageClass) -> int:
    """How many rows down the deepest code is."""
    return max((1 + _depth(row) for row in _fields(message).values() if row and _has_codes(row)), default=0)


# Values


def _struct(message: MessageClass, source: Any, error: _Error, rows_down: int) -> Any:
    """A response, or a row of one, made from the request, or its row. The code goes `rows_down` rows deeper."""
    carrying = [name for name, row in _fields(message).items() if row and _has_codes(row)]
    values: dict[str, Any] = {}
    for name, default in message._field_defaults.items():
        row = _fields(message)[name]
        if name in _CODES:
            values[name] = error.code if rows_down == 0 else ErrorCode.NONE
        elif name == _MESSAGE:
            values[name] = error.message if rows_down == 0 else default
        elif row and name in carrying:
            rows = _rows_of(source, name, carrying) if rows_down else ()
            values[name] = [_row(row, each, error, rows_down - 1) for each in rows]
        elif name == "records":
            values[name] = b""
        elif name.endswith(("offset", "watermark")) and default == 0:
            values[name] = NO_OFFSET
    return message(**values)


def _row(message: MessageClass, source: Any, error: _Error, rows_down: int) -> Any:
    return _struct(message, source, error, rows_down)._replace(**_names(message, source))


def _rows_of(source: Any, name: str, carrying: Sequence[str]) -> Sequence[Any]:
    """The rows of the request that the rows `name` of the response answer."""
    fields = [field for field in getattr(source, "_fields", ()) if not field.startswith(_FORGOTTEN)]
    lists = {field: getattr(source, field) for field in fields if isinstance(getattr(source, field), list)}
    if name in lists:
        return list(lists[name])
    if len(carrying) == 1:
        return [row for rows in lists.values() for row in rows]
    # Other versions have another shape: both messages have the shapes in the same order, and all but one are empty.
    message: MessageClass = type(source)
    shapes = [getattr(source, field) for field, row in _fields(message).items() if row]
    return list(shapes[carrying.index(name)])


def _names(message: MessageClass, source: Any) -> dict[str, Any]:
    """What says which topic, partition, group or resource a row is about."""
    first = next(name for name in message._fields if name not in (*_CODES, _MESSAGE))
    is_bare = not hasattr(source, "_fields")  # the row of the request is nothing but a name
    common = () if is_bare else {*_NAMES, first}.intersection(message._fields, source._fields)
    names = {name: getattr(source, name) for name in common}
    value = source if is_bare else source[0]
    if first not in names and type(value) is type(message._field_defaults[first]):
        names[first] = value
    return names
