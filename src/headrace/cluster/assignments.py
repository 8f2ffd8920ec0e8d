"""Replicas of new partitions: placed by us, or given by hand and checked."""

from collections.abc import Sequence

from headrace.cluster.decision import RefusedError
from headrace.cluster.image import Image, Partition
from headrace.cluster.placement import PlacementError, RandomSource, UsableBroker, place_replicas
from headrace.protocol.error_codes import ErrorCode


def placed_partitions(
    image: Image, *, partitions: int, replication_factor: int, random: RandomSource
) -> list[Partition]:
    """New partitions on brokers of our choice. Raises RefusedError."""
    usable = [
        UsableBroker(broker.broker_id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if broker.takes_new_replicas()
    ]
    try:
        placed = place_replicas(usable, partitions=partitions, replication_factor=replication_factor, random=random)
    except PlacementError as fault:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, str(fault)) from fault
    return [new_partition(image, replicas) for replicas in placed]


def given_partition(
    image: Image, replicas: Sequence[int], *, index: int, replication_factor: int | None = None
) -> Partition:
    """A new partition on the brokers that were asked for. Raises RefusedError."""
    check_replicas(image, replicas)
    if replication_factor is not None and len(replicas) != replication_factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partition {index} has {len(replicas)} replicas, and others of the topic have {replication_factor}",
        )
    if not any(image.is_active(each) for each in replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the brokers {list(replicas)} of partition {index} is alive: they are fenced or shutting down",
        )
    return new_partition(image, replicas)


def check_replicas(image: Image, replicas: Sequence[int]) -> None:
    """Raises RefusedError unless these are registered brokers, each once."""
    if not replicas:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is no broker {broker_id}")
    if len(set(replicas)) < len(replicas):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a broker holds one replica of a partition, but {list(replicas)} repeats",
        )


def new_partition(image: Image, replicas: Sequence[int]) -> Partition:
    """A partition at its beginning: those of its brokers that live are in sync, since there is nothing to copy yet."""
    isr = tuple(each for each in replicas if image.is_active(each))
    return Partition(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(image.brokers[each].default_directory() for each in replicas),
    )
