"""Arguments that are several of something."""

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def several(items: Iterable[Item], kind: type[Item], what: str) -> list[Item]:
    """The items, which `what` names in the plural. Raises TypeError."""
    refuse_one(items, kind, what)
    found = list(items)
    for item in found:
        if not isinstance(item, kind):
            raise TypeError(f"{what} are asked for, each a {kind.__name__}, and {item!r} is none")
    return found


def refuse_one(items: object, kind: type, what: str) -> None:
    """One of them is not several of them. Raises TypeError.

    A text would pass as one for each letter: `delete_topics("orders")` would be about the topics o, r, d, e and s.
    """
    if isinstance(items, kind):
        raise TypeError(f"several {what} are asked for; write [{items!r}] for one")
