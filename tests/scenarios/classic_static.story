; Static members (KIP-345): known by their instance id, and fenced by it.

# a static member that returns takes its place back without a rebalance
A enters g as=i1
    log [group g generation 0] prepares to rebalance: member i1-1 with instance id i1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of i1-1
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> generation 1, consumer/range, member i1-1, leader, members i1-1(i1)
A syncs g A=t-0,t-1
    log [group g generation 1] is stable: i1-1 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-1 since +0 ms; i1-1(i1) wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
B joins g as=i1
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t has t-0 t-1
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)
A heartbeats g
    -> FENCED_INSTANCE_ID
B heartbeats g
    -> ok
B syncs g
    -> consumer/range assigns t-0 t-1
describe g
    -> Stable consumer/range; i1-2(i1) of A on /127.0.0.1 wants t has t-0 t-1

# it returns twice: only the last one lives
topic t 1
given g A/i1=t-0
B joins g as=i1
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t has t-0
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)
C joins g as=i1
    log [group g generation 1] static member i1 is back as i1-3, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-3 since +0 ms; i1-3(i1) wants t has t-0
    -> generation 1, consumer/range, member i1-3, leader, skips the assignment, members i1-3(i1)
A heartbeats g
    -> FENCED_INSTANCE_ID
B heartbeats g
    -> FENCED_INSTANCE_ID
C heartbeats g
    -> ok
B commits g t-0=1
    -> t-0 FENCED_INSTANCE_ID
B leaves g
    -> i1-2(i1) FENCED_INSTANCE_ID
C leaves g
    log [group g generation 1] member i1-3 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: i1-3 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> i1-3(i1) ok

# an old client that led is told the leader that it was, so that it does not assign
given g A/i1=t-0 v=7
B joins g as=i1 v=8
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t has t-0
    -> generation 1, consumer/range, member i1-2, follows i1-1

# a follower that returns learns who leads
given g A/i1=t-0 B/i2=t-1
C joins g as=i2
    log [group g generation 2] static member i2 is back as i2-3, and nothing changes
    writes GroupMetadata v3 g: generation 2 consumer/range leader i1-1 since +0 ms; i1-1(i1) wants t has t-0; i2-3(i2) wants t has t-1
    -> generation 2, consumer/range, member i2-3, follows i1-1
C syncs g
    -> consumer/range assigns t-1

# it comes back with other topics, and the chosen protocol stays: the others learn of it with the next rebalance
given g A/i1=t-0 on=t
B joins g as=i1 on=t,u
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t,u has t-0
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)

# it comes back with other protocols, so that another one must be chosen
given g A/i1=t-0 with=range,sticky
B joins g as=i1 with=sticky
    log [group g generation 1] prepares to rebalance: static member i1 is back as i1-2 with other protocols; it says: nothing
    log [group g generation 2] has 1 member and waits for the assignment of i1-2
    -> generation 2, consumer/sticky, member i1-2, leader, members i1-2(i1)

# it comes back while the others join
given g A/i1=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
C joins g as=i1
    log [group g generation 2] has 2 members and waits for the assignment of i1-3
    -> generation 2, consumer/range, member i1-3, leader, members B-2 i1-3(i1)
    B <- generation 2, consumer/range, member B-2, follows i1-3
A heartbeats g
    -> FENCED_INSTANCE_ID

# it comes back while the others wait for the assignment
given g A/i1=t-0
B enters g as=i2
    -> waits
    log [group g generation 1] prepares to rebalance: member i2-2 with instance id i2 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of i1-1
    -> generation 2, consumer/range, member i1-1, leader, members i1-1(i1) i2-2(i2)
    B <- generation 2, consumer/range, member i2-2, follows i1-1
B syncs g
    -> waits
C joins g as=i2
    -> waits
    log [group g generation 2] prepares to rebalance: static member i2 is back as i2-3; it says: nothing
    B <- FENCED_INSTANCE_ID
B heartbeats g
    -> FENCED_INSTANCE_ID
A enters g
    log [group g generation 3] has 2 members and waits for the assignment of i1-1
    -> generation 3, consumer/range, member i1-1, leader, members i1-1(i1) i2-3(i2)
    C <- generation 3, consumer/range, member i2-3, follows i1-1

# whoever waits under the old id is fenced
given g A/i1=t-0
B enters g as=i2
    -> waits
    log [group g generation 1] prepares to rebalance: member i2-2 with instance id i2 of B on /127.0.0.1 is new; it says: nothing
C joins g as=i2
    -> waits
    B <- FENCED_INSTANCE_ID, member i2-2
D joins g as=i1
    log [group g generation 2] has 2 members and waits for the assignment of i1-4
    -> generation 2, consumer/range, member i1-4, leader, members i2-3(i2) i1-4(i1)
    C <- generation 2, consumer/range, member i2-3, follows i1-4

# an instance id with the id of another member is fenced, an unknown one is not known
given g A/i1=t-0
B joins g as=i1 id=B-7
    -> FENCED_INSTANCE_ID, member B-7
B joins g as=i9 id=B-7
    -> UNKNOWN_MEMBER_ID, member B-7
B heartbeats g
    -> UNKNOWN_MEMBER_ID

# it stays a member while it restarts, although the others rebalance without it
given g A/i1=t-0 session=60s rebalance=10s
B enters g session=60s rebalance=10s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
clock 10s
    +10000 ms log [group g generation 2] has 2 members and waits for the assignment of B-2
    +10000 ms B <- generation 2, consumer/range, member B-2, leader, members i1-1(i1) B-2
B syncs g B=t-1 A=t-0
    log [group g generation 2] is stable: B-2 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader B-2 since +10000 ms; i1-1(i1) wants t has t-0; B-2 wants t has t-1
    -> consumer/range assigns t-1
C joins g as=i1 session=60s rebalance=10s
    log [group g generation 2] static member i1 is back as i1-3, and nothing changes
    writes GroupMetadata v3 g: generation 2 consumer/range leader B-2 since +10000 ms; B-2 wants t has t-1; i1-3(i1) wants t has t-0
    -> generation 2, consumer/range, member i1-3, follows B-2
C syncs g
    -> consumer/range assigns t-0

# it does not sync in time, and goes
given g A/i1=t-0 session=60s rebalance=10s
B enters g session=60s rebalance=10s
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
clock 10s
    +10000 ms log [group g generation 2] has 2 members and waits for the assignment of B-2
    +10000 ms B <- generation 2, consumer/range, member B-2, leader, members i1-1(i1) B-2
clock 9s
B syncs g B=t-0,t-1
    log [group g generation 2] is stable: B-2 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader B-2 since +10000 ms; i1-1(i1) wants t has nothing; B-2 wants t has t-0 t-1
    -> consumer/range assigns t-0 t-1
clock 1s
    +1000 ms log [group g generation 2] prepares to rebalance: i1-1 did not send SyncGroup in time

# its session ends, and it goes
given g A/i1=t-0 B/i2=t-1 session=30s
A stays g 30s
    +30000 ms log [group g generation 2] prepares to rebalance: member i2-2 of B on /127.0.0.1 was silent for its session time-out
    -> REBALANCE_IN_PROGRESS
B heartbeats g
    -> UNKNOWN_MEMBER_ID

# it comes back before it has fetched its assignment, and must still fetch it in time
given g A=t-0 session=60s rebalance=10s
B enters g as=i2 session=60s rebalance=10s
    -> waits
    log [group g generation 1] prepares to rebalance: member i2-2 with instance id i2 of B on /127.0.0.1 is new; it says: nothing
A enters g session=60s rebalance=10s
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 i2-2(i2)
    B <- generation 2, consumer/range, member i2-2, follows A-1
A syncs g A=t-0 B=t-1
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; i2-2(i2) wants t has t-1
    -> consumer/range assigns t-0
C joins g as=i2 session=60s rebalance=10s
    log [group g generation 2] static member i2 is back as i2-3, and nothing changes
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; i2-3(i2) wants t has t-1
    -> generation 2, consumer/range, member i2-3, follows A-1
clock 10s
    +10000 ms log [group g generation 2] prepares to rebalance: i2-3 did not send SyncGroup in time
C heartbeats g
    -> UNKNOWN_MEMBER_ID

# what it wants when it is back counts at once, as it would after a restart
topic t 1
topic u 1
given g A/i1=t-0 on=t
A commits g t-0=1 u-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms
    writes OffsetCommit v4 g u 0: 1 at +0 ms
    -> t-0 ok, u-0 ok
B joins g as=i1 on=u
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants u has t-0
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)
admin forgets g t-0 u-0
    writes OffsetCommit g t 0 tombstone
    -> t-0 ok, u-0 GROUP_SUBSCRIBED_TO_TOPIC
