"""Which field could not be encoded: a search after the fact, so that encoding itself need not look.

`struct` says that a number is out of range but not which. The annotations of the message say what each field can hold.
"""

import struct
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from headrace.protocol.errors import EncodeError
from headrace.protocol.types import ByteCount, IntRange

# What packing, encoding and unpacking a row raise for values that do not fit.
UNENCODABLE: Final = (struct.error, TypeError, AttributeError, ValueError, OverflowError)


def blame(message: Any, error: Exception) -> EncodeError:
    """The EncodeError that names the field behind `error`; `error` itself if it does so already."""
    if isinstance(error, EncodeError):
        return error
    found = _search(type(message), message, "")
    if found is None:
        return EncodeError(f"{type(error).__name__}: {error},", field=type(message).__name__)
    field, reason = found
    return EncodeError(f"{reason},", field=field)


def _search(hint: Any, value: Any, path: str) -> tuple[str, str] | None:
    """The first place where a value is not what its annotation allows."""
    if get_origin(hint) is UnionType:
        if value is None:
            return None
        hint = next(each for each in get_args(hint) if each is not NoneType)
    if hasattr(hint, "_fields"):
        return _search_row(hint, value, path)
    if get_origin(hint) is Sequence:
        return _search_array(get_args(hint)[0], value, path)
    reason = _misfit(hint, value)
    return None if reason is None else (path, reason)


def _search_row(row: Any, values: Any, path: str) -> tuple[str, str] | None:
    if not isinstance(values, tuple) or len(values) != len(row._fields):
        return path or row.__name__, f"{values!r:.80} is no {row.__name__} with its {len(row._fields)} fields"
    hints = get_type_hints(row, include_extras=True)
    for name, value in zip(row._fields, values, strict=True):
        found = _search(hints[name], value, f"{path}.{name}" if path else name)
        if found:
            return found
    return None


def _search_array(item: Any, values: Any, path: str) -> tuple[str, str] | None:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return path, f"{values!r:.80} is no array"
    for value in values:
        found = _search(item, value, path)
        if found:
            return found
    return None


def _misfit(hint: Any, value: Any) -> str | None:
    if get_origin(hint) is Annotated:
        kind, limit = get_args(hint)
        if not isinstance(value, kind):
            return f"{value!r:.80} is not {kind.__name__}"
        if isinstance(limit, IntRange) and not limit.lowest <= value <= limit.highest:
            return f"{value} is not within {limit.lowest}..{limit.highest}"
        if isinstance(limit, ByteCount) and len(value) != limit.size:
            return f"{len(value)} bytes, {limit.size} are expected"
        return None
    if hint is str:
        return _misfit_text(value)
    if hint is bytes and not isinstance(value, bytes | bytearray | memoryview):
        return f"{value!r:.80} is not bytes"
    if hint is float and not isinstance(value, int | float):
        return f"{value!r:.80} is not a number"
    return None


def _misfit_text(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{value!r:.80} is not a string"
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return f"not encodable as UTF-8 ({error.reason})"
    return f"a string of {size} bytes, 32767 are allowed" if size > 0x7FFF else None
