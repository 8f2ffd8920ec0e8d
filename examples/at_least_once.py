"""At least once: work first, commit then. What is worked at when the program ends is done again, and none is lost.

Committing by itself (enable_auto_commit, the default) is at least once, too: what a loop has not finished is not
committed. Here it is spelled out.

Run it: `python examples/at_least_once.py`
"""

import headrace


def process_orders(address: str, *, fails_at: int | None = None) -> None:
    consumer = headrace.Consumer(
        address, group="billing", topics=["orders"], enable_auto_commit=False, auto_offset_reset="earliest"
    )
    with consumer:
        for record in consumer:
            print(f"did {record.value.decode()}")
            if record.offset == fails_at:
                raise RuntimeError("the power is gone")
            consumer.commit()  # up to this record, and with it
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
