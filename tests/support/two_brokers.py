"""Two brokers that get the same requests; one of them forgets each time what it has seen."""

from collections.abc import Callable

from tests.support.one_node import Asker, OneNode


class TwoBrokers:
    """`asker` is the connection to the one that remembers; the other one is asked over a new one each time."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.remembering, self.forgetful = OneNode(), OneNode()
        self.asker = Asker()

    @property
    def nodes(self) -> tuple[OneNode, OneNode]:
        return self.remembering, self.forgetful

    def change(self, change: Callable[[OneNode], object]) -> None:
        for node in self.nodes:
            change(node)
