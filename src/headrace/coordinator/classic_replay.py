"""From records to classic groups."""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.shard_state import Replay

REPLAY: Final[Mapping[int, Replay]] = {}
