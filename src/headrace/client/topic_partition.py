"""The name of a partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """`TopicPartition("orders", 3)`; as a text it is `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
