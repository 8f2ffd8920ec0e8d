; InitProducerId with a transactional id: who has it last, has it (KIP-98, KIP-360).

# a producer that starts gets an id, and epoch 0
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
B inits y
    writes TransactionLog v1 y: Empty 101/0, time-out 60000 ms, version 0, at +0 ms
    -> is 101/0
describe x
    -> Empty 100/0 in nothing, time-out 60000 ms
describe z
    -> TRANSACTIONAL_ID_NOT_FOUND

# the next one gets the next epoch, and fences the last
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
B inits x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
A adds x t-0
    -> PRODUCER_FENCED
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED
A recovers x
    -> PRODUCER_FENCED
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# an older client is fenced the same way
A inits x old
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
B inits x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
A adds x t-0
    -> PRODUCER_FENCED
A commits x
    -> PRODUCER_FENCED
A aborts x
    -> PRODUCER_FENCED

# a producer that recovers from an error says who it is, and gets the next epoch
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
A recovers x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok

# if it never hears the answer, it gets the same one again
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
A recovers x unheard
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
A recovers x
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
A recovers x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 0, at +0 ms
    -> is 100/2

# but not if another one came in between
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
A recovers x unheard
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
B inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 0, at +0 ms
    -> is 100/2
A recovers x
    -> PRODUCER_FENCED

# what was unheard is not known to a coordinator that has started again
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
A recovers x unheard
    writes TransactionLog v1 x: Empty 100/1, time-out 60000 ms, version 0, at +0 ms
    -> is 100/1
restart
A recovers x
    -> PRODUCER_FENCED
A inits x
    writes TransactionLog v1 x: Empty 100/2, time-out 60000 ms, version 0, at +0 ms
    -> is 100/2

# an identity that the id never had is none
A inits x
    writes TransactionLog v1 x: Empty 100/0, time-out 60000 ms, version 0, at +0 ms
    -> is 100/0
A recovers x id=4711 epoch=0
    -> PRODUCER_FENCED
A adds x t-0 id=4711 epoch=0
    -> INVALID_PRODUCER_ID_MAPPING
A commits x id=4711 epoch=0
    -> INVALID_PRODUCER_ID_MAPPING
A recovers x epoch=7
    -> PRODUCER_FENCED
A adds x t-0 epoch=7
    -> PRODUCER_FENCED
A commits x epoch=7
    -> PRODUCER_FENCED

# for an id that nobody knows, whoever says who it is gets a new identity
A adds x t-0 id=4711 epoch=3
    -> INVALID_PRODUCER_ID_MAPPING
A commits x id=4711 epoch=3
    -> INVALID_PRODUCER_ID_MAPPING
A recovers x id=4711 epoch=3
    writes TransactionLog v1 x: Empty 101/0, time-out 60000 ms, version 0, at +0 ms
    -> is 101/0

# a time-out beyond the limit is refused, and so is none
A inits x timeout=900001ms
    -> INVALID_TRANSACTION_TIMEOUT
A inits x timeout=0ms
    -> INVALID_TRANSACTION_TIMEOUT
A inits x timeout=15m
    writes TransactionLog v1 x: Empty 102/0, time-out 900000 ms, version 0, at +0 ms
    -> is 102/0

# the last time-out counts, from the next transaction on
A inits x timeout=10s
    writes TransactionLog v1 x: Empty 100/0, time-out 10000 ms, version 0, at +0 ms
    -> is 100/0
B inits x timeout=20s
    writes TransactionLog v1 x: Empty 100/1, time-out 20000 ms, version 0, at +0 ms
    -> is 100/1
B adds x t-0
    writes TransactionLog v1 x: Ongoing 100/1 in t-0 since +0 ms, time-out 20000 ms, version 2, at +0 ms
    -> ok
clock 20s
    +20000 ms log the transaction of 'x' is aborted: it was open for 20.0 s
    +20000 ms writes TransactionLog v1 x: PrepareAbort 100/2 in t-0 since +0 ms, time-out 20000 ms, version 2, at +20000 ms
    +20000 ms orders abort markers of 100/2 in t-0, version 2
