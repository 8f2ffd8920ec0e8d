; What is part of a transaction: partitions, and groups whose offsets it commits.

# partitions are added as they are written to, and once
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A adds x t-0
    -> ok
A adds x t-1 u-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 u-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A adds x u-0 t-0
    -> ok
describe x
    -> Ongoing 100/0 in t-0 t-1 u-0 since +0 ms, time-out 60000 ms

# the next transaction begins with its own
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/1 in t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/2 in t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/2 in t-1, version 2
    -> ok, goes on as 100/2
marked x
    writes TransactionLog v1 x: CompleteCommit 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# a group's offsets are a partition like others
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A adds-offsets x g
    writes TransactionLog v1 x: Ongoing 100/0 in __consumer_offsets-3 t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in __consumer_offsets-3 t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in __consumer_offsets-3 t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# a transaction may have nothing but offsets
A has x old
A adds-offsets x g
    writes TransactionLog v1 x: Ongoing 100/0 in __consumer_offsets-3 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A adds-offsets x g
    -> ok
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/0 in __consumer_offsets-3 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders abort markers of 100/0 in __consumer_offsets-3, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteAbort 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms

# a broker that gets a write asks whether it is part of the transaction
A has x
A verifies x t-0
    -> t-0 TRANSACTION_ABORTABLE
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A verifies x t-0 t-1
    -> t-0 ok, t-1 TRANSACTION_ABORTABLE
A verifies x t-0 epoch=1
    -> t-0 PRODUCER_FENCED
A verifies x t-0 id=4711
    -> t-0 INVALID_PRODUCER_ID_MAPPING
A verifies y t-0
    -> t-0 INVALID_PRODUCER_ID_MAPPING
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A verifies x t-0
    -> t-0 CONCURRENT_TRANSACTIONS
A verifies x t-0 epoch=0
    -> t-0 PRODUCER_FENCED
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A verifies x t-0
    -> t-0 TRANSACTION_ABORTABLE
