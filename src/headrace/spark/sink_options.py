"""What the sink is told: options of the format, or arguments of `write_batch`; the same ones, checked in one place.

Spark's own Kafka sink knows `topic`, `includeHeaders` and what begins with `kafka.`; the rest is ours. An application
name (`app`) is what exactly once needs: it is the transactional id, and the group whose offsets are the marker of what
was written. So one name is for one query: a second one with it takes the first one's place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.errors import ConfigError
from headrace.client.producer_core import producer_settings
from headrace.spark.options import CLIENT_PREFIX, Option, one_of, read_count, read_flag, read_options

EXACTLY_ONCE: Final = "exactly_once"
AT_LEAST_ONCE: Final = "at_least_once"
DRIVER: Final = "driver"
TASKS: Final = "tasks"
# A driver that dies comes back under the same name, which ends what it had open at once. So this time is not what
# readers wait for; it is what a large micro-batch may take. A broker allows 15 minutes at most, unless told otherwise.
TRANSACTION_TIMEOUT_MS: Final = 300_000
MAX_TASK_BYTES: Final = 128 * 1024 * 1024  # of one task's rows on their way through the driver

_BOOTSTRAP: Final = "bootstrap.servers"
# They follow from `app` and `guarantee`.
_TAKEN: Final = frozenset({"transactional.id", "enable.idempotence"})


def _text(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


OPTIONS: Final = (
    Option("topic", _text, None, "The topic of all rows; else the column topic says it"),
    Option("app", _text, None, "The application's name: transactional id and group; asks for exactly once"),
    Option("guarantee", one_of(EXACTLY_ONCE, AT_LEAST_ONCE), None, "exactly_once if app is given, else at_least_once"),
    Option("transactions", one_of(DRIVER, TASKS), DRIVER, "One for the micro-batch, or one for each task"),
    Option("checkpoint", _text, None, "Where the query's checkpoint is, if checkpointLocation does not say it"),
    Option("checkpointLocation", _text, None, "Spark's own option: the end offsets of each micro-batch are there"),
    Option("maxTaskBytes", read_count, MAX_TASK_BYTES, "What one task may send through the driver"),
    Option("includeHeaders", read_flag, True, "Spark's own option: whether a column headers is written"),
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked. `client` are settings of the producer by Kafka's names, the address among them."""

    topic: str | None
    app: str | None
    is_exactly_once: bool
    in_tasks: bool
    checkpoint: str | None
    max_task_bytes: int
    with_headers: bool
    client: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Of the application; there is one where exactly once is asked for."""
        assert self.app is not None, "exactly once without a name"
        return self.app

    def transactional(self, transactional_id: str) -> dict[str, Any]:
        """The settings of a producer with transactions."""
        timeout = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        return timeout | dict(self.client) | {"transactional.id": transactional_id}

    def admin(self) -> dict[str, Any]:
        """The settings that an admin client knows, too: where the brokers are, and who we are."""
        return {name: value for name, value in self.client.items() if name.startswith(_SHARED)}


_SHARED: Final = ("bootstrap.", "client.", "security.", "sasl.", "ssl.")


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Of `option(...)`. Raises ConfigError, which lists everything that is wrong."""
    values, client = read_options(given, OPTIONS)
    if _BOOTSTRAP not in client:
        raise ConfigError([f"option {CLIENT_PREFIX}{_BOOTSTRAP} is missing: host:port of some brokers"])
    return _checked(
        topic=values["topic"],
        app=values["app"],
        guarantee=values["guarantee"],
        transactions=values["transactions"],
        checkpoint=values["checkpoint"] or values["checkpointLocation"],
        max_task_bytes=values["maxTaskBytes"],
        with_headers=values["includeHeaders"],
        client=dict(client),
    )


def batch_options(
    *,
    bootstrap: str,
    app: str | None,
    topic: str | None,
    guarantee: str,
    transactions: str,
    checkpoint: str | None,
    client: Mapping[str, Any],
) -> SinkOptions:
    """Of the arguments of `write_batch`. Raises ConfigError."""
    problems = []
    for name, value, choices in (
        ("guarantee", guarantee, (EXACTLY_ONCE, AT_LEAST_ONCE)),
        ("transactions", transactions, (DRIVER, TASKS)),
    ):
        if value not in choices:
            problems.append(f"{name} is {value!r}: it must be one of {', '.join(choices)}")
    if problems:
        raise ConfigError(problems)
    return _checked(
        topic=topic,
        app=app,
        guarantee=guarantee,
        transactions=transactions,
        checkpoint=checkpoint,
        max_task_bytes=MAX_TASK_BYTES,
        with_headers=True,
        client={_BOOTSTRAP: bootstrap, **{name.removeprefix(CLIENT_PREFIX): value for name, value in client.items()}},
    )


def _checked(
    *, app: str | None, guarantee: str | None, transactions: str, client: dict[str, Any], **rest: Any
) -> SinkOptions:
    exactly_once = guarantee == EXACTLY_ONCE or (guarantee is None and app is not None)
    problems = [f"{CLIENT_PREFIX}{name} is the sink's own business: leave it out" for name in client if name in _TAKEN]
    if exactly_once and app is None:
        problems.append("exactly once needs an option app: the application's name, which stays the same over restarts")
    if problems:
        raise ConfigError(problems)
    producer_settings(None, client, {})  # for its complaints
    return SinkOptions(app=app, is_exactly_once=exactly_once, in_tasks=transactions == TASKS, client=client, **rest)
