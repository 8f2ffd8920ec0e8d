"""Names of apps and operators. They become parts of topics, groups, transactional ids and directories."""

import re
from collections import Counter
from typing import Final

from headrace.streams.errors import PlanError

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")
# Kafka's limit of 249 characters for a topic, half of it for each of `<app>.<node>`.
MAX_NAME_LENGTH: Final = 120


class Names:
    """The names that are taken in one app. It is the only thing about operators that an app remembers."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def take(self, kind: str, given: str | None) -> str:
        """The user's name if there is one, else the kind and the next free number of that kind."""
        if given is not None:
            checked_name(given, what="the name of an operator")
            if given in self._taken:
                raise PlanError(f"two operators are called {given!r}: give one of them another name=")
            self._taken.add(given)
            return given
        while True:
            self._numbers[kind] += 1
            name = f"{kind}-{self._numbers[kind]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def checked_name(name: str, *, what: str) -> str:
    if not isinstance(name, str):
        raise PlanError(f'{what} is {name!r}, which is no text. A column that is called name is written .alias("name")')
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise PlanError(
            f"{what} is {name!r}: it may have letters, digits, '.', '_' and '-', as it becomes part of topics"
        )
    if len(name) > MAX_NAME_LENGTH:
        raise PlanError(f"{what} has {len(name)} characters, and {MAX_NAME_LENGTH} are allowed: {name!r}")
    return name


def checked_topic(name: str, *, what: str) -> str:
    """Kafka's own rules for topics."""
    if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", "..") or len(name) > 249:
        raise PlanError(f"{what} is {name!r}: a topic has 1 to 249 letters, digits, '.', '_' and '-'")
    return name


def internal_topic(app: str, node: str) -> str:
    """The topic between two queries of an app."""
    return f"{app}.{node}"
