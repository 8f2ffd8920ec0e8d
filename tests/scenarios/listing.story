; Listing, describing and deleting groups.

# groups are listed by state and type, in any case
topic t 1
given stable A=t-0
B enters completing
    writes GroupMetadata v3 completing: generation 0 /None leader None since +0 ms
    log [group completing generation 0] prepares to rebalance: member B-2 of B on /127.0.0.1 is new; it says: nothing
    log [group completing generation 1] has 1 member and waits for the assignment of B-2
    -> generation 1, consumer/range, member B-2, leader, members B-2
admin commits simple t-0=1
    writes OffsetCommit v4 simple t 0: 1 at +0 ms
    -> t-0 ok
given empty C=t-0
C leaves empty
    log [group empty generation 1] member C-3 leaves; it says: nothing
    log [group empty generation 1] prepares to rebalance: C-3 left
    log [group empty generation 2] is empty
    writes GroupMetadata v3 empty: generation 2 consumer/None leader None since +0 ms
    -> C-3 ok
D joins made
    writes GroupMetadata v3 made: generation 0 /None leader None since +0 ms
    -> MEMBER_ID_REQUIRED, member D-4
list
    -> stable is Stable, a classic group of consumer
    -> completing is CompletingRebalance, a classic group of consumer
    -> simple is Empty, a classic group of nobody
    -> empty is Empty, a classic group of consumer
    -> made is Empty, a classic group of nobody
list state=stable
    -> stable is Stable, a classic group of consumer
list state=STABLE,empty
    -> stable is Stable, a classic group of consumer
    -> simple is Empty, a classic group of nobody
    -> empty is Empty, a classic group of consumer
    -> made is Empty, a classic group of nobody
list state=completingrebalance type=Classic
    -> completing is CompletingRebalance, a classic group of consumer
list type=consumer
    -> nothing
list type=nonsense
    -> nothing

# a group is described with what its members said; between generations without it
topic t 1
given g A/i1=t-0 B=
describe g
    -> Stable consumer/range; i1-1(i1) of A on /127.0.0.1 wants t has t-0; B-2 of B on /127.0.0.1 wants t has nothing
C enters g
    -> waits
    log [group g generation 2] prepares to rebalance: member C-3 of C on /127.0.0.1 is new; it says: nothing
describe g
    -> PreparingRebalance consumer/; i1-1(i1) of A on /127.0.0.1 ? has t-0; B-2 of B on /127.0.0.1 ? has nothing; C-3 of C on /127.0.0.1 ? has nothing
describe h
    -> Dead, GROUP_ID_NOT_FOUND
describe h v=5
    -> Dead /

# only groups without members can be deleted
topic t 2
given g A=t-0
A commits g t-0=5 t-1=6
    writes OffsetCommit v4 g t 0: 5 at +0 ms
    writes OffsetCommit v4 g t 1: 6 at +0 ms
    -> t-0 ok, t-1 ok
delete g
    -> NON_EMPTY_GROUP
A leaves g
    log [group g generation 1] member A-1 leaves; it says: nothing
    log [group g generation 1] prepares to rebalance: A-1 left
    log [group g generation 2] is empty
    writes GroupMetadata v3 g: generation 2 consumer/None leader None since +0 ms
    -> A-1 ok
delete g
    log [group g] is deleted; offsets that go with it: 2
    writes OffsetCommit g t 0 tombstone
    writes OffsetCommit g t 1 tombstone
    writes GroupMetadata g tombstone
    -> ok
delete g
    -> GROUP_ID_NOT_FOUND
list
    -> nothing
