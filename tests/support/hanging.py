"""A transaction that hangs: open in a partition, and no coordinator will ever end it."""

import time
from typing import Final

import headrace
from headrace.client.admin_changes import ConfigResource
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.both_brokers import eventually
from tests.support.wire_client import WireClient

_VERIFICATION: Final = "transaction.partition.verification.enable"
_OLD_PRODUCE: Final = 11  # its clients add partitions to a transaction themselves, so a broker may only verify


def write_hanging(
    bootstrap: str, topic: str, *, producer_id: int, transactional_id: str = "nobody", timestamp_ms: int | None = None
) -> None:
    """A record in a transaction that no coordinator knows: such came from clients when nothing was verified.

    So verification is off meanwhile. Written to the first partition.
    """
    host, _, port = bootstrap.rpartition(":")
    everywhere = ConfigResource("broker", "")
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch(
        [NewRecord(now_ms if timestamp_ms is None else timestamp_ms, None, b"late")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    rows = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    with headrace.Admin(bootstrap) as admin, WireClient((host, int(port))) as client:

        def is_written() -> bool:
            response = client.ask("Produce", _OLD_PRODUCE, ProduceRequest(transactional_id, -1, 30_000, rows))
            return bool(response.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

        admin.alter_configs({everywhere: {_VERIFICATION: "false"}})
        try:
            eventually(is_written)
        finally:
            admin.alter_configs({everywhere: {_VERIFICATION: None}})
