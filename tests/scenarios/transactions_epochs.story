; Epochs are numbers of 16 bits: 32767 is kept to fence with, and after 32766 comes another producer id.

# a producer that starts when the epochs are used up gets another id
A has x epoch=32765
B inits x
    writes TransactionLog v1 x: Empty 100/32766, time-out 60000 ms, version 0, at +0 ms
    -> is 100/32766
C inits x
    writes TransactionLog v1 x: Empty 102/0 after 100, time-out 60000 ms, version 0, at +0 ms
    -> is 102/0
B adds x t-0
    -> INVALID_PRODUCER_ID_MAPPING
B commits x
    -> PRODUCER_FENCED

# one that recovers, too, and a retry gets the same
A has x epoch=32766
A recovers x unheard
    writes TransactionLog v1 x: Empty 101/0 after 100, time-out 60000 ms, version 0, at +0 ms
    -> is 101/0
A recovers x
    writes TransactionLog v1 x: Empty 101/0, time-out 60000 ms, version 0, at +0 ms
    -> is 101/0
A adds x t-0
    writes TransactionLog v1 x: Ongoing 101/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# a commit tells the id to go on with
A has x epoch=32766
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/32767 before 101 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/32767 in t-0, version 2
    -> ok, goes on as 101/0
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A commits x
    -> ok, goes on as 101/0
A adds x t-0
    writes TransactionLog v1 x: Ongoing 101/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# also if the coordinator starts again on the way
A has x epoch=32766
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/32767 before 101 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/32767 in t-0, version 2
    -> ok, goes on as 101/0
restart
    orders commit markers of 100/32767 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteCommit 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
restart
A commits x
    -> ok, goes on as 101/0
A adds x t-0
    writes TransactionLog v1 x: Ongoing 101/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# an abort of nothing does
A has x epoch=32766
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/32767 before 101 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/32767 in nothing, version 2
    -> ok, goes on as 101/0
marked x
    writes TransactionLog v1 x: CompleteAbort 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A adds x t-0
    writes TransactionLog v1 x: Ongoing 101/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# an older client goes on with its last epoch
A has x old epoch=32766
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/32766 in t-0, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteCommit 100/32766 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok

# fenced in the middle with the last epoch
A has x epoch=32766
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B inits x
    writes TransactionLog v1 x: PrepareAbort 100/32767 before 101 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/32767 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 101/1, time-out 60000 ms, version 2, at +0 ms
    -> is 101/1
A recovers x
    -> PRODUCER_FENCED
A adds x t-0
    -> INVALID_PRODUCER_ID_MAPPING

# nobody goes on with the epoch that is kept to fence with
A has x epoch=32766
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32766 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
clock 1m
    +60000 ms log the transaction of 'x' is aborted: it was open for 60.0 s
    +60000 ms writes TransactionLog v1 x: PrepareAbort 100/32767 before 101 in t-0 since +0 ms, time-out 60000 ms, version 2, at +60000 ms
    +60000 ms orders abort markers of 100/32767 in t-0, version 2
A recovers x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +60000 ms
A adds x t-0
    -> INVALID_PRODUCER_ID_MAPPING
A commits x
    -> INVALID_TXN_STATE
A aborts x unheard
    -> ok, goes on as 101/0
A recovers x
    writes TransactionLog v1 x: Empty 101/0, time-out 60000 ms, version 2, at +60000 ms
    -> is 101/0
A adds x t-0
    writes TransactionLog v1 x: Ongoing 101/0 in t-0 since +60000 ms, time-out 60000 ms, version 2, at +60000 ms
    -> ok
B inits x
    writes TransactionLog v1 x: PrepareAbort 101/1 in t-0 since +60000 ms, time-out 60000 ms, version 2, at +60000 ms
    orders abort markers of 101/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 101/1 in nothing since +60000 ms, time-out 60000 ms, version 2, at +60000 ms
A recovers x
    writes TransactionLog v1 x: Empty 101/1, time-out 60000 ms, version 2, at +60000 ms
    -> is 101/1

# time is over for a transaction with the last epoch of all
A has x epoch=32767
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/32767 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
clock 1m
    +60000 ms log the transaction of 'x' is aborted: it was open for 60.0 s
    +60000 ms writes TransactionLog v1 x: PrepareAbort 100/32767 before 101 in t-0 since +0 ms, time-out 60000 ms, version 2, at +60000 ms
    +60000 ms orders abort markers of 100/32767 in t-0, version 2
restart
    orders abort markers of 100/32767 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteAbort 101/0 after 100 in nothing since +0 ms, time-out 60000 ms, version 2, at +60000 ms
A commits x
    -> INVALID_TXN_STATE
A recovers x
    -> PRODUCER_FENCED
B inits x
    writes TransactionLog v1 x: Empty 101/1, time-out 60000 ms, version 2, at +60000 ms
    -> is 101/1
A adds x t-0
    -> INVALID_PRODUCER_ID_MAPPING
