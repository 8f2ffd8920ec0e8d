; A coordinator that takes over knows the records, and orders the markers of what is prepared again.

# a producer that has done nothing yet goes on
A has x
restart
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# an open transaction goes on
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
restart
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0 t-1, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# between the decision to commit and the markers
A has x
A adds x t-0 t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0 t-1, version 2
    -> ok, goes on as 100/1
restart
    orders commit markers of 100/1 in t-0 t-1, version 2
A adds x t-0
    -> CONCURRENT_TRANSACTIONS
B inits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# between the decision to abort and the markers
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
restart
    orders abort markers of 100/1 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
describe x
    -> CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms

# of an older client
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-0, version 0
    -> ok
restart
    orders commit markers of 100/0 in t-0, version 0
A commits x
    -> CONCURRENT_TRANSACTIONS
A aborts x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A commits x
    -> ok

# again and again
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
restart
    orders commit markers of 100/1 in t-0, version 2
restart 1h
    orders commit markers of 100/1 in t-0, version 2
restart
    orders commit markers of 100/1 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +3600000 ms
restart

# the answer is lost with the coordinator, and the commit is sent again
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
restart
    orders commit markers of 100/1 in t-0, version 2
A commits x unheard
    -> CONCURRENT_TRANSACTIONS
A aborts x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
restart
A commits x
    -> ok, goes on as 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# what is complete stays so
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
restart
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/1 in t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# it is told of markers twice, and the end is complete once
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
restart
    orders commit markers of 100/1 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
marked x 100/1
describe x
    -> CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms

# what it is told late, of an end before, does not complete the next one
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
marked x 100/1
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/2 in t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/2 in t-1, version 2
    -> ok, goes on as 100/2
marked x 100/1
marked x 4711/2
marked y 100/2
marked x
    writes TransactionLog v1 x: CompleteCommit 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# a producer that was fenced before the restart is fenced after it
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B inits x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
restart
    orders abort markers of 100/1 in t-0, version 2
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +0 ms
    -> is 100/2
restart
A adds x t-0
    -> PRODUCER_FENCED
A commits x
    -> PRODUCER_FENCED
A recovers x
    -> PRODUCER_FENCED
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/2 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# what took too long is aborted once
A has x timeout=10s
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 10000 ms, version 2, at +0 ms
    -> ok
clock 10s
    +10000 ms log the transaction of 'x' is aborted: it was open for 10.0 s
    +10000 ms writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 10000 ms, version 2, at +10000 ms
    +10000 ms orders abort markers of 100/1 in t-0, version 2
restart 10s
    orders abort markers of 100/1 in t-0, version 2
clock 10s
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 10000 ms, version 2, at +30000 ms
