"""What a config is: its type, its bounds, and how the text that people write becomes a value, or an error they can use.

A config is declared once, as a `ConfigKey` in a `ConfigTable`; the start-up check, DescribeConfigs and the docs are
made from it. Texts are read as Kafka reads them: surrounding blanks do not count, `true` and `false` in any case, whole
numbers in decimal, lists separated by commas, in which an item that comes twice counts once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Scope(Enum):
    """Where a config can be changed."""

    READ_ONLY = "read-only"  # in the broker's file, before it starts
    PER_BROKER = "per-broker"  # while it runs, for one broker
    CLUSTER_WIDE = "cluster-wide"  # while it runs, for one broker or as the default of all
    DYNAMIC_ONLY = "dynamic-only"  # as cluster-wide, but never in a file
    RESOURCE = "resource"  # while it runs, on the topic, group or subscription that it belongs to


# Short names, so that a table of declarations reads as a table.
BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD
HIGH: Final = Importance.HIGH
LOW: Final = Importance.LOW
PER_BROKER: Final = Scope.PER_BROKER
CLUSTER_WIDE: Final = Scope.CLUSTER_WIDE
DYNAMIC_ONLY: Final = Scope.DYNAMIC_ONLY

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1
MAX_DOUBLE: Final = 1.7976931348623157e308

_LIMITS: Final = {
    SHORT: (-(1 << 15), (1 << 15) - 1),
    INT: (-MAX_INT - 1, MAX_INT),
    LONG: (-MAX_LONG - 1, MAX_LONG),
    DOUBLE: (-MAX_DOUBLE, MAX_DOUBLE),
}
# Patterns are texts: `re` compiles each at its first use, so that the start of a broker pays for no idle one.
_WHOLE_NUMBER: Final = r"[+-]?[0-9]+"
_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_UNITS: Final = {
    "ms": "milliseconds",
    "millis": "milliseconds",
    "seconds": "seconds",
    "minutes": "minutes",
    "hours": "hours",
    "bytes": "bytes",
    "second": "bytes per second",
}


class InvalidConfigError(ValueError):
    """A config that cannot be taken. `str()` is a sentence for people: the name, then what is wrong with it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


class Synonym(NamedTuple):
    """A broker config that gives a topic or group config its default; `factor` converts hours and minutes."""

    name: str
    factor: int = 1


class ConfigKey(NamedTuple):
    """The declaration of one config."""

    name: str
    type: ConfigType
    default: Value  # None: not set
    doc: str
    importance: Importance = Importance.MEDIUM
    minimum: float | None = None
    maximum: float | None = None
    outliers: tuple[int, ...] = ()  # numbers that are allowed outside the bounds
    values: tuple[str, ...] = ()  # the texts that are allowed, of a list: the items
    ignores_case: bool = False
    is_empty_allowed: bool = True  # of a list
    check: Callable[[str, str], object] | None = None  # (name, text): raises InvalidConfigError
    scope: Scope = Scope.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    is_internal: bool = False  # works, but is neither described nor documented

    @property
    def is_sensitive(self) -> bool:
        """Must never be shown."""
        return self.type is PASSWORD

    @property
    def is_read_only(self) -> bool:
        return self.scope is Scope.READ_ONLY

    def parse(self, text: str) -> Value:
        """The value that `text` stands for. Raises InvalidConfigError."""
        text = text.strip()
        value: Value
        if self.type in _LIMITS:
            value = self._parse_number(text)
        elif self.type is BOOLEAN:
            value = self._parse_boolean(text)
        elif self.type is LIST:
            value = self._parse_list(text)
        else:
            value = self._parse_text(text)
        if self.check is not None:
            self.check(self.name, text)
        return value

    def expected(self) -> str:
        """What the value must be, in words: `a whole number of milliseconds >= -1`."""
        if self.type is BOOLEAN:
            return "true or false"
        if self.type in _LIMITS:
            return self._expected_number(self.maximum)
        if self.values:
            return f"a list of {_either(self.values)}" if self.type is LIST else _either(self.values)
        return "a list separated by commas" if self.type is LIST else "a text"

    def _parse_number(self, text: str) -> float:
        if not re.fullmatch(_NUMBER if self.type is DOUBLE else _WHOLE_NUMBER, text):
            raise self._refused(text, self.expected())
        number = float(text) if self.type is DOUBLE else int(text)
        least, most = _LIMITS[self.type]
        if number > most:
            raise self._refused(text, self._expected_number(most if self.maximum is None else self.maximum))
        below = number < (least if self.minimum is None else self.minimum)
        above = self.maximum is not None and number > self.maximum
        if (below or above) and number not in self.outliers:
            raise self._refused(text, self.expected())
        return number

    def _parse_boolean(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise self._refused(text, self.expected())
        return lowered == "true"

    def _parse_list(self, text: str) -> tuple[str, ...]:
        items = split_list(text)
        if not items and not self.is_empty_allowed:
            raise self._refused(text, f"{self.expected()}, with one item at least")
        if "" in items:
            raise self._refused(text, "a list without empty items")
        if self.values and not set(items) <= set(self.values):
            raise self._refused(text, self.expected())
        return tuple(dict.fromkeys(items))  # an item that comes twice counts once

    def _parse_text(self, text: str) -> str:
        if self.values:
            known = {value.lower(): value for value in self.values} if self.ignores_case else {}
            if text not in self.values and text.lower() not in known:
                raise self._refused(text, self.expected())
        return text

    def _expected_number(self, maximum: float | None) -> str:
        unit = _UNITS.get(self.name.rpartition(".")[2])
        words = "a number" if self.type is DOUBLE else "a whole number"
        words += f" of {unit}" if unit else ""
        if maximum is not None:
            minimum = _LIMITS[self.type][0] if self.minimum is None else self.minimum
            words += f" from {minimum} to {maximum}"
        elif self.minimum is not None:
            words += f" >= {self.minimum}"
        return words + "".join(f", or {number}" for number in self.outliers)

    def _refused(self, text: str, expected: str) -> InvalidConfigError:
        given = "what was given" if self.is_sensitive else f'"{text}"'
        return InvalidConfigError(self.name, f"must be {expected}, not {given}")


class ConfigTable(Mapping[str, ConfigKey]):
    """The configs of one kind of resource, by name.

    `rules` look at several configs together: each gets all values, defaults included, and raises InvalidConfigError.
    `find_variant` knows the names that stand for another one, such as `listener.name.internal.ssl.keystore.location`.
    """

    def __init__(
        self,
        resource: str,
        keys: Iterable[ConfigKey],
        *,
        scope: Scope | None = None,
        rules: tuple[Callable[[Mapping[str, Value]], None], ...] = (),
        find_variant: Callable[[str], str | None] | None = None,
    ) -> None:
        self.resource = resource
        self.rules = rules
        self._find_variant = find_variant
        self._keys = {key.name: key if scope is None else key._replace(scope=scope) for key in keys}

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, name: str) -> ConfigKey | None:
        """The declaration that `name` obeys; of a variant it is the plain config's, under the variant's name."""
        key = self._keys.get(name)
        if key is None and self._find_variant is not None and (plain := self._find_variant(name)) is not None:
            return self._keys[plain]._replace(name=name)
        return key

    def defaults(self) -> dict[str, Value]:
        return {name: key.default for name, key in self._keys.items()}


def split_list(text: str) -> tuple[str, ...]:
    """The items of a list, blanks around them removed; the empty text is the empty list."""
    text = text.strip()
    return tuple(item.strip() for item in text.split(",")) if text else ()


def format_value(value: Value) -> str | None:
    """The text of a value, as Kafka writes it in an answer to DescribeConfigs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    """As Java writes a double: in plain digits from 0.001 up to ten million, else as `1.5E8`."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for places in range(17) if float(text := f"{value:.{places}e}") == value)
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _either(values: tuple[str, ...]) -> str:
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"
