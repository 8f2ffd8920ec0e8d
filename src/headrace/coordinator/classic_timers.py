"""What happens to classic groups when time passes."""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.shard_state import Due

DUE: Final[Mapping[str, Due]] = {}
