"""A consumer group (KIP-848)."""


class ConsumerGroup:
    """Members, epochs and assignments."""

    __slots__ = ("group_id",)

    kind = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    def is_empty(self) -> bool:
        return True
