"""The options of the source: those of Spark's own Kafka source, by the same names, with the same meaning.

What can be checked without asking a broker is checked here, before a query starts. `check_batch` and `check_stream` say
what only one of the two kinds of queries can have. Options that have no meaning here are accepted, so that a program
that was written for Spark's source runs as it is; docs/spark-options.md says why for each.
"""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.config import Settings, load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.errors import ConfigError
from headrace.client.topic_partition import TopicPartition
from headrace.spark.options import CLIENT_PREFIX, Option, Options, one_of, read_count, read_flag, read_options

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_SPARK_LATEST: Final = -1  # in the JSON of startingOffsets and endingOffsets
_SPARK_EARLIEST: Final = -2
_MINUTE_MS: Final = 60_000
_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": _MINUTE_MS,
    "min": _MINUTE_MS,
    "h": 60 * _MINUTE_MS,
    "d": 1_440 * _MINUTE_MS,
}

# Kafka's settings that the source decides itself, as Spark's does; the sentence says what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "set the option startingOffsets instead",
    "key.deserializer": "keys are binary; decode them by DataFrame operations",
    "value.deserializer": "values are binary; decode them by DataFrame operations",
    "enable.auto.commit": "the source commits after each micro-batch; the option commitOffsets turns that off",
    "interceptor.classes": "rows are no records that an interceptor could change; use DataFrame operations",
}

log = logging.getLogger("headrace.spark")

# Where to begin or end: "earliest", "latest", or for each partition an offset or one of these words.
Place: TypeAlias = str | int
Places: TypeAlias = str | Mapping[TopicPartition, Place]
Times: TypeAlias = Mapping[TopicPartition, int]


class Topics(NamedTuple):
    """Option subscribe."""

    names: tuple[str, ...]


class TopicPattern(NamedTuple):
    """Option subscribePattern: topics whose whole name it matches."""

    pattern: str


class Assigned(NamedTuple):
    """Option assign."""

    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = Topics | TopicPattern | Assigned


def _read_topics(text: str) -> Topics:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("it must name topics, separated by commas")
    return Topics(names)


def _read_pattern(text: str) -> TopicPattern:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    if not text.strip():
        raise ValueError("it must not be empty")
    return TopicPattern(text)


def _read_assigned(text: str) -> Assigned:
    found = _json_object(text, '{"topic": [0, 1]}')
    partitions = []
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(_is_number(each) and each >= 0 for each in numbers):
            raise ValueError(f"the partitions of {topic} must be a list of numbers from 0 on")
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise ValueError("it names no partition")
    return Assigned(tuple(sorted(set(partitions))))


def _read_places(text: str) -> Places:
    folded = text.strip().lower()
    if folded in (EARLIEST, LATEST):
        return folded
    words: Mapping[int, Place] = {_SPARK_LATEST: LATEST, _SPARK_EARLIEST: EARLIEST}
    places = _by_partition(text, 'earliest, latest, or JSON such as {"topic": {"0": 23, "1": -2}}')
    below = [partition for partition, number in places.items() if number < _SPARK_EARLIEST]
    if below:
        raise ValueError(f"the offset of {below[0]} is below -2; -2 is earliest, -1 is latest")
    return {partition: words.get(number, number) for partition, number in places.items()}


def _read_times(text: str) -> Times:
    return _by_partition(text, 'JSON with milliseconds since 1970, such as {"topic": {"0": 1700000000000}}')


def _by_partition(text: str, form: str) -> dict[TopicPartition, int]:
    offsets = {}
    for topic, partitions in _json_object(text, form).items():
        if not isinstance(partitions, dict):
            raise ValueError(f"it must be {form}")
        for number, value in partitions.items():
            if not (number.isascii() and number.isdigit() and _is_number(value)):
                raise ValueError(f"it must be {form}")
            offsets[TopicPartition(topic, int(number))] = value
    return offsets


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"it must be {form}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_whole(text: str) -> int:
    """A number from 0 on."""
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ValueError("it must be a whole number, 0 at least")
    return int(text)


def _read_duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ValueError("it must be a time such as 500ms, 30s, 15m, 2h or 1d")
    return int(found[1]) * _UNITS_MS[found[2]]


def _read_name(text: str) -> str:
    if not text.strip():
        raise ValueError("it must not be empty")
    return text.strip()


SOURCE_OPTIONS: Final = (
    # What to read
    Option("subscribe", _read_topics, None, "Topics, separated by commas."),
    Option("subscribePattern", _read_pattern, None, "A regular expression that the whole name of a topic matches."),
    Option("assign", _read_assigned, None, "Partitions, as JSON."),
    Option("includeHeaders", read_flag, False, "Whether there is a column of headers."),
    # From where to where
    Option("startingOffsets", _read_places, None, "Where to begin: earliest, latest, or an offset of each partition."),
    Option("startingTimestamp", _read_whole, None, "Begin at the first record that is not older."),
    Option("startingOffsetsByTimestamp", _read_times, None, "The same, of each partition."),
    Option(
        "startingOffsetsByTimestampStrategy",
        one_of("error", LATEST),
        "error",
        "What to do if no record is that young: fail, or begin at the end.",
    ),
    Option("endingOffsets", _read_places, None, "Where to end: latest, or an offset of each partition. Batch only."),
    Option("endingTimestamp", _read_whole, None, "End before the first record that is not older. Batch only."),
    Option("endingOffsetsByTimestamp", _read_times, None, "The same, of each partition. Batch only."),
    Option("failOnDataLoss", read_flag, True, "Whether records that are gone are an error, or only a warning."),
    # How much at a time
    Option("maxOffsetsPerTrigger", read_count, None, "How many offsets a micro-batch has at most."),
    Option("minOffsetsPerTrigger", read_count, None, "How many offsets a micro-batch waits for."),
    Option("maxTriggerDelay", _read_duration_ms, 15 * _MINUTE_MS, "How long it waits for them."),
    Option("minPartitions", read_count, None, "How many tasks there are at least, large partitions being split."),
    Option("maxRecordsPerPartition", read_count, None, "How many offsets a task has at most."),
    # The group whose lag shows how far a query is
    Option("groupIdPrefix", _read_name, None, "How the name of the group begins, unless kafka.group.id names it."),
    Option("commitOffsets", read_flag, True, "Whether the end of each micro-batch is committed to the group."),
    # What has a meaning in part, or none
    Option("kafkaConsumer.pollTimeoutMs", read_count, 120_000, "How long a task may go without any progress."),
    Option("fetchOffset.numRetries", _read_whole, None, "None: calls are repeated until default.api.timeout.ms."),
    Option("fetchOffset.retryIntervalMs", _read_whole, None, "None: retry.backoff.ms is what counts."),
)
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_ENDINGS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")


def source_options(given: Mapping[str, str]) -> Options:
    """Raises ConfigError, which lists everything that is wrong."""
    options = read_options(given, SOURCE_OPTIONS)
    problems = [*_client_problems(options.client)]
    chosen = [name for name in _SUBSCRIPTIONS if options.values[name] is not None]
    if len(chosen) != 1:
        told = "none is given" if not chosen else f"given are {' and '.join(chosen)}"
        problems.append(f"exactly one of subscribe, subscribePattern and assign says what to read; {told}")
    least, most = options.values["minOffsetsPerTrigger"], options.values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        problems.append(f"minOffsetsPerTrigger, {least}, is above maxOffsetsPerTrigger, {most}")
    if problems:
        raise ConfigError(problems)
    return options


def check_batch(options: Options) -> None:
    """What a batch query cannot have. Raises ConfigError."""
    problems = []
    for name, word in (("startingOffsets", LATEST), ("endingOffsets", EARLIEST)):
        places = options.values[name]
        if places == word or (isinstance(places, Mapping) and word in places.values()):
            problems.append(f"a batch query reads nothing if {name} is {word}, for any partition: leave it out")
    if problems:
        raise ConfigError(problems)
    for name in _TRIGGERS:
        if options.values[name] is not None:
            log.warning("Option %s says nothing to a batch query, which reads all of its range at once.", name)


def check_stream(options: Options) -> None:
    """What a streaming query cannot have. Raises ConfigError."""
    given = [name for name in _ENDINGS if options.values[name] is not None]
    if given:
        raise ConfigError([f"a streaming query does not end at an offset: leave out {', '.join(given)}"])


def subscription(options: Options) -> Subscription:
    found: Subscription = next(options.values[name] for name in _SUBSCRIPTIONS if options.values[name] is not None)
    return found


def consumer_settings(options: Options) -> Settings:
    """What `kafka.` options say, as a consumer would understand them."""
    return load_settings(CONSUMER_CONFIGS, None, options.client)


def admin_configs(options: Options) -> dict[str, str]:
    """Those which an admin client has, too: how to reach the cluster, and how long to wait for it."""
    return {name: text for name, text in options.client.items() if ADMIN_CONFIGS.find(name) is not None}


def is_read_committed(options: Options) -> bool:
    return consumer_settings(options).text("isolation.level") == "read_committed"


def _client_problems(client: Mapping[str, str]) -> list[str]:
    refused = [
        f"option {CLIENT_PREFIX}{name} cannot be set: {instead}" for name, instead in _REFUSED.items() if name in client
    ]
    if "bootstrap.servers" not in client:
        return [*refused, f"option {CLIENT_PREFIX}bootstrap.servers is missing: the address of a broker, as host:port"]
    try:
        load_settings(CONSUMER_CONFIGS, None, {name: text for name, text in client.items() if name not in _REFUSED})
    except ConfigError as error:
        refused += [f"option {CLIENT_PREFIX}{problem}" for problem in error.problems]
    return refused
