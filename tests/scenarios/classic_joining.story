; How members come into a classic group, and how a generation is made.

# the first member is given an id, joins with it, leads, and assigns everything to itself
topic t 2
A joins g because="it just started"
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member A-1
A joins g
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
A heartbeats g
    -> ok
describe g
    -> Stable consumer/range; A-1 of A on /127.0.0.1 wants t has t-0 t-1
list
    -> g is Stable, a classic group of consumer

# before version 4 a member is taken at once
A joins g v=3
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> generation 1, consumer/range, member A-1, leader, members A-1
describe g
    -> CompletingRebalance consumer/; A-1 of A on /127.0.0.1 ? has nothing

# in version 0 the time for a rebalance is that of the session
A joins g v=0 session=7s rebalance=60s
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0
B joins g v=0 session=9s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
clock 5s
A heartbeats g
    -> REBALANCE_IN_PROGRESS
clock 4s
    +4000 ms log [group g generation 1] A-1 did not join in time
    +4000 ms log [group g generation 2] has 1 member and waits for the assignment of B-2
    +4000 ms B <- generation 2, consumer/range, member B-2, leader, members B-2

# a second member makes the first one join again
topic t 2
A enters g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
B syncs g
    -> consumer/range assigns t-1
A heartbeats g
    -> ok
B heartbeats g
    -> ok

# a follower that syncs before the leader waits for it
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
B syncs g
    -> waits
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
    B <- consumer/range assigns t-1

# a new group waits for more members, a little longer while they come, and never beyond the rebalance time-out
config group.initial.rebalance.delay.ms=3000
A enters g rebalance=7s
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> waits
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
clock 1s
B enters g
    -> waits
clock 2s
clock 1s
C enters g
    -> waits
clock 2s
clock 1s
    +1000 ms log [group g generation 1] has 3 members and waits for the assignment of A-1
    +1000 ms A <- generation 1, consumer/range, member A-1, leader, members A-1 B-2 C-3
    +1000 ms B <- generation 1, consumer/range, member B-2, follows A-1
    +1000 ms C <- generation 1, consumer/range, member C-3, follows A-1
D enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member D-4 of D on /127.0.0.1 is new; it says: nothing
clock 10s
    +10000 ms log [group g generation 1] member A-1 of A on /127.0.0.1 was silent for its session time-out
    +10000 ms log [group g generation 1] member B-2 of B on /127.0.0.1 was silent for its session time-out
    +10000 ms log [group g generation 1] member C-3 of C on /127.0.0.1 was silent for its session time-out
    +10000 ms log [group g generation 2] has 1 member and waits for the assignment of D-4
    +10000 ms D <- generation 2, consumer/range, member D-4, leader, members D-4

# a new group that does not grow starts after the delay
config group.initial.rebalance.delay.ms=3000
A enters g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> waits
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
clock 2999ms
clock 1ms
    +1 ms log [group g generation 1] has 1 member and waits for the assignment of A-1
    +1 ms A <- generation 1, consumer/range, member A-1, leader, members A-1

# a member that leaves during the initial delay does not end it
config group.initial.rebalance.delay.ms=3000
A enters g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> waits
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
B enters g
    -> waits
B leaves g
    log [group g generation 0] member B-2 leaves; it says: nothing
    -> B-2 ok
    B <- UNKNOWN_MEMBER_ID
clock 6s
    +6000 ms log [group g generation 1] has 1 member and waits for the assignment of A-1
    +6000 ms A <- generation 1, consumer/range, member A-1, leader, members A-1

# of the protocols that everybody knows, most votes decide
A enters g with=range,roundrobin,sticky
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
B enters g with=roundrobin,range
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
C enters g with=roundrobin,sticky,range
    -> waits
A enters g with=range,roundrobin,sticky
    log [group g generation 2] has 3 members and waits for the assignment of A-1
    -> generation 2, consumer/roundrobin, member A-1, leader, members A-1 B-2 C-3
    B <- generation 2, consumer/roundrobin, member B-2, follows A-1
    C <- generation 2, consumer/roundrobin, member C-3, follows A-1
B enters g with=roundrobin,range
    -> generation 2, consumer/roundrobin, member B-2, follows A-1

# of protocols with the same name the first counts
A enters g with=range,range
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0

# who shares no protocol with the group is refused, and so is another type
given g A=t-0 with=range,sticky
B joins g with=roundrobin
    -> INCONSISTENT_GROUP_PROTOCOL
B joins g type=connect
    -> INCONSISTENT_GROUP_PROTOCOL
B joins g with=roundrobin,sticky
    -> MEMBER_ID_REQUIRED, member B-2
A joins g with=roundrobin
    -> INCONSISTENT_GROUP_PROTOCOL, member A-1

# a join without protocols or type makes no group
A joins g with=
    -> INCONSISTENT_GROUP_PROTOCOL
A joins g type=
    -> INCONSISTENT_GROUP_PROTOCOL
list
    -> nothing

# a join asks for an id that exists
A joins g id=A-7
    -> UNKNOWN_MEMBER_ID, member A-7
A enters g id=
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
B joins g id=A-7
    -> UNKNOWN_MEMBER_ID, member A-7

# session time-outs have bounds, and a group needs a name
A joins g session=5999ms
    -> INVALID_SESSION_TIMEOUT
A joins g session=31m
    -> INVALID_SESSION_TIMEOUT
A joins ""
    -> INVALID_GROUP_ID

# a member that never comes back with its id is forgotten after its session time-out
A joins g session=6s
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member A-1
clock 5999ms
clock 1ms
A joins g
    -> UNKNOWN_MEMBER_ID, member A-1

# one that was given an id holds up the others until it joins or its session is over
given g A=t-0
B joins g session=6s
    -> MEMBER_ID_REQUIRED, member B-2
A joins g because="topics changed"
    -> waits
    log [group g generation 1] prepares to rebalance: leader A-1 joins again; it says: topics changed
clock 6s
    +6000 ms log [group g generation 1] member B-2 never came back with the id that it was given
    +6000 ms log [group g generation 2] has 1 member and waits for the assignment of A-1
    +6000 ms A <- generation 2, consumer/range, member A-1, leader, members A-1

# a group takes no more members than group.max.size
config group.max.size=2
given g A=t-0 B=t-1
C joins g
    -> GROUP_MAX_SIZE_REACHED
B joins g on=t,u
    -> waits
    log [group g generation 2] prepares to rebalance: member B-2 joins with other metadata; it says: nothing
A joins g
    log [group g generation 3] has 2 members and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 3, consumer/range, member B-2, follows A-1

# an answer that was lost is given again
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
B joins g
    -> generation 2, consumer/range, member B-2, follows A-1
A joins g
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
B syncs g
    -> consumer/range assigns t-1
B joins g
    -> generation 2, consumer/range, member B-2, follows A-1

# a leader that joins again without a change starts a rebalance, a follower does not
given g A=t-0 B=t-1
B joins g because="it felt like it"
    -> generation 2, consumer/range, member B-2, follows A-1
A joins g because="partitions were added"
    -> waits
    log [group g generation 2] prepares to rebalance: leader A-1 joins again; it says: partitions were added
B heartbeats g
    -> REBALANCE_IN_PROGRESS

# other metadata starts a rebalance
given g A=t-0 on=t
A joins g on=t,u
    log [group g generation 1] prepares to rebalance: leader A-1 joins with other metadata; it says: nothing
    log [group g generation 2] has 1 member and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,u-0
    log [group g generation 2] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t,u has t-0 u-0
    -> consumer/range assigns t-0 u-0
B enters g on=t
    -> waits
    log [group g generation 2] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g on=t,u
    log [group g generation 3] has 2 members and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 3, consumer/range, member B-2, follows A-1
B joins g on=v
    -> waits
    log [group g generation 3] prepares to rebalance: member B-2 joins with other metadata; it says: nothing
A syncs g A=t-0
    -> REBALANCE_IN_PROGRESS

# a member that joins twice leaves no answer behind
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
B joins g
    -> waits
    B <- REBALANCE_IN_PROGRESS, member B-2
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1

# cooperative members go through two rounds: what is taken from one is given to another in the second
topic t 2
given g A=t-0,t-1 with=cooperative-sticky
B enters g with=cooperative-sticky
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A enters g with=cooperative-sticky
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/cooperative-sticky, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/cooperative-sticky, member B-2, follows A-1
A syncs g A=t-0 B=
    log [group g generation 2] is stable: A-1 assigned to 2 members with cooperative-sticky
    writes GroupMetadata v3 g: generation 2 consumer/cooperative-sticky leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has nothing
    -> consumer/cooperative-sticky assigns t-0
B syncs g
    -> consumer/cooperative-sticky assigns nothing
A joins g with=cooperative-sticky because="gave up t-1"
    -> waits
    log [group g generation 2] prepares to rebalance: leader A-1 joins again; it says: gave up t-1
B heartbeats g
    -> REBALANCE_IN_PROGRESS
B joins g with=cooperative-sticky
    log [group g generation 3] has 2 members and waits for the assignment of A-1
    -> generation 3, consumer/cooperative-sticky, member B-2, follows A-1
    A <- generation 3, consumer/cooperative-sticky, member A-1, leader, members A-1 B-2
A syncs g A=t-0 B=t-1
    log [group g generation 3] is stable: A-1 assigned to 2 members with cooperative-sticky
    writes GroupMetadata v3 g: generation 3 consumer/cooperative-sticky leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/cooperative-sticky assigns t-0
B syncs g
    -> consumer/cooperative-sticky assigns t-1

# a member that syncs for another protocol than the chosen one is told so
A enters g with=range,sticky
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0 with=sticky
    -> INCONSISTENT_GROUP_PROTOCOL
A syncs g A=t-0 type=connect with=range
    -> INCONSISTENT_GROUP_PROTOCOL
A syncs g A=t-0 type=consumer with=range
    log [group g generation 1] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0

# a member that syncs twice leaves no answer behind
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
B syncs g
    -> waits
B syncs g
    -> waits
    B <- REBALANCE_IN_PROGRESS
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
    B <- consumer/range assigns t-1

# whoever knows the id of a member is that member
given g A=t-0
B joins g id=A-1
    log [group g generation 1] prepares to rebalance: leader A-1 joins again; it says: nothing
    log [group g generation 2] has 1 member and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1
A heartbeats g
    -> ILLEGAL_GENERATION
