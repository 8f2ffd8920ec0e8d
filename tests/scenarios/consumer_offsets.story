; Consumer groups (KIP-848): commits and fetches at epochs.

# a member commits at its epoch, and at an older one for what it has had since then
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
A commits g t-0=5 generation=2
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
A commits g t-0=5 generation=3
    -> t-0 STALE_MEMBER_EPOCH
A commits g t-0=5 generation=1
    -> t-0 STALE_MEMBER_EPOCH
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
A commits g t-1=6 generation=2
    writes OffsetCommit v4 g t 1: 6 at +0 ms
    -> t-1 ok
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2
    -> epoch 3, next in 5000 ms
B beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 STABLE, has t-1@3
    -> epoch 3, next in 5000 ms, has t-1
A commits g t-0=7 generation=2
    writes OffsetCommit v4 g t 0: 7 at +0 ms
    -> t-0 ok
A commits g t-1=7 generation=2
    -> t-1 STALE_MEMBER_EPOCH
B commits g t-1=8 generation=3
    writes OffsetCommit v4 g t 1: 8 at +0 ms
    -> t-1 ok
B commits g t-1=8 generation=3 v=8
    -> t-1 UNSUPPORTED_VERSION
C commits g t-1=8 generation=3 id=C
    -> t-1 UNKNOWN_MEMBER_ID
C commits g t-1=8
    -> t-1 UNKNOWN_MEMBER_ID
A steps-out g
    log [group g epoch 4] is to be assigned anew: member A of A left
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    -> A left with epoch -1
B steps-out g
    log [group g epoch 5] is to be assigned anew: member B of B left
    writes ConsumerGroupCurrentMemberAssignment g B tombstone
    writes ConsumerGroupTargetAssignmentMember g B tombstone
    writes ConsumerGroupMemberMetadata g B tombstone
    writes ConsumerGroupMetadata v0 g: epoch 5
    -> B left with epoch -1
C commits g t-1=9
    writes OffsetCommit v4 g t 1: 9 at +0 ms
    -> t-1 ok

# a producer commits for a member, or for nobody
config group.consumer.assignment.interval.ms=0
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
P7 commits in-transaction g t-0=5 generation=2 id=A
    writes OffsetCommit v4 g t 0: 5 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 commits in-transaction g t-0=5 generation=3 id=A
    -> t-0 ILLEGAL_GENERATION
P7 commits in-transaction g t-0=5 generation=1 id=A
    -> t-0 ILLEGAL_GENERATION
P7 commits in-transaction g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 ends commit
admin fetches g t-0
    -> t-0=5

# offsets of a topic that somebody is subscribed to cannot be deleted
topic t 1
topic u 1
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A commits g t-0=5 u-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g u 0: 5 at +0 ms
    -> t-0 ok, u-0 ok
admin forgets g t-0 u-0
    writes OffsetCommit g u 0 tombstone
    -> t-0 GROUP_SUBSCRIBED_TO_TOPIC, u-0 ok
delete g
    -> NON_EMPTY_GROUP
A steps-out g
    log [group g epoch 3] is to be assigned anew: member A of A left
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 3
    -> A left with epoch -1
admin forgets g t-0
    writes OffsetCommit g t 0 tombstone
    -> t-0 ok

# offsets expire from the time of their commit, unless somebody is subscribed
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 1
topic u 1
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A commits g t-0=5 u-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g u 0: 5 at +0 ms
    -> t-0 ok, u-0 ok
clock 40s
A beats g
    -> epoch 2, next in 5000 ms
clock 40s
    +20000 ms writes OffsetCommit g u 0 tombstone
A beats g
    -> epoch 2, next in 5000 ms
A steps-out g
    log [group g epoch 3] is to be assigned anew: member A of A left
    writes ConsumerGroupCurrentMemberAssignment g A tombstone
    writes ConsumerGroupTargetAssignmentMember g A tombstone
    writes ConsumerGroupMemberMetadata g A tombstone
    writes ConsumerGroupMetadata v0 g: epoch 3
    -> A left with epoch -1
clock 20s
    +10000 ms writes OffsetCommit g t 0 tombstone
    +10000 ms writes ConsumerGroupTargetAssignmentMetadata g tombstone
    +10000 ms writes ConsumerGroupPartitionMetadata g tombstone
    +10000 ms writes ConsumerGroupMetadata g tombstone
look-at g
    -> GROUP_ID_NOT_FOUND: Group g not found.
