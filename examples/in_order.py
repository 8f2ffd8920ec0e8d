"""Process in threads, commit in order: records at the same time, those of a key one after the other.

A commit is an offset, so what is committed is the highest one below which everything is done.

Run it: `python examples/in_order.py`
"""

import threading

import headrace

seen: dict[str, list[str]] = {}
all_are_here = threading.Barrier(3)  # three threads pass it together, or none


def work(record: headrace.ConsumerRecord) -> None:
    name = record.key.decode()
    if name not in seen:
        all_are_here.wait(60)
    seen.setdefault(name, []).append(record.value.decode())
    if sum(map(len, seen.values())) == 9:
        in_order.stop()


with headrace.Broker() as broker:
    broker.create_topic("orders")
    with headrace.Producer(broker.address) as producer:
        for number in range(9):
            producer.send("orders", f"order {number}", key=("alice", "bob", "carol")[number % 3])

    with headrace.Consumer(
        broker.address, group="billing", enable_auto_commit=False, auto_offset_reset="earliest"
    ) as consumer:
        in_order = headrace.InOrder(consumer, work, topics=["orders"], threads=3)
        in_order.run()
        place = headrace.TopicPartition("orders", 0)
        committed = consumer.committed([place])[place]

for name in sorted(seen):
    print(f"{name}: {', '.join(seen[name])}")
print(f"committed: {committed.offset if committed else 'nothing'}")
