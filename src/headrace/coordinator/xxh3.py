"""XXH3, 64 bits, without a seed: the hash by which Kafka notices that the topics of a group have changed.

It is written to `__consumer_offsets`, so it must be the same number that Kafka computes. A topic of a thousand
partitions is four kilobytes, hashed once for each change of the topic: plain Python is fast enough (0.3 ms).
"""

from struct import Struct
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_MIX_1: Final = 0x165667919E3779F9
_MIX_2: Final = 0x9FB21C651E98DF25

_MASK: Final = (1 << 64) - 1
_LOW: Final = (1 << 32) - 1
_STRIPE: Final = 64  # bytes that are taken in at once by the eight accumulators
_STRIPES_IN_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_BLOCK: Final = _STRIPE * _STRIPES_IN_BLOCK
_LONG: Final = 240  # longer input goes through stripes

_int32 = Struct("<I").unpack_from
_int64 = Struct("<Q").unpack_from
_lanes = Struct("<8Q").unpack_from


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned number."""
    size = len(data)
    if size > _LONG:
        return _hash_long(data)
    if size > 128:
        return _hash_129_to_240(data)
    if size > 16:
        return _hash_17_to_128(data)
    if size > 8:
        low = _read(data, 0) ^ (_read(_SECRET, 24) ^ _read(_SECRET, 32))
        high = _read(data, size - 8) ^ (_read(_SECRET, 40) ^ _read(_SECRET, 48))
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _multiply_fold(low, high))
    if size > 3:
        keyed: int = (_int32(data, size - 4)[0] + (_int32(data)[0] << 32)) ^ (_read(_SECRET, 8) ^ _read(_SECRET, 16))
        keyed ^= _rotate(keyed, 49) ^ _rotate(keyed, 24)
        keyed = keyed * _MIX_2 & _MASK
        keyed = (keyed ^ (keyed >> 35) + size) * _MIX_2 & _MASK
        return keyed ^ keyed >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_64(combined ^ (_int32(_SECRET)[0] ^ _int32(_SECRET, 4)[0]))
    return _avalanche_64(_read(_SECRET, 56) ^ _read(_SECRET, 64))


def _hash_17_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    # Pairs of 16 bytes from both ends towards the middle; they overlap there.
    for step in range((size - 1) // 32 + 1):
        total += _mix_16(data, 16 * step, 32 * step)
        total += _mix_16(data, size - 16 * (step + 1), 32 * step + 16)
    return _avalanche(total)


def _hash_129_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for step in range(8):
        total += _mix_16(data, 16 * step, 16 * step)
    total = _avalanche(total)
    for step in range(8, size // 16):
        total += _mix_16(data, 16 * step, 16 * (step - 8) + 3)
    return _avalanche(total + _mix_16(data, size - 16, 136 - 17))


def _hash_long(data: bytes) -> int:
    size = len(data)
    sums = [_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1]
    blocks, rest = divmod(size - 1, _BLOCK)
    for block in range(blocks):
        for stripe in range(_STRIPES_IN_BLOCK):
            _accumulate(sums, data, block * _BLOCK + stripe * _STRIPE, 8 * stripe)
        secret = _lanes(_SECRET, len(_SECRET) - _STRIPE)
        sums[:] = [((each ^ each >> 47) ^ key) * _PRIME32_1 & _MASK for each, key in zip(sums, secret, strict=True)]
    for stripe in range(rest // _STRIPE):
        _accumulate(sums, data, blocks * _BLOCK + stripe * _STRIPE, 8 * stripe)
    _accumulate(sums, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for pair in range(0, 8, 2):
        key = 11 + 8 * pair
        total += _multiply_fold(sums[pair] ^ _read(_SECRET, key), sums[pair + 1] ^ _read(_SECRET, key + 8))
    return _avalanche(total)


def _accumulate(sums: list[int], data: bytes, position: int, secret_position: int) -> None:
    secret = _lanes(_SECRET, secret_position)
    for lane, value in enumerate(_lanes(data, position)):
        keyed = value ^ secret[lane]
        sums[lane ^ 1] = sums[lane ^ 1] + value & _MASK
        sums[lane] = sums[lane] + (keyed & _LOW) * (keyed >> 32) & _MASK


def _mix_16(data: bytes, position: int, secret_position: int) -> int:
    low = _read(data, position) ^ _read(_SECRET, secret_position)
    high = _read(data, position + 8) ^ _read(_SECRET, secret_position + 8)
    return _multiply_fold(low, high)


def _multiply_fold(left: int, right: int) -> int:
    product = left * right
    return (product & _MASK) ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * _MIX_1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _read(data: bytes, position: int) -> int:
    return int(_int64(data, position)[0])
