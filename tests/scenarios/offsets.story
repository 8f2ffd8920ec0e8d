; Committed offsets: who may commit, what is kept, and what is told.

# a member commits and fetches
topic t 2
given g A=t-0,t-1
A commits g t-0=5 t-1=7 epoch=3 meta="half way"
    writes OffsetCommit v4 g t 0: 5 of epoch 3 "half way" at +0 ms
    writes OffsetCommit v4 g t 1: 7 of epoch 3 "half way" at +0 ms
    -> t-0 ok, t-1 ok
A fetches g t-0 t-1 t-2
    -> t-0=5 of epoch 3 "half way", t-1=7 of epoch 3 "half way", t-2 none
A fetches g all
    -> t-0=5 of epoch 3 "half way", t-1=7 of epoch 3 "half way"

# whoever is no member commits from outside, as long as nobody is inside
topic t 1
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
list
    -> g is Empty, a classic group of nobody
admin fetches g t-0
    -> t-0=5
A joins g
    -> MEMBER_ID_REQUIRED, member A-1
admin commits g t-0=6
    writes OffsetCommit v4 g t 0: 6 at +0 ms
    -> t-0 ok
A joins g
    log [group g generation 0] prepares to rebalance: member A-1 of A on /127.0.0.1 is new; it says: nothing
    log [group g generation 1] has 1 member and waits for the assignment of A-1
    -> generation 1, consumer/range, member A-1, leader, members A-1
admin commits g t-0=7
    -> t-0 UNKNOWN_MEMBER_ID
admin fetches g all
    -> t-0=6

# a group that does not exist has no offsets, and that is no error
topic t 1
A fetches g t-0
    -> t-0 none
A fetches g all
    -> nothing

# a commit with a generation needs a group
topic t 1
A commits g t-0=1 generation=3
    -> t-0 GROUP_ID_NOT_FOUND
A commits g t-0=1 generation=3 v=8
    -> t-0 ILLEGAL_GENERATION

# a commit of a fenced generation is refused
topic t 1
given g A=t-0 B=t-1
A commits g t-0=1 generation=1
    -> t-0 ILLEGAL_GENERATION
A commits g t-0=1 generation=3
    -> t-0 ILLEGAL_GENERATION
C commits g t-0=1 generation=2
    -> t-0 UNKNOWN_MEMBER_ID
A commits g t-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms
    -> t-0 ok

# during the join phase members may still commit what they have done
topic t 1
given g A=t-0
B enters g
    -> waits
    log [group g generation 1] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
A commits g t-0=8
    writes OffsetCommit v4 g t 0: 8 at +0 ms
    -> t-0 ok
A enters g
    log [group g generation 2] has 2 members and waits for the assignment of A-1
    -> generation 2, consumer/range, member A-1, leader, members A-1 B-2
    B <- generation 2, consumer/range, member B-2, follows A-1
A commits g t-0=9
    -> t-0 REBALANCE_IN_PROGRESS
A syncs g A=t-0
    log [group g generation 2] is stable: A-1 assigned to 2 members with range
    writes GroupMetadata v3 g: generation 2 consumer/range leader A-1 since +0 ms; A-1 wants t has t-0; B-2 wants t has nothing
    -> consumer/range assigns t-0
A commits g t-0=9
    writes OffsetCommit v4 g t 0: 9 at +0 ms
    -> t-0 ok

# a static member that was replaced may not commit
topic t 1
given g A/i1=t-0
B joins g as=i1
    log [group g generation 1] static member i1 is back as i1-2, and nothing changes
    writes GroupMetadata v3 g: generation 1 consumer/range leader i1-2 since +0 ms; i1-2(i1) wants t has t-0
    -> generation 1, consumer/range, member i1-2, leader, skips the assignment, members i1-2(i1)
A commits g t-0=1
    -> t-0 FENCED_INSTANCE_ID
B commits g t-0=2
    writes OffsetCommit v4 g t 0: 2 at +0 ms
    -> t-0 ok

# topics and partitions that do not exist are told one by one, before anything about the group
topic t 1
given g A=t-0
A commits g t-0=1 t-1=1 u-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms
    -> t-0 ok, t-1 UNKNOWN_TOPIC_OR_PARTITION, u-0 UNKNOWN_TOPIC_OR_PARTITION
A commits g t-0=1 t-1=1 u-0=1 generation=7
    -> t-0 ILLEGAL_GENERATION, t-1 UNKNOWN_TOPIC_OR_PARTITION, u-0 UNKNOWN_TOPIC_OR_PARTITION
A commits g u-0=1 generation=7
    -> u-0 UNKNOWN_TOPIC_OR_PARTITION

# the text beside an offset has a limit
config offset.metadata.max.bytes=4
topic t 2
admin commits g t-0=1 meta=1234
    writes OffsetCommit v4 g t 0: 1 "1234" at +0 ms
    -> t-0 ok
admin commits g t-0=2 t-1=2 meta=12345
    -> t-0 OFFSET_METADATA_TOO_LARGE, t-1 OFFSET_METADATA_TOO_LARGE
admin fetches g all
    -> t-0=1 "1234"

# a group with a text that is too large is not made
config offset.metadata.max.bytes=4
topic t 2
admin commits g t-0=2 meta=12345
    -> t-0 OFFSET_METADATA_TOO_LARGE
list
    -> nothing

# version 10 names topics by id
topic t 1
admin commits g t-0=5 v=10
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> -0 ok
admin commits g u-0=5 v=10
    -> -0 UNKNOWN_TOPIC_ID
admin fetches g t-0 v=10
    -> t-0=5
admin fetches g t-0 u-0 v=10
    -> t-0=5, -0 UNKNOWN_TOPIC_ID
admin fetches g all v=10
    -> t-0=5
admin fetches g t-0
    -> t-0=5

# offsets of a topic that was deleted go with it
topic t 2
topic u 1
admin commits g t-0=5 t-1=6 u-0=7
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g t 1: 6 at +0 ms
    writes OffsetCommit v4 g u 0: 7 at +0 ms
    -> t-0 ok, t-1 ok, u-0 ok
admin commits h t-0=1
    writes OffsetCommit v4 h t 0: 1 at +0 ms
    -> t-0 ok
deletes-topic t
    writes OffsetCommit g t 0 tombstone
    writes OffsetCommit g t 1 tombstone
    writes OffsetCommit h t 0 tombstone
admin fetches g all
    -> u-0=7
admin fetches g t-0 v=10
    -> -0 UNKNOWN_TOPIC_ID
topic t 2 number=1
admin fetches g t-0
    -> t-0 none

# offsets with and without the id of a topic go with it
topic t 1
admin commits g t-0=5 retention=1h v=3
    writes OffsetCommit v1 g t 0: 5 at +0 ms expires +3600000 ms without topic id
    -> t-0 ok
P7 commits h in-transaction t-0=6
    writes OffsetCommit v4 h t 0: 6 at +0 ms without topic id for producer 7
    -> t-0 ok
P7 ends commit
admin commits i t-0=7
    writes OffsetCommit v4 i t 0: 7 at +0 ms
    -> t-0 ok
deletes-topic t
    writes OffsetCommit g t 0 tombstone
    writes OffsetCommit h t 0 tombstone
    writes OffsetCommit i t 0 tombstone
list
    -> g is Empty, a classic group of nobody
    -> h is Empty, a classic group of nobody
    -> i is Empty, a classic group of nobody

# offsets can be forgotten, unless a member wants the topic
topic t 2
topic u 1
given g A=t-0,t-1 on=t
A commits g t-0=5 t-1=6 u-0=7
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g t 1: 6 at +0 ms
    writes OffsetCommit v4 g u 0: 7 at +0 ms
    -> t-0 ok, t-1 ok, u-0 ok
admin forgets g t-0 u-0 v-0 u-5
    writes OffsetCommit g u 0 tombstone
    -> t-0 GROUP_SUBSCRIBED_TO_TOPIC, u-0 ok, v-0 UNKNOWN_TOPIC_OR_PARTITION, u-5 UNKNOWN_TOPIC_OR_PARTITION
admin fetches g all
    -> t-0=5, t-1=6
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
admin forgets g t-0
    writes OffsetCommit g t 0 tombstone
    -> t-0 ok
admin fetches g all
    -> t-1=6
admin forgets g t-0
    -> t-0 ok
admin forgets h t-0
    -> GROUP_ID_NOT_FOUND
admin forgets "" t-0
    -> INVALID_GROUP_ID

# of other protocols than the consumers' nobody knows what they want
topic t 1
given g A=t-0 type=connect
admin forgets g t-0
    -> NON_EMPTY_GROUP
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 connect/None leader None since +0 ms
    -> A-1 ok
admin forgets g t-0
    -> t-0 ok

# a subscription that nobody can read may want anything
topic t 1
given g A=t-0 on=?
A commits g t-0=1
    writes OffsetCommit v4 g t 0: 1 at +0 ms
    -> t-0 ok
admin forgets g t-0
    -> t-0 GROUP_SUBSCRIBED_TO_TOPIC
clock 8d
    +10000 ms log [group g generation 1] prepares to rebalance: member A-1 of A on /127.0.0.1 was silent for its session time-out
    +10000 ms log [group g generation 2] is empty
    +10000 ms writes GroupMetadata v3 g: generation 2 consumer/None leader None since +10000 ms
    +605400000 ms writes OffsetCommit g t 0 tombstone
    +605400000 ms writes GroupMetadata g tombstone

# group.id may be empty, as ever, for those who only commit
topic t 1
admin commits "" t-0=5
    writes OffsetCommit v4  t 0: 5 at +0 ms
    -> t-0 ok
admin fetches "" t-0
    -> t-0=5

# an offset of an older topic with the same name is none for those who ask by id
topic t 1
admin commits g t-0=5
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    -> t-0 ok
topic t 1 number=1
admin fetches g t-0 v=10
    -> t-0 none
admin fetches g t-0
    -> t-0=5
deletes-topic t
