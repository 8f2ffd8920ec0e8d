; Groups that change over from the classic protocol to the consumer protocol (KIP-848), and back, while they run.

# a classic group is taken over as it stands, and its members go on as they are
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1 t-1@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 2, next in 100 ms, has nothing
look-at g
    -> Reconciling, epoch 2, assignment epoch 2, uniform
    -> classic A-1 epoch 1 wants t has t-0 t-1 is to have t-0
    -> B epoch 2 wants t has nothing is to have t-1
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 2 after 1 STABLE, has t-0@1
    -> generation 2, consumer/range, member A-1, follows nobody
A syncs g
    -> consumer/range assigns t-0
A heartbeats g
    -> ok
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 2 STABLE, has t-1@2
    -> epoch 2, next in 5000 ms, has t-1
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> classic A-1 epoch 2 wants t has t-0 is to have t-0
    -> B epoch 2 wants t has t-1 is to have t-1

# the last member of the new protocol goes, and the group is a classic one again
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1 t-1@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 2, next in 100 ms, has nothing
A joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 2 after 1 STABLE, has t-0@1
    -> generation 2, consumer/range, member A-1, follows nobody
A syncs g
    -> consumer/range assigns t-0
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 2 STABLE, has t-1@2
    -> epoch 2, next in 5000 ms, has t-1
B steps-out g
    log [group g generation 2] was a consumer group, and is a classic one
    log [group g generation 2] prepares to rebalance: member B of B left, and the others speak the classic protocol
    writes ConsumerGroupCurrentMemberAssignment g A-1 tombstone
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g A-1 tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupTargetAssignmentMetadata g tombstone
    writes ConsumerGroupMemberMetadata g A-1 tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupPartitionMetadata g tombstone
    writes ConsumerGroupMetadata g tombstone
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> B left with epoch -1
describe g
    -> PreparingRebalance consumer/; A-1 of A on /127.0.0.1 ? has t-0
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=range on=t
    log [group g generation 3] has 1 member and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 3] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
describe g
    -> Stable consumer/range; A-1 of A on /127.0.0.1 wants t has t-0 t-1

# a whole group moves over, member by member, and nobody is without a say
config group.consumer.assignment.interval.ms=0
topic t 4
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
B enters g with=range on=t
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A joins g with=range on=t
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
A syncs g A=t-0,t-1 B=t-2,t-3
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1; B-2 wants t has t-2 t-3
    -> consumer/range assigns t-0 t-1
B syncs g
    -> consumer/range assigns t-2 t-3
A leaves g
    log [group g generation 2] member A-1 leaves; it says: nothing
    log [group g generation 2] prepares to rebalance: A-1 left
    -> A-1 ok
C steps-in g on=t
    log [group g epoch 2] was a classic group, and is a consumer group now
    log [group g epoch 3] is to be assigned anew: member C of C on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g B-2: of B on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B-2: is to have t-2 t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g B-2: epoch 2 after 2 STABLE, has t-2@2 t-3@2
    writes ConsumerGroupMemberMetadata v0 g C: of C on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g C: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 3 after 0 STABLE, has t-0@3 t-1@3
    -> epoch 3, next in 5000 ms, has t-0 t-1
look-at g
    -> Reconciling, epoch 3, assignment epoch 3, uniform
    -> classic B-2 epoch 2 wants t has t-2 t-3 is to have t-2 t-3
    -> C epoch 3 wants t has t-0 t-1 is to have t-0 t-1
B joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g B-2: epoch 3 after 2 STABLE, has t-2@2 t-3@2
    -> generation 3, consumer/range, member B-2, follows nobody
B syncs g
    -> consumer/range assigns t-2 t-3
C beats g
    -> epoch 3, next in 5000 ms
B leaves g
    log [group g epoch 4] is to be assigned anew: B-2 left; it says: nothing
    writes ConsumerGroupCurrentMemberAssignment g B-2 tombstone
    writes ConsumerGroupTargetAssignmentMember g B-2 tombstone
    writes ConsumerGroupMemberMetadata g B-2 tombstone
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    -> B-2 ok
D steps-in g on=t
    log [group g epoch 5] is to be assigned anew: member D of D on /127.0.0.1 has a new subscription
    log [group g epoch 5] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g D: of D on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 5 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g D: is to have t-2 t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 5 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g D: epoch 5 after 0 STABLE, has t-2@5 t-3@5
    -> epoch 5, next in 5000 ms, has t-2 t-3
C beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 5 after 3 STABLE, has t-0@3 t-1@3
    -> epoch 5, next in 5000 ms
C obeys g
    -> epoch 5, next in 5000 ms
D beats g
    -> epoch 5, next in 5000 ms
look-at g
    -> Stable, epoch 5, assignment epoch 5, uniform
    -> C epoch 5 wants t has t-0 t-1 is to have t-0 t-1
    -> D epoch 5 wants t has t-2 t-3 is to have t-2 t-3

# whoever waits in a rebalance is told to join again
config group.consumer.assignment.interval.ms=0
topic t 1
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B enters g with=range on=t
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
C steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member C of C on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMemberMetadata v0 g B-2: of B on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B-2: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1
    writes ConsumerGroupCurrentMemberAssignment v0 g B-2: epoch 1 after 1 STABLE, has nothing
    writes ConsumerGroupMemberMetadata v0 g C: of C on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g C: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 5000 ms, has nothing
    B <- REBALANCE_IN_PROGRESS, member B-2
B joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g B-2: epoch 2 after 1 STABLE, has nothing
    -> generation 2, consumer/range, member B-2, follows nobody
A heartbeats g
    -> REBALANCE_IN_PROGRESS
look-at g
    -> Reconciling, epoch 2, assignment epoch 2, uniform
    -> classic A-1 epoch 1 wants t has t-0 is to have t-0
    -> classic B-2 epoch 2 wants t has nothing is to have nothing
    -> C epoch 2 wants t has nothing is to have nothing

# cooperative members say what they have, and give up step by step
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=cooperative-sticky on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/cooperative-sticky, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with cooperative-sticky
    writes GroupMetadata v3 g: generation 1 consumer/cooperative-sticky leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/cooperative-sticky assigns t-0 t-1
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic cooperative-sticky, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1 t-1@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 2, next in 100 ms, has nothing
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=cooperative-sticky on=t has=t-0,t-1
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic cooperative-sticky, session 10000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 UNREVOKED_PARTITIONS, has t-0@1, gives up t-1@1
    -> generation 1, consumer/cooperative-sticky, member A-1, follows nobody
A syncs g
    -> consumer/cooperative-sticky assigns t-0
A joins g with=cooperative-sticky on=t has=t-0
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic cooperative-sticky, session 10000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 2 after 1 STABLE, has t-0@1
    -> generation 2, consumer/cooperative-sticky, member A-1, follows nobody
A syncs g
    -> consumer/cooperative-sticky assigns t-0
A heartbeats g
    -> ok
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 2 STABLE, has t-1@2
    -> epoch 2, next in 5000 ms, has t-1

# a classic member that waits for partitions of others is told when they are free
config group.consumer.assignment.interval.ms=0
topic t 2
B steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
A enters g with=range on=t
    log [group g epoch 3] is to be assigned anew: member 1 of A on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g 1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g 1: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g 1: epoch 3 after 0 UNRELEASED_PARTITIONS, has nothing
    -> generation 3, consumer/range, member 1, follows nobody
A syncs g
    -> consumer/range assigns nothing
A heartbeats g
    -> ok
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2, gives up t-1@2
    -> epoch 2, next in 5000 ms, has t-0
A heartbeats g
    -> ok
B obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 2 STABLE, has t-0@2
    -> epoch 3, next in 5000 ms
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g 1: epoch 3 after 3 STABLE, has t-1@3
    -> generation 3, consumer/range, member 1, follows nobody
A syncs g
    -> consumer/range assigns t-1

# a classic member that does not join again, or does not sync, is removed
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=range on=t rebalance=20s session=30s
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 20000 ms speaks classic range, session 30000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1 t-1@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 2, next in 100 ms, has nothing
A heartbeats g
    -> REBALANCE_IN_PROGRESS
clock 15s
A heartbeats g
    -> REBALANCE_IN_PROGRESS
clock 5s
    +5000 ms log [group g epoch 3] is to be assigned anew: member A-1 of A on /127.0.0.1 did not join again in time
    +5000 ms writes ConsumerGroupCurrentMemberAssignment g A-1 tombstone
    +5000 ms writes ConsumerGroupTargetAssignmentMember g A-1 tombstone
    +5000 ms writes ConsumerGroupMemberMetadata g A-1 tombstone
    +5000 ms writes ConsumerGroupMetadata v0 g: epoch 3 with topics
C enters g with=range on=t rebalance=10s session=60s
    log [group g epoch 4] is to be assigned anew: member 2 of C on /127.0.0.1 has a new subscription
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g 2: of C on /127.0.0.1 wants t rebalances in 10000 ms speaks classic range, session 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g 2: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +20000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g 2: epoch 4 after 0 STABLE, has t-0@4
    -> generation 4, consumer/range, member 2, follows nobody
clock 10s
    +10000 ms log [group g epoch 5] is to be assigned anew: member 2 of C on /127.0.0.1 did not send SyncGroup in time
    +10000 ms writes ConsumerGroupCurrentMemberAssignment g 2 tombstone
    +10000 ms writes ConsumerGroupTargetAssignmentMember g 2 tombstone
    +10000 ms writes ConsumerGroupMemberMetadata g 2 tombstone
    +10000 ms writes ConsumerGroupMetadata v0 g: epoch 5 with topics
A heartbeats g
    -> UNKNOWN_MEMBER_ID

# a classic member that is silent for its own session time-out is removed
topic t 1
A enters g with=range on=t session=7s
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 7000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 5000 ms, has nothing
clock 7s
    +7000 ms log [group g epoch 3] is to be assigned anew: member A-1 of A on /127.0.0.1 was silent for its session time-out
    +7000 ms writes ConsumerGroupCurrentMemberAssignment g A-1 tombstone
    +7000 ms writes ConsumerGroupTargetAssignmentMember g A-1 tombstone
    +7000 ms writes ConsumerGroupMemberMetadata g A-1 tombstone
    +7000 ms writes ConsumerGroupMetadata v0 g: epoch 3 with topics
look-at g
    -> Assigning, epoch 3, assignment epoch 2, uniform
    -> B epoch 2 wants t has nothing is to have nothing

# after a restart, too, a classic member is given its own session time-out
topic t 1
A enters g with=range on=t session=7s
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 7000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 5000 ms, has nothing
restart
clock 7s
    +7000 ms log [group g epoch 3] is to be assigned anew: member A-1 of A on /127.0.0.1 was silent for its session time-out
    +7000 ms writes ConsumerGroupCurrentMemberAssignment g A-1 tombstone
    +7000 ms writes ConsumerGroupTargetAssignmentMember g A-1 tombstone
    +7000 ms writes ConsumerGroupMemberMetadata g A-1 tombstone
    +7000 ms writes ConsumerGroupMetadata v0 g: epoch 3 with topics
look-at g
    -> Assigning, epoch 3, assignment epoch 2, uniform
    -> B epoch 2 wants t has nothing is to have nothing

# members that cannot be understood are refused
config group.consumer.assignment.interval.ms=0
topic t 1
B steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A enters g type=connect with=range on=t
    -> INCONSISTENT_GROUP_PROTOCOL
C enters g with=range on=t
    log [group g epoch 3] is to be assigned anew: member 2 of C on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g 2: of C on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g 2: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g 2: epoch 3 after 0 STABLE, has nothing
    -> generation 3, consumer/range, member 2, follows nobody
A enters g with=roundrobin on=t
    -> INCONSISTENT_GROUP_PROTOCOL
C syncs g with=roundrobin
    -> INCONSISTENT_GROUP_PROTOCOL
C syncs g generation=9
    -> ILLEGAL_GENERATION
C heartbeats g generation=9
    -> ILLEGAL_GENERATION
B heartbeats g generation=2
    -> UNKNOWN_MEMBER_ID
B syncs g generation=2
    -> UNKNOWN_MEMBER_ID
D heartbeats g generation=2 id=D
    -> UNKNOWN_MEMBER_ID

# a member whose subscription cannot be read is refused
topic t 1
B steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A enters g with=range on=?
    -> UNKNOWN_SERVER_ERROR
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> B epoch 2 wants t has t-0 is to have t-0

# a group whose assignments nobody here can read stays a classic group
topic t 1
A enters g with=range on=?
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 unreadable has t-0
    -> consumer/range assigns t-0
B steps-in g on=t
    -> GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because what its members say cannot be read: 543236204 rows of at least 2 bytes, 18 bytes are left in field 'topics' at byte 6.
A heartbeats g
    -> ok

# the policy may forbid it
config group.consumer.migration.policy=disabled
topic t 1
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B steps-in g on=t
    -> GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because online upgrade is disabled by group.consumer.migration.policy.
B steps-in h on=t
    log [group h epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group h epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 h B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 h: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 h B: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 h: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 h B: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A enters h with=range on=t
    -> INCONSISTENT_GROUP_PROTOCOL

# the policy may allow only one way
config group.consumer.assignment.interval.ms=0
config group.consumer.migration.policy=upgrade
topic t 1
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 5000 ms, has nothing
B steps-out g
    log [group g epoch 3] is to be assigned anew: member B of B left
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    -> B left with epoch -1
look-at g
    -> Assigning, epoch 3, assignment epoch 2, uniform
    -> classic A-1 epoch 1 wants t has t-0 is to have t-0
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=range on=t
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 3 after 1 STABLE, has t-0@1
    -> generation 3, consumer/range, member A-1, follows nobody
A syncs g
    -> consumer/range assigns t-0

# an empty group changes its kind without a word
topic t 1
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
A commits g t-0=7
    writes OffsetCommit v4 g t 0: 7 at +0 ms
    -> t-0 ok
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
B steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
B commits g t-0=8
    writes OffsetCommit v4 g t 0: 8 at +0 ms
    -> t-0 ok
B steps-out g
    log [group g epoch 3] is to be assigned anew: member B of B left
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMetadata v0 g: epoch 3
    -> B left with epoch -1
D enters g with=range on=t
    writes ConsumerGroupTargetAssignmentMetadata g tombstone
    writes ConsumerGroupPartitionMetadata g tombstone
    writes ConsumerGroupMetadata g tombstone
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member D-2 of D on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of D-2
    -> generation 1, consumer/range, member D-2, leader, members D-2
admin fetches g t-0
    -> t-0=8

# a static member comes back with the new protocol, and then with the old one
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=range on=t as=i1
    log [group g generation 0] prepares to rebalance: member i1-1 with instance id i1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of i1-1
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> generation 1, consumer/range, member i1-1, leader, members i1-1(i1)
B enters g with=range on=t as=i2
    -> waits
    log [group g generation 1] prepares to rebalance: member i2-2 with instance id i2 of B on /127.0.0.1 is new; it says: nothing
A joins g with=range on=t
    log [group g generation 2] has 2 members and waits for the assignment of i1-1
    -> generation 2, consumer/range, member i1-1, leader, members i1-1(i1) i2-2(i2)
    B <- generation 2, consumer/range, member i2-2, follows i1-1
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: i1-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader i1-1 since +0 ms; i1-1(i1) wants t has t-0; i2-2(i2) wants t has t-1
    -> consumer/range assigns t-0
B syncs g
    -> consumer/range assigns t-1
B2 steps-in g on=t as=i2
    log [group g epoch 2] was a classic group, and is a consumer group now
    log [group g epoch 2] static member i2 is back as B2, before it was i2-2
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g i1-1: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMemberMetadata v0 g i2-2: of B on /127.0.0.1 as i2 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g i1-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g i2-2: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g i1-1: epoch 2 after 2 STABLE, has t-0@2
    writes ConsumerGroupCurrentMemberAssignment v0 g i2-2: epoch 2 after 2 STABLE, has t-1@2
    writes ConsumerGroupCurrentMemberAssignment g i2-2 tombstone
    writes ConsumerGroupTargetAssignmentMember g i2-2 tombstone
    writes ConsumerGroupMemberMetadata g i2-2 tombstone
    writes ConsumerGroupMemberMetadata v0 g B2: of B on /127.0.0.1 as i2 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupTargetAssignmentMember v0 g B2: is to have t-1
    writes ConsumerGroupCurrentMemberAssignment v0 g B2: epoch 0 after 0 STABLE, has t-1@2
    writes ConsumerGroupMemberMetadata v0 g B2: of B2 on /127.0.0.1 as i2 wants t rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B2: epoch 2 after 0 STABLE, has t-1@2
    -> epoch 2, next in 5000 ms, has t-1
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> classic i1-1(i1) epoch 2 wants t has t-0 is to have t-0
    -> B2(i2) epoch 2 wants t has t-1 is to have t-1
A heartbeats g
    -> ok
B heartbeats g
    -> FENCED_INSTANCE_ID
B3 joins g with=range on=t as=i2
    log [group g epoch 2] static member i2 is back as 3, before it was B2
    log [group g generation 2] was a consumer group, and is a classic one
    writes ConsumerGroupCurrentMemberAssignment g B2 tombstone
    writes ConsumerGroupTargetAssignmentMember g B2 tombstone
    writes ConsumerGroupMemberMetadata g B2 tombstone
    writes ConsumerGroupMemberMetadata v0 g 3: of B2 on /127.0.0.1 as i2 wants t rebalances in 60000 ms
    writes ConsumerGroupTargetAssignmentMember v0 g 3: is to have t-1
    writes ConsumerGroupCurrentMemberAssignment v0 g 3: epoch 0 after 0 STABLE, has t-1@2
    writes ConsumerGroupMemberMetadata v0 g 3: of B3 on /127.0.0.1 as i2 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g 3: epoch 2 after 0 STABLE, has t-1@2
    writes ConsumerGroupCurrentMemberAssignment g i1-1 tombstone
    writes ConsumerGroupCurrentMemberAssignment g 3 tombstone
    writes ConsumerGroupTargetAssignmentMember g i1-1 tombstone
    writes ConsumerGroupTargetAssignmentMember g 3 tombstone
    writes ConsumerGroupTargetAssignmentMetadata g tombstone
    writes ConsumerGroupMemberMetadata g i1-1 tombstone
    writes ConsumerGroupMemberMetadata g 3 tombstone
    writes ConsumerGroupPartitionMetadata g tombstone
    writes ConsumerGroupMetadata g tombstone
    writes GroupMetadata v3 g: generation 2 consumer/range leader i1-1 since +0 ms; i1-1(i1) wants t has t-0; 3(i2) wants t has t-1
    -> generation 2, consumer/range, member 3, follows nobody
B3 syncs g
    -> consumer/range assigns t-1
describe g
    -> Stable consumer/range; i1-1(i1) of A on /127.0.0.1 wants t has t-0; 3(i2) of B3 on /127.0.0.1 wants t has t-1
A heartbeats g
    -> ok

# a restart in the middle changes nothing
config group.consumer.assignment.interval.ms=0
topic t 2
A enters g with=range on=t
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B steps-in g on=t
    log [group g epoch 1] was a classic group, and is a consumer group now
    log [group g epoch 2] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes GroupMetadata g tombstone
    writes ConsumerGroupMemberMetadata v0 g A-1: of A on /127.0.0.1 wants t rebalances in 60000 ms speaks classic range, session 10000 ms
    writes ConsumerGroupMetadata v0 g: epoch 1 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 1 at never
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 1 after 1 STABLE, has t-0@1 t-1@1
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A-1: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 2, next in 100 ms, has nothing
restart
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A joins g with=range on=t
    writes ConsumerGroupCurrentMemberAssignment v0 g A-1: epoch 2 after 1 STABLE, has t-0@1
    -> generation 2, consumer/range, member A-1, follows nobody
A syncs g
    -> consumer/range assigns t-0
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 2 STABLE, has t-1@2
    -> epoch 2, next in 5000 ms, has t-1
B steps-out g
    log [group g generation 2] was a consumer group, and is a classic one
    log [group g generation 2] prepares to rebalance: member B of B left, and the others speak the classic protocol
    writes ConsumerGroupCurrentMemberAssignment g A-1 tombstone
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g A-1 tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupTargetAssignmentMetadata g tombstone
    writes ConsumerGroupMemberMetadata g A-1 tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupPartitionMetadata g tombstone
    writes ConsumerGroupMetadata g tombstone
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> B left with epoch -1
restart
A heartbeats g
    -> ok
A joins g with=range on=t
    log [group g generation 2] prepares to rebalance: leader A-1 joins again; it says: nothing
    log [group g generation 3] has 1 member and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 3] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1

# an administrator removes members of both kinds
config group.consumer.assignment.interval.ms=0
topic t 2
A steps-in g on=t as=i1
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
B steps-in g on=t as=i2
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 as i2 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms, has nothing
admin removes g i2 i3
    log [group g epoch 4] is to be assigned anew: B left; it says: nothing
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    -> (i2) ok, (i3) UNKNOWN_MEMBER_ID
A beats g
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 4 after 2 STABLE, has t-0@2 t-1@2
    -> epoch 4, next in 5000 ms
admin removes g i1
    log [group g epoch 5] is to be assigned anew: A left; it says: nothing
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 5
    -> (i1) ok
look-at g
    -> Empty, epoch 5, assignment epoch 4, uniform
