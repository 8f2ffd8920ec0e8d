"""What `option(...)` says, checked: names in any case, values of the right type, and an unknown name is an error.

Spark hands options over as strings. What begins with `kafka.` is a setting of the client, under Kafka's own name. The
source's and the sink's own options are declared beside their code, as `Option` rows; this is how they are read.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.client.errors import ConfigError

CLIENT_PREFIX: Final = "kafka."
# What Spark itself adds, or users give for Spark.
_OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname"})


class Option(NamedTuple):
    """`read` makes the value of its text, and raises ValueError with a sentence if it cannot."""

    name: str
    read: Callable[[str], Any]
    default: Any
    meaning: str


class Options(NamedTuple):
    """`values` has every declared option under its declared name, `client` the client's settings by Kafka's names."""

    values: Mapping[str, Any]
    client: Mapping[str, str]


def read_options(given: Mapping[str, str], declared: Iterable[Option]) -> Options:
    """Raises ConfigError, which lists everything that is wrong."""
    known = {option.name.lower(): option for option in declared}
    values = {option.name: option.default for option in known.values()}
    client: dict[str, str] = {}
    problems: list[str] = []
    for name, text in given.items():
        folded = name.lower()
        if folded in known:
            option = known[folded]
            try:
                values[option.name] = option.read(text)
            except ValueError as error:
                problems.append(f"option {option.name} is {text!r}: {error}")
        elif folded.startswith(CLIENT_PREFIX):
            client[folded.removeprefix(CLIENT_PREFIX)] = text
        elif folded not in _OF_SPARK:
            problems.append(_unknown(name, known))
    if problems:
        raise ConfigError(problems)
    return Options(values, client)


def read_flag(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("it must be true or false")


def read_count(text: str) -> int:
    """A number above 0."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError("it must be a whole number above 0")
    return number


def one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        folded = text.strip().lower()
        if folded not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return folded

    return read


def _unknown(name: str, known: Mapping[str, Option]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1)
    guess = f" Did you mean {known[close[0]].name}?" if close else f" Settings of the client begin with {CLIENT_PREFIX}"
    return f"there is no option {name}.{guess}"
