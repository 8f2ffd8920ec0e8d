"""WriteTxnMarkers (key 27, versions 1-2): the ends of transactions, written to the partitions that this broker leads.

Behaviour   from a coordinator on another broker, and from tools that end a transaction which nobody looks after
Versions    2 tells the version of the transaction
"""

from headrace.coordinator.result import Marking, Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later, as_later, gather


def handle(request: WriteTxnMarkersRequest, ctx: RequestContext) -> Later[WriteTxnMarkersResponse]:
    written = gather([_write(marker, ctx) for marker in request.markers])
    return written.map(lambda rows: WriteTxnMarkersResponse(markers=rows))


def _write(marker: WritableTxnMarker, ctx: RequestContext) -> Later[WritableTxnMarkerResult]:
    places = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    marking = Marking(
        "",
        Producer(marker.producer_id, marker.producer_epoch),
        committed=marker.transaction_result,
        partitions=frozenset(places),
        transaction_version=marker.transaction_version,
    )
    markers = ctx.broker.coordinators.markers
    written = gather([as_later(markers.write(*place, marking, marker.coordinator_epoch)) for place in places])

    def finish(codes: list[ErrorCode]) -> WritableTxnMarkerResult:
        code_of = dict(zip(places, codes, strict=True))
        return WritableTxnMarkerResult(
            marker.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        WritableTxnMarkerPartitionResult(index, code_of[topic.name, index])
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )

    return written.map(finish)
