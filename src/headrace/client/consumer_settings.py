"""A consumer's settings: what was given, checked, and what cannot be together."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.client.assignors import load_assignors
from headrace.client.config import Settings, load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.errors import ConfigError

_numbers: Final = itertools.count(1)  # of consumers, in their client ids


def consumer_settings(
    bootstrap: str | Sequence[str] | None,
    config: Mapping[str, Any] | None,
    configs: Mapping[str, Any],
    group: str | None,
) -> Settings:
    """`group` is short for group.id. Raises ConfigError."""
    keywords = dict(configs)
    if group is not None:
        keywords["group_id"] = group
    if "client_id" not in keywords and "client.id" not in (config or {}):
        name = keywords.get("group_id") or (config or {}).get("group.id")
        keywords["client_id"] = f"consumer-{name}-{next(_numbers)}" if name else f"consumer-{next(_numbers)}"
    settings = load_settings(CONSUMER_CONFIGS, bootstrap, config, keywords)
    _check(settings)
    load_assignors(settings.items("partition.assignment.strategy"))
    return settings


def _check(settings: Settings) -> None:
    """What cannot be together. Raises ConfigError."""
    problems: list[str] = []
    if settings.optional_text("group.id") == "":
        problems.append("group.id must not be empty; leave it out for a consumer without a group")
    if settings.text("group.protocol") == "consumer":
        problems += [
            f"{name} must be left out with group.protocol=consumer: the broker decides it"
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
            if settings.is_given(name)
        ]
    elif settings.optional_text("group.remote.assignor") is not None:
        problems.append("group.remote.assignor must be left out with group.protocol=classic: a member assigns")
    elif settings.number("heartbeat.interval.ms") >= settings.number("session.timeout.ms"):
        problems.append("heartbeat.interval.ms must be below session.timeout.ms; a third of it is usual")
    if problems:
        raise ConfigError(problems)
