; Consumer groups (KIP-848): how members come, share and go.

# the first member gets everything
topic t 3
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1 t-2
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2 t-2@2
    -> epoch 2, next in 5000 ms, has t-0 t-1 t-2
A beats g
    -> epoch 2, next in 5000 ms
A obeys g
    -> epoch 2, next in 5000 ms
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> A epoch 2 wants t has t-0 t-1 t-2 is to have t-0 t-1 t-2
list
    -> g is Stable, a consumer group of consumer

# a second member waits until the first has given up its share
config group.consumer.assignment.interval.ms=0
topic t 4
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1 t-2 t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2 t-2@2 t-3@2
    -> epoch 2, next in 5000 ms, has t-0 t-1 t-2 t-3
B steps-in g on=t
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-2 t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms, has nothing
look-at g
    -> Reconciling, epoch 3, assignment epoch 3, uniform
    -> A epoch 2 wants t has t-0 t-1 t-2 t-3 is to have t-0 t-1
    -> B epoch 3 wants t has nothing is to have t-2 t-3
A beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2 t-1@2, gives up t-2@2 t-3@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
A beats g
    -> epoch 2, next in 5000 ms
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2 t-1@2
    -> epoch 3, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 STABLE, has t-2@3 t-3@3
    -> epoch 3, next in 5000 ms, has t-2 t-3
B obeys g
    -> epoch 3, next in 5000 ms
A beats g
    -> epoch 3, next in 5000 ms
look-at g
    -> Stable, epoch 3, assignment epoch 3, uniform
    -> A epoch 3 wants t has t-0 t-1 is to have t-0 t-1
    -> B epoch 3 wants t has t-2 t-3 is to have t-2 t-3

# a member that is slow to give up its partitions delays only the one who waits for them
config group.consumer.assignment.interval.ms=0
topic t 3
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1 t-2
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2 t-2@2
    -> epoch 2, next in 5000 ms, has t-0 t-1 t-2
B steps-in g on=t
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-2
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms, has nothing
C steps-in g on=t
    log [group g epoch 4] is to be assigned anew: member C of C on /127.0.0.1 has a new subscription
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g C: of C on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g C: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 4 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 4, next in 100 ms, has nothing
A beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2, gives up t-1@2 t-2@2
    -> epoch 2, next in 5000 ms, has t-0
A beats g has=t-0,t-1
    -> epoch 2, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 4 after 3 UNRELEASED_PARTITIONS, has nothing
    -> epoch 4, next in 100 ms
C beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 4 after 4 UNRELEASED_PARTITIONS, has nothing
    -> epoch 4, next in 100 ms
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 4 after 2 STABLE, has t-0@2
    -> epoch 4, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 4 after 4 STABLE, has t-2@4
    -> epoch 4, next in 5000 ms, has t-2
C beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 4 after 4 STABLE, has t-1@4
    -> epoch 4, next in 5000 ms, has t-1

# a member that never gives up its partitions is removed after its rebalance time-out
config group.consumer.assignment.interval.ms=0
topic t 2
A steps-in g on=t rebalance=20s
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 20000 ms
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
clock 10s
A beats g has=t-0,t-1
    -> epoch 2, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms
clock 10s
    +10000 ms log [group g epoch 4] is to be assigned anew: member A of A on /127.0.0.1 did not give up its partitions in time
    +10000 ms writes ConsumerGroupCurrentMemberAssignment g A tombstone
    +10000 ms writes ConsumerGroupTargetAssignmentMember g A tombstone
    +10000 ms writes ConsumerGroupMemberMetadata g A tombstone
    +10000 ms writes ConsumerGroupMetadata v0 g: epoch 4 with topics
A beats g has=t-0,t-1
    -> UNKNOWN_MEMBER_ID: Member A is not a member of group g.
B beats g
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +20000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 4 after 3 STABLE, has t-0@4 t-1@4
    -> epoch 4, next in 5000 ms, has t-0 t-1
B beats g
    -> epoch 4, next in 5000 ms

# a member that is silent for the session time-out is removed, and a late heartbeat is told so
topic t 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
clock 20s
A beats g
    -> epoch 2, next in 5000 ms
clock 45s
    +45000 ms log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 was silent for its session time-out
    +45000 ms writes ConsumerGroupCurrentMemberAssignment g A tombstone
    +45000 ms writes ConsumerGroupTargetAssignmentMember g A tombstone
    +45000 ms writes ConsumerGroupMemberMetadata g A tombstone
    +45000 ms writes ConsumerGroupMetadata v0 g: epoch 3
A beats g
    -> UNKNOWN_MEMBER_ID: Member A is not a member of group g.
look-at g
    -> Empty, epoch 3, assignment epoch 2, uniform

# members that come within a second are assigned together
topic t 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
clock 300ms
B steps-in g on=t
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 700 ms, has nothing
look-at g
    -> Assigning, epoch 3, assignment epoch 2, uniform
    -> A epoch 2 wants t has t-0 t-1 is to have t-0 t-1
    -> B epoch 2 wants t has nothing is to have nothing
B beats g
    -> epoch 2, next in 700 ms
clock 700ms
B beats g
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +1000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 2 UNRELEASED_PARTITIONS, has nothing
    -> epoch 3, next in 100 ms
A beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2, gives up t-1@2
    -> epoch 2, next in 5000 ms, has t-0

# a member leaves, and the others learn of it with their next heartbeat
config group.consumer.assignment.interval.ms=0
topic t 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
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
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2
    -> epoch 3, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 STABLE, has t-1@3
    -> epoch 3, next in 5000 ms, has t-1
B steps-out g
    log [group g epoch 4] is to be assigned anew: member B of B left
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    -> B left with epoch -1
B beats g
    -> UNKNOWN_MEMBER_ID: Member B is not a member of group g.
A beats g
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 4 after 3 STABLE, has t-0@2 t-1@4
    -> epoch 4, next in 5000 ms, has t-0 t-1
A steps-out g
    log [group g epoch 5] is to be assigned anew: member A of A left
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 5
    -> A left with epoch -1
look-at g
    -> Empty, epoch 5, assignment epoch 4, uniform
A steps-out g
    -> UNKNOWN_MEMBER_ID: Member A is not a member of group g.

# a member that is new to the coordinator has to begin with everything
topic t 1
A beats g epoch=3 id=A
    -> GROUP_ID_NOT_FOUND: Group g not found.
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
B beats g epoch=3 id=B
    -> UNKNOWN_MEMBER_ID: Member B is not a member of group g.
A steps-in g2 on=t epoch=-5
    -> INVALID_REQUEST: MemberEpoch is invalid.
A steps-in g2 on=t by=sticky
    -> UNSUPPORTED_ASSIGNOR: ServerAssignor sticky is not supported. Supported assignors: uniform, range.
A steps-in " " on=t
    -> INVALID_REQUEST: GroupId can't be empty.
A steps-in g2 id= on=t
    -> INVALID_REQUEST: MemberId can't be empty.
A steps-in g2 id= on=t v=0
    log [group g2 epoch 2] is to be assigned anew: member 1 of A on /127.0.0.1 has a new subscription
    log [group g2 epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g2 1: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g2: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g2 1: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g2: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g2 1: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A steps-in g2 as= on=t
    -> INVALID_REQUEST: InstanceId can't be empty.
B steps-out g2 for-now id=B
    -> INVALID_REQUEST: InstanceId can't be null.

# a group may be full
config group.consumer.max.size=1
topic t 1
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
B steps-in g on=t
    -> GROUP_MAX_SIZE_REACHED: The consumer group has reached its maximum capacity of 1 members.
A beats g
    -> epoch 2, next in 5000 ms

# the group says how often a member is heard of
topic t 1
group-config g consumer.heartbeat.interval.ms=6000 consumer.session.timeout.ms=50000
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 6000 ms, has t-0
clock 49s
clock 1s
    +1000 ms log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 was silent for its session time-out
    +1000 ms writes ConsumerGroupCurrentMemberAssignment g A tombstone
    +1000 ms writes ConsumerGroupTargetAssignmentMember g A tombstone
    +1000 ms writes ConsumerGroupMemberMetadata g A tombstone
    +1000 ms writes ConsumerGroupMetadata v0 g: epoch 3

# an answer that was lost is asked for again with the epoch before
config group.consumer.assignment.interval.ms=0
topic t 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
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
A beats g has=t-0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2
    -> epoch 3, next in 5000 ms
A tells-all g epoch=2
    -> epoch 3, next in 5000 ms, has t-0
A beats g epoch=2 has=t-0
    -> epoch 3, next in 5000 ms
A beats g epoch=2 has=t-0,t-1
    -> FENCED_MEMBER_EPOCH: The consumer group member has a smaller member epoch (2) than the one known by the group coordinator (3). The member must abandon all its partitions and rejoin.
A beats g epoch=9
    -> FENCED_MEMBER_EPOCH: The consumer group member has a greater member epoch (9) than the one known by the group coordinator (3). The member must abandon all its partitions and rejoin.
A steps-in g on=t
    -> epoch 3, next in 5000 ms, has t-0
