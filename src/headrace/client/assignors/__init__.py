"""How a classic group divides its partitions: by the same rules as Kafka's own client, or by one's own.

A group agrees on an assignor that all of its members know, and its leader, which is one of them, applies it.
"""

from collections.abc import Iterable
from typing import Any, Final

from headrace.client.assignors.range import RangeAssignor
from headrace.client.assignors.round_robin import RoundRobinAssignor
from headrace.client.assignors.spec import Assignment, Assignor, Member, Topics
from headrace.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from headrace.client.errors import ConfigError

__all__ = ["Assignment", "Assignor", "Member", "Topics", "load_assignors"]

_CONFIG: Final = "partition.assignment.strategy"
_KNOWN: Final[dict[str, type[Assignor]]] = {
    each.name: each for each in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
# Their names in a file that was written for Kafka's Java client.
_JAVA: Final = "org.apache.kafka.clients.consumer."
_KNOWN_IN_JAVA: Final[dict[str, type[Assignor]]] = {_JAVA + each.__name__: each for each in _KNOWN.values()}


def load_assignors(wanted: Iterable[Any]) -> list[Assignor]:
    """Names, classes or objects, in the order of preference. Raises ConfigError."""
    assignors = [_load(each) for each in wanted]
    if not assignors:
        raise ConfigError([f"{_CONFIG} must name an assignor at least; there are {', '.join(_KNOWN)}"])
    names = [assignor.name for assignor in assignors]
    if len(set(names)) < len(names):
        raise ConfigError([f"{_CONFIG} must not name an assignor twice, and has {', '.join(names)}"])
    return assignors


def _load(wanted: Any) -> Assignor:
    if isinstance(wanted, str):
        found = _KNOWN.get(wanted) or _KNOWN_IN_JAVA.get(wanted)
        if found is None:
            raise ConfigError([f'{_CONFIG} must be {", ".join(_KNOWN)} or an assignor of your own, not "{wanted}"'])
        return found()
    made: Assignor = wanted() if isinstance(wanted, type) else wanted
    lacking = [name for name in ("name", "is_cooperative", "user_data", "assign") if not hasattr(made, name)]
    if lacking:
        raise ConfigError([f"{_CONFIG}: {made!r} is no assignor, since it has no {', '.join(lacking)}"])
    return made
