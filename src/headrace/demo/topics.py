"""The demo's topics, and the query of its pipeline that is watched while it makes its way through the orders."""

from typing import Final

USERS: Final = "users"
ORDERS: Final = "orders"
CHECKED: Final = "orders.checked"
CLEAN: Final = "orders.clean"
DEAD: Final = "orders.dead"
REVENUE: Final = "revenue"

PARTITIONS: Final = {USERS: 1, ORDERS: 4, CHECKED: 4, CLEAN: 4, DEAD: 1, REVENUE: 2}
COMPACTED: Final = frozenset({USERS, REVENUE})

# The group and the transactions of the query that reads orders, and writes those that are right and dead letters.
ORDERS_GROUP: Final = "demo.orders"
