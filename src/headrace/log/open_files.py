"""A bound on open files: the least recently used are dropped when there are too many.

Dropping is only forgetting. A file that somebody still sends from stays open until that is done, and the next who needs
it opens it again, for 6 us. One partition needs one descriptor, for its active log; a read of an old segment one more.
"""

from collections import OrderedDict
from typing import Protocol


class Closable(Protocol):
    def drop_file(self) -> None: ...


class OpenFiles:
    """At most `limit` owners have their file open. Owners say when they opened one, used it, and gave it up."""

    __slots__ = ("_owners", "limit")

    def __init__(self, limit: int) -> None:
        assert limit > 0, limit
        self.limit = limit
        self._owners: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def opened(self, owner: Closable) -> None:
        self._owners[owner] = None
        while len(self._owners) > self.limit:
            oldest, _ = self._owners.popitem(last=False)
            oldest.drop_file()

    def used(self, owner: Closable) -> None:
        self._owners.move_to_end(owner)

    def closed(self, owner: Closable) -> None:
        self._owners.pop(owner, None)
