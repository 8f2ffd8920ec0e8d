; Transactions that take too long, and ids that nobody uses.

# a transaction that takes too long is aborted, and its producer fenced
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 9999ms
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 since +0 ms, time-out 10000 ms, version 2, at +9999 ms
    -> ok
clock 1ms
    +1 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +1 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 t-1 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +1 ms orders abort markers of 100/1 in t-0 t-1, version 2
A adds x t-2
    -> PRODUCER_FENCED
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +10000 ms
A adds x t-2
    -> PRODUCER_FENCED

# its producer may recover, as long as no other one has the id
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 10s
    +10000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +10000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +10000 ms orders abort markers of 100/1 in t-0, version 2
A recovers x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +10000 ms
A recovers x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 2, at +10000 ms
    -> is 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +10000 ms, time-out 60000 ms, version 2, at +10000 ms
    -> ok

# but not when there is one
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 10s
    +10000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +10000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +10000 ms orders abort markers of 100/1 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +10000 ms
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +10000 ms
    -> is 100/2
A recovers x
    -> PRODUCER_FENCED

# an older client may recover, too
A has x old timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 0, at +0 ms
    -> ok
clock 10s
    +10000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +10000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +10000 ms orders abort markers of 100/1 in t-0, version 2
A commits x
    -> PRODUCER_FENCED
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +10000 ms
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED
A recovers x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 2, at +10000 ms
    -> is 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +10000 ms, time-out 60000 ms, version 0, at +10000 ms
    -> ok

# the commit comes a moment before its time is over
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 9999ms
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +9999 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
clock 1m
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +69999 ms

# the commit comes a moment too late
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 10s
    +10000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +10000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +10000 ms orders abort markers of 100/1 in t-0, version 2
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +10000 ms
A commits x
    -> INVALID_TXN_STATE
A aborts x
    -> ok, goes on as 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +10000 ms, time-out 10000 ms, version 2, at +10000 ms
    -> ok

# the commit is retried, and its time is over in between
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 9s
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +9000 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
clock 9s
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +18000 ms
A commits x
    -> ok, goes on as 100/1

# time counts from the first partition, and anew for each transaction
A has x timeout=10s
clock 1h
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +3600000 ms, time-out 10000 ms, version 2, at +3600000 ms
    -> ok
clock 6s
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +3600000 ms, time-out 10000 ms, version 2, at +3606000 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +3600000 ms, time-out 10000 ms, version 2, at +3606000 ms
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +3606000 ms, time-out 10000 ms, version 2, at +3606000 ms
    -> ok
clock 6s
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 t-1 since +3606000 ms, time-out 10000 ms, version 2, at +3612000 ms
    -> ok
clock 4s
    +4000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +4000 ms writes TransactionLog v1 x: PrepareAbort 100/2 in t-0 t-1 since +3606000 ms, time-out 10000 ms, version 2, at +3616000 ms
    +4000 ms orders abort markers of 100/2 in t-0 t-1, version 2

# and goes on through a restart
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 6s
restart
clock 4s
    +4000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +4000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +4000 ms orders abort markers of 100/1 in t-0, version 2

# whose time was over while there was no coordinator is aborted at once
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
restart 10s
    log the transaction of 'x' is aborted: it was open for 10.0 s
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    orders abort markers of 100/1 in t-0, version 2

# each transaction has its own time
A has x timeout=10s
B has y timeout=20s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 5s
B adds y t-0
    writes TransactionLog v1 y: Ongoing 101/0 in t-0 since +5000 ms, time-out 20000 ms, version 2, at +5000 ms
    -> ok
clock 20s
    +5000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +5000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +5000 ms orders abort markers of 100/1 in t-0, version 2
    +20000 ms log the transaction of 'y' is aborted: it was open for 20.0 s
    +20000 ms writes TransactionLog v1 y: PrepareAbort 101/1 in t-0 since +5000 ms, time-out 20000 ms, version 2, at +25000 ms
    +20000 ms orders abort markers of 101/1 in t-0, version 2

# an id that nobody uses is forgotten
A has x
clock 167h
describe x
    -> Empty 100/0 in nothing, time-out 60000 ms
clock 1h
    +3600000 ms writes TransactionLog x tombstone
describe x
    -> TRANSACTIONAL_ID_NOT_FOUND
A adds x t-0
    -> INVALID_PRODUCER_ID_MAPPING
A commits x
    -> INVALID_PRODUCER_ID_MAPPING
restart
list
    -> nothing
A recovers x
    writes TransactionLog v1 x: Empty 102/0, time-out 60000 ms, version 0, at +604800000 ms
    -> is 102/0

# one that is used lives on
A has x
clock 160h
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +576000000 ms, time-out 60000 ms, version 2, at +576000000 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +576000000 ms, time-out 60000 ms, version 2, at +576000000 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +576000000 ms, time-out 60000 ms, version 2, at +576000000 ms
clock 160h
clock 8h
    +28800000 ms writes TransactionLog x tombstone

# while its markers are not written it is not forgotten
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
clock 10d
describe x
    -> PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +864000000 ms
clock 7d
    +604800000 ms writes TransactionLog x tombstone
