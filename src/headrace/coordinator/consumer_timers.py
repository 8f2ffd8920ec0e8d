"""What happens to consumer groups (KIP-848) when time passes or the cluster's metadata changes."""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator.result import Step
from headrace.coordinator.shard_state import Due, ShardState

# By the first item of a deadline's key: what to do when it has come.
DUE: Final[Mapping[str, Due]] = {}


def image_changed(state: ShardState, before: Image, now_ms: int) -> Iterator[Step]:
    """`state.image` is the new one already."""
    yield from ()
