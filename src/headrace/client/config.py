"""The settings of a client: Kafka's names, by keyword with underscores or in a dict with dots, checked once.

    settings = load_settings(PRODUCER_CONFIGS, "localhost:9092", {"linger.ms": 5}, {"acks": "all"})
    settings.number("linger.ms")

A value may be a Python value or the text that would stand in a properties file. Configs that name a class in Java
(serializers, partitioners, interceptors, assignors) take Python objects, too. An unknown name is an error that names
the nearest known one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.client.errors import ConfigError
from headrace.client.foreign_configs import REFUSED, WITHOUT_EFFECT
from headrace.cluster.config_types import CLASS, LIST, ConfigKey, ConfigTable, InvalidConfigError

_MAX_PORT: Final = 65_535


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Settings:
    """Every config of a table with its value. Immutable; the typed look-ups fail loudly on a wrong name or type."""

    __slots__ = ("_given", "_values", "servers")

    def __init__(self, values: Mapping[str, Any], given: Iterable[str], servers: Sequence[Address]) -> None:
        self._values = values
        self._given = frozenset(given)
        self.servers = tuple(servers)  # bootstrap.servers, taken apart

    def number(self, name: str) -> int:
        value = self._values[name]
        assert type(value) is int, f"{name} is {value!r}"
        return value

    def seconds(self, name: str) -> float:
        """A config in milliseconds, as the event loop counts."""
        return self.number(name) / 1000

    def real(self, name: str) -> float:
        value = self._values[name]
        assert type(value) in (int, float), f"{name} is {value!r}"
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._values[name]
        assert type(value) is bool, f"{name} is {value!r}"
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        assert type(value) is str, f"{name} is {value!r}"
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._values[name] is None else self.text(name)

    def items(self, name: str) -> tuple[Any, ...]:
        """A list; its items are texts, or objects where the config takes them."""
        value = self._values[name]
        assert type(value) is tuple, f"{name} is {value!r}"
        return value

    def value(self, name: str) -> Any:
        """As it is, for configs that take a Python object."""
        return self._values[name]

    def is_given(self, name: str) -> bool:
        """Whether it was set, and is not merely a default."""
        return name in self._given


def load_settings(
    table: ConfigTable,
    bootstrap: str | Sequence[str] | None,
    config: Mapping[str, Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings of a client of this kind. Raises ConfigError that lists everything that is wrong."""
    problems: list[str] = []
    given = _merge(bootstrap, config or {}, keywords or {}, problems)
    values: dict[str, Any] = table.defaults()
    for name, value in given.items():
        try:
            _take(table, name, value, values)
        except InvalidConfigError as error:
            problems.append(str(error))
    servers: list[Address] = []
    try:
        servers = parse_servers(values["bootstrap.servers"])
    except InvalidConfigError as error:
        if not any(problem.startswith("bootstrap.servers ") for problem in problems):
            problems.append(str(error))
    if problems:
        raise ConfigError(problems)
    return Settings(values, given, servers)


def hooks(settings: Settings, name: str, *methods: str) -> tuple[Any, ...]:
    """The objects of a config that lists classes in Java; of a class, one is made. Raises ConfigError."""
    made = tuple(each() if isinstance(each, type) else each for each in settings.items(name))
    for each in made:
        if not all(callable(getattr(each, method, None)) for method in methods):
            raise ConfigError([f"{name} must be objects with {' and '.join(methods)}, not {each!r}"])
    return made


def parse_servers(servers: Iterable[str]) -> list[Address]:
    """host:port of each; a host may be a name, an IPv4 address or an IPv6 address in brackets."""
    addresses = [_parse_server(server) for server in servers]
    if not addresses:
        raise InvalidConfigError("bootstrap.servers", "must name a broker at least, such as localhost:9092")
    return addresses


def _parse_server(server: str) -> Address:
    if not isinstance(server, str):
        raise _bad_server(server, "write host:port, such as localhost:9092")
    text = server.strip()
    if "://" in text:
        text = text.partition("://")[2]  # Kafka reads PLAINTEXT://host:port here, too
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _bad_server(server, "an IPv6 address stands in brackets, as in [::1]:9092")
    if not colon or not host:
        raise _bad_server(server, f"write host:port, such as {text or 'localhost'}:9092")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _MAX_PORT:
        raise _bad_server(server, f"a port is a number from 1 to {_MAX_PORT}")
    return Address(host, int(port))


def _bad_server(server: str, hint: str) -> InvalidConfigError:
    return InvalidConfigError("bootstrap.servers", f'must be addresses separated by commas, not "{server}": {hint}')


def _merge(
    bootstrap: str | Sequence[str] | None, config: Mapping[str, Any], keywords: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    """All that was given, by its name with dots."""
    given: dict[str, Any] = dict(config)
    for keyword, value in keywords.items():
        name = keyword.replace("_", ".")
        if name in given:
            problems.append(f"{name} is given twice, in config and by keyword")
        given[name] = value
    if bootstrap is not None:
        if "bootstrap.servers" in given:
            problems.append("bootstrap.servers is given twice")
        given["bootstrap.servers"] = bootstrap
    return given


def _take(table: ConfigTable, name: str, value: Any, values: dict[str, Any]) -> None:
    """Put the checked value into `values`. Raises InvalidConfigError."""
    key = table.find(name)
    if key is not None:
        values[name] = _value(key, value)
    elif name in REFUSED:
        raise InvalidConfigError(name, f"must be left out: {REFUSED[name]}")
    elif name not in WITHOUT_EFFECT:
        from headrace.cluster.configs import unknown_config  # only mistakes pay for it

        raise unknown_config(name, table)


def _value(key: ConfigKey, value: Any) -> Any:
    if isinstance(value, str):
        parsed = key.parse(value)
        if key.values and isinstance(parsed, str) and key.ignores_case:
            return next(each for each in key.values if each.lower() == parsed.lower())
        return parsed
    if value is None:
        if key.default is not None:
            raise InvalidConfigError(key.name, f"must be {key.expected()}, not None")
        return None
    if key.type is CLASS:
        return value
    if key.type is LIST and isinstance(value, Iterable):
        items = tuple(value)
        return key.parse(",".join(items)) if all(isinstance(item, str) for item in items) else items
    if isinstance(value, bool):
        return key.parse(str(value).lower())
    if isinstance(value, int | float):
        return key.parse(repr(value))
    raise InvalidConfigError(key.name, f"must be {key.expected()}, not {value!r}")
