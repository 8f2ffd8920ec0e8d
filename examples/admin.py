"""Topics, configs, offsets and groups, by the admin client. `headrace.aio.Admin` is the same for asyncio.

Run it: `python examples/admin.py`
"""

import headrace

with headrace.Broker() as broker, headrace.Admin(broker.address) as admin:
    admin.create_topic("orders", partitions=3, configs={"retention.ms": 86_400_000})

    orders = headrace.ConfigResource("topic", "orders")
    admin.alter_configs({orders: {"cleanup.policy": headrace.Append(["compact"]), "retention.ms": None}})
    configs = admin.describe_configs([orders])[orders]
    print(f"cleanup.policy = {configs['cleanup.policy'].value}, set at the {configs['cleanup.policy'].source}")
    print(f"retention.ms = {configs['retention.ms'].value}, the {configs['retention.ms'].source}")

    admin.create_partitions({"orders": 4})
    print(f"orders has {len(admin.describe_topic('orders').partitions)} partitions")

    first = headrace.TopicPartition("orders", 0)
    admin.alter_group_offsets("billing", {first: 0})
    committed = admin.list_group_offsets("billing")[first].offset
    end = admin.list_offsets({first: "latest"})[first].offset
    print(f"billing has read {committed} of {end} records of {first}")

    # One call about several things: what worked is done, and the error says what did not.
    try:
        admin.create_topics([headrace.NewTopic("orders"), headrace.NewTopic("payments", 2)])
    except headrace.PartialError as error:
        print(f"created {list(error.results)}, but not {[*error.errors]}: {error.errors['orders'].message}")

    try:
        admin.describe_topic("invoices")
    except headrace.UnknownTopicError as error:
        print(error.message)
