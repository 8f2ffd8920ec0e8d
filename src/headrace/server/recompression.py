"""`compression.type`: a topic may want its batches compressed in one way, whatever its producers do.

It is the one case where the broker writes the records of a client anew: the bytes inside the batch, as they are, in
another wrapping. The records themselves are believed, as in topics that take batches as they come, and are not opened:
a batch of 1 MB may hold a million. What could not be written back the same (a flag that no client may set, counts that
do not agree) is left as it is: the log refuses it, and says why.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headrace.cluster.config_types import Value
from headrace.protocol.batch import CODEC_MASK, TRANSACTIONAL_FLAG, verify
from headrace.protocol.compression import Codec
from headrace.protocol.records import read_payload, seal_batch

AS_PRODUCED: Final = "producer"
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LEVELS: Final = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
# The defaults of the configs. Kafka takes lz4's 9 to mean the fast compressor, which the library calls 0, and every
# other number for the thorough one, which the library has from 3 to 16.
_DEFAULTS: Final = {Codec.GZIP: -1, Codec.LZ4: 9}
_MIN_LZ4: Final = 3
_MAX_LZ4: Final = 16


class Compression(NamedTuple):
    codec: Codec
    level: int | None

    @classmethod
    def from_topic(cls, configs: Mapping[str, Value]) -> "Compression | None":
        """None: batches stay as producers compressed them."""
        values: Any = configs
        name = values["compression.type"]
        if name == AS_PRODUCED:
            return None
        codec = _CODECS[name]
        if codec not in _LEVELS:
            return cls(codec, None)
        level = values[_LEVELS[codec]]
        if level == _DEFAULTS.get(codec):
            return cls(codec, None)
        return cls(codec, min(max(level, _MIN_LZ4), _MAX_LZ4) if codec is Codec.LZ4 else level)


def recompress(records: bytearray | memoryview, compression: Compression) -> bytearray | memoryview:
    """The one batch in `records`, compressed as the topic wants it. Raises CorruptBatchError."""
    header = verify(records)
    is_plain = not header.attributes & ~(CODEC_MASK | TRANSACTIONAL_FLAG)
    if header.codec == compression.codec or not is_plain or header.record_count != header.last_offset_delta + 1:
        return records
    attributes = header.attributes & ~CODEC_MASK | compression.codec
    return seal_batch(header._replace(attributes=attributes), read_payload(records, 0, header), level=compression.level)
