"""Admin calls about configs: of topics, brokers, groups and client metrics subscriptions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.client.admin_calls import AdminCalls, no_codes, settle, top_code
from headrace.client.admin_topics import config_text
from headrace.client.errors import KafkaError, error_for, raise_for
from headrace.client.several import several
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

# What has configs, with Kafka's numbers.
KINDS: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_KIND_NAMES: Final = {number: name for name, number in KINDS.items()}
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_TYPES: Final = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
_BROKER_KINDS: Final = ("broker", "broker-logger")
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


class ConfigResource(NamedTuple):
    """`kind` is topic, broker, broker-logger, client-metrics or group; a broker's name is its id.

    The broker without a name stands for all brokers.
    """

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"{self.kind} defaults"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config. `source` says where its value stands: topic, broker, cluster, file, default, group, ….

    `value` is None if there is none, and where it must not be shown. `synonyms` are all places that have a value, the
    one that counts first.
    """

    name: str
    value: str | None
    source: str
    type: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source == "default"


class Append(NamedTuple):
    """As a new value: add these items to a list config, such as cleanup.policy."""

    items: Sequence[str]


class Subtract(NamedTuple):
    """As a new value: take these items out of a list config."""

    items: Sequence[str]


class ConfigCalls(AdminCalls):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configs of resources with their values, defaults included; only those in `names` if that is given."""
        wanted = None if names is None else several(names, str, "names")
        results: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for broker, group in _by_broker(several(resources, ConfigResource, "resources")).items():
            request = DescribeConfigsRequest(
                [DescribeConfigsResource(_kind(each), each.name, wanted) for each in group], synonyms, documentation
            )
            response: DescribeConfigsResponse = (
                await self._any(request, no_codes, timeout, min_version=3 if documentation else 1)
                if broker is None
                else await self._broker(broker, request, no_codes, timeout, min_version=3 if documentation else 1)
            )
            for row in response.results:
                resource = ConfigResource(_KIND_NAMES.get(row.resource_type, "unknown"), row.resource_name)
                if row.error_code:
                    results[resource] = _error(resource, row.error_code, row.error_message)
                else:
                    results[resource] = {entry.name: _entry(entry) for entry in row.configs}
        return settle(results, "resources")

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, object]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change configs, and leave the others as they are: a new value, None to take one away, Append or Subtract."""
        results: dict[ConfigResource, KafkaError | None] = {}
        for broker, group in _by_broker(changes).items():
            rows = [
                AlterConfigsResource(
                    _kind(each), each.name, [_alterable(name, value) for name, value in changes[each].items()]
                )
                for each in group
            ]
            request = IncrementalAlterConfigsRequest(rows, validate_only)
            response: IncrementalAlterConfigsResponse = (
                await self._controller(request, _change_codes, timeout)
                if broker is None
                else await self._broker(broker, request, _change_codes, timeout)
            )
            for row in response.responses:
                resource = ConfigResource(_KIND_NAMES.get(row.resource_type, "unknown"), row.resource_name)
                results[resource] = _error(resource, row.error_code, row.error_message) if row.error_code else None
        settle(results, "resources")

    async def list_config_resources(
        self, kinds: Iterable[str] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """What has configs of its own: topics, brokers, groups and client metrics subscriptions that set some."""
        numbers = [_kind(ConfigResource(kind)) for kind in several(kinds, str, "kinds")]
        response: ListConfigResourcesResponse = await self._any(
            ListConfigResourcesRequest(numbers), top_code, timeout, min_version=1
        )
        raise_for(response.error_code)
        return sorted(
            ConfigResource(_KIND_NAMES.get(row.resource_type, "unknown"), row.resource_name)
            for row in response.config_resources
        )


def _kind(resource: ConfigResource) -> int:
    try:
        return KINDS[resource.kind]
    except KeyError:
        raise ValueError(f"{resource.kind!r} is not one of {', '.join(KINDS)}") from None


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Only a broker itself knows its file: what is about one goes there; None for whatever any broker may answer."""
    groups: dict[int | None, list[ConfigResource]] = {}
    for each in resources:
        resource = ConfigResource(*each)
        if resource.kind in _BROKER_KINDS and resource.name and not resource.name.isdigit():
            raise ValueError(f"{resource.name!r} is not the id of a broker: that is a number")
        broker = int(resource.name) if resource.kind in _BROKER_KINDS and resource.name else None
        groups.setdefault(broker, []).append(resource)
    return groups


def _alterable(name: str, value: object) -> AlterableConfig:
    if value is None:
        return AlterableConfig(name, DELETE, None)
    if isinstance(value, Append | Subtract):
        return AlterableConfig(name, APPEND if isinstance(value, Append) else SUBTRACT, ",".join(value.items))
    return AlterableConfig(name, SET, config_text(value))


def _entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=row.name,
        value=row.value,
        source=_SOURCES.get(row.config_source, "unknown"),
        type=_TYPES[row.config_type] if 0 <= row.config_type < len(_TYPES) else "unknown",
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, _SOURCES.get(each.source, "unknown")) for each in row.synonyms
        ),
        documentation=row.documentation or None,
    )


def _error(resource: ConfigResource, code: int, message: str | None) -> KafkaError:
    error = error_for(code, message)
    error.message = f"{resource}: {error.message}"
    return error


def _change_codes(response: IncrementalAlterConfigsResponse) -> list[int]:
    return [row.error_code for row in response.responses]
