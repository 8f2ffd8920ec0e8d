import pytest

from headrace.client.murmur2 import murmur2, partition_of


# What Kafka's Java client computes (org.apache.kafka.common.utils.Utils.murmur2), as unsigned numbers.
@pytest.mark.parametrize(
    ("key", "number"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_is_that_of_the_java_client(key: bytes, number: int) -> None:
    assert murmur2(key) == number & 0xFFFF_FFFF


def test_a_negative_hash_loses_its_sign_bit() -> None:
    assert partition_of(b"21", 7) == (-973932308 & 0x7FFF_FFFF) % 7
