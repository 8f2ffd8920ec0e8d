; Two producers with one id, while a transaction is open.

# a producer is fenced in the middle of its transaction
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B inits x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
A adds x t-1
    -> PRODUCER_FENCED
A commits x
    -> CONCURRENT_TRANSACTIONS
B inits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +0 ms
    -> is 100/2
A adds x t-0
    -> PRODUCER_FENCED
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED
A recovers x
    -> PRODUCER_FENCED
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/2 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# so is an older client
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
B inits x old
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +0 ms
    -> is 100/2
A aborts x
    -> PRODUCER_FENCED
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/2 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
B commits x
    writes TransactionLog v1 x: PrepareCommit 100/2 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/2 in t-0, version 0
    -> ok

# until the other one is back, an abort is taken for its own
; It looks like the retry of an abort, and it is harmless: the other one fences it when it comes back.
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B inits x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
A aborts x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A aborts x
    -> ok, goes on as 100/1
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +0 ms
    -> is 100/2
A adds x t-0
    -> PRODUCER_FENCED

# while the commit of the last one is marked, the next one waits, and takes nothing back
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
B inits x
    -> CONCURRENT_TRANSACTIONS
describe x
    -> PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 2, at +0 ms
    -> is 100/2

# a producer that recovers in the middle of its transaction comes back, too
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A recovers x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
A recovers x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A recovers x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 2, at +0 ms
    -> is 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# after a restart nobody knows that it was its own
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A recovers x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
restart
    orders abort markers of 100/1 in t-0, version 2
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A recovers x
    -> PRODUCER_FENCED

# an operator takes the id away, and the transaction goes with it
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
admin inits x timeout=1ms
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
admin inits x timeout=1ms
    writes TransactionLog v1 x: Empty 100/2, time-out 1 ms, version 2, at +0 ms
    -> is 100/2
A adds x t-0
    -> PRODUCER_FENCED
A commits x
    -> PRODUCER_FENCED
describe x
    -> Empty 100/2 in nothing, time-out 1 ms

# older and newer clients take turns with one id
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-0, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteCommit 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
B inits x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B commits x
    writes TransactionLog v1 x: PrepareCommit 100/2 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/2 in t-0, version 2
    -> ok, goes on as 100/2
marked x
    writes TransactionLog v1 x: CompleteCommit 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
C inits x old
    writes TransactionLog v1 x: Empty 100/3, time-out 60000 ms, version 2, at +0 ms
    -> is 100/3
C adds x t-0
    writes TransactionLog v1 x: Ongoing 100/3 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
C commits x
    writes TransactionLog v1 x: PrepareCommit 100/3 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/3 in t-0, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteCommit 100/3 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A commits x
    -> PRODUCER_FENCED

# the end of an older client is not taken for the own one by whoever had the epoch before
A has x
B inits x old
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
B commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/1 in t-0, version 0
    -> ok
A commits x
    -> PRODUCER_FENCED
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
B aborts x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders abort markers of 100/1 in t-0, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A aborts x
    -> PRODUCER_FENCED
describe x
    -> CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms

# how a transaction ends is what the client speaks that ends it
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
B commits x id=100 epoch=0
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# two ids have nothing to do with one another
A has x
B has y
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B adds y t-0
    writes TransactionLog v1 y: Ongoing 101/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
B adds y t-1
    writes TransactionLog v1 y: Ongoing 101/0 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
B aborts y
    writes TransactionLog v1 y: PrepareAbort 101/1 in t-0 t-1 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 101/1 in t-0 t-1, version 2
    -> ok, goes on as 101/1
marked y
    writes TransactionLog v1 y: CompleteAbort 101/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
