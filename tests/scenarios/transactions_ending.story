; EndTxn: the PREPARE record decides, the markers follow, and when all are there, the COMPLETE record.

# a commit is decided, then marked everywhere, then complete
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
clock 5ms
A adds x t-0 t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 since +5 ms, time-out 60000 ms, version 2, at +5 ms
    -> ok
clock 5ms
A adds x u-3
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 u-3 since +5 ms, time-out 60000 ms, version 2, at +10 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 t-1 u-3 since +5 ms, time-out 60000 ms, version 2, at +10 ms
    orders commit markers of 100/1 in t-0 t-1 u-3, version 2
    -> ok, goes on as 100/1
A adds x t-0
    -> CONCURRENT_TRANSACTIONS
clock 5ms
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +5 ms, time-out 60000 ms, version 2, at +15 ms
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +15 ms, time-out 60000 ms, version 2, at +15 ms
    -> ok

# an abort as well
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
describe x
    -> CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms

# of an older client the epoch stays, from one transaction to the next
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-0, version 0
    -> ok
A adds x t-1
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-1 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/0 in t-1 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders abort markers of 100/0 in t-1, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteAbort 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms

# the answer is lost, and the commit is sent again
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A commits x unheard
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A commits x
    -> ok, goes on as 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# the answer to an abort, too
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A aborts x unheard
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A aborts x unheard
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A aborts x
    -> ok, goes on as 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# an older client is known by the state: it is told the same as before
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-0, version 0
    -> ok
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A commits x
    -> ok
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A aborts x unheard
    writes TransactionLog v1 x: PrepareAbort 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders abort markers of 100/0 in t-0, version 0
    -> ok
marked x
    writes TransactionLog v1 x: CompleteAbort 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A aborts x
    -> ok

# what is committed is not aborted any more
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x unheard
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A aborts x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A aborts x
    -> INVALID_TXN_STATE
describe x
    -> CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms

# and what is aborted is not committed
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A aborts x unheard
    writes TransactionLog v1 x: PrepareAbort 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A commits x
    -> INVALID_TXN_STATE
describe x
    -> CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms

# neither does an older client change its mind
A has x old
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-0, version 0
    -> ok
A aborts x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A aborts x
    -> INVALID_TXN_STATE
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/0 in t-0 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders abort markers of 100/0 in t-0, version 0
    -> ok
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteAbort 100/0 in nothing since +0 ms, time-out 60000 ms, version 0, at +0 ms
A commits x
    -> INVALID_TXN_STATE

# the next transaction is aborted while the last one is still being marked: it comes back
A has x
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
A adds x t-1
    -> CONCURRENT_TRANSACTIONS
A aborts x
    -> CONCURRENT_TRANSACTIONS
A commits x
    -> CONCURRENT_TRANSACTIONS
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/2 in nothing, version 2
    -> ok, goes on as 100/2
marked x
    writes TransactionLog v1 x: CompleteAbort 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# a retry that comes when the next transaction is open does not end it
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
A commits x epoch=0
    -> PRODUCER_FENCED
A aborts x epoch=0
    -> PRODUCER_FENCED
describe x
    -> Ongoing 100/1 in t-1 since +0 ms, time-out 60000 ms

# of an older client nobody can tell it from the end of the next one
; That is why version 2 raises the epoch (KIP-890).
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
A adds x t-1
    writes TransactionLog v1 x: Ongoing 100/0 in t-1 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/0 in t-1 since +0 ms, time-out 60000 ms, version 0, at +0 ms
    orders commit markers of 100/0 in t-1, version 0
    -> ok

# to abort nothing raises the epoch, and fences what is still on its way
A has x
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/1 in nothing, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteAbort 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A adds x t-0 epoch=0
    -> PRODUCER_FENCED
A aborts x
    writes TransactionLog v1 x: PrepareAbort 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders abort markers of 100/2 in nothing, version 2
    -> ok, goes on as 100/2
marked x
    writes TransactionLog v1 x: CompleteAbort 100/2 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms

# to commit nothing is a mistake
A has x
A commits x
    -> INVALID_TXN_STATE
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
A commits x
    writes TransactionLog v1 x: PrepareCommit 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    orders commit markers of 100/1 in t-0, version 2
    -> ok, goes on as 100/1
marked x
    writes TransactionLog v1 x: CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms, version 2, at +0 ms
A commits x
    -> INVALID_TXN_STATE
describe x
    -> CompleteCommit 100/1 in nothing since +0 ms, time-out 60000 ms

# nothing of an older client does not end at all
A has x old
A commits x
    -> INVALID_TXN_STATE
A aborts x
    -> INVALID_TXN_STATE
describe x
    -> Empty 100/0 in nothing, time-out 60000 ms
