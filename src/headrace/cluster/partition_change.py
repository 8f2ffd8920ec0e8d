"""The next state of one partition: who is in sync, who may still lead, who leads.

Every change of a partition takes this road: a follower drops out or catches up, a broker dies or comes back, a
reassignment starts, ends or is given up, somebody asks for an election. The caller says what it wants to be
different; here follows what else must change with it, in this order:

1. A reassignment is complete once all added replicas are in sync; the removed ones then leave.
2. Replicas that leave the ISR while it is below min.insync.replicas remain eligible leaders (ELR, KIP-966): nothing
   can have been committed without them. With enough replicas in sync the ELR is empty.
3. The leader stays if it can. Otherwise the first replica in sync leads; with nobody in sync, an eligible one; with
   nobody eligible either, the last leader when it comes back; and where the topic allows it, anybody alive. The last
   two may lose records, so the new leader is alone in the ISR and `recovering` until it has looked at its log.
4. The leader epoch grows with a new leader, and when a replica is taken away, so that its last fetches are refused.

A partition without ELR keeps its last ISR when it loses its leader: one of them must come back.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from headrace.cluster.delta import LEADER_AS_IT_WAS, RECOVERY_AS_IT_WAS
from headrace.cluster.features import DIRECTORIES_SINCE, ISR_SHRINK_KEEPS_EPOCH_SINCE
from headrace.cluster.image import NO_LEADER, UNASSIGNED_DIRECTORY, Image, Partition
from headrace.protocol.messages.metadata_records import PartitionChangeRecord


class Election(Enum):
    """Whom an election may choose."""

    ONLINE = "online"  # the leader stays if it can
    PREFERRED = "preferred"  # the first replica takes over if it can
    UNCLEAN = "unclean"  # anybody alive rather than nobody


class Wish(NamedTuple):
    """What shall be different; None leaves it as it is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding_replicas: Sequence[int] | None = None
    removing_replicas: Sequence[int] | None = None
    recovering: bool | None = None
    directories: Mapping[int, bytes] = {}  # by replica
    lost_data: int | None = None  # a replica that cannot be trusted to hold all it had: it is not eligible any more
    election: Election = Election.ONLINE


class Surroundings(NamedTuple):
    """What a change depends on besides the partition itself."""

    image: Image
    min_insync_replicas: int
    is_alive: Callable[[int], bool]  # by broker; not yet what the image says while a broker comes or goes


class _Elected(NamedTuple):
    leader: int
    unclean: bool = False


def change_partition(
    topic_id: bytes, index: int, partition: Partition, wish: Wish, around: Surroundings
) -> PartitionChangeRecord | None:
    """The record that makes the wish true, with all that follows from it; None if nothing changes."""
    target = _complete_reassignment(_wished(partition, wish))
    elr = _eligible(partition, target, wish, around)
    elected = _elect(partition, target, elr, wish.election, around)
    isr: Sequence[int] = target.isr
    recovering = partition.recovering if wish.recovering is None else wish.recovering
    if elected.unclean and elected.leader != partition.leader:
        isr, elr, recovering = (elected.leader,), (), True
    elif elected.leader in elr and elected.leader != partition.leader:
        isr, elr = (elected.leader,), tuple(each for each in elr if each != elected.leader)
    elif not isr and not around.image.elr_enabled:
        isr = partition.isr
    record = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_difference(isr, partition.isr),
        leader=_leader_change(partition, target, isr, elected.leader, around.image.metadata_version),
        replicas=_difference(target.replicas, partition.replicas),
        removing_replicas=_difference(target.removing_replicas, partition.removing_replicas),
        adding_replicas=_difference(target.adding_replicas, partition.adding_replicas),
        leader_recovery_state=RECOVERY_AS_IT_WAS if recovering == partition.recovering else int(recovering),
        directories=_directories_change(partition, target, wish, around.image),
        eligible_leader_replicas=_difference(elr, partition.elr),
        last_known_elr=_last_known_change(partition, elected.leader, around.image),
    )
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic_id) else record


def _wished(partition: Partition, wish: Wish) -> Partition:
    return partition._replace(
        isr=partition.isr if wish.isr is None else tuple(wish.isr),
        replicas=partition.replicas if wish.replicas is None else tuple(wish.replicas),
        adding_replicas=partition.adding_replicas if wish.adding_replicas is None else tuple(wish.adding_replicas),
        removing_replicas=(
            partition.removing_replicas if wish.removing_replicas is None else tuple(wish.removing_replicas)
        ),
    )


def _complete_reassignment(target: Partition) -> Partition:
    """The reassignment done, if the replicas in sync allow it now."""
    if not target.is_reassigning:
        return target
    isr = tuple(each for each in target.isr if each not in target.removing_replicas)
    replicas = tuple(each for each in target.replicas if each not in target.removing_replicas)
    if not isr or not set(target.adding_replicas) <= set(isr):
        return target
    # KAFKA-14190: where replicas become fewer, nobody in sync may be given up for one that is not.
    if len(target.adding_replicas) < len(target.removing_replicas) and not set(replicas) <= set(isr):
        return target
    return target._replace(isr=isr, replicas=replicas, adding_replicas=(), removing_replicas=())


def _eligible(partition: Partition, target: Partition, wish: Wish, around: Surroundings) -> tuple[int, ...]:
    if not around.image.elr_enabled or len(target.isr) >= around.min_insync_replicas:
        return ()
    candidates = {*partition.elr, *partition.isr} & set(target.replicas)
    return tuple(sorted(candidates - set(target.isr) - {wish.lost_data}))


def _elect(
    partition: Partition, target: Partition, elr: tuple[int, ...], election: Election, around: Surroundings
) -> _Elected:
    def may_lead(replica: int) -> bool:
        broker = around.image.brokers.get(replica)
        if broker is None or not around.is_alive(replica):
            return False
        known = replica in partition.replicas
        return broker.has_online_directory(partition.directory_of(replica) if known else UNASSIGNED_DIRECTORY)

    in_line = target.isr or elr
    order = [*target.replicas]
    if election is Election.PREFERRED:
        order.insert(1, partition.leader)
    else:
        order.insert(0, partition.leader)
    for replica in order:
        if replica in in_line and may_lead(replica):
            return _Elected(replica)
    if around.image.elr_enabled and not in_line and len(partition.last_known_elr) == 1:
        (last,) = partition.last_known_elr
        if last in target.replicas and may_lead(last):
            return _Elected(last, unclean=True)
    if election is Election.UNCLEAN:
        for replica in target.replicas:
            if may_lead(replica):
                return _Elected(replica, unclean=True)
    return _Elected(NO_LEADER)


def _leader_change(
    partition: Partition, target: Partition, isr: Sequence[int], leader: int, metadata_version: int
) -> int:
    """The leader to write, which also raises its epoch, or LEADER_AS_IT_WAS."""
    if leader != partition.leader:
        return leader
    replica_leaves = not set(partition.replicas) <= set(target.replicas)
    isr_shrinks = not set(partition.isr) <= set(isr)
    if replica_leaves or (isr_shrinks and metadata_version < ISR_SHRINK_KEEPS_EPOCH_SINCE):
        return leader
    return LEADER_AS_IT_WAS


def _directories_change(partition: Partition, target: Partition, wish: Wish, image: Image) -> list[bytes] | None:
    if image.metadata_version < DIRECTORIES_SINCE:
        return None
    known = dict(zip(partition.replicas, partition.directories, strict=True)) | dict(wish.directories)
    directories = [known[each] if each in known else _default_directory(image, each) for each in target.replicas]
    return None if directories == list(partition.directories) else directories


def _default_directory(image: Image, broker_id: int) -> bytes:
    broker = image.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory()


def _last_known_change(partition: Partition, leader: int, image: Image) -> tuple[int, ...] | None:
    """Who led last is remembered while nobody leads."""
    if not image.elr_enabled or leader == partition.leader:
        return None
    if leader == NO_LEADER:
        return None if partition.last_known_elr else (partition.leader,)
    return () if partition.last_known_elr else None


def _difference(new: Sequence[int], old: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if tuple(new) == old else tuple(new)
