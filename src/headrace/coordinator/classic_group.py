"""A classic group."""


class ClassicGroup:
    """Members, and where their rebalance stands."""

    __slots__ = ("group_id",)

    kind = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
