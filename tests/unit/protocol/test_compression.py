"""The codecs: what is written, what is read, and that nothing makes them fill the memory."""

import gzip
import subprocess
import sys
import textwrap
import tracemalloc
import zlib
from contextlib import suppress
from time import process_time

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.compression import Codec, compress, decompress
from headrace.protocol.errors import CorruptBatchError

MIB = 1024 * 1024
PACKED = [codec for codec in Codec if codec != Codec.NONE]
TEXT = b"".join(b"record %d of many; " % (i * i) for i in range(20_000))
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=300) | st.binary(min_size=1, max_size=50).map(lambda piece: piece * 3000))
@settings(max_examples=40, deadline=None)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), limit_bytes=len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit_bytes=len(TEXT)) == TEXT
    with pytest.raises(CorruptBatchError, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, packed, limit_bytes=len(TEXT) - 1)
    with pytest.raises(CorruptBatchError, match="more than 0 bytes"):
        decompress(codec, packed, limit_bytes=0)


@pytest.mark.parametrize("codec", Codec)
def test_parts_of_any_buffer_are_read_and_written(codec: Codec) -> None:
    packed = compress(codec, memoryview(bytearray(b"--" + TEXT))[2:])
    assert decompress(codec, memoryview(bytearray(b"--" + packed))[2:], limit_bytes=MIB) == TEXT


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (0, 12)), (Codec.ZSTD, (1, 19))])
def test_a_higher_level_makes_it_smaller(codec: Codec, levels: tuple[int, int]) -> None:
    text = TEXT[:100_000]
    fast, small = (compress(codec, text, level) for level in levels)
    assert len(small) < len(fast)
    assert decompress(codec, small, limit_bytes=MIB) == decompress(codec, fast, limit_bytes=MIB) == text


def test_an_unknown_codec_is_corrupt_to_read_and_a_mistake_to_write() -> None:
    with pytest.raises(CorruptBatchError, match="codec 5"):
        decompress(5, b"", limit_bytes=MIB)
    with pytest.raises(ValueError, match="codec 5"):
        compress(5, b"")


def test_snappy_is_written_in_xerial_framing_with_blocks_of_32_kib() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed.startswith(XERIAL_HEADER)
    position, sizes, content = len(XERIAL_HEADER), [], b""
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4])
        block = bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + length]))
        sizes.append(len(block))
        content += block
        position += 4 + length
    assert content == TEXT
    assert set(sizes[:-1]) == {32 * 1024}


def test_snappy_is_read_in_either_framing() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, limit_bytes=MIB) == TEXT
    # By hand: 15 bytes, a literal of 5 (4 << 2), then a copy of 10 (6 << 2, and 1 for its kind) from 5 places back.
    by_hand = b"\x0f" + b"\x10hello" + b"\x19\x05"
    assert decompress(Codec.SNAPPY, by_hand, limit_bytes=15) == b"hellohellohello"
    framed = XERIAL_HEADER + len(by_hand).to_bytes(4) + by_hand
    assert decompress(Codec.SNAPPY, framed, limit_bytes=15) == b"hellohellohello"


def test_snappy_streams_and_gzip_members_and_zstd_frames_may_follow_one_another() -> None:
    for codec in (Codec.SNAPPY, Codec.GZIP, Codec.ZSTD):
        joined = compress(codec, b"one ") + compress(codec, b"") + compress(codec, TEXT)
        assert decompress(codec, joined, limit_bytes=MIB) == b"one " + TEXT


def test_lz4_frames_have_independent_blocks_of_64_kib_without_checksums() -> None:
    packed = compress(Codec.LZ4, TEXT)
    # magic; version 1, independent blocks; 64 KiB; the checksum of these two bytes
    assert packed[:7] == bytes.fromhex("04224d18604082")


def test_a_java_client_may_write_zstd_without_saying_its_size() -> None:
    stream = zstandard.ZstdCompressor(level=9).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.get_frame_parameters(packed).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(Codec.ZSTD, packed, limit_bytes=MIB) == TEXT


@pytest.mark.parametrize("codec", PACKED)
def test_data_that_ends_too_early_is_refused_wherever_it_is_cut(codec: Codec) -> None:
    packed = compress(codec, TEXT[:2000])
    whole_streams = {len(XERIAL_HEADER)} if codec == Codec.SNAPPY else set()  # a xerial stream of no blocks
    for size in range(len(packed)):
        if size not in whole_streams:
            with pytest.raises(CorruptBatchError):
                decompress(codec, packed[:size], limit_bytes=MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_data_that_goes_on_after_its_end_is_refused(codec: Codec) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, compress(codec, TEXT) + b"\0\0\0\0\0", limit_bytes=MIB)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_data_raises_one_exception_and_stays_within_the_limit(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptBatchError):
        assert len(decompress(codec, packed, limit_bytes=5000)) <= 5000


@pytest.mark.parametrize("codec", PACKED)
@given(junk=st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_junk_raises_one_exception(codec: Codec, junk: bytes) -> None:
    starts = {
        Codec.GZIP: b"\x1f\x8b\x08\0\0\0\0\0\0\3",
        Codec.SNAPPY: XERIAL_HEADER,
        Codec.LZ4: bytes.fromhex("04224d18604082"),
        Codec.ZSTD: bytes.fromhex("28b52ffd"),
    }
    for start in (b"", starts[codec]):
        with suppress(CorruptBatchError):
            assert len(decompress(codec, start + junk, limit_bytes=5000)) <= 5000


# Bombs: little data that stands for much.


def zstd_bomb(size: int, *, claimed: bool) -> bytes:
    """Run-length blocks: 4 bytes that stand for 128 KiB each."""
    block = 128 * 1024
    frame_header = b"\xc0\x58" + size.to_bytes(8, "little") if claimed else b"\x00\x58"  # a window of 2 MiB
    run = ((block << 3) | 2).to_bytes(3, "little") + b"x"
    last = ((block << 3) | 3).to_bytes(3, "little") + b"x"
    return bytes.fromhex("28b52ffd") + frame_header + run * (size // block - 1) + last


def gzip_bomb(size: int) -> bytes:
    """One deflate stream in which the same flushed piece of 16 MiB is repeated."""
    piece = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = piece.compress(bytes(16 * MIB)) + piece.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"", mtime=0)[:10] + zeros * (size // (16 * MIB))


def lz4_bomb(size: int) -> bytes:
    frame = lz4.frame.compress(
        bytes(64 * 1024), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return bytes(frame[:7] + frame[7:-4] * (size // (64 * 1024)) + frame[-4:])


def snappy_bomb(size: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(32 * 1024)))
    return XERIAL_HEADER + (len(block).to_bytes(4) + block) * (size // (32 * 1024))


GIB = 1024 * MIB
BOMBS = [
    pytest.param(Codec.ZSTD, zstd_bomb(10 * GIB, claimed=False), id="zstd"),
    pytest.param(Codec.ZSTD, zstd_bomb(10 * GIB, claimed=True), id="zstd that claims its size"),
    pytest.param(Codec.GZIP, gzip_bomb(10 * GIB), id="gzip"),
    pytest.param(Codec.GZIP, gzip.compress(bytes(16 * MIB), mtime=0) * 64, id="gzip members"),
    pytest.param(Codec.LZ4, lz4_bomb(256 * MIB), id="lz4"),  # 255 to 1 is the most that lz4 can do
    pytest.param(Codec.SNAPPY, snappy_bomb(64 * MIB), id="snappy"),  # and snappy 21 to 1
    pytest.param(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 100, id="snappy that claims 4 GiB"),
    pytest.param(Codec.SNAPPY, XERIAL_HEADER + b"\x7f\xff\xff\xff" + b"\0" * 100, id="snappy block of 2 GiB"),
]


@pytest.mark.parametrize(("codec", "bomb"), BOMBS)
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: Codec, bomb: bytes) -> None:
    limit = 2 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decompress(codec, bomb, limit_bytes=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * limit + 4 * len(bomb) + MIB


def test_a_frame_without_content_takes_no_longer_in_one_codec_than_in_another() -> None:
    """A megabyte is a hundred thousand of them, and a broker that opens the batch has nothing else to do meanwhile."""

    def cpu_seconds(codec: Codec) -> float:
        frames = compress(codec, b"") * 20_000
        start = process_time()
        assert decompress(codec, frames, limit_bytes=MIB) == b""
        return process_time() - start

    assert min(cpu_seconds(Codec.ZSTD) for _ in range(3)) < 6 * min(cpu_seconds(Codec.GZIP) for _ in range(3))


def test_a_size_that_snappy_could_never_reach_is_not_believed_even_within_the_limit() -> None:
    claim = bytes.fromhex("80808020") + b"\0" * 100  # 64 MiB, and nothing to make them of
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="cannot hold"):
            decompress(Codec.SNAPPY, claim, limit_bytes=128 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_a_bomb_within_the_limit_is_not_refused() -> None:
    # Proof that the bombs above are well formed: only their size is wrong.
    assert decompress(Codec.ZSTD, zstd_bomb(2 * MIB, claimed=True), limit_bytes=2 * MIB) == b"x" * (2 * MIB)
    assert decompress(Codec.LZ4, lz4_bomb(2 * MIB), limit_bytes=2 * MIB) == bytes(2 * MIB)
    assert decompress(Codec.SNAPPY, snappy_bomb(2 * MIB), limit_bytes=2 * MIB) == bytes(2 * MIB)
    with pytest.raises(CorruptBatchError, match="more than"):
        decompress(Codec.GZIP, gzip_bomb(32 * MIB), limit_bytes=2 * MIB)


def test_what_the_libraries_allocate_outside_python_is_bounded_too() -> None:
    script = """
        import resource, zlib
        from headrace.protocol.compression import Codec, CorruptBatchError, compress, decompress
        piece = zlib.compressobj(9, zlib.DEFLATED, 31)
        zeros = piece.compress(bytes(1 << 20)) + piece.flush(zlib.Z_FULL_FLUSH)
        for _ in range(64):
            zeros += piece.compress(bytes(1 << 20))
        run = (128 << 10 << 3 | 2).to_bytes(3, "little") + b"x"
        runs = bytes.fromhex("28b52ffd0088") + run * 81920  # the largest window, 128 MiB, and 10 GiB of data
        for codec in Codec:
            decompress(codec, compress(codec, b"warm"), limit_bytes=9)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for codec, bomb in ((Codec.GZIP, zeros), (Codec.ZSTD, runs)):
            try:
                decompress(codec, bomb, limit_bytes=1 << 20)
            except CorruptBatchError:
                continue
            raise SystemExit("not refused")
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < 16 * 1024, grown_kib
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_importing_records_loads_no_codec_and_no_columns() -> None:
    script = (
        "import sys, headrace.protocol.records;"
        "loaded = {'lz4', 'zstandard', 'cramjam', 'numpy', 'pyarrow'} & set(sys.modules);"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
