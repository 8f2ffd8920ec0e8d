"""Murmur2 as Kafka's Java client computes it, so that a key goes to the same partition whoever sends it."""

from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF


def murmur2(data: bytes) -> int:
    """The hash, as an unsigned number of 32 bits."""
    length = len(data)
    words = length >> 2
    result = _SEED ^ length
    for word in unpack_from(f"<{words}I", data):
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        result = (result * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    rest = data[words << 2 :]
    if rest:
        result = (result ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    result ^= result >> 13
    result = result * _MULTIPLIER & _MASK
    return result ^ result >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among so many."""
    return (murmur2(key) & _POSITIVE) % partitions
