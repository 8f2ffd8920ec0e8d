"""What a consumer is told: what to read, how much at a time, in which group, and from where if it has no offset."""

from typing import Final

from headrace.client.common_configs import COMMON_CONFIGS
from headrace.client.security_configs import SECURITY_CONFIGS
from headrace.cluster.config_types import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LOW,
    STRING,
    ConfigKey,
    ConfigTable,
    InvalidConfigError,
)

_DURATION: Final = "by_duration:"


def _check_reset(name: str, text: str) -> None:
    if text in ("latest", "earliest", "none"):
        return
    if text.startswith(_DURATION):
        parse_duration_ms(name, text.removeprefix(_DURATION))
        return
    raise InvalidConfigError(name, f'must be latest, earliest, none or by_duration:P1DT2H, not "{text}"')


def parse_duration_ms(name: str, text: str) -> int:
    """Milliseconds of an ISO 8601 duration as Java reads it: days, hours, minutes, seconds. Raises InvalidConfigError.

    Weeks, months and years are not durations: they are not of one length, Java says.
    """
    import re  # most programs set no duration

    unit = r"(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?"
    found = re.fullmatch(f"P(?=.){unit}", text, re.IGNORECASE)
    if found is None:
        raise InvalidConfigError(name, f'must have a duration such as P7D, PT12H or PT90S, not "{text}"')
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _check_not_empty(name: str, text: str) -> None:
    if not text:
        raise InvalidConfigError(name, "must not be empty; leave it out instead")


_OWN: Final = [
    # Group
    ConfigKey("group.id", STRING, None, "The group whose members share the partitions, and whose offsets count.", HIGH),
    ConfigKey(
        "group.instance.id",
        STRING,
        None,
        "A name that stays over restarts: a member that returns in time keeps its partitions without a rebalance.",
        check=_check_not_empty,
    ),
    ConfigKey(
        "group.protocol",
        STRING,
        "classic",
        "Who assigns partitions: a member (classic) or the broker (consumer, KIP-848).",
        HIGH,
        values=("classic", "consumer"),
        ignores_case=True,
    ),
    ConfigKey("group.remote.assignor", STRING, None, "The broker's assignor to ask for; only of protocol consumer."),
    ConfigKey(
        "partition.assignment.strategy",
        LIST,
        ("range", "cooperative-sticky"),
        "Assignors in order of preference: range, roundrobin, sticky, cooperative-sticky, or own ones.",
    ),
    ConfigKey("session.timeout.ms", INT, 45_000, "A member that is silent for so long loses its partitions.", HIGH),
    ConfigKey("heartbeat.interval.ms", INT, 3_000, "How often a member says that it is alive.", HIGH),
    ConfigKey(
        "max.poll.interval.ms",
        INT,
        300_000,
        "A member that asks for no records for so long leaves the group: it is taken to be stuck.",
        minimum=1,
    ),
    ConfigKey("enable.auto.commit", BOOLEAN, True, "Commit in the background what has been handed out."),
    ConfigKey("auto.commit.interval.ms", INT, 5_000, "How often that happens.", LOW, minimum=0),
    ConfigKey(
        "auto.offset.reset",
        STRING,
        "latest",
        "Where to begin without a committed offset: latest, earliest, none (an error), by_duration:PnDTnHnMnS ago.",
        check=_check_reset,
    ),
    # Fetching
    ConfigKey("fetch.min.bytes", INT, 1, "A broker that has less waits, up to fetch.max.wait.ms.", HIGH, minimum=0),
    ConfigKey("fetch.max.wait.ms", INT, 500, "How long a broker may wait for fetch.min.bytes.", LOW, minimum=0),
    ConfigKey("fetch.max.bytes", INT, 52_428_800, "The most that one answer holds, one batch at least.", minimum=0),
    ConfigKey(
        "max.partition.fetch.bytes",
        INT,
        1_048_576,
        "The most of one partition in it, one batch at least.",
        HIGH,
        minimum=0,
    ),
    ConfigKey("max.poll.records", INT, 500, "The most records that one poll() returns.", minimum=1),
    ConfigKey("check.crcs", BOOLEAN, True, "Check the CRC of every batch.", LOW),
    ConfigKey(
        "isolation.level",
        STRING,
        "read_uncommitted",
        "Whether records of open and aborted transactions are seen.",
        values=("read_committed", "read_uncommitted"),
    ),
    ConfigKey("client.rack", STRING, "", "Where this program runs; brokers there are preferred to read from.", LOW),
    # Topics
    ConfigKey("allow.auto.create.topics", BOOLEAN, True, "A topic that is subscribed to may be created by that."),
    ConfigKey("exclude.internal.topics", BOOLEAN, True, "A pattern does not match internal topics."),
    ConfigKey(
        "default.api.timeout.ms", INT, 60_000, "How long a call without a time-out of its own may take.", minimum=0
    ),
    # Share groups
    ConfigKey(
        "share.acknowledgement.mode",
        STRING,
        "implicit",
        "Whether records of a share group are acknowledged by the next poll, or one by one.",
        values=("implicit", "explicit"),
    ),
    ConfigKey(
        "share.acquire.mode",
        STRING,
        "batch_optimized",
        "Whether whole batches are acquired, or no more records than asked for.",
        values=("batch_optimized", "record_limit"),
        ignores_case=True,
    ),
    # Hooks
    ConfigKey("key.deserializer", CLASS, None, "What makes a key of bytes: a name such as json, or a function.", HIGH),
    ConfigKey("value.deserializer", CLASS, None, "What makes a value of bytes.", HIGH),
    ConfigKey("interceptor.classes", LIST, (), "Objects that see records before they are handed out.", LOW),
]

CONSUMER_CONFIGS: Final = ConfigTable("consumer", [*COMMON_CONFIGS, *SECURITY_CONFIGS, *_OWN])
