; How members go: by themselves, by silence, and by being too slow.

# a member that leaves makes the others join again
given g A=t-0 B=t-1
B leaves g because="the consumer is closed"
    log [group g generation 2] member B-2 leaves; it says: the consumer is closed
    log [group g generation 2] prepares to rebalance: B-2 left
    -> B-2 ok
A heartbeats g
    -> REBALANCE_IN_PROGRESS
A enters g
    log [group g generation 3] has 1 member and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 3] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B heartbeats g
    -> UNKNOWN_MEMBER_ID

# the last member leaves an empty group behind
given g A=t-0
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
describe g
    -> Empty consumer/
A heartbeats g
    -> UNKNOWN_MEMBER_ID
A syncs g
    -> UNKNOWN_MEMBER_ID
A joins g
    -> UNKNOWN_MEMBER_ID, member A-1

# the leader leaves while the others wait for its assignment
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
A leaves g
    log [group g generation 2] member A-1 leaves; it says: nothing
    log [group g generation 2] prepares to rebalance: A-1 left
    -> A-1 ok
    B <- REBALANCE_IN_PROGRESS
B enters g
    log [group g generation 3] has 1 member and waits for the assignment of B-2
    -> generation 3, consumer/range, member B-2, leader, members B-2
B syncs g B=t-0,t-1
    log [group g generation 3] is stable: B-2 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader B-2 since +0 ms; B-2 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1

# whoever leaves while it waits is answered
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
B leaves g
    log [group g generation 1] member B-2 leaves; it says: nothing
    -> B-2 ok
    B <- UNKNOWN_MEMBER_ID
A enters g
    log [group g generation 2] has 1 member and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0
    log [group g generation 2] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0
    -> consumer/range assigns t-0

# older versions name one member, and answer with one code
given g A=t-0
A leaves g v=2
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> ok
A leaves g v=2
    -> UNKNOWN_MEMBER_ID
A leaves g v=5
    -> A-1 UNKNOWN_MEMBER_ID

# one that was only given an id may leave, too
A joins g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member A-1
A leaves g
    log [group g generation 0] member A-1 leaves; it says: nothing
    -> A-1 ok
A joins g
    -> UNKNOWN_MEMBER_ID, member A-1

# an administrator removes static members by their instance
given g A/i1=t-0 B/i2=t-1
admin removes g i1 i2 i3 because="maintenance"
    log [group g generation 2] member i1-1 leaves; it says: maintenance
    log [group g generation 2] member i2-2 leaves; it says: maintenance
    log [group g generation 2] prepares to rebalance: static member i1, static member i2 left
    log [group g generation 3] is empty
    writes GroupMetadata v3 g: generation 3 consumer/None leader None since +0 ms
    -> (i1) ok, (i2) ok, (i3) UNKNOWN_MEMBER_ID
A heartbeats g
    -> UNKNOWN_MEMBER_ID

# nobody leaves a group that does not exist
A leaves g
    ->  UNKNOWN_MEMBER_ID
A leaves g v=1
    -> UNKNOWN_MEMBER_ID
A leaves ""
    -> INVALID_GROUP_ID

# a member that is silent for its session time-out is removed
given g A=t-0 session=10s
clock 9s
A heartbeats g
    -> ok
clock 9999ms
clock 1ms
    +1 ms log [group g generation 1] prepares to rebalance: member A-1 of A on /127.0.0.1 was silent for its session time-out
    +1 ms log [group g generation 2] is empty
    +1 ms writes GroupMetadata v3 g: generation 2 consumer/None leader None since +19000 ms
A heartbeats g
    -> UNKNOWN_MEMBER_ID

# a commit of offsets is a sign of life
topic t 1
given g A=t-0 session=10s
clock 9s
A commits g t-0=1
    writes OffsetCommit v4 g t 0: 1 at +9000 ms
    -> t-0 ok
clock 9s
A heartbeats g
    -> ok

# whoever waits for an answer is not silent
given g A=t-0 B=t-1 session=10s rebalance=60s
B joins g on=t,u session=10s rebalance=60s
    -> waits
    log [group g generation 2] prepares to rebalance: member B-2 joins with other metadata; it says: nothing
A stays g 50s
    -> REBALANCE_IN_PROGRESS
A enters g
    log [group g generation 3] has 2 members and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 3, consumer/range, member B-2, follows A-1

# a member that is dead when the others join again holds them up until its session ends, not longer
given g A=t-0 session=10s rebalance=60s
B enters g session=10s rebalance=60s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
clock 10s
    +10000 ms log [group g generation 1] member A-1 of A on /127.0.0.1 was silent for its session time-out
    +10000 ms log [group g generation 2] has 1 member and waits for the assignment of B-2
    +10000 ms B <- generation 2, consumer/range, member B-2, leader, members B-2
B syncs g B=t-0
    log [group g generation 2] is stable: B-2 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader B-2 since +10000 ms; B-2 wants t has t-0
    -> consumer/range assigns t-0

# a member that lives but does not join again is left out after the rebalance time-out of the slowest
given g A=t-0 session=30s rebalance=20s
B enters g session=30s rebalance=40s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A stays g 21s
    -> REBALANCE_IN_PROGRESS
A stays g 18s
    -> REBALANCE_IN_PROGRESS
clock 1s
    +1000 ms log [group g generation 1] A-1 did not join in time
    +1000 ms log [group g generation 2] has 1 member and waits for the assignment of B-2
    +1000 ms B <- generation 2, consumer/range, member B-2, leader, members B-2
A heartbeats g
    -> UNKNOWN_MEMBER_ID
B syncs g B=t-0
    log [group g generation 2] is stable: B-2 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader B-2 since +40000 ms; B-2 wants t has t-0
    -> consumer/range assigns t-0

# a member dies between join and sync
given g A=t-0 session=10s rebalance=20s
B enters g session=10s rebalance=20s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g session=10s rebalance=20s
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
clock 5s
A heartbeats g
    -> ok
clock 5s
    +5000 ms log [group g generation 2] prepares to rebalance: member B-2 of B on /127.0.0.1 was silent for its session time-out
A enters g session=10s rebalance=20s
    log [group g generation 3] has 1 member and waits for the assignment of A-1
    -> generation 3, consumer/range, member A-1, leader, members A-1
A syncs g A=t-0,t-1
    log [group g generation 3] is stable: A-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader A-1 since +10000 ms; A-1 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1

# a member that sends heartbeats and never syncs is removed after the rebalance time-out
given g A=t-0 session=10s rebalance=12s
B enters g session=10s rebalance=12s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g session=10s rebalance=12s
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-0
clock 6s
A heartbeats g
    -> ok
B heartbeats g
    -> ok
clock 6s
    +6000 ms log [group g generation 2] prepares to rebalance: B-2 did not send SyncGroup in time
A heartbeats g
    -> REBALANCE_IN_PROGRESS
B heartbeats g
    -> UNKNOWN_MEMBER_ID

# the leader never syncs: the others get another leader
given g A=t-0 session=10s rebalance=12s
B enters g session=10s rebalance=12s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g session=10s rebalance=12s
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
B syncs g
    -> waits
clock 6s
A heartbeats g
    -> ok
clock 6s
    +6000 ms log [group g generation 2] prepares to rebalance: A-1 did not send SyncGroup in time
    +6000 ms B <- REBALANCE_IN_PROGRESS
B enters g session=10s rebalance=12s
    log [group g generation 3] has 1 member and waits for the assignment of B-2
    -> generation 3, consumer/range, member B-2, leader, members B-2
B syncs g B=t-0,t-1
    log [group g generation 3] is stable: B-2 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader B-2 since +12000 ms; B-2 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1

# a member that is new and has been waiting for five minutes is given up
given g A=t-0 session=10s rebalance=10m
B enters g session=10s rebalance=10m
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A stays g 5m
    +300000 ms log [group g generation 1] member B-2 of B on /127.0.0.1 waited too long for its first generation
    +300000 ms B <- UNKNOWN_MEMBER_ID
    -> REBALANCE_IN_PROGRESS
A enters g session=10s rebalance=10m
    log [group g generation 2] has 1 member and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1

# if no static member comes back to lead, the group waits until they come or their sessions end
given g A/i1=t-0 B/i2=t-1 session=30s rebalance=10s
C enters g session=30s rebalance=10s
    -> waits
    log [group g generation 2] prepares to rebalance: member C-3 of C on /127.0.0.1 is new; it says: nothing
C leaves g
    log [group g generation 2] member C-3 leaves; it says: nothing
    -> C-3 ok
    C <- UNKNOWN_MEMBER_ID
clock 10s
    +10000 ms log [group g generation 2] cannot rebalance: no member joined
A enters g session=30s rebalance=10s
    -> waits
clock 10s
    +10000 ms log [group g generation 3] has 2 members and waits for the assignment of i1-1
    +10000 ms A <- generation 3, consumer/range, member i1-1, leader, members i1-1(i1) i2-2(i2)
A syncs g A=t-0,t-1
    log [group g generation 3] is stable: i1-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader i1-1 since +20000 ms; i1-1(i1) wants t has t-0 t-1; i2-2(i2) wants t has nothing
    -> consumer/range assigns t-0 t-1

# if none ever comes, the group is empty
given g A/i1=t-0 B/i2=t-1 session=30s rebalance=10s
C enters g session=30s rebalance=10s
    -> waits
    log [group g generation 2] prepares to rebalance: member C-3 of C on /127.0.0.1 is new; it says: nothing
C leaves g
    log [group g generation 2] member C-3 leaves; it says: nothing
    -> C-3 ok
    C <- UNKNOWN_MEMBER_ID
clock 30s
    +10000 ms log [group g generation 2] cannot rebalance: no member joined
    +20000 ms log [group g generation 2] cannot rebalance: no member joined
    +30000 ms log [group g generation 2] member i1-1 of A on /127.0.0.1 was silent for its session time-out
    +30000 ms log [group g generation 2] member i2-2 of B on /127.0.0.1 was silent for its session time-out
    +30000 ms log [group g generation 3] is empty
    +30000 ms writes GroupMetadata v3 g: generation 3 consumer/None leader None since +30000 ms

# whoever leaves while it waits for the assignment is answered, too
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
B leaves g
    log [group g generation 2] member B-2 leaves; it says: nothing
    log [group g generation 2] prepares to rebalance: B-2 left
    -> B-2 ok
    B <- UNKNOWN_MEMBER_ID
A heartbeats g
    -> REBALANCE_IN_PROGRESS
