"""Who gets which partitions: the assignors that run on the server (KIP-848).

An assignor only computes: from what the members want and what they are to have so far, what they are to have next. All
give the results that Kafka 4.3's assignors of the same names give for members and topics in the same order.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.coordinator.assignors.range import assign_range
from headrace.coordinator.assignors.spec import Assignment, GroupSpec
from headrace.coordinator.assignors.uniform import assign_uniform

Assignor = Callable[[GroupSpec], dict[str, Assignment]]

RANGE: Final = "range"
UNIFORM: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
