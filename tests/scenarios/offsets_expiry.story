; When committed offsets expire (offsets.retention.minutes, KIP-211).

# seven days after a group became empty its offsets and the group go
topic t 1
given g A=t-0 session=10s
A commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
clock 7d
    +604800000 ms writes OffsetCommit g t 0 tombstone
    +604800000 ms writes GroupMetadata g tombstone
restart
list
    -> nothing

# as long as a member is subscribed to a topic its offsets stay
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 1
topic u 1
given g A=t-0 on=t
A commits g t-0=5 u-0=6
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g u 0: 6 at +0 ms
    -> t-0 ok, u-0 ok
A stays g 2m
    +60000 ms writes OffsetCommit g u 0 tombstone
    -> ok
A fetches g all
    -> t-0=5

# a simple consumer's offsets expire one by one, from the time of their commit
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 2
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
clock 30s
admin commits g t-1=6
    writes OffsetCommit v4 g t 1: 6 at +30000 ms
    -> t-1 ok
clock 30s
    +30000 ms writes OffsetCommit g t 0 tombstone
admin fetches g all
    -> t-1=6
clock 30s
    +30000 ms writes OffsetCommit g t 1 tombstone
    +30000 ms writes GroupMetadata g tombstone
list
    -> nothing

# members that come back in time save the offsets
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 1
given g A=t-0
A commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
clock 55s
A enters g id=
    log [group g generation 2] prepares to rebalance: member A-2 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 3] has 1 member and waits for the assignment of A-2
    -> generation 3, consumer/range, member A-2, leader, members A-2
A syncs g A=t-0
    log [group g generation 3] is stable: A-2 assigned to 1 member with range
    writes GroupMetadata v3 g: generation 3 consumer/range leader A-2 since +55000 ms; A-2 wants t has t-0
    -> consumer/range assigns t-0
A stays g 1m
    -> ok
A leaves g
    log [group g generation 3] member A-2 leaves; it says: nothing
    log [group g generation 3] prepares to rebalance: A-2 left
    log [group g generation 4] is empty
    writes GroupMetadata v3 g: generation 4 consumer/None leader None since +115000 ms
    -> A-2 ok
clock 59s
A fetches g all
    -> t-0=5
clock 1s
A fetches g all
    -> t-0=5

# an old client chooses how long its offsets are kept
config offsets.retention.check.interval.ms=10000
topic t 2
admin commits g t-0=5 retention=25s v=4
    writes OffsetCommit v1 g t 0: 5 at +0 ms expires +25000 ms without topic id
    -> t-0 ok
admin commits g t-1=5 v=4
    writes OffsetCommit v4 g t 1: 5 at +0 ms
    -> t-1 ok
clock 30s
    +30000 ms writes OffsetCommit g t 0 tombstone
admin fetches g all
    -> t-1=5

# an offset that a transaction may change stays until its end
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 1
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
clock 2m
P7 ends abort
clock 10s
    +10000 ms writes OffsetCommit g t 0 tombstone
    +10000 ms writes GroupMetadata g tombstone
list
    -> nothing

# a group without offsets and members goes with the next look, whoever may be on the way
config offsets.retention.check.interval.ms=10000
A joins g
    writes GroupMetadata v3 g: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member A-1
clock 10s
    +10000 ms writes GroupMetadata g tombstone
list
    -> nothing

# a group that rebalances loses no offset
config offsets.retention.minutes=1
config offsets.retention.check.interval.ms=10000
topic t 1
topic u 1
given g A=t-0 on=t session=30m rebalance=30m
A commits g u-0=1
    writes OffsetCommit v4 g u 0: 1 at +0 ms
    -> u-0 ok
B enters g on=t session=30m rebalance=30m
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
clock 2m
admin fetches g all
    -> u-0=1
