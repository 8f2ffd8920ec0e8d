"""What an admin client is told, besides what every client is."""

from typing import Final

from headrace.client.common_configs import COMMON_CONFIGS
from headrace.client.security_configs import SECURITY_CONFIGS
from headrace.cluster.config_types import INT, LOW, MAX_INT, ConfigKey, ConfigTable

_OWN: Final = [
    ConfigKey(
        "default.api.timeout.ms", INT, 60_000, "How long a call without a time-out of its own may take.", minimum=0
    ),
    ConfigKey("retries", INT, MAX_INT, "How often a request is repeated.", LOW, minimum=0, maximum=MAX_INT),
]

ADMIN_CONFIGS: Final = ConfigTable(
    "admin client",
    [
        *(key._replace(default=300_000) if key.name == "connections.max.idle.ms" else key for key in COMMON_CONFIGS),
        *SECURITY_CONFIGS,
        *_OWN,
    ],
)
