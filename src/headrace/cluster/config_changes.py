"""Configs change: of topics, of one broker or all, of groups and of client metrics subscriptions.

Two calls end here. The incremental one says what to do with each config (set, delete, append to a list, subtract
from it). The legacy one gives all configs that a resource shall have, and whatever it leaves out goes back to its
default.

Configs are checked as they would be after the change, so that a wrong combination is refused even if each half was
set at another time. While eligible leader replicas are on, min.insync.replicas must be the same for all brokers and
must not vanish, or brokers would disagree about who is eligible; and where it changes, the eligible ones are
forgotten, since they were counted by the old one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from headrace.cluster.config_resolution import broker_values, group_values, resolve_topic_config
from headrace.cluster.config_types import LIST, ConfigTable, format_value, split_list
from headrace.cluster.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    InvalidConfigError,
    check_broker_change,
    check_broker_rules,
    check_group_bounds,
    validate,
)
from headrace.cluster.decision import (
    MAX_RECORDS_PER_REQUEST,
    TOO_MANY_RECORDS,
    ControllerSettings,
    Decision,
    RefusedError,
)
from headrace.cluster.features import CORDONED_DIRECTORIES_SINCE
from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_configs as legacy
from headrace.protocol.messages import incremental_alter_configs as incremental
from headrace.protocol.messages.create_topics import CreatableTopicConfigs
from headrace.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
MAX_VALUE_LENGTH: Final = 32_767

_TABLES: Final[Mapping[int, ConfigTable]] = {
    ConfigKind.TOPIC: TOPIC_CONFIGS,
    ConfigKind.BROKER: BROKER_CONFIGS,
    ConfigKind.GROUP: GROUP_CONFIGS,
    ConfigKind.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}


def alter_configs_incrementally(
    image: Image, settings: ControllerSettings, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    """Answer IncrementalAlterConfigs."""
    rows, records = _alter_each(image, settings, request.resources, _increments)
    responses = [incremental.AlterConfigsResourceResponse(*row) for row in rows]
    written = () if request.validate_only else records
    return Decision(written, incremental.IncrementalAlterConfigsResponse(responses=responses))


def alter_configs(
    image: Image, settings: ControllerSettings, request: legacy.AlterConfigsRequest
) -> Decision[legacy.AlterConfigsResponse]:
    """Answer AlterConfigs, the legacy call."""
    rows, records = _alter_each(image, settings, request.resources, _replacement)
    responses = [legacy.AlterConfigsResourceResponse(*row) for row in rows]
    return Decision(() if request.validate_only else records, legacy.AlterConfigsResponse(responses=responses))


def _alter_each(
    image: Image,
    settings: ControllerSettings,
    resources: Sequence[Any],
    changes_of: Callable[[Image, ConfigResource, Any], Mapping[str, str | None]],
) -> tuple[list[tuple[ErrorCode, str | None, int, str]], tuple[MetadataRecord, ...]]:
    """Each resource by itself: code, reason and what it is; and the records of those that are changed."""
    rows: list[tuple[ErrorCode, str | None, int, str]] = []
    records: list[MetadataRecord] = []
    repeated = _repeated((row.resource_type, row.resource_name) for row in resources)
    for row in resources:
        resource = ConfigResource(row.resource_type, row.resource_name)
        code, message = ErrorCode.NONE, None
        try:
            _check_once(resource, repeated)
            records += changed_configs(image, settings, resource, changes_of(image, resource, row.configs))
        except RefusedError as refused:
            code, message = refused.code, refused.reason
        rows.append((code, message, resource.kind, resource.name))
        if len(records) > MAX_RECORDS_PER_REQUEST:  # as Kafka: nothing is changed
            return [(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS, *each[:2]) for each in resources], ()
    return rows, tuple(records)


def changed_configs(
    image: Image,
    settings: ControllerSettings,
    resource: ConfigResource,
    changes: Mapping[str, str | None],
    *,
    created: bool = False,
) -> list[MetadataRecord]:
    """The records that give a resource these values. Raises RefusedError. A `created` topic is not in the image yet."""
    _check_resource(image, resource, created=created)
    existing = image.config(resource)
    after = {name: value for name, value in {**existing, **changes}.items() if value is not None}
    try:
        _check_values(image, resource, after, changes)
        if resource.kind == ConfigKind.GROUP:
            broker = broker_values(*_broker_layers(image, settings))
            check_group_bounds(group_values(after, broker), broker)
        elif resource.kind == ConfigKind.BROKER:
            _check_broker(image, settings, resource, existing, after)
    except InvalidConfigError as fault:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(fault)) from fault
    _check_min_insync_replicas(image, resource, changes)
    # KAFKA-14136: brokers read certificates again when a broker config is set, also to the value it has.
    always = resource.kind == ConfigKind.BROKER
    changed = [name for name, value in changes.items() if always or value != existing.get(name)]
    records: list[MetadataRecord] = [ConfigRecord(*resource, name, changes[name]) for name in changed]
    if image.elr_enabled and MIN_INSYNC_REPLICAS in changed:
        records.append(ClearElrRecord(resource.name if resource.kind == ConfigKind.TOPIC else ""))
    return records


def elr_safety_records(image: Image, settings: ControllerSettings) -> list[MetadataRecord]:
    """What makes it safe to switch eligible leader replicas on: one min.insync.replicas for all brokers."""
    records: list[MetadataRecord] = []
    if MIN_INSYNC_REPLICAS not in image.config(CLUSTER_DEFAULT):
        value = settings.static.get(MIN_INSYNC_REPLICAS, format_value(BROKER_CONFIGS[MIN_INSYNC_REPLICAS].default))
        records.append(ConfigRecord(*CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, value))
    for resource, configs in image.configs.items():
        if resource.kind == ConfigKind.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            records.append(ConfigRecord(*resource, MIN_INSYNC_REPLICAS, None))
    return records


class TopicConfigRows:
    """All configs of new topics, as CreateTopics tells them; what the topics do not set is the same for all."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._layers = _broker_layers(image, settings)
        self._defaults: list[CreatableTopicConfigs] | None = None

    def of(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """The configs of a topic that sets these."""
        if self._defaults is None:
            names = sorted(name for name, key in TOPIC_CONFIGS.items() if not key.is_internal)
            self._defaults = [self._row(name, {}) for name in names]
        return [self._row(row.name, configs) if row.name in configs else row for row in self._defaults]

    def _row(self, name: str, configs: Mapping[str, str]) -> CreatableTopicConfigs:
        found = resolve_topic_config(name, configs, *self._layers)
        return CreatableTopicConfigs(name, found.value, config_source=found.source)


def _broker_layers(
    image: Image, settings: ControllerSettings
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    """The broker configs on which defaults depend, from strong to weak."""
    node = ConfigResource(ConfigKind.BROKER, str(settings.node_id))
    return image.config(node), image.config(CLUSTER_DEFAULT), settings.static


def _repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {resource for resource, times in Counter(resources).items() if times > 1}


def _check_once(resource: ConfigResource, repeated: set[tuple[int, str]]) -> None:
    if resource in repeated:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")


def _increments(
    image: Image, resource: ConfigResource, rows: Iterable[incremental.AlterableConfig]
) -> dict[str, str | None]:
    existing = image.config(resource)
    changes: dict[str, str | None] = {}
    for row in rows:
        if row.name in changes:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request changes {row.name} twice")
        if row.config_operation == DELETE:
            changes[row.name] = None
        elif row.value is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{row.name} is given no value; delete it to unset it")
        elif row.config_operation == SET:
            changes[row.name] = row.value
        elif row.config_operation in (APPEND, SUBTRACT):
            items = _items(resource, row.name, existing.get(row.name))
            changes[row.name] = ",".join(_edited(items, split_list(row.value), row.config_operation))
        else:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{row.name}: unknown operation {row.config_operation}")
    return changes


def _items(resource: ConfigResource, name: str, value: str | None) -> list[str]:
    table = _TABLES.get(resource.kind)
    key = None if table is None else table.find(name)
    if key is None or key.type is not LIST:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} is not a list: set it as a whole")
    text = format_value(key.default) if value is None else value
    return [item for item in split_list(text or "") if item]


def _edited(items: list[str], values: Iterable[str], operation: int) -> list[str]:
    if operation == SUBTRACT:
        return [item for item in items if item not in values]
    return [*items, *(value for value in dict.fromkeys(values) if value not in items)]


def _replacement(
    image: Image, resource: ConfigResource, rows: Iterable[legacy.AlterableConfig]
) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(image.config(resource))
    given = set()
    for row in rows:
        if row.name in given:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the request changes {row.name} twice")
        if row.value is None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{row.name} is given no value; leave it out to unset it")
        given.add(row.name)
        changes[row.name] = row.value
    return changes


def _check_resource(image: Image, resource: ConfigResource, *, created: bool) -> None:
    kind, name = resource
    if kind not in _TABLES:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"the controller keeps no configs of resource type {kind}")
    if kind == ConfigKind.TOPIC and not created and name not in image.topic_ids:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    if kind in (ConfigKind.GROUP, ConfigKind.CLIENT_METRICS) and not name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the name of the resource is empty, and there is no default one")
    if kind == ConfigKind.BROKER and name:
        if not (name.isascii() and name.isdigit()):
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"a broker is named by its id, not {name!r}")
        if int(name) not in image.brokers and int(name) not in image.controllers:
            raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {name}")


def _check_values(
    image: Image, resource: ConfigResource, after: Mapping[str, str], changes: Mapping[str, str | None]
) -> None:
    """Raises InvalidConfigError."""
    for name, value in changes.items():
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            raise InvalidConfigError(name, f"is longer than {MAX_VALUE_LENGTH} characters")
    if resource.kind != ConfigKind.BROKER:
        validate(_TABLES[resource.kind], after)
        return
    for name, value in changes.items():
        check_broker_change(name, value, is_cluster_wide=not resource.name)
        if name == "cordoned.log.dirs" and image.metadata_version < CORDONED_DIRECTORIES_SINCE:
            raise InvalidConfigError(name, "needs metadata.version 4.3-IV0 or higher")


def _check_broker(
    image: Image,
    settings: ControllerSettings,
    resource: ConfigResource,
    existing: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Raises InvalidConfigError. What other nodes have in their files is not known here; ours stands for theirs."""
    node, cluster, static = _broker_layers(image, settings)
    if resource.name:
        check_broker_rules(broker_values(existing, cluster, static), broker_values(after, cluster, static))
    else:
        check_broker_rules(broker_values(node, existing, static), broker_values(node, after, static))


def _check_min_insync_replicas(image: Image, resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    if not image.elr_enabled or resource.kind != ConfigKind.BROKER or MIN_INSYNC_REPLICAS not in changes:
        return
    if resource.name:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            "while eligible leader replicas are on, min.insync.replicas is set for all brokers and not for one",
        )
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            "while eligible leader replicas are on, min.insync.replicas of the cluster can be set but not deleted",
        )
