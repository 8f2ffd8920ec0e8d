; DescribeTransactions and ListTransactions.

# what is going on
A has x
B has y timeout=10s
C has z
A adds x u-0 t-1 t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 t-1 u-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
clock 5s
B adds y t-0
    writes TransactionLog v1 y: Ongoing 101/0 in t-0 since +5000 ms, time-out 10000 ms, version 2, at +5000 ms
    -> ok
B commits y
    writes TransactionLog v1 y: PrepareCommit 101/1 in t-0 since +5000 ms, time-out 10000 ms, version 2, at +5000 ms
    orders commit markers of 101/1 in t-0, version 2
    -> ok, goes on as 101/1
describe x
    -> Ongoing 100/0 in t-0 t-1 u-0 since +0 ms, time-out 60000 ms
describe y
    -> PrepareCommit 101/1 in t-0 since +5000 ms, time-out 10000 ms
describe z
    -> Empty 102/0 in nothing, time-out 60000 ms
describe nobody
    -> TRANSACTIONAL_ID_NOT_FOUND
list
    -> x of 100 is Ongoing
    -> y of 101 is PrepareCommit
    -> z of 102 is Empty
list state=Ongoing,Empty
    -> x of 100 is Ongoing
    -> z of 102 is Empty
list state=PrepareCommit
    -> y of 101 is PrepareCommit
list producer=100,102
    -> x of 100 is Ongoing
    -> z of 102 is Empty
list state=Ongoing producer=102
    -> nothing
marked y
    writes TransactionLog v1 y: CompleteCommit 101/1 in nothing since +5000 ms, time-out 10000 ms, version 2, at +5000 ms
list state=CompleteCommit
    -> y of 101 is CompleteCommit

# one that is open for longer than that
A has x
B has y
A adds x t-0
    writes TransactionLog v1 x: Ongoing 100/0 in t-0 since +0 ms, time-out 60000 ms, version 2, at +0 ms
    -> ok
clock 5s
B adds y t-0
    writes TransactionLog v1 y: Ongoing 101/0 in t-0 since +5000 ms, time-out 60000 ms, version 2, at +5000 ms
    -> ok
list longer=4s state=Ongoing
    -> x of 100 is Ongoing
list longer=5s state=Ongoing
    -> nothing
