"""The demo's topics and the names of its two queries, which are the groups whose lag is looked at."""

from typing import Final

USERS: Final = "users"
ORDERS: Final = "orders"
CLEAN: Final = "orders.clean"
DEAD: Final = "orders.dead"
REVENUE: Final = "revenue"

PARTITIONS: Final = {USERS: 1, ORDERS: 4, CLEAN: 4, DEAD: 1, REVENUE: 2}
COMPACTED: Final = frozenset({USERS, REVENUE})

CLEAN_APP: Final = "demo-clean"
REVENUE_APP: Final = "demo-revenue"
# Which topic each query reads.
INPUTS: Final = {CLEAN_APP: ORDERS, REVENUE_APP: CLEAN}

WHY_HEADER: Final = "error"
WHERE_HEADER: Final = "source"  # topic-partition@offset
