; Offsets that are committed inside a transaction (KIP-98, KIP-447).

# an offset of a transaction counts when it is committed
topic t 1
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
admin fetches g t-0
    -> t-0=5
admin fetches g t-0 stable
    -> t-0 UNSTABLE_OFFSET_COMMIT
admin fetches g all stable
    -> t-0 UNSTABLE_OFFSET_COMMIT
P7 ends commit
admin fetches g t-0 stable
    -> t-0=6
list
    -> g is Empty, a classic group of nobody

# and is forgotten when it is aborted
topic t 2
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
P7 commits g in-transaction t-0=6 t-1=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    writes OffsetCommit v4 g t 1: 6 at +0 ms without topic id for producer 7
    -> t-0 ok, t-1 ok
P7 ends abort
admin fetches g all stable
    -> t-0=5

# two transactions: the partition is unstable until both have ended, and the later record counts
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
P8 commits g in-transaction t-0=7
    writes OffsetCommit v4 g t 0: 7 at +0 ms without topic id for producer 8
    -> t-0 ok
P8 ends commit
admin fetches g t-0
    -> t-0=7
admin fetches g t-0 stable
    -> t-0 UNSTABLE_OFFSET_COMMIT
P7 ends commit
admin fetches g t-0 stable
    -> t-0=7

# an offset that was committed plainly after it counts, although the transaction ends later
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
admin commits g t-0=8
    writes OffsetCommit v4 g t 0: 8 at +0 ms
    -> t-0 ok
P7 ends commit
admin fetches g t-0 stable
    -> t-0=8

# the last commit of a transaction counts
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
P8 commits g in-transaction t-0=7
    writes OffsetCommit v4 g t 0: 7 at +0 ms without topic id for producer 8
    -> t-0 ok
P7 commits g in-transaction t-0=9
    writes OffsetCommit v4 g t 0: 9 at +0 ms without topic id for producer 7
    -> t-0 ok
P8 ends commit
P7 ends commit
admin fetches g t-0 stable
    -> t-0=9

# a restart between commit and marker forgets nothing
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
P8 commits h in-transaction t-0=7
    writes OffsetCommit v4 h t 0: 7 at +0 ms without topic id for producer 8
    -> t-0 ok
restart
admin fetches g t-0 stable
    -> t-0 UNSTABLE_OFFSET_COMMIT
P7 ends commit
P8 ends abort
restart
admin fetches g all stable
    -> t-0=6
admin fetches h all stable
    -> nothing

# a marker for nothing does nothing
topic t 1
P7 ends commit
P7 ends abort
admin fetches g all
    -> nothing

# a member's generation is checked if it is told, and no rebalance stands in the way
topic t 1
given g A=t-0
P7 commits g in-transaction t-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 commits g in-transaction t-0=1 generation=1 id=A-1
    writes OffsetCommit v4 g t 0: 1 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 commits g in-transaction t-0=1 generation=0 id=A-1
    -> t-0 ILLEGAL_GENERATION
P7 commits g in-transaction t-0=1 generation=1 id=A-9
    -> t-0 UNKNOWN_MEMBER_ID
P7 commits h in-transaction t-0=1 generation=1 id=A-1
    -> t-0 ILLEGAL_GENERATION
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
P7 commits g in-transaction t-0=2 generation=2 id=A-1
    writes OffsetCommit v4 g t 0: 2 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 commits "" in-transaction t-0=2
    -> t-0 INVALID_GROUP_ID
P7 commits g in-transaction t-0=2 u-0=2 t-1=2
    writes OffsetCommit v4 g t 0: 2 at +0 ms without topic id for producer 7
    -> t-0 ok, u-0 UNKNOWN_TOPIC_OR_PARTITION, t-1 UNKNOWN_TOPIC_OR_PARTITION

# forgetting an offset forgets what is pending, too
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
admin forgets g t-0
    writes OffsetCommit g t 0 tombstone
    -> t-0 ok
admin fetches g t-0 stable
    -> t-0 none
P7 ends commit
admin fetches g t-0 stable
    -> t-0 none

# a group with an open transaction can be deleted, and the transaction ends in nothing
topic t 2
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
P7 commits g in-transaction t-0=6 t-1=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    writes OffsetCommit v4 g t 1: 6 at +0 ms without topic id for producer 7
    -> t-0 ok, t-1 ok
delete g
    log [group g] is deleted; offsets that go with it: 2
    writes OffsetCommit g t 0 tombstone
    writes OffsetCommit g t 1 tombstone
    writes GroupMetadata g tombstone
    -> ok
list
    -> nothing
P7 ends commit
admin fetches g all
    -> nothing

# pending offsets of a deleted topic go, too
topic t 1
P7 commits g in-transaction t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
deletes-topic t
    writes OffsetCommit g t 0 tombstone
P7 ends commit
admin fetches g all
    -> nothing
