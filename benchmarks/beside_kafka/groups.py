"""Groups through the protocol, the same for both brokers: found, filled with offsets, counted."""

import time
from collections import deque
from typing import Final

from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.workload import COMMIT_VERSION, WrongAnswerError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.wire_client import WireClient

_FIND_VERSION: Final = 4
_LIST_VERSION: Final = 4
_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_IN_FLIGHT: Final = 64
_FIRST_OFFSET: Final = 1_000_000


def await_coordinator(node: Node) -> None:
    """The topic of offsets is there, and led, when this returns."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with WireClient(("127.0.0.1", node.port)) as client:
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=["anyone"])
            (found,) = client.ask("FindCoordinator", _FIND_VERSION, request).coordinators
            if not found.error_code:
                return
            if time.monotonic() > deadline:
                raise WrongAnswerError(f"{node.name} has no coordinator: {ErrorCode(found.error_code).name}")
            time.sleep(_POLL_SECONDS)


def commit_offsets(node: Node, topic: str, *, groups: int, partitions: int) -> None:
    """Of so many groups, each for so many partitions."""
    waiting: deque[int] = deque()
    with WireClient(("127.0.0.1", node.port)) as client:
        for number in range(groups):
            rows = [OffsetCommitRequestPartition(index, _FIRST_OFFSET + number) for index in range(partitions)]
            request = OffsetCommitRequest(
                f"group-{number:05}", topics=[OffsetCommitRequestTopic(topic, partitions=rows)]
            )
            waiting.append(client.send("OffsetCommit", COMMIT_VERSION, request))
            if len(waiting) == _IN_FLIGHT:
                _check_commit(client, waiting.popleft())
        while waiting:
            _check_commit(client, waiting.popleft())


def _check_commit(client: WireClient, correlation_id: int) -> None:
    (topic,) = client.receive("OffsetCommit", COMMIT_VERSION, correlation_id).topics
    codes = {row.error_code for row in topic.partitions}
    if codes != {ErrorCode.NONE}:
        raise WrongAnswerError(f"a commit was refused: {[ErrorCode(code).name for code in codes]}")


def await_groups(node: Node, count: int) -> float:
    """All of them are loaded when this returns; how many seconds that took."""
    start = time.monotonic()
    with WireClient(("127.0.0.1", node.port)) as client:
        while True:
            found = client.ask("ListGroups", _LIST_VERSION, ListGroupsRequest())
            if not found.error_code and len(found.groups) == count:
                return time.monotonic() - start
            if time.monotonic() > start + _PATIENCE_SECONDS:
                code = ErrorCode(found.error_code).name
                raise WrongAnswerError(f"{node.name} has {len(found.groups)} of {count} groups ({code})")
            time.sleep(_POLL_SECONDS)
