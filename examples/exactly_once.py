"""Exactly once, from topic to topic: what is written, and how far was read, are committed together or not at all.

Run it: `python examples/exactly_once.py`
"""

import headrace


def write_bills(address: str, *, fails_at: int | None = None) -> None:
    consumer = headrace.Consumer(
        address, group="billing", topics=["orders"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    producer = headrace.Producer(address, transactional_id="billing-1")
    with consumer, producer:
        for record in consumer:
            with producer.transaction():  # aborted if the block raises
                producer.send("bills", f"bill for {record.value.decode()}")
                next_offset = {headrace.TopicPartition(record.topic, record.partition): record.offset + 1}
                producer.send_offsets(next_offset, consumer.group_member)
                if record.offset == fails_at:
                    producer.flush()  # the bill is in the log already
                    raise RuntimeError("the power is gone")
            if record.offset == 3:
                return


with headrace.Broker() as broker:
    broker.create_topic("orders")
    broker.create_topic("bills")
    with headrace.Producer(broker.address) as producer:
        for number in range(4):
            producer.send("orders", f"order {number}")

    try:
        write_bills(broker.address, fails_at=1)
    except RuntimeError as error:
        print(f"{error}; it starts again")
    write_bills(broker.address)

    for isolation in ("read_uncommitted", "read_committed"):
        with headrace.Consumer(broker.address, isolation_level=isolation, auto_offset_reset="earliest") as reader:
            reader.assign([headrace.TopicPartition("bills", 0)])
            bills = []
            while not bills or bills[-1] != "bill for order 3":
                bills += [record.value.decode() for record in reader.poll(1.0)]
            print(f"{isolation}: {', '.join(bills)}")
