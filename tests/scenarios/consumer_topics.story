; Consumer groups (KIP-848): subscriptions, patterns, and topics that come and go.

# a topic that comes later is assigned with the next heartbeat
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 5000 ms, has nothing
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> A epoch 2 wants t has nothing is to have nothing
topic t 2
A beats g
    log [group g epoch 3] is to be assigned anew: its topics or their partitions have changed
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    -> epoch 2, next in 1000 ms

# more partitions are assigned with the next heartbeat
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
topic t 3
A beats g
    log [group g epoch 3] is to be assigned anew: its topics or their partitions have changed
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1 t-2
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2 t-1@3 t-2@3
    -> epoch 3, next in 5000 ms, has t-0 t-1 t-2
look-at g
    -> Stable, epoch 3, assignment epoch 3, uniform
    -> A epoch 3 wants t has t-0 t-1 t-2 is to have t-0 t-1 t-2

# a topic that is deleted is given up, and one with the same name is another
config group.consumer.assignment.interval.ms=0
topic t 1
topic u 1
A steps-in g on=t,u
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t,u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 u-0@2
    -> epoch 2, next in 5000 ms, has t-0 u-0
deletes-topic t
A beats g
    log [group g epoch 3] is to be assigned anew: its topics or their partitions have changed
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has u-0@2, gives up t-0@2
    -> epoch 2, next in 5000 ms, has u-0
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has u-0@2
    -> epoch 3, next in 5000 ms
topic t 2 number=1
A beats g
    log [group g epoch 4] is to be assigned anew: its topics or their partitions have changed
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have u-0 t#1-0 t#1-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 4 after 3 STABLE, has u-0@2 t#1-0@4 t#1-1@4
    -> epoch 4, next in 5000 ms, has u-0 t#1-0 t#1-1

# what a member does not want any more goes at once
config group.consumer.assignment.interval.ms=0
topic t 1
topic u 1
A steps-in g on=t,u
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t,u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 u-0@2
    -> epoch 2, next in 5000 ms, has t-0 u-0
A beats g on=u
    log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has u-0@2, gives up t-0@2
    -> epoch 2, next in 5000 ms, has u-0
A beats g
    -> epoch 2, next in 5000 ms
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has u-0@2
    -> epoch 3, next in 5000 ms
A beats g on=
    log [group g epoch 4] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 4
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 3 UNREVOKED_PARTITIONS, has nothing, gives up u-0@2
    -> epoch 3, next in 5000 ms, has nothing
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 4 after 3 STABLE, has nothing
    -> epoch 4, next in 5000 ms

# a new subscription while the target is not due yet
topic t 1
topic u 1
A steps-in g on=t,u
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t,u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 u-0@2
    -> epoch 2, next in 5000 ms, has t-0 u-0
A beats g on=u
    log [group g epoch 3] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has u-0@2, gives up t-0@2
    -> epoch 2, next in 1000 ms, has u-0
A obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 STABLE, has u-0@2
    -> epoch 2, next in 1000 ms
A beats g
    -> epoch 2, next in 1000 ms
clock 1s
A beats g
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have u-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +1000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has u-0@2
    -> epoch 3, next in 5000 ms

# members that want different topics
config group.consumer.assignment.interval.ms=0
topic t 2
topic u 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
B steps-in g on=t,u
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t,u rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have u-0 u-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 0 STABLE, has u-0@3 u-1@3
    -> epoch 3, next in 5000 ms, has u-0 u-1
A beats g has=t-0
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2 t-1@2
    -> epoch 3, next in 5000 ms
B beats g
    -> epoch 3, next in 5000 ms
look-at g
    -> Stable, epoch 3, assignment epoch 3, uniform
    -> A epoch 3 wants t has t-0 t-1 is to have t-0 t-1
    -> B epoch 3 wants t,u has u-0 u-1 is to have u-0 u-1

# the assignor that most members ask for is taken
config group.consumer.assignment.interval.ms=0
topic t 4
A steps-in g on=t by=range
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by range
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t by range rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1 t-2 t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2 t-2@2 t-3@2
    -> epoch 2, next in 5000 ms, has t-0 t-1 t-2 t-3
B steps-in g on=t by=uniform
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants t by uniform rebalances in 60000 ms
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
C steps-in g on=t by=range
    log [group g epoch 4] is to be assigned anew: member C of C on /127.0.0.1 has a new subscription
    log [group g epoch 4] has a new target by range
    writes ConsumerGroupMemberMetadata v0 g C: of C on /127.0.0.1 wants t by range rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have t-2
    writes ConsumerGroupTargetAssignmentMember v0 g C: is to have t-3
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g C: epoch 4 after 0 UNRELEASED_PARTITIONS, has nothing
    -> epoch 4, next in 100 ms, has nothing
look-at g
    -> Reconciling, epoch 4, assignment epoch 4, range
    -> A epoch 2 wants t has t-0 t-1 t-2 t-3 is to have t-0 t-1
    -> B epoch 3 wants t has nothing is to have t-2
    -> C epoch 4 wants t has nothing is to have t-3
A beats g by=uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t by uniform rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 2 UNREVOKED_PARTITIONS, has t-0@2 t-1@2, gives up t-2@2 t-3@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
look-at g
    -> Reconciling, epoch 4, assignment epoch 4, uniform
    -> A epoch 2 wants t has t-0 t-1 t-2 t-3 is to have t-0 t-1
    -> B epoch 3 wants t has nothing is to have t-2
    -> C epoch 4 wants t has nothing is to have t-3

# a pattern is looked up beside the requests, and its topics come with the next heartbeat
topic orders-eu 1
topic orders-us 1
topic payments 1
A steps-in g like=orders-.*
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing like orders-.* rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 1 after 0 STABLE, has nothing
    -> epoch 1, next in 100 ms, has nothing
clock 0ms
    +0 ms log [group g epoch 2] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g orders-.*: stands for orders-eu,orders-us at +0 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 2 with topics
A beats g
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have orders-eu-0 orders-us-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 1 STABLE, has orders-eu-0@2 orders-us-0@2
    -> epoch 2, next in 5000 ms, has orders-eu-0 orders-us-0
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> A epoch 2 wants nothing like orders-.* has orders-eu-0 orders-us-0 is to have orders-eu-0 orders-us-0

# a topic that matches a pattern is found after it was created
config group.consumer.assignment.interval.ms=0
topic orders-eu 1
A steps-in g like=orders-.*
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing like orders-.* rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 1 after 0 STABLE, has nothing
    -> epoch 1, next in 100 ms, has nothing
clock 0ms
    +0 ms log [group g epoch 2] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g orders-.*: stands for orders-eu at +0 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 2 with topics
A beats g
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have orders-eu-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 1 STABLE, has orders-eu-0@2
    -> epoch 2, next in 5000 ms, has orders-eu-0
topic orders-us 1
A beats g
    -> epoch 2, next in 5000 ms
clock 11s
A beats g
    -> epoch 2, next in 100 ms
clock 0ms
    +0 ms log [group g epoch 3] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g orders-.*: stands for orders-eu,orders-us at +11000 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 3 with topics
A beats g
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have orders-eu-0 orders-us-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +11000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has orders-eu-0@2 orders-us-0@3
    -> epoch 3, next in 5000 ms, has orders-eu-0 orders-us-0

# a pattern that RE2 does not have is refused
topic t 1
A steps-in g like=(?=t)
    -> INVALID_REGULAR_EXPRESSION: SubscribedTopicRegex `(?=t)` is not a valid regular expression: (? is followed by what RE2 does not have.
A steps-in g like=t(
    -> INVALID_REGULAR_EXPRESSION: SubscribedTopicRegex `t(` is not a valid regular expression: a parenthesis is not closed.
A steps-in g like=t
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing like t rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 1 after 0 STABLE, has nothing
    -> epoch 1, next in 100 ms, has nothing
A beats g like=t**
    -> INVALID_REGULAR_EXPRESSION: SubscribedTopicRegex `t**` is not a valid regular expression: a repetition is repeated.

# members with names and members with patterns
config group.consumer.assignment.interval.ms=0
topic t 2
topic u 2
A steps-in g on=t
    log [group g epoch 2] is to be assigned anew: member A of A on /127.0.0.1 has a new subscription
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 2 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0 t-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 0 STABLE, has t-0@2 t-1@2
    -> epoch 2, next in 5000 ms, has t-0 t-1
B steps-in g like=t|u
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants nothing like t|u rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 100 ms, has nothing
clock 0ms
    +0 ms log [group g epoch 3] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g t|u: stands for t,u at +0 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 3 with topics
B beats g
    log [group g epoch 3] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have u-0 u-1
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 3 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 2 STABLE, has u-0@3 u-1@3
    -> epoch 3, next in 5000 ms, has u-0 u-1
A beats g
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 3 after 2 STABLE, has t-0@2 t-1@2
    -> epoch 3, next in 5000 ms
A obeys g
    -> epoch 3, next in 5000 ms
B beats g
    -> epoch 3, next in 5000 ms
B beats g like=
    log [group g epoch 4] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    log [group g epoch 4] has a new target by uniform
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants nothing rebalances in 60000 ms
    writes ConsumerGroupRegularExpression g t|u tombstone
    writes ConsumerGroupMetadata v0 g: epoch 4 with topics
    writes ConsumerGroupTargetAssignmentMember v0 g B: is to have nothing
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 4 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 3 after 3 UNREVOKED_PARTITIONS, has nothing, gives up u-0@3 u-1@3
    -> epoch 3, next in 5000 ms, has nothing
B obeys g
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 4 after 3 STABLE, has nothing
    -> epoch 4, next in 5000 ms
look-at g
    -> Reconciling, epoch 4, assignment epoch 4, uniform
    -> A epoch 3 wants t has t-0 t-1 is to have t-0 t-1
    -> B epoch 4 wants nothing has nothing is to have nothing

# patterns are looked up again after a restart, and every ten minutes
config group.consumer.assignment.interval.ms=0
topic t 1
A steps-in g like=t.*
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing like t.* rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 1 after 0 STABLE, has nothing
    -> epoch 1, next in 100 ms, has nothing
clock 0ms
    +0 ms log [group g epoch 2] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g t.*: stands for t at +0 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 2 with topics
A obeys g
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 1 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
A obeys g
    -> epoch 2, next in 5000 ms
restart
A obeys g
    -> epoch 2, next in 5000 ms
clock 11s
A obeys g
    -> epoch 2, next in 100 ms
clock 40s
    +0 ms writes ConsumerGroupRegularExpression v0 g t.*: stands for t at +11000 ms
A obeys g
    -> epoch 2, next in 5000 ms
look-at g
    -> Stable, epoch 2, assignment epoch 2, uniform
    -> A epoch 2 wants nothing like t.* has t-0 is to have t-0

# the last member with a pattern takes it along
topic t 1
A steps-in g like=t
    writes ConsumerGroupMemberMetadata v0 g A: of A on /127.0.0.1 wants nothing like t rebalances in 60000 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 1 after 0 STABLE, has nothing
    -> epoch 1, next in 100 ms, has nothing
clock 0ms
    +0 ms log [group g epoch 2] is to be assigned anew: patterns stand for other topics
    +0 ms writes ConsumerGroupRegularExpression v0 g t: stands for t at +0 ms
    +0 ms writes ConsumerGroupMetadata v0 g: epoch 2 with topics
A beats g
    log [group g epoch 2] has a new target by uniform
    writes ConsumerGroupTargetAssignmentMember v0 g A: is to have t-0
    writes ConsumerGroupTargetAssignmentMetadata v0 g: epoch 2 at +0 ms
    writes ConsumerGroupCurrentMemberAssignment v0 g A: epoch 2 after 1 STABLE, has t-0@2
    -> epoch 2, next in 5000 ms, has t-0
B steps-in g like=t
    log [group g epoch 3] is to be assigned anew: member B of B on /127.0.0.1 has a new subscription
    writes ConsumerGroupMemberMetadata v0 g B: of B on /127.0.0.1 wants nothing like t rebalances in 60000 ms
    writes ConsumerGroupMetadata v0 g: epoch 3 with topics
    writes ConsumerGroupCurrentMemberAssignment v0 g B: epoch 2 after 0 STABLE, has nothing
    -> epoch 2, next in 1000 ms, has nothing
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
    writes ConsumerGroupRegularExpression g t tombstone
    writes ConsumerGroupMetadata v0 g: epoch 5
    -> B left with epoch -1
look-at g
    -> Empty, epoch 5, assignment epoch 2, uniform
delete g
    log [group g] is deleted; offsets that go with it: 0
    writes ConsumerGroupTargetAssignmentMetadata g tombstone
    writes ConsumerGroupPartitionMetadata g tombstone
    writes ConsumerGroupMetadata g tombstone
    -> ok
look-at g
    -> GROUP_ID_NOT_FOUND: Group g not found.
