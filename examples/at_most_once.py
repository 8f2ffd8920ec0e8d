"""At most once: commit first, work then. What is worked at when the program ends is not done again, and may be lost.

Run it: `python examples/at_most_once.py`
"""

import headrace


def process_orders(address: str, *, fails_at: int | None = None) -> None:
    consumer = headrace.Consumer(
        address, group="billing", topics=["orders"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    with consumer:
        for record in consumer:
            consumer.commit()  # up to this record, and with it
            if record.offset == fails_at:
                raise RuntimeError("the power is gone")
            print(f"did {record.value.decode()}")
            if record.offset == 3:
                return


with headrace.Broker() as broker:
    broker.create_topic("orders")
    with headrace.Producer(broker.address) as producer:
        for number in range(4):
            producer.send("orders", f"order {number}")

    try:
        process_orders(broker.address, fails_at=1)
    except RuntimeError as error:
        print(f"{error}; it starts again")
    process_orders(broker.address)
