"""Kafka's own configs, for the broker and its topics: by keyword, with underscores for dots, or by their names.

Run it: `python examples/configs.py`
"""

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

import headrace

with headrace.Broker(num_partitions=3, message_max_bytes=2_000_000, **{"log.retention.hours": 24}) as broker:
    broker.create_topic("users", partitions=2, cleanup_policy=["compact", "delete"], segment_ms=60_000)

    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, "users")
    configs = admin.describe_configs([resource])[resource].result(timeout=30)
    for name in ("cleanup.policy", "segment.ms", "max.message.bytes", "retention.ms"):
        print(f"{name} = {configs[name].value}")

try:
    headrace.Broker(num_partitons=3)
except Exception as error:
    print(error)
