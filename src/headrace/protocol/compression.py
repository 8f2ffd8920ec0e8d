"""The five codecs of a record batch, and decompression that cannot be made to fill the memory.

A batch names its codec in its attributes; its records are one compressed block. What is inside was written by anybody,
so a few kilobytes may claim to be gigabytes. Every codec here is therefore decompressed in steps, against a limit: the
error comes before more than the limit (and one step of the codec) has been allocated, whatever a header claims.

What each codec looks like on the wire, so that every Kafka client can read what is written here:

    gzip     RFC 1952; several members in a row count as one stream
    snappy   the block stream of snappy-java ("xerial"): magic 82 "SNAPPY" 00, version 1, compatible with 1, then
             blocks of raw snappy, each behind its length; 32 KiB per block. Raw snappy without that frame is read, too
    lz4      the LZ4 frame format, 64 KiB blocks, independent of one another (the Java client refuses dependent ones)
    zstd     RFC 8878; several frames in a row count as one stream

The libraries are imported at first use: most brokers never look inside a batch.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NoReturn

from headrace.protocol.batch import Buffer
from headrace.protocol.errors import CorruptBatchError


class Codec(IntEnum):
    """The codec in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# A batch is 1 MiB by default (`max.message.bytes`), and text shrinks to a tenth, logs to a hundredth at best.
DEFAULT_LIMIT_BYTES: Final = 128 * 1024 * 1024

_GZIP_WINDOW: Final = 31  # zlib: the largest window, behind a gzip header
_GZIP_STEP: Final = 16 * 1024  # input per call; bounds what a member of a few bytes makes zlib copy
_LZ4_STEP: Final = 64 * 1024
_ZSTD_MAX_RATIO: Final = 32 * 1024  # a run-length block: 4 bytes that stand for 128 KiB
_ZSTD_MIN_STEP: Final = 64
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + (1).to_bytes(4) + (1).to_bytes(4)
_XERIAL_MAGIC: Final = _XERIAL_HEADER[:8]
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 22  # a copy of 64 bytes takes 3
_INT32: Final = Struct(">i")
_XERIAL_MAGIC_AS_LENGTH: Final = _INT32.unpack(_XERIAL_MAGIC[:4])[0]


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`. `level` is the library's own (gzip 1-9, lz4 0-16, zstd 1-22); None is its default."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        import zlib

        return zlib.compress(data, -1 if level is None else level, wbits=_GZIP_WINDOW)
    if codec == Codec.SNAPPY:
        return _compress_snappy(data)
    if codec == Codec.LZ4:
        import lz4.frame

        compressed: bytes = lz4.frame.compress(
            data,
            compression_level=0 if level is None else level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed
    if codec == Codec.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    raise ValueError(f"codec {codec} is not known; the codecs are 0 to {max(Codec)}")


def decompress(codec: int, data: Buffer, *, limit_bytes: int) -> bytes:
    """Decompress all of `data`. Raises CorruptBatchError if it is damaged, longer than its end or passes the limit."""
    if codec == Codec.NONE:
        if len(data) > limit_bytes:
            _refuse_size("none", limit_bytes)
        return bytes(data)
    view = memoryview(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(view, limit_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(view, limit_bytes)
    if codec == Codec.LZ4:
        return _decompress_lz4(view, limit_bytes)
    if codec == Codec.ZSTD:
        return _decompress_zstd(view, limit_bytes)
    raise CorruptBatchError(f"codec {codec} is not known; the codecs are 0 to {max(Codec)}")


def _refuse_size(codec: str, limit_bytes: int) -> NoReturn:
    raise CorruptBatchError(f"{codec} data is more than {limit_bytes} bytes decompressed, which is the limit")


def _refuse(codec: str, reason: object) -> NoReturn:
    raise CorruptBatchError(f"{codec} data cannot be decompressed: {reason}")


def _decompress_gzip(data: memoryview, limit_bytes: int) -> bytes:
    import zlib

    pieces: list[bytes] = []
    left = limit_bytes
    position = 0
    member = zlib.decompressobj(_GZIP_WINDOW)
    try:
        while True:
            if position == len(data):
                _refuse("gzip", "it ends in the middle")
            step = data[position : position + _GZIP_STEP]
            # One more than allowed: nothing else tells "full" from "too much".
            piece = member.decompress(step, left + 1)
            left -= len(piece)
            if left < 0:
                _refuse_size("gzip", limit_bytes)
            pieces.append(piece)
            position += len(step)
            if member.eof:
                position -= len(member.unused_data)
                if position == len(data):
                    return b"".join(pieces)
                member = zlib.decompressobj(_GZIP_WINDOW)
    except zlib.error as error:
        _refuse("gzip", error)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes:
    import cramjam

    if data[:8] == _XERIAL_MAGIC:
        blocks = _xerial_blocks(data)
    else:
        blocks = [data]
    # The blocks say how long they are; their sum is believed only if snappy could reach it, and then allocated once.
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit_bytes:
        _refuse_size("snappy", limit_bytes)
    output = bytearray(sum(sizes))
    position = 0
    try:
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                cramjam.snappy.decompress_raw_into(block, memoryview(output)[position : position + size])
            position += size
    except cramjam.DecompressionError as error:
        _refuse("snappy", error)
    return bytes(output)


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The raw snappy blocks of a xerial stream. A second header in the middle is allowed, as in snappy-java."""
    blocks = []
    position = 0
    end = len(data)
    while position < end:
        if end - position < 4:
            _refuse("snappy", "it ends in the middle of a block length")
        (length,) = _INT32.unpack_from(data, position)
        if length == _XERIAL_MAGIC_AS_LENGTH:
            if end - position < len(_XERIAL_HEADER) or data[position : position + 8] != _XERIAL_MAGIC:
                _refuse("snappy", "a stream header is not whole")
            position += len(_XERIAL_HEADER)
            continue
        position += 4
        if length < 0 or length > end - position:
            _refuse("snappy", f"a block of {length} bytes, {end - position} are left")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _snappy_size(block: memoryview) -> int:
    """The decompressed size that a raw snappy block claims at its start."""
    size = 0
    for index in range(min(5, len(block))):
        size |= (block[index] & 0x7F) << (7 * index)
        if block[index] < 0x80:
            if size > _SNAPPY_MAX_RATIO * len(block):
                _refuse("snappy", f"a block of {len(block)} bytes cannot hold the {size} bytes that it claims")
            return size
    _refuse("snappy", "a block does not say its size")


def _decompress_lz4(data: memoryview, limit_bytes: int) -> bytes:
    from lz4 import frame

    pieces: list[bytes] = []
    left = limit_bytes
    position = 0
    step = max(_LZ4_STEP, 4 * len(data))
    context = frame.create_decompression_context()
    try:
        while True:
            piece, consumed, ended = frame.decompress_chunk(context, data[position:], max_length=min(step, left + 1))
            left -= len(piece)
            if left < 0:
                _refuse_size("lz4", limit_bytes)
            pieces.append(piece)
            position += consumed
            if ended:
                if position != len(data):
                    _refuse("lz4", f"{len(data) - position} bytes follow the frame")
                return b"".join(pieces)
            if not piece and not consumed:
                _refuse("lz4", "it ends in the middle")
            step *= 2
    except (RuntimeError, ValueError) as error:  # the only ones that lz4 raises; CorruptBatchError is a ValueError, too
        if isinstance(error, CorruptBatchError):
            raise
        _refuse("lz4", error)


def _decompress_zstd(data: memoryview, limit_bytes: int) -> bytes:
    import zstandard

    pieces: list[bytes] = []
    left = limit_bytes
    position = 0
    try:
        decompressor = zstandard.ZstdDecompressor()  # for all frames: it takes 20 us, and an empty frame has 9 bytes
        frame = decompressor.decompressobj()
        while True:
            if position == len(data):
                _refuse("zstd", "it ends in the middle")
            # There is no bound on the output of one call but this: so little input that it cannot stand for much more.
            step = data[position : position + max(_ZSTD_MIN_STEP, left // _ZSTD_MAX_RATIO)]
            piece = frame.decompress(step)
            left -= len(piece)
            if left < 0:
                _refuse_size("zstd", limit_bytes)
            pieces.append(piece)
            position += len(step)
            if frame.eof:
                position -= len(frame.unused_data)
                if position == len(data):
                    return b"".join(pieces)
                frame = decompressor.decompressobj()
    except zstandard.ZstdError as error:
        _refuse("zstd", error)
