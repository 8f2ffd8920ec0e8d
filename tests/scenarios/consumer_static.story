; Consumer groups (KIP-848): static members, who keep their partitions while they restart.

# a static member that left for now has its partitions back at once
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
A beats g has=t-0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2
    -> epoch 3, next in 5000 ms, has t-0
A beats g has=t-0
    -> epoch 3, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 STABLE, has t-1@3
    -> epoch 3, next in 5000 ms, has t-1
B steps-out g for-now
    log [group g epoch 3] static member i2 left for now
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch -2 after 3 STABLE, has t-1@0
    -> B left with epoch -2
look-at g
    -> Reconciling, epoch 3, assignment epoch 3, uniform
    -> A(i1) epoch 3 wants t has t-0 is to have t-0
    -> B(i2) epoch -2 wants t has t-1 is to have t-1
C steps-in g on=t as=i2
    log [group g epoch 3] static member i2 is back as C, before it was B
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMemberMetadata v0 g C: of B on /127.0.0.1 as i2 wants t rebalances in 60000 ms
    writes ConsumerGroupTargetAssignmentMember v0 g C: is to have t-1
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 0 after 0 STABLE, has t-1@0
    writes ConsumerGroupMemberMetadata v0 g C: of C on /127.0.0.1 as i2 wants t rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 3 after 0 STABLE, has t-1@0
    -> epoch 3, next in 5000 ms, has t-1
B beats g
    -> FENCED_INSTANCE_ID: Static member B with instance id i2 was fenced by member C.
B steps-out g for-now
    -> FENCED_INSTANCE_ID: Static member B with instance id i2 was fenced by member C.
A beats g
    -> epoch 3, next in 5000 ms
look-at g
    -> Stable, epoch 3, assignment epoch 3, uniform
    -> A(i1) epoch 3 wants t has t-0 is to have t-0
    -> C(i2) epoch 3 wants t has t-1 is to have t-1

# a static member that does not come back loses its partitions after its session time-out
config group.consumer.assignment.interval.ms=0
topic t 1
A steps-in g on=t as=i1
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A steps-out g for-now
    log [group g epoch 2] static member i1 left for now
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch -2 after 0 STABLE, has t-0@0
    -> A left with epoch -2
clock 44s
look-at g
    -> Reconciling, epoch 2, assignment epoch 2, uniform
    -> A(i1) epoch -2 wants t has t-0 is to have t-0
clock 1s
    +1000 ms log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 was silent for its session time-out
    +1000 ms writes ConsumerGroupCurrentMemberAssignment g A tombstone
    +1000 ms writes ConsumerGroupTargetAssignmentMember g A tombstone
    +1000 ms writes ConsumerGroupMemberMetadata g A tombstone
    +1000 ms writes ConsumerGroupMetadata v0 g: epoch 3
look-at g
    -> Empty, epoch 3, assignment epoch 2, uniform

# an instance id belongs to one member at a time
topic t 1
A steps-in g on=t as=i1
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
B steps-in g on=t as=i1
    -> UNRELEASED_INSTANCE_ID: Static member B with instance id i1 cannot join the group because the instance id is owned by A.
A beats g
    -> epoch 2, next in 5000 ms
B beats g id=B as=i1 epoch=2
    -> FENCED_INSTANCE_ID: Static member B with instance id i1 was fenced by member A.
B beats g id=B as=i3 epoch=2
    -> UNKNOWN_MEMBER_ID: Instance id i3 is unknown.
B steps-out g id=B as=i1
    -> FENCED_INSTANCE_ID: Static member B with instance id i1 was fenced by member A.
A steps-out g
    log [group g epoch 3] is to be assigned anew: member A of A left
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 3
    -> A left with epoch -1
B steps-in g on=t as=i1
    log [group g epoch 4] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 1000 ms, has nothing

# a static member that comes back with another subscription
config group.consumer.assignment.interval.ms=0
topic t 1
topic u 1
A steps-in g on=t as=i1
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A steps-out g for-now
    log [group g epoch 2] static member i1 left for now
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch -2 after 0 STABLE, has t-0@0
    -> A left with epoch -2
A steps-in g on=u as=i1
    log [group g epoch 2] static member i1 is back as A, before it was A
    log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 0 after 0 STABLE, has t-0@0
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 0 STABLE, has u-0@3
    -> epoch 3, next in 5000 ms, has u-0
A obeys g
    -> epoch 3, next in 5000 ms

# a static member that left while it had to give something up
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
B steps-in g on=t
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms, has nothing
A beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2, gives up t-1@2
    -> epoch 2, next in 5000 ms, has t-0
A steps-out g for-now
    log [group g epoch 3] static member i1 left for now
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch -2 after 2 UNREVOKED_PARTITIONS, has t-0@0
    -> A left with epoch -2
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 STABLE, has t-1@3
    -> epoch 3, next in 5000 ms, has t-1
A steps-in g on=t as=i1
    log [group g epoch 3] static member i1 is back as A, before it was A
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 as i1 wants t rebalances in 60000 ms
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 0 after 0 UNREVOKED_PARTITIONS, has t-0@0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 0 STABLE, has t-0@0
    -> epoch 3, next in 5000 ms, has t-0
B beats g
    -> epoch 3, next in 5000 ms
clock 60s
    +45000 ms log [group g epoch 4] is to be assigned anew: member A of A on /127.0.0.1 was silent for its session time-out
    +45000 ms writes ConsumerGroupCurrentMemberAssignment g A tombstone
    +45000 ms writes ConsumerGroupTargetAssignmentMember g A tombstone
    +45000 ms writes ConsumerGroupMemberMetadata g A tombstone
    +45000 ms writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    +45000 ms log [group g epoch 5] is to be assigned anew: member B of B on /127.0.0.1 was silent for its session time-out
    +45000 ms writes ConsumerGroupCurrentMemberAssignment g B tombstone
    +45000 ms writes ConsumerGroupTargetAssignmentMember g B tombstone
    +45000 ms writes ConsumerGroupMemberMetadata g B tombstone
    +45000 ms writes ConsumerGroupMetadata v0 g: epoch 5
A beats g
    -> UNKNOWN_MEMBER_ID: Instance id i1 is unknown.
