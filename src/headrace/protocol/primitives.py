"""What the generated codecs share: varints, tagged fields, arrays of numbers, and the words for what is wrong.

Generated code is straight-line: it reads runs of fixed fields in one `unpack_from` and treats one-byte varints in
place. What is rare comes here: longer varints, tagged fields, errors. A function that returns an exception is called as
`raise cut(...)`, so that the hot path pays one comparison and nothing else.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, Protocol, TypeVar, cast

from headrace.protocol.errors import DecodeError, EncodeError, TrailingBytesError
from headrace.protocol.types import Buffer, UnknownTags

MAX_TEXT_BYTES: Final = 0x7FFF  # Kafka's limit for a string, whatever its length could express
_CACHED_SHAPES: Final = 256

Row = TypeVar("Row")


class _New(Protocol):
    def __call__(self, row: type[Row], values: tuple[Any, ...], /) -> Row: ...


# A row from a complete tuple: half the cost of calling the NamedTuple, which would bind keywords and defaults first.
new: Final = cast("_New", tuple.__new__)


class Shapes(dict[int, Callable[..., Any]]):
    """`pack` or `unpack_from` of n numbers of one kind, by n, with what stands behind them; small ones are kept."""

    def __init__(self, code: str, after: str, method: str) -> None:
        super().__init__()
        self._code = code
        self._after = after
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        code = self._code
        numbers = code * count if code[0].isdigit() else f"{count}{code}"
        shape = cast("Callable[..., Any]", getattr(Struct(f">{numbers}{self._after}"), self._method))
        if count < _CACHED_SHAPES:
            self[count] = shape
        return shape


# --- decoding: varints


def uvarint_rest(buffer: Buffer, p: int, end: int, first: int, field: str) -> tuple[int, int]:
    """The value and the position behind an unsigned varint whose first byte, above 127, has been read already."""
    if p < end and (byte := buffer[p]) < 128:
        return first & 0x7F | byte << 7, p + 1  # two bytes: the usual length of what is not short
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        if p >= end:
            raise DecodeError("the frame ends inside a varint", field=field, position=p)
        byte = buffer[p]
        p += 1
        if byte < 128:
            value |= byte << shift
            if value > 0xFFFFFFFF:
                break
            return value, p
        value |= (byte & 0x7F) << shift
    raise DecodeError("a varint above 32 bits", field=field, position=p)


def text_rest(buffer: Buffer, p: int, end: int, first: int, field: str) -> tuple[int, int]:
    """Like `uvarint_rest`, for the length of a string (plus one), which Kafka limits."""
    value, p = uvarint_rest(buffer, p, end, first, field)
    if value > MAX_TEXT_BYTES + 1:
        raise DecodeError(f"a string of {value - 1} bytes, {MAX_TEXT_BYTES} are allowed", field=field, position=p)
    return value, p


# --- decoding: tagged fields


def read_tag(buffer: Buffer, p: int, end: int, previous: int, field: str) -> tuple[int, int, int]:
    """Tag, start and end of the next tagged field; tags must ascend."""
    start = p
    if p + 1 < end and buffer[p] < 128 and buffer[p + 1] < 128:
        tag, size = buffer[p], buffer[p + 1]
        p += 2
    else:
        tag, p = _read_uvarint(buffer, p, end, field)
        size, p = _read_uvarint(buffer, p, end, field)
    if tag <= previous:
        raise DecodeError(f"tag {tag} after tag {previous}, tags ascend", field=field, position=start)
    if size > end - p:
        raise DecodeError(f"{size} bytes under tag {tag}, {end - p} are left", field=field, position=p)
    return tag, p, p + size


def read_tags(buffer: Buffer, p: int, end: int, count: int, field: str) -> tuple[UnknownTags, int]:
    """The tagged fields of a struct that knows none, and the position behind them; `count` is the byte already read."""
    if count > 127:
        count, p = uvarint_rest(buffer, p, end, count, field)
    unknown = []
    tag = -1
    for _ in range(count):
        tag, start, p = read_tag(buffer, p, end, tag, field)
        unknown.append((tag, bytes(buffer[start:p])))
    return tuple(unknown), p


def _read_uvarint(buffer: Buffer, p: int, end: int, field: str) -> tuple[int, int]:
    if p >= end:
        raise DecodeError("the frame ends before a varint", field=field, position=p)
    first = buffer[p]
    return (first, p + 1) if first < 128 else uvarint_rest(buffer, p + 1, end, first, field)


# --- decoding: what is wrong


def cut(path: str, run: str, p: int, end: int, n: int = 0) -> DecodeError:
    """A run of fields does not fit before `end`. `run` is `name:size ...`, where size `n` is the length just read."""
    for item in run.split(" "):
        name, _, text = item.partition(":")
        field = f"{path}.{name}" if path else name
        size = n if text == "n" else int(text)
        if size < 0:
            return negative(n, field, p)
        if size > end - p:
            return DecodeError(f"{size} bytes needed, {end - p} are left", field=field, position=p)
        p += size
    raise AssertionError(f"{run} at {p} fits before {end}")


def crowded(n: int, row_size: int, field: str, p: int, end: int) -> DecodeError:
    """An array of n rows cannot be there: fewer bytes are left than the smallest rows would take."""
    if n < 0:
        return negative(n, field, p)
    return DecodeError(f"{n} rows of at least {row_size} bytes, {end - p} bytes are left", field=field, position=p)


def negative(n: int, field: str, p: int) -> DecodeError:
    return DecodeError("null, which is not allowed" if n == -1 else f"length {n}", field=field, position=p)


def not_text(error: UnicodeDecodeError, field: str, p: int) -> DecodeError:
    return DecodeError(f"not UTF-8 ({error.reason})", field=field, position=p + error.start)


def not_at_end(message: str, p: int, end: int) -> DecodeError:
    """The fields are read, but not all bytes are used; or a tagged field is not as long as it said."""
    return TrailingBytesError(f"{end - p} bytes are left over", field=message, position=p)


# --- encoding

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def uvarint(value: int) -> bytes:
    if value < 1 << 7:
        return ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def text_length(n: int, field: str) -> bytes:
    """The length (plus one) of a string of n bytes in a flexible version, for strings that are not short."""
    if n > MAX_TEXT_BYTES:
        raise EncodeError(f"a string of {n} bytes, {MAX_TEXT_BYTES} are allowed", field=field)
    return uvarint(n + 1)


def tag_section(unknown_tags: UnknownTags, known: tuple[tuple[int, bytes], ...] = ()) -> bytes:
    """All tagged fields of a struct, with their count before them, in ascending order."""
    tags = sorted((*known, *unknown_tags)) if known and unknown_tags else known or unknown_tags
    section = [uvarint(len(tags))]
    previous = -1
    for tag, value in tags:
        if tag <= previous:
            raise EncodeError(f"tag {tag} after tag {previous}, tags ascend", field="unknown_tags")
        previous = tag
        size = len(value)
        section.append(bytes((tag, size)) if tag < 128 and size < 128 else uvarint(tag) + uvarint(size))
        section.append(value)
    return b"".join(section)


def is_default(value: Any, default: Any) -> bool:
    """Whether a struct is its default, in which arrays are empty tuples; in others they may be empty lists."""
    if isinstance(default, tuple) and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return len(value) == len(default) and all(map(is_default, value, default))
    return bool(value == default)


def absent(field: str, versions: str) -> EncodeError:
    return EncodeError(f"a value other than the default, which {versions} cannot carry,", field=field)


def null(field: str, versions: str) -> EncodeError:
    return EncodeError(f"None, which {versions} cannot carry,", field=field)


def wrong_size(uuid: bytes, field: str) -> EncodeError:
    return EncodeError(f"{len(uuid)} bytes, a uuid has 16,", field=field)


def wrong_sizes(uuids: Sequence[bytes], field: str) -> EncodeError:
    return next(wrong_size(uuid, field) for uuid in uuids if len(uuid) != 16)
