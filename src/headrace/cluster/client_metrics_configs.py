"""The configs of a client metrics subscription: which clients send which of their metrics, and how often."""

import re
from typing import Final

from headrace.cluster.config_types import INT, LIST, ConfigKey, ConfigTable, InvalidConfigError, Scope, split_list

MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
MATCHABLE: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def parse_match(text: str, *, name: str = "match") -> dict[str, re.Pattern[str]]:
    """`what=regular expression` items: a client is meant when each matches the whole of what it says of itself."""
    patterns = {}
    for item in split_list(text):
        what, equals, pattern = item.partition("=")
        what = what.strip()
        if not equals or what not in MATCHABLE:
            raise InvalidConfigError(
                name, f'must be items such as client_id=app.*, with one of {", ".join(MATCHABLE)}, not "{item}"'
            )
        try:
            patterns[what] = re.compile(pattern.strip())
        except re.error as fault:
            raise InvalidConfigError(
                name, f'must have a regular expression for {what}, not "{pattern}": {fault}'
            ) from None
    return patterns


CLIENT_METRICS_CONFIGS: Final = ConfigTable(
    "client metrics",
    [
        ConfigKey(
            "interval.ms",
            INT,
            300_000,
            "How often a client sends its metrics.",
            minimum=MIN_INTERVAL_MS,
            maximum=MAX_INTERVAL_MS,
        ),
        ConfigKey(
            "match",
            LIST,
            (),
            "Which clients are asked, by patterns such as client_id=app.*; an empty list asks all.",
            check=lambda name, text: parse_match(text, name=name),
        ),
        ConfigKey(
            "metrics",
            LIST,
            (),
            "Which metrics are sent, by the beginning of their names; * sends all, an empty list none.",
        ),
    ],
    scope=Scope.RESOURCE,
)
