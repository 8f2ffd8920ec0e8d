; What another coordinator knows when it takes over: the records, and nothing else.

# a stable group goes on as if nothing had happened
topic t 2
given g A=t-0 B=t-1
A commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
restart
describe g
    -> Stable consumer/range; A-1 of A on /127.0.0.1 wants t has t-0; B-2 of B on /127.0.0.1 wants t has t-1
A heartbeats g
    -> ok
B heartbeats g
    -> ok
A commits g t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms
    -> t-0 ok
A fetches g all
    -> t-0=6
B syncs g
    -> consumer/range assigns t-1

# a member that did not live through the restart is removed after its session time-out
given g A=t-0 B=t-1 session=10s
restart
A stays g 9s
    -> ok
clock 1s
    +1000 ms log [group g generation 2] prepares to rebalance: member B-2 of B on /127.0.0.1 was silent for its session time-out
A heartbeats g
    -> REBALANCE_IN_PROGRESS

# whoever was joining is not known any more, and joins anew
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
restart
    B <- nothing, the coordinator is gone
B heartbeats g
    -> UNKNOWN_MEMBER_ID
B joins g
    -> UNKNOWN_MEMBER_ID, member B-2
B enters g id=
    -> waits
    log [group g generation 1] prepares to rebalance: member B-3 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-3
    B <- generation 2, consumer/range, member B-3, follows A-1

# a generation without an assignment is forgotten: its members are told to join again
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
restart
    B <- nothing, the coordinator is gone
describe g
    -> Stable consumer/range; A-1 of A on /127.0.0.1 wants t has t-0
A syncs g A=t-0 B=t-1
    -> ILLEGAL_GENERATION
A heartbeats g
    -> ILLEGAL_GENERATION
B joins g
    -> UNKNOWN_MEMBER_ID, member B-2
A heartbeats g generation=1
    -> ok

# a group that was only made has its record
A joins g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member A-1
restart
list
    -> g is Empty, a classic group of nobody
A joins g
    -> UNKNOWN_MEMBER_ID, member A-1
A enters g id=
    log [group g generation 0] prepares to rebalance: member A-2 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-2
    -> generation 1, consumer/range, member A-2, leader, members A-2

# an empty group keeps its generation
given g A=t-0
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
restart
describe g
    -> Empty consumer/
A enters g id=
    log [group g generation 2] prepares to rebalance: member A-2 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 3] has 1 member and waits for the assignment of A-2
    -> generation 3, consumer/range, member A-2, leader, members A-2

# a static member returns to the new coordinator
given g A/i1=t-0
restart
B joins g as=i1
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t has t-0
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)
A heartbeats g
    -> FENCED_INSTANCE_ID

# a new coordinator knows the chosen protocol only: a follower that joins again with all of its protocols rebalances
given g A=t-0 B=t-1 with=range,sticky
B joins g with=range,sticky
    -> generation 2, consumer/range, member B-2, follows A-1
restart
B joins g with=range,sticky
    -> waits
    log [group g generation 2] prepares to rebalance: member B-2 joins with other metadata; it says: nothing

# with a smaller group.max.size, the members that join again first stay
given g A=t-0 B=t-1 C=t-2
restart group.max.size=2
    log [group g generation 2] prepares to rebalance: it has 3 members, and group.max.size is 2
A heartbeats g
    -> REBALANCE_IN_PROGRESS
B joins g
    -> waits
C joins g
    -> waits
A joins g
    log [group g generation 3] has 2 members and waits for the assignment of B-2
    -> GROUP_MAX_SIZE_REACHED
    B <- generation 3, consumer/range, member B-2, leader, members B-2 C-3
    C <- generation 3, consumer/range, member C-3, follows B-2
A enters g id=
    -> GROUP_MAX_SIZE_REACHED

# a group that is gone stays gone
topic t 1
admin commits g t-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms
    -> t-0 ok
delete g
    log [group g] is deleted; offsets that go with it: 1
    writes OffsetCommit g t 0 tombstone
    writes GroupMetadata g tombstone
    -> ok
restart
list
    -> nothing
admin fetches g all
    -> nothing
