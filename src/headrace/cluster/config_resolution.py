"""Which value counts where several places set one, and the places it was found in: what DescribeConfigs tells.

From strong to weak: the resource itself, this broker while it runs, all brokers while they run, the broker's file, and
the declared default. A topic or group config without a value of its own takes that of its broker config, or of the
first one set in a chain of them: `retention.ms` is `log.retention.ms`, or that in minutes, or that in hours.

As in Kafka, a chain that starts with unset configs counts as default and names no synonyms while nobody set any of it.
Unlike Kafka, which then still says default, `log.retention.hours` in the broker's file is named as the source.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.cluster.broker_configs import BROKER_CHAINS, BROKER_CONFIGS, plain_name
from headrace.cluster.client_metrics_configs import CLIENT_METRICS_CONFIGS
from headrace.cluster.config_types import ConfigKey, ConfigTable, InvalidConfigError, Synonym, Value, format_value
from headrace.cluster.group_configs import GROUP_CONFIGS
from headrace.cluster.topic_configs import TOPIC_CONFIGS

Overrides = Mapping[str, str]
_NOTHING: Final[Overrides] = {}


class ConfigSource(IntEnum):
    """The numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """One place that has a value for a config; the text is as it stands there."""

    name: str
    value: str | None
    source: ConfigSource


class ResolvedConfig(NamedTuple):
    """The value that counts, and all places that have one, the strongest first."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    synonyms: Sequence[ConfigSynonym]

    def redacted(self) -> "ResolvedConfig":
        """What may be shown: of a secret only that it is set, and where."""
        if not self.key.is_sensitive:
            return self
        return self._replace(value=None, synonyms=[each._replace(value=None) for each in self.synonyms])


def resolve_broker_config(
    name: str, dynamic_broker: Overrides, dynamic_cluster: Overrides, static: Overrides
) -> ResolvedConfig:
    """Raises KeyError for a name that is no broker config."""
    key = BROKER_CONFIGS.find(name)
    if key is None:
        raise KeyError(name)
    plain = plain_name(name)
    chain = (name, plain) if plain else BROKER_CHAINS.get(name, (name,))
    found = _places(chain, dynamic_broker, dynamic_cluster, static)
    while found and found[0].name != name:  # what stands before it sets the other config of the chain, not this one
        del found[0]
    value = found[0].value if found else format_value(key.default)
    return ResolvedConfig(key, _canonical(key, value), found[0].source if found else ConfigSource.DEFAULT_CONFIG, found)


def resolve_topic_config(
    name: str, topic_overrides: Overrides, dynamic_broker: Overrides, dynamic_cluster: Overrides, static: Overrides
) -> ResolvedConfig:
    """Raises KeyError for a name that is no topic config."""
    key = TOPIC_CONFIGS[name]
    inherited = _places([each.name for each in key.synonyms], dynamic_broker, dynamic_cluster, static)
    if inherited and inherited[0].source is ConfigSource.DEFAULT_CONFIG and inherited[0].name != key.synonyms[0].name:
        converted = _convert(key, inherited[0])
        inherited.clear()
    else:
        converted = _convert(key, inherited[0]) if inherited else format_value(key.default)
    return _with_own(key, topic_overrides, ConfigSource.DYNAMIC_TOPIC_CONFIG, inherited, converted)


def resolve_group_config(
    name: str, group_overrides: Overrides, dynamic_broker: Overrides, dynamic_cluster: Overrides, static: Overrides
) -> ResolvedConfig:
    """Raises KeyError for a name that is no group config."""
    key = GROUP_CONFIGS[name]
    default = format_value(key.default)
    inherited = _places([each.name for each in key.synonyms], dynamic_broker, dynamic_cluster, static)
    if not inherited:
        inherited = [ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)]
    return _with_own(key, group_overrides, ConfigSource.DYNAMIC_GROUP_CONFIG, inherited, inherited[0].value)


def resolve_client_metrics_config(name: str, overrides: Overrides) -> ResolvedConfig:
    """Raises KeyError for a name that is no client metrics config."""
    key = CLIENT_METRICS_CONFIGS[name]
    return _with_own(key, overrides, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG, [], format_value(key.default))


def broker_values(
    dynamic_broker: Overrides = _NOTHING, dynamic_cluster: Overrides = _NOTHING, static: Overrides = _NOTHING
) -> dict[str, Value]:
    """The values of all broker configs, variants for one listener included where they are set."""
    return broker_values_above(BROKER_CONFIGS.defaults(), static, dynamic_cluster, dynamic_broker)


def broker_values_above(values: Mapping[str, Value], *layers: Overrides) -> dict[str, Value]:
    """The values of broker configs with what was set above them, from weak to strong."""
    changed = dict(values)
    for layer in layers:
        changed |= _parse_known(BROKER_CONFIGS, layer)
    return changed


def topic_defaults(broker: Mapping[str, Value]) -> dict[str, Value]:
    """What a topic gets that says nothing of its own, from `broker_values`. Made once, used for all topics."""
    return {name: _inherit(key, broker) for name, key in TOPIC_CONFIGS.items()}


def topic_values(topic_overrides: Overrides, defaults: Mapping[str, Value]) -> dict[str, Value]:
    """The values of all topic configs of one topic, on top of `topic_defaults`."""
    return {**defaults, **_parse_known(TOPIC_CONFIGS, topic_overrides)}


def group_values(group_overrides: Overrides, broker: Mapping[str, Value]) -> dict[str, Value]:
    """The values of all group configs of one group, on top of `broker_values`."""
    return {
        **{name: _inherit(key, broker) for name, key in GROUP_CONFIGS.items()},
        **_parse_known(GROUP_CONFIGS, group_overrides),
    }


def client_metrics_values(overrides: Overrides) -> dict[str, Value]:
    """The values of all configs of one client metrics subscription."""
    return {**CLIENT_METRICS_CONFIGS.defaults(), **_parse_known(CLIENT_METRICS_CONFIGS, overrides)}


def _places(
    chain: Sequence[str], dynamic_broker: Overrides, dynamic_cluster: Overrides, static: Overrides
) -> list[ConfigSynonym]:
    """Everywhere that one of these broker configs has a value: by strength, then in the order of the chain."""
    layers = (
        (dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (dynamic_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    found = [ConfigSynonym(name, layer[name], source) for layer, source in layers for name in chain if name in layer]
    for name in chain:
        key = BROKER_CONFIGS.get(name)
        if key is not None and key.default is not None:
            found.append(ConfigSynonym(name, format_value(key.default), ConfigSource.DEFAULT_CONFIG))
    return found


def _with_own(
    key: ConfigKey, overrides: Overrides, source: ConfigSource, inherited: list[ConfigSynonym], value: str | None
) -> ResolvedConfig:
    if key.name in overrides:
        own = ConfigSynonym(key.name, overrides[key.name], source)
        return ResolvedConfig(key, _canonical(key, own.value), source, [own, *inherited])
    inherited_source = inherited[0].source if inherited else ConfigSource.DEFAULT_CONFIG
    return ResolvedConfig(key, _canonical(key, value), inherited_source, inherited)


def _convert(key: ConfigKey, place: ConfigSynonym) -> str | None:
    (synonym,) = (each for each in key.synonyms if each.name == place.name)
    try:
        value = None if place.value is None else BROKER_CONFIGS[place.name].parse(place.value)
    except InvalidConfigError:
        return place.value
    return format_value(_scale(value, synonym))


def _inherit(key: ConfigKey, broker: Mapping[str, Value]) -> Value:
    for synonym in key.synonyms:
        value = broker[synonym.name]
        if value is not None:
            return _scale(value, synonym)
    return key.default


def _scale(value: Value, synonym: Synonym) -> Value:
    if synonym.factor == 1 or not isinstance(value, int):
        return value
    return value * synonym.factor if value >= 0 else -1  # -1 hours, too, means no limit


def _canonical(key: ConfigKey, text: str | None) -> str | None:
    """As Kafka writes the value; a text that a newer or another broker stored and we cannot read stays as it is."""
    if text is None:
        return None
    try:
        return format_value(key.parse(text))
    except InvalidConfigError:
        return text


def _parse_known(table: ConfigTable, overrides: Overrides) -> dict[str, Value]:
    """Values of what this version knows and can read; the rest was checked when it was set, by whoever knew it."""
    return dict(_readable(table, overrides.items()))


def _readable(table: ConfigTable, items: Iterable[tuple[str, str]]) -> Iterable[tuple[str, Value]]:
    for name, text in items:
        key = table.find(name)
        if key is not None:
            try:
                yield name, key.parse(text)
            except InvalidConfigError:
                continue
